"""Stale synchronous parallelism: asynchronous, but nobody runs ahead of the slowest by more than a bound."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import ClassVar

from deep_bench.distributed.optimizer import Promise
from deep_bench.errors import InvalidArgument
from deep_bench.reference.distributed.asynchronous import Asynchronous, Course, Interleaving
from deep_bench.reference.distributed.scheme import Arrays, GradientsOf
from deep_bench.training.optimizer import Optimizer


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
