"""Parameter servers: synchronous, asynchronous, and stale synchronous, where nobody runs ahead by more than a bound."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

import numpy as np

from deep_bench.arrays import NUMPY
from deep_bench.distributed.optimizer import Promise
from deep_bench.errors import InvalidArgument
from deep_bench.reference.distributed.scheme import Arrays, GradientsOf, Scheme, scaled
from deep_bench.training.optimizer import Optimizer


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


Interleaving: TypeAlias = Sequence[tuple[int, int]]
"""What the server did, one after the other: whose gradient it applied, and the version of the parameters that worker had
read."""


@dataclass(frozen=True)
class Course:
    """What came of one interleaving.

    Args:
        versions: The server's parameters before the first gradient and after each.
        staleness: How many gradients of others were applied between the reading of the parameters that a gradient was
            computed at and that gradient.
    """

    versions: tuple[Arrays, ...]
    staleness: tuple[int, ...]


@dataclass(frozen=True)
class Asynchronous:
    r"""Workers push gradients and pull parameters on their own; the server applies each gradient as it arrives.

    The :math:`k`-th gradient to arrive, of a worker that had read version :math:`v_k \le k`, makes version :math:`k + 1`:

    .. math::
        x_{k+1} = \mathrm{inner}\left(x_k, g(x_{v_k})\right)

    Its staleness is :math:`k - v_k`. A gradient is not weighted by the samples that it is of. The interleaving, recorded
    where it happened, says everything that chance decided, so that a run can be repeated here.

    Args:
        inner: The server's rule; its state lives there.

    Source:
        Dean et al., *Large scale distributed deep networks*, NIPS 2012, section 4.1 (Downpour SGD) with
        :math:`n_{fetch} = n_{push} = 1`, where a worker pulls after each push; Agarwal and Duchi, *Distributed delayed
        stochastic optimization*, NIPS 2011, for the delay.
    """

    inner: Optimizer

    promise: ClassVar[Promise] = "unbounded"

    def run(self, interleaving: Interleaving, gradients_of: GradientsOf, parameters: Arrays) -> Course:
        """Repeat what a server did.

        Args:
            interleaving: For each gradient applied, its worker and the version that it had read.
            gradients_of: From worker, the parameters that it had read and the number of gradients that it pushed before to
                its gradient.
            parameters: Version 0.

        Raises:
            InvalidArgument: A version that was not there yet, or older than one that the same worker had read before.
        """
        versions, state = [parameters], self.inner.init(parameters, NUMPY)
        pushed: dict[int, int] = {}
        latest: dict[int, int] = {}
        for event, (worker, version) in enumerate(interleaving):
            if not latest.get(worker, 0) <= version <= event:
                came = f"event {event}: worker {worker} with version {version}"
                raise InvalidArgument(came, f"a version from {latest.get(worker, 0)} to {event}")
            gradient = gradients_of(worker, versions[version], pushed.get(worker, 0))
            new, state = self.inner.update(gradient, state, versions[-1], NUMPY)
            versions.append(new)
            pushed[worker], latest[worker] = pushed.get(worker, 0) + 1, version
        staleness = tuple(event - version for event, (_, version) in enumerate(interleaving))
        return Course(tuple(versions), staleness)


@dataclass(frozen=True)
class StaleSynchronous:
    r"""An asynchronous server that makes the fastest wait.

    A worker's clock :math:`c` is the number of gradients that it has pushed. When it reads at clock :math:`c` with the bound
    :math:`s`, what it reads holds all of its own updates, and of every other worker at least those of the clocks up to
    :math:`c - s - 1`, which are the first :math:`c - s`. Later ones may be there or not. Those of a worker that has ended
    are all there.

    So of the updates that the server has when it applies a gradient, at most :math:`2 s + 1` of each other worker were not
    seen: :math:`c - s` were, and with this worker at clock :math:`c` no other reads beyond clock :math:`c + s`,
    after which it pushes once.

    Args:
        inner: The server's rule.
        bound: :math:`s`, at least 0.

    Source:
        Ho et al., *More effective distributed ML via a stale synchronous parallel parameter server*, NIPS 2013, section 2
        (read-my-writes, and the condition on reading at clock c); Cui et al., *Exploiting bounded staleness to speed up big
        data analytics*, USENIX ATC 2014.
    """

    inner: Optimizer
    bound: int

    promise: ClassVar[Promise] = "bounded"

    def run(self, interleaving: Interleaving, gradients_of: GradientsOf, parameters: Arrays) -> Course:
        """Repeat what a server did; see `Asynchronous.run`.

        Raises:
            InvalidArgument: The interleaving is none that the bound allows.
        """
        if broken := self.broken(interleaving):
            raise InvalidArgument(f"an interleaving in which {broken}", f"one that the bound {self.bound} allows")
        return Asynchronous(self.inner).run(interleaving, gradients_of, parameters)

    def broken(self, interleaving: Interleaving) -> str:
        """What an interleaving does that the bound forbids, in words; empty where it does nothing of the kind."""
        whole = Counter(worker for worker, _ in interleaving)
        clocks: Counter[int] = Counter()
        for event, (worker, version) in enumerate(interleaving):
            clock = clocks[worker]
            counts = Counter(peer for peer, _ in interleaving[:version])
            if counts[worker] < clock:
                return f"worker {worker} at clock {clock} read {counts[worker]} of its own updates (event {event})"
            for peer in whole:
                if counts[peer] < min(clock - self.bound, whole[peer]):
                    clause = f"had read {counts[peer]} updates of worker {peer}"
                    return f"worker {worker} at clock {clock} {clause}, not {clock - self.bound} (event {event})"
            clocks[worker] += 1
        return ""

    def most_stale(self, workers: int) -> int:
        """The largest staleness that the bound allows."""
        return (2 * self.bound + 1) * (workers - 1)
