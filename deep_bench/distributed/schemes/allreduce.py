"""Synchronous data parallelism: everyone has the mean of all gradients, and takes the same step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from deep_bench.distributed.communicators.communicator import Communicator
from deep_bench.distributed.optimizer import A
from deep_bench.distributed.overlap import Progress
from deep_bench.distributed.reduction import GradientMean
from deep_bench.distributed.schemes.averaged import Averaged
from deep_bench.errors import Unsupported
from deep_bench.training.optimizer import COUNT, FLAG, NOT_NEGATIVE, one_of, setting

BUCKET = 25 * 2**20
"""The most bytes of a message, as in PyTorch's DDP."""


@dataclass(frozen=True)
class AllReduce(Averaged[A]):
    r"""The step of one process with the whole batch: :math:`g = \sum_i \frac{n_i}{\sum_j n_j} g_i`, then the inner rule.

    The state is the inner rule's, and the same on all ranks. A line search evaluates the mean loss of all ranks.

    Args:
        bucket: The most bytes of a message; a parameter with more has one of its own.
        overlap: Send a bucket as soon as its gradients are final, by a thread, while others are computed: what `begin`
            returned must be told of each. It takes a communicator that several threads may call.
        overlap_from: Bytes of all gradients below which there is no overlap, which costs more than it gains.
        sum_in: ``"float32"`` or ``"float64"``: narrower gradients are weighted and summed in it, and rounded once.

    Raises:
        Unsupported: ``overlap=True`` over a communicator that only one thread may call.

    Example:
        >>> import deep_bench as db
        >>> from deep_bench.arrays import NUMPY
        >>> from deep_bench.distributed.communicators.local import run_local
        >>> def on_rank(comm):
        ...     rule = AllReduce(db.optimizers["sgd"](lr=1.0), comm)
        ...     w = {"w": np.zeros(2)}
        ...     gradients, samples = [({"w": np.full(2, 4.0)}, 3), ({"w": np.full(2, 8.0)}, 1)][comm.rank]
        ...     return rule.update(gradients, rule.init(w, NUMPY), w, NUMPY, samples=samples)[0]["w"].tolist()
        >>> run_local(2, on_rank)
        [[-5.0, -5.0], [-5.0, -5.0]]

    Source:
        Li et al., *PyTorch distributed: experiences on accelerating data parallel training*, VLDB 2020, section 3 (buckets
        and overlap); Goyal et al., *Accurate, large minibatch SGD*, arXiv:1706.02677, section 3 (weights by samples).
    """

    bucket: int = setting(BUCKET, COUNT)
    overlap: bool = setting(False, FLAG)
    overlap_from: int = setting(4 * 2**20, NOT_NEGATIVE)
    sum_in: str | None = setting(None, one_of(None, "float32", "float64"))
    _lanes: list[_Lane] = field(default_factory=list, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.overlap and not self.comm.threads:
            raise Unsupported(
                f"allreduce with overlap=True over {self.comm.name!r}, which only one thread may call",
                "MPI with MPI_THREAD_MULTIPLE: db.communicators['mpi'](threads='multiple')",
                "leave overlap out",
            )
        object.__setattr__(self, "_mean", GradientMean(self.comm, _summing(self.comm), self.bucket, self.sum_in))

    @property
    def exposed_ns(self) -> int | None:
        """How many nanoseconds the last step waited for messages; ``None`` before any."""
        return self._mean.exposed_ns

    def begin(self, samples: int | None) -> Callable[[str, A], None] | None:
        """See `DistributedOptimizer.begin`."""
        mean = self._mean
        super().begin(samples)
        if not self.overlap or not 0 < mean.nbytes >= self.overlap_from:
            return None
        if not self._lanes:
            self._lanes.append(_Lane(self.comm))
        return mean.take_off(self._lanes[0].total, self._lanes[0].progress)


class _Lane:
    """A thread, and ranks of its own for it: its messages never meet those of the main thread."""

    def __init__(self, comm: Communicator) -> None:
        lane = comm.split(0, comm.rank)
        assert lane is not None
        self.total, self.progress = _summing(lane), Progress()


def _summing(comm: Communicator) -> Callable[[np.ndarray], None]:
    def total(x: np.ndarray) -> None:
        comm.allreduce(x, out=x)

    return total
