"""Schemes that average over all ranks: gradients in every step, or parameters now and then."""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from time import perf_counter_ns
from typing import Any, ClassVar

import numpy as np

from deep_bench.arrays import ArrayFunctions, Path, Tree, leaves
from deep_bench.distributed.communicators.communicator import Communicator
from deep_bench.distributed.flat import Flight, Pool, SendingThread
from deep_bench.distributed.optimizer import A, DistributedOptimizer, Promise, Shares
from deep_bench.distributed.schemes.around import WrappingScheme, handed, number, one_more
from deep_bench.errors import Unsupported
from deep_bench.training.optimizer import COUNT, FLAG, NOT_NEGATIVE, Allowed, Arrays, Evaluate, one_of, setting

Sum = Callable[[np.ndarray], None]
"""Replaces an array by its sum over all ranks."""


class GradientMean:
    """Gradients times this rank's weight, summed over ranks bucket by bucket.

    Args:
        comm: The ranks.
        total: Sums an array over them.
        bucket: The most bytes of a message.
        sum_in: The least element type in which gradients are summed; their own where it is wider, or ``None``.

    Attributes:
        shares: The weights.
        exposed_ns: How long the last step waited for messages.
    """

    exposed_ns: int | None = None

    def __init__(self, comm: Communicator, total: Sum, bucket: int | None, sum_in: str | None = None) -> None:
        self._comm, self._total = comm, total
        self._pool: Pool[Any] = Pool(bucket, None if sum_in is None else np.dtype(sum_in))
        self.shares = Shares(comm)
        self._flight: Flight | None = None
        self._host: Callable[[Any], np.ndarray] | None = None

    def learn(self, arrays: Mapping[str, Any], xp: ArrayFunctions[Any]) -> None:
        """Make ready for gradients like these arrays."""
        self._pool.prepare(arrays, xp)
        self._host = xp.host

    @property
    def nbytes(self) -> int:
        """The bytes of all gradients in the buffers, as far as they are known."""
        return 0 if self._pool.layout is None else self._pool.layout.nbytes

    def take_off(self, total: Sum, progress: SendingThread) -> Callable[[str, Any], None]:
        """Begin a step whose gradients are sent while they come.

        Args:
            total: Sums an array over the ranks; called by the thread.
            progress: The thread.

        Returns:
            What is to be told of each gradient.
        """
        if self._flight is not None:
            self._flight.wait()  # of a step that was not taken
        assert self._host is not None
        self._flight = Flight(
            self._pool.take(),
            self._pool.buckets,
            weight=self.shares.weight,
            host=self._host,
            send=total,
            progress=progress,
        )
        return self._flight.ready

    def __call__(
        self, gradients: Mapping[str, Any], xp: ArrayFunctions[Any], samples: int | None
    ) -> tuple[dict[str, Any], float]:
        """The mean of all ranks' gradients, and this rank's weight in it."""
        flight, self._flight = self._flight, None
        if flight is not None:
            buffers, self.exposed_ns = flight.land()
            weight = self.shares.settle(samples)
        else:
            weight = self.shares.settle(samples)
            buffers, self.exposed_ns = self._summed(gradients, xp, weight)
        self._host = xp.host
        return buffers.native(xp), weight

    def _summed(self, gradients: Mapping[str, Any], xp: ArrayFunctions[Any], weight: float) -> tuple[Any, int]:
        buffers = self._pool.packed(gradients, xp, weight)
        start = perf_counter_ns()
        for bucket in self._pool.buckets:
            self._total(buffers.part(bucket))
        return buffers, perf_counter_ns() - start

    def everywhere(self, evaluate: Evaluate | None, xp: ArrayFunctions[Any], weight: float) -> Evaluate | None:
        """The loss and its gradients over all ranks' samples, from those over this rank's."""
        if evaluate is None:
            return None

        def on_all(parameters: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
            loss, gradients = evaluate(parameters)
            if self._pool.layout is not None:
                gradients = {name: gradients[name] for name in self._pool.layout.names}
            value = np.asarray(xp.host(loss), np.float64).reshape(1) * weight
            self._total(value)
            buffers, _ = self._summed(gradients, xp, weight)
            return xp.array(value.reshape(()), xp.dtype(loss)), buffers.native(xp)

        return on_all


@dataclass(frozen=True)
class GradientAveraging(DistributedOptimizer[A, Any]):
    """A scheme whose state is the inner rule's. A subclass makes ``_mean``, which says how gradients are summed."""

    _mean: GradientMean = field(init=False, repr=False, compare=False)

    promise: ClassVar[Promise] = "equal"

    @property
    def looks_ahead(self) -> bool:
        """See `Optimizer.looks_ahead`."""
        return self.inner.looks_ahead

    def init(self, parameters: Arrays[A], xp: ArrayFunctions[A]) -> Any:
        """See `Optimizer.init`."""
        self._agreement.learn(parameters, xp)
        self._mean.learn(parameters, xp)
        return self.inner.init(parameters, xp)

    def prepare(self, parameters: Arrays[A], state: Tree) -> dict[str, A]:
        """See `Optimizer.prepare`."""
        return self.inner.prepare(parameters, state)

    def restored(self, state: Tree, parameters: Arrays[A]) -> Any:
        """See `Optimizer.restored`."""
        return self.inner.restored(state, parameters)

    def begin(self, samples: int | None) -> Any:
        """See `DistributedOptimizer.begin`."""
        super().begin(samples)
        self._mean.shares.begin(samples)

    def update(
        self,
        gradients: Arrays[A],
        state: Tree,
        parameters: Arrays[A],
        xp: ArrayFunctions[A],
        *,
        evaluate: Evaluate | None = None,
        samples: int | None = None,
    ) -> tuple[dict[str, A], Any]:
        """See `DistributedOptimizer.update`."""
        gradients, parameters = self.checked(gradients, parameters, samples, xp)
        mean, weight = self._mean(gradients, xp, samples)
        return self.stepped(mean, state, parameters, xp, self._mean.everywhere(evaluate, xp, weight))


BUCKET = 25 * 2**20
"""The most bytes of a message, as in PyTorch's DDP."""


class _Lane:
    """A thread, and ranks of its own for it: its messages never meet those of the main thread."""

    def __init__(self, comm: Communicator) -> None:
        lane = comm.split(0, comm.rank)
        assert lane is not None
        self.total, self.progress = _summing(lane), SendingThread()


@dataclass(frozen=True)
class AllReduce(GradientAveraging[A]):
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


def _summing(comm: Communicator) -> Callable[[np.ndarray], None]:
    def total(x: np.ndarray) -> None:
        comm.allreduce(x, out=x)

    return total


_PER_NODE = Allowed(f"None, or {COUNT.expected}", lambda value: value is None or COUNT.fits(value))


class _Legs:
    """The ranks of this rank's node, and the first ranks of all nodes."""

    def __init__(self, comm: Communicator, per_node: int | None) -> None:
        color = _first_alike(comm) if per_node is None else comm.rank // per_node
        node = comm.split(color, comm.rank)
        assert node is not None
        self._node, self._between = node, comm.split(0 if node.rank == 0 else None, comm.rank)

    def total(self, x: np.ndarray) -> None:
        """Replace an array by its sum over all ranks."""
        node_sum = self._node.reduce(x)
        if node_sum is not None and self._between is not None:
            self._between.allreduce(node_sum, out=x)
        self._node.broadcast(x)


@dataclass(frozen=True)
class Hierarchical(GradientAveraging[A]):
    """The step of ``allreduce``, with sums that cross the network once for each node.

    The ranks of a node send their gradients to its first one; these first ones sum them over the nodes, and give the sums to
    the ranks of their nodes.

    Args:
        bucket: The most bytes of a message; a parameter with more has one of its own.
        per_node: So many ranks that follow each other are taken for a node. ``None``: ranks on a host of the same name.
        sum_in: See ``allreduce``.

    Example:
        >>> import deep_bench as db
        >>> from deep_bench.arrays import NUMPY
        >>> from deep_bench.distributed.communicators.local import run_local
        >>> def on_rank(comm):
        ...     rule = Hierarchical(db.optimizers["sgd"](lr=1.0), comm, per_node=2)
        ...     w = {"w": np.zeros(1)}
        ...     return rule.update({"w": np.array([float(comm.rank)])}, rule.init(w, NUMPY), w, NUMPY)[0]["w"].item()
        >>> run_local(3, on_rank)
        [-1.0, -1.0, -1.0]

    Source:
        Jia et al., *Highly scalable deep learning training system with mixed-precision: training ImageNet in four minutes*,
        arXiv:1807.11205, section 4.3.
    """

    bucket: int = setting(BUCKET, COUNT)
    per_node: int | None = setting(None, _PER_NODE)
    sum_in: str | None = setting(None, one_of(None, "float32", "float64"))
    _legs: list[_Legs] = field(default_factory=list, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "_mean", GradientMean(self.comm, self._total, self.bucket, self.sum_in))

    def _total(self, x: np.ndarray) -> None:
        if not self._legs:
            self._legs.append(_Legs(self.comm, self.per_node))
        self._legs[0].total(x)


def _first_alike(comm: Communicator) -> int:
    """The first rank on a host of the same name."""
    mine = np.frombuffer(sha256(socket.gethostname().encode()).digest(), np.uint8)
    return int(np.argmax((comm.allgather(mine) == mine).all(axis=1)))


@dataclass(frozen=True)
class Averaging(WrappingScheme[A]):
    r"""Local SGD: each rank takes steps of its own, and after every :math:`H` of them

    .. math:: x_i' = \sum_j \frac{n_j}{\sum_k n_k} x_j,

    where :math:`n_j` is the number of samples that rank :math:`j` saw since the last average. With ``every=1`` all ranks
    hold the same parameters after each step.

    Args:
        every: :math:`H`.
        states: Average the inner rule's floating-point state with the same weights too; each rank keeps its own otherwise.

    Example:
        >>> import deep_bench as db
        >>> from deep_bench.arrays import NUMPY
        >>> from deep_bench.distributed.communicators.local import run_local
        >>> def on_rank(comm):
        ...     rule = Averaging(db.optimizers["sgd"](lr=1.0), comm)
        ...     w = {"w": np.zeros(2)}
        ...     return rule.update({"w": np.full(2, comm.rank + 1.0)}, rule.init(w, NUMPY), w, NUMPY)[0]["w"].tolist()
        >>> run_local(2, on_rank)
        [[-1.5, -1.5], [-1.5, -1.5]]

    Source:
        Stich, *Local SGD converges fast and communicates little*, ICLR 2019, algorithm 1; McMahan, Moore, Ramage, Hampson
        and Agüera y Arcas, *Communication-efficient learning of deep networks from decentralized data*, AISTATS 2017,
        algorithm 1 (weights).
    """

    every: int = setting(1, COUNT)
    states: bool = setting(False, FLAG)
    _pool: Pool[A] = field(default_factory=Pool, init=False, repr=False, compare=False)
    _state_pool: Pool[A] = field(default_factory=Pool, init=False, repr=False, compare=False)

    promise: ClassVar[Promise] = "bounded"

    def _remembered(self, parameters: Arrays[A], xp: ArrayFunctions[A]) -> dict[str, Any]:
        del parameters
        return {"samples": xp.array(0, np.int64)}

    def regrouped(self, states: Sequence[Tree]) -> dict[str, Any]:
        """See `WrappingScheme.regrouped`, after which it is as after an average."""
        return {**super().regrouped(states), "samples": np.array(0, np.int64)}

    def update(
        self,
        gradients: Arrays[A],
        state: Tree,
        parameters: Arrays[A],
        xp: ArrayFunctions[A],
        *,
        evaluate: Evaluate | None = None,
        samples: int | None = None,
    ) -> tuple[dict[str, A], dict[str, Any]]:
        """See `DistributedOptimizer.update`; a line search looks at this rank's own loss."""
        gradients, parameters = self.checked(gradients, parameters, samples, xp)
        new, inner = self.stepped(gradients, state["inner"], parameters, xp, evaluate)
        steps, sample_count = (
            number(state["steps"], xp) + 1,
            number(state["samples"], xp) + (1 if samples is None else samples),
        )
        if steps % self.every == 0:
            if self.comm.size > 1:
                weight = Shares(self.comm).settle(None if samples is None else sample_count)
                new = self._mean(new, self._pool, weight, xp)
                inner = self._mean_state(inner, weight, xp) if self.states else inner
            sample_count = 0
        return new, {"steps": xp.array(steps, np.int64), "inner": inner, "samples": xp.array(sample_count, np.int64)}

    def _mean(self, arrays: Arrays[A], pool: Pool[A], weight: float, xp: ArrayFunctions[A]) -> dict[str, A]:
        buffers = pool.packed(arrays, xp, weight)
        for flat in buffers.flats:
            self.comm.allreduce(flat, out=flat)
        return handed(buffers, arrays, self.inner, xp)

    def _mean_state(self, state: Any, weight: float, xp: ArrayFunctions[A]) -> Any:
        held = leaves(state)
        keys = {str(i): path for i, (path, leaf) in enumerate(held.items()) if _is_real(leaf, xp)}
        if not keys:
            return state
        mean = self._mean({key: held[path] for key, path in keys.items()}, self._state_pool, weight, xp)
        return state if self.inner.in_place else _replaced(state, {path: mean[key] for key, path in keys.items()})


def _is_real(leaf: Any, xp: ArrayFunctions[Any]) -> bool:
    return not isinstance(leaf, list) and xp.dtype(leaf).kind not in "biu"


def _replaced(tree: Tree, new: Mapping[Path, Any], at: Path = ()) -> dict[str, Any]:
    return {
        key: _replaced(value, new, (*at, key)) if isinstance(value, Mapping) else new.get((*at, key), value)
        for key, value in tree.items()
    }


_STEPS = Allowed("a whole number of at least 0", lambda steps: isinstance(steps, int) and steps >= 0)


@dataclass(frozen=True)
class PostLocal(WrappingScheme[A]):
    r"""The first :math:`t'` steps are those of `AllReduce`; from then on it is local SGD, `Averaging`.

    Averages are due :math:`H, 2 H, …` steps after the change.

    Args:
        until: :math:`t'`: usually the step at which the learning rate falls for the first time.
        every: :math:`H`.
        states: See `Averaging`.

    Example:
        >>> import deep_bench as db
        >>> from deep_bench.arrays import NUMPY
        >>> from deep_bench.distributed.communicators.local import run_local
        >>> def on_rank(comm):
        ...     rule, w = PostLocal(db.optimizers["sgd"](lr=1.0), comm, until=1, every=2), {"w": np.zeros(1)}
        ...     state, found = rule.init(w, NUMPY), []
        ...     for _ in range(3):
        ...         w, state = rule.update({"w": np.array([comm.rank + 1.0])}, state, w, NUMPY)
        ...         found.append(float(w["w"][0]))
        ...     return found
        >>> run_local(2, on_rank)
        [[-1.5, -2.5, -4.5], [-1.5, -3.5, -4.5]]

    Source:
        Lin, Stich, Patel and Jaggi, *Don't use large mini-batches, use local SGD*, ICLR 2020, section 3.
    """

    until: int = setting(0, _STEPS)
    every: int = setting(1, COUNT)
    states: bool = setting(False, FLAG)
    _together: AllReduce[A] = field(init=False, repr=False, compare=False)
    _alone: Averaging[A] = field(init=False, repr=False, compare=False)

    promise: ClassVar[Promise] = "bounded"

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "_together", AllReduce(self.inner, self.comm))
        object.__setattr__(self, "_alone", Averaging(self.inner, self.comm, self.every, self.states))
        for scheme in (self._together, self._alone):
            object.__setattr__(scheme, "_agreement", self._agreement)

    def _remembered(self, parameters: Arrays[A], xp: ArrayFunctions[A]) -> dict[str, Any]:
        del parameters
        return {"samples": xp.array(0, np.int64)}

    def regrouped(self, states: Sequence[Tree]) -> dict[str, Any]:
        """See `Averaging.regrouped`."""
        return self._alone.regrouped(states)

    def update(
        self,
        gradients: Arrays[A],
        state: Tree,
        parameters: Arrays[A],
        xp: ArrayFunctions[A],
        *,
        evaluate: Evaluate | None = None,
        samples: int | None = None,
    ) -> tuple[dict[str, A], dict[str, Any]]:
        """See `DistributedOptimizer.update`; a line search looks at all ranks' loss first, at this rank's own later."""
        gradients, parameters = self.checked(gradients, parameters, samples, xp)
        steps = number(state["steps"], xp)
        if steps < self.until:
            new, inner = self._together.update(gradients, state["inner"], parameters, xp, evaluate=evaluate, samples=samples)
            return new, {**state, "steps": one_more(state, xp), "inner": inner}
        local = {**state, "steps": xp.array(steps - self.until, np.int64)}
        new, local = self._alone.update(gradients, local, parameters, xp, evaluate=evaluate, samples=samples)
        return new, {**local, "steps": one_more(state, xp)}
