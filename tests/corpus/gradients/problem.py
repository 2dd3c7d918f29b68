"""Gradients as problems: those of a weighted sum of a problem's outputs, by whatever differentiates."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from deep_bench.check import Truth, establish
from deep_bench.check.judge import EndToEnd, assess_whole
from deep_bench.check.subject import in_float64
from deep_bench.errors import Unsupported
from deep_bench.graph import Network, operator_name
from deep_bench.network import differentiate
from deep_bench.network.gradient import gradient_name
from deep_bench.network.gradient.pullback import LOSS, Pullback, pull_back
from deep_bench.tensor import is_float

from ..problem import Arrays

Kernel = Callable[[Mapping[str, Any]], Mapping[str, Any]]
"""From the inputs, the parameters and the gradients of the outputs (``dy0`` …) to the gradients, by name."""


@dataclass(frozen=True)
class GradientProblem:
    """The gradients of a problem with respect to all of its floating-point inputs and parameters.

    Args:
        name: Unique.
        pullback: The network with a loss, and what it is fed.
    """

    name: str
    pullback: Pullback

    @property
    def inputs(self) -> Arrays:
        """What the network with the loss is fed."""
        return self.pullback.inputs

    @property
    def network(self) -> Network:
        """The network with the loss."""
        return self.pullback.network

    @property
    def derived(self) -> Network:
        """The network of the gradients."""
        names = [gradient_name(LOSS, name) for name in self.pullback.wrt]
        return differentiate(self.network, LOSS, self.pullback.wrt).with_outputs(names)

    def truth(self) -> Truth:
        """What is known of the gradients."""
        return self.pullback.truth()

    def judge(self, truth: Truth, subject: Any, norm_wise: Collection[str] = ()) -> EndToEnd:
        """What the checker says of gradients."""
        whole = assess_whole(truth, subject.outputs(), truth.outputs, truth.samples)
        if norm_wise and not whole.clear:
            names = frozenset(operator_name(node) for node in truth.network.all_nodes())
            whole = assess_whole(
                truth, subject.outputs(), truth.outputs, truth.sampled(len(truth.samples), 5, norm_wise=names)
            )
        if whole.clear:
            return whole
        return self.pullback.settled(truth, whole, subject.outputs, subject.precisely)


@cache
def gradient_problem(of: str) -> GradientProblem:
    """The gradients of a problem, for gradients of its outputs that are standard normal."""
    from ..problems import GRADIENTS, problem

    posed = problem(of)
    truth = establish(posed.network, posed.inputs, "quick")
    rng = np.random.default_rng(1)
    formats = {name: truth.formats[name] for name in truth.outputs}
    gradients = {n: rng.standard_normal(np.shape(truth.outputs[n])).astype(f) for n, f in formats.items() if is_float(f)}
    return GradientProblem(f"{GRADIENTS}{of}", pull_back(posed.network, posed.inputs, gradients))


class ByHand:
    """A backward pass that is written by hand.

    Args:
        problem: What it computes the gradients of.
        kernel: The backward pass.
        ladder: Whether it can run in float64.
    """

    def __init__(self, problem: GradientProblem, kernel: Kernel, *, ladder: bool = True) -> None:
        self.problem, self.kernel, self.ladder = problem, kernel, ladder

    def outputs(self) -> dict[str, np.ndarray]:
        """The gradients."""
        return self._run(self.problem.network, self.problem.inputs)

    def precisely(self) -> dict[str, np.ndarray]:
        """The gradients in float64."""
        if not self.ladder:
            raise Unsupported("it has no float64")
        return self._run(*in_float64(self.problem.network, self.problem.inputs))

    def _run(self, network: Network, inputs: Arrays) -> dict[str, np.ndarray]:
        values = {**network.initializers, **{n.replace("gradient of ", "d"): a for n, a in inputs.items()}}
        with np.errstate(all="ignore"):
            found = self.kernel(values)
        wrt = self.problem.pullback.wrt
        return {gradient_name(LOSS, n): np.asarray(found[n]).astype(np.asarray(values[n]).dtype) for n in wrt}
