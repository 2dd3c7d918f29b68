"""An asynchronous parameter server: each gradient is applied when it comes, whatever it was computed at."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

from deep_bench.arrays import NUMPY
from deep_bench.distributed.optimizer import Promise
from deep_bench.errors import InvalidArgument
from deep_bench.reference.distributed.scheme import Arrays, GradientsOf
from deep_bench.training.optimizer import Optimizer

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
