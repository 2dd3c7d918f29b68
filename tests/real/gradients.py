"""The gradients of real networks: a loss for each, and whether a framework's agree with those of the derived network."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

import deep_bench as db
from deep_bench.check.judge import EndToEnd
from deep_bench.check.oracle import Effort, Truth
from deep_bench.check.subject import in_float64
from deep_bench.graph import Network
from deep_bench.network.gradient.pullback import Pullback
from deep_bench.tensor import is_float

from .table import Inputs, sizes

LOSS = "mean square"


@dataclass(frozen=True, eq=False)
class Scored:
    """A real network with the mean square of its first real output as a loss.

    Args:
        network: The network, all dimensions fixed.
        inputs: What it is fed.
        wrt: The parameters and inputs to differentiate with respect to.
    """

    network: Network
    inputs: Mapping[str, np.ndarray]
    wrt: tuple[str, ...]

    def truth(self, effort: Effort = "quick") -> Truth:
        """The oracle's gradients, and what rounding can do to them."""
        return self._pullback.truth(effort)

    def by(self, framework: str, truth: Truth) -> EndToEnd:
        """How a framework's own gradients compare with the oracle's."""
        return self._pullback.judged(truth, db.frameworks[framework]())

    @property
    def _pullback(self) -> Pullback:
        return Pullback(self.network, self.inputs, self.wrt, LOSS)


def scored(network: Network, inputs: Inputs, *, double: bool = False) -> Scored:
    """A real network with a loss, in its own precision or in float64."""
    fixed = network.with_sizes(sizes(network, inputs))
    if double:
        fixed, inputs = in_float64(fixed, inputs)
    output = next(spec.name for spec in fixed.outputs if is_float(spec.dtype))
    y = np.asarray(db.frameworks["reference"]().prepare(fixed)(inputs)[output])
    made = fixed.with_loss("MeanSquaredError", output=output, target="target", name=LOSS)
    floating = [spec.name for spec in fixed.inputs if is_float(spec.dtype)]
    return Scored(made, {**inputs, "target": np.zeros_like(y)}, (*made.parameters, *floating))
