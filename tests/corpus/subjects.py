"""Systems under test that are the reference in the network's own arithmetic, with some operators done otherwise."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

import deep_bench as db
from deep_bench.errors import Unsupported
from deep_bench.graph import Network
from deep_bench.tensor import is_float

from .problem import Problem

Patch = Callable[..., Any]
"""Called with the operator's reference, its inputs as a list and its attributes as a dictionary; returns its outputs."""


def refuse_float64(network: Network) -> None:
    """Refuse what `in_float64` made, as a system without a precision ladder does."""
    if network.name.endswith("in float64"):
        raise Unsupported("it has no float64")


class Patched:
    """The reference with patches.

    Args:
        problem: What is run.
        patches: ONNX operator to what replaces it.
        ladder: Whether it can run in float64.
    """

    upgrades = True

    def __init__(self, problem: Problem, patches: Mapping[str, Patch], *, ladder: bool = True) -> None:
        self.problem, self.patches, self.ladder = problem, patches, ladder

    def outputs(self) -> dict[str, np.ndarray]:
        return self.run(self.problem.network, self.problem.inputs)

    def run(self, network: Network, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        if not self.ladder:
            refuse_float64(network)
        executor = db.frameworks["reference"]().prepare(network)
        with np.errstate(all="ignore"):
            return {n: np.array(y) for n, y in executor.evaluate(inputs, arithmetic=self._arithmetic).items()}

    def _arithmetic(self, step: Any, function: Callable[..., Any], inputs: Sequence[Any]) -> Any:
        patch = self.patches.get(step.node.op_type)
        if patch is None:
            return function(*inputs)
        given = next((x.dtype for x in inputs if x is not None and is_float(x.dtype)), None)
        outputs = patch(step.function, list(inputs), dict(step.attributes))
        return _typed(outputs, given)


def _typed(outputs: Any, given: np.dtype | None) -> Any:
    """Outputs in the type of the inputs, so that patches may compute in any; what is quantized to float8 stays."""
    if isinstance(outputs, tuple):
        return tuple(_typed(y, given) for y in outputs)
    y = np.asarray(outputs)
    return y.astype(given) if given is not None and is_float(y.dtype) and y.dtype.itemsize > 1 else y


class Stale(Patched):
    """Computes rightly what it is given alone, but its outputs are those of other inputs: a stale buffer."""

    def outputs(self) -> dict[str, np.ndarray]:
        other = {n: np.roll(x, 1, axis=0) if x.ndim else x for n, x in self.problem.inputs.items()}
        return self.run(self.problem.network, other)


class Halfway(Patched):
    """Computes rightly what it is given alone, but the last row of its outputs is never written."""

    def outputs(self) -> dict[str, np.ndarray]:
        outputs = super().outputs()
        for y in outputs.values():
            y[-1, ...] = 0
        return outputs
