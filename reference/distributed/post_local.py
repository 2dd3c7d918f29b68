"""Post-local SGD: synchronous at first, local later."""

from __future__ import annotations

from dataclasses import dataclass

from deep_bench.reference.distributed.allreduce import AllReduce
from deep_bench.reference.distributed.averaging import Averaging
from deep_bench.reference.distributed.scheme import Scheme
from deep_bench.training.optimizer import COUNT, FLAG, NOT_NEGATIVE, setting


@dataclass(frozen=True)
class PostLocal(Scheme):
    r"""The first :math:`t'` steps are those of `AllReduce`, and the later ones those of `Averaging`.

    The paper's number of local steps :math:`H(t)` is 1 for :math:`t \le t'`, which is mini-batch SGD, and :math:`H` for
    :math:`t > t'`. Steps between means are counted from the switch on, and each rank goes on with the state that all shared.

    Args:
        inner: Each rank's rule.
        until: :math:`t'`, the number of synchronous steps.
        every: :math:`H`.
        states: See `Averaging`.

    Source:
        Lin, Stich, Patel and Jaggi, *Don't use large mini-batches, use local SGD*, ICLR 2020, section 3 (post-local SGD).
    """

    until: int = setting(0, NOT_NEGATIVE)
    every: int = setting(1, COUNT)
    states: bool = setting(False, FLAG)

    promise = "bounded"

    def agreed(self, steps):
        return steps <= self.until or (steps - self.until) % self.every == 0

    def init(self, parameters):
        return {**super().init(parameters), "since": [0 for _ in parameters]}

    def step(self, gradients, samples, state, parameters):
        if state["steps"] < self.until:
            return AllReduce(self.inner).step(gradients, samples, state, parameters)
        local = {**state, "steps": state["steps"] - self.until}
        moved, new = Averaging(self.inner, self.every, self.states).step(gradients, samples, local, parameters)
        return moved, {**new, "steps": state["steps"] + 1}
