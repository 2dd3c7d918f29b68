"""A synchronous parameter server: one place adds, remembers and updates; workers push and pull."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from deep_bench.arrays import NUMPY
from deep_bench.reference.distributed.scheme import Arrays, Scheme, scaled


@dataclass(frozen=True)
class ParameterServer(Scheme):
    r"""Workers push gradients; the server adds them, updates its parameters, and workers pull these.

    Algorithm 1 (distributed subgradient descent), with sequential consistency: no worker begins a step before all have ended
    theirs. At iteration :math:`t`, worker :math:`r` computes :math:`g_r^{(t)}` at :math:`w_r^{(t)}`, pushes it, and pulls
    :math:`w_r^{(t+1)}`; the server aggregates :math:`g^{(t)} = \sum_r g_r^{(t)}` and sets :math:`w^{(t+1)}` by the rule,
    which is the inner one here. What a worker pushes is its contribution to the gradient of the whole batch.

    The server alone has a state. On how many ranks it is spread, key by key, changes no value.

    Source:
        Li et al., *Scaling distributed machine learning with the parameter server*, OSDI 2014, algorithm 1, with the
        sequential consistency of section 3.5.
    """

    def init(self, parameters):
        return {"server": self.inner.init(parameters[0], NUMPY), "steps": 0}

    def step(self, gradients, samples, state, parameters):
        aggregate: Arrays = dict.fromkeys(parameters[0], np.zeros(()))
        for gradient, n in zip(gradients, samples, strict=True):
            pushed = scaled(n / sum(samples), gradient)
            aggregate = {name: aggregate[name] + pushed[name] for name in aggregate}
        held, server = self.inner.update(aggregate, state["server"], parameters[0], NUMPY)
        pulled = [dict(held) for _ in parameters]
        return pulled, {"server": server, "steps": state["steps"] + 1}
