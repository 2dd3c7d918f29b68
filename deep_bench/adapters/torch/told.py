"""Which algorithms torch's libraries say that they chose, node by node."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from deep_bench.adapters.lowering import Step
from deep_bench.adapters.torch.kernels import kernels_by_node
from deep_bench.adapters.torch.module import PlanModule
from deep_bench.adapters.torch.stepping import wrapped
from deep_bench.adapters.verbose import overheard

_ABSENT = "it is not run: known beforehand, unused, or another name of a value"
_OWN = "a kernel of torch's own, which does not say its algorithm"


def told(
    module: PlanModule, call: Callable[[], Any], names: Sequence[str], target: torch.device
) -> Mapping[str, tuple[str, ...] | str]:
    """See `Executor.algorithms`: what oneDNN and oneMKL print, or the names of CUDA kernels.

    Args:
        module: The network.
        call: Runs it.
        names: The nodes of the network's outermost graph.
        target: The device.
    """
    if target.type == "cuda":
        algorithms = {name: tuple(kernels) for name, kernels in kernels_by_node(module, call).items()}
    else:
        algorithms = _overheard(module, call)
    return {name: (algorithms[name] or _OWN) if name in algorithms else _ABSENT for name in names}


def _overheard(module: PlanModule, call: Callable[[], Any]) -> dict[str, tuple[str, ...]]:
    algorithms: dict[str, tuple[str, ...]] = {}
    with overheard() as since:

        def listening(step: Step, function: Callable[..., Any]) -> Callable[..., Any]:
            def run(*inputs: Any) -> Any:
                since()
                result = function(*inputs)
                name = step.site.origin
                algorithms[name] = tuple(dict.fromkeys((*algorithms.get(name, ()), *since())))
                return result

            return run

        with wrapped(module, listening):
            call()
    return algorithms
