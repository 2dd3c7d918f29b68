"""Which algorithms TensorFlow's libraries say that they chose, node by node."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from deep_bench.adapters.lowering import Step
from deep_bench.adapters.tensorflow.graph import GraphRunner
from deep_bench.adapters.verbose import overheard

_ABSENT = "it is not run: known beforehand, unused, or another name of a value"
_OWN = "a kernel of TensorFlow's own, which does not say its algorithm"


def told(
    runner: GraphRunner, walk: Callable[[], Any], names: Sequence[str], synchronize: Callable[[], Any]
) -> Mapping[str, tuple[str, ...] | str]:
    """See `Executor.algorithms`: what oneDNN prints in an eager walk of the steps that the graph was traced from.

    A graph does not tell which of its nodes a line belongs to. What it fuses in addition is not seen.

    Args:
        runner: Walks the steps.
        walk: Makes it do so.
        names: The nodes of the network's outermost graph.
        synchronize: Waits for the device.
    """
    run = runner._run
    algorithms: dict[str, tuple[str, ...]] = {}
    with overheard() as since:

        def listening(step: Step, by_name: dict[str, Any]) -> None:
            since()
            run(step, by_name)
            synchronize()
            name = step.site.origin
            algorithms[name] = tuple(dict.fromkeys((*algorithms.get(name, ()), *since())))

        runner.__dict__["_run"] = listening
        try:
            walk()
        finally:
            del runner.__dict__["_run"]
    return {name: (algorithms[name] or _OWN) if name in algorithms else _ABSENT for name in names}
