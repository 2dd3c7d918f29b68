"""Who talks to whom: graphs of ranks, and the weights with which they average."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import isqrt
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from deep_bench.arrays import ArrayFunctions, Tree
from deep_bench.distributed.communicators.communicator import ANY, Received, Request
from deep_bench.distributed.flat import Buffers, Pool
from deep_bench.distributed.optimizer import A, Promise
from deep_bench.distributed.schemes.around import SEED, WrappingScheme, by_name, drawn, handed, number, one_more
from deep_bench.errors import InvalidArgument, UnknownName
from deep_bench.training.optimizer import FLAG, Arrays, Evaluate, setting


@dataclass(frozen=True, slots=True)
class Topology:
    """A graph of ranks.

    Args:
        to: For each rank, the ranks that it sends to; none twice, and not itself.

    Raises:
        InvalidArgument: A rank that does not exist, is named twice or names itself.

    Example:
        >>> ring(4).to
        ((1, 3), (0, 2), (1, 3), (0, 2))
        >>> exponential(4).sources(0)
        (2, 3)
    """

    to: tuple[tuple[int, ...], ...]

    def __post_init__(self) -> None:
        for rank, targets in enumerate(self.to):
            if rank in targets or len(set(targets)) < len(targets) or not all(0 <= o < len(self.to) for o in targets):
                raise InvalidArgument(f"rank {rank} sends to {targets}", f"different others among 0 to {len(self.to) - 1}")

    @property
    def size(self) -> int:
        """The number of ranks."""
        return len(self.to)

    def sources(self, rank: int) -> tuple[int, ...]:
        """The ranks that send to a rank."""
        return tuple(source for source, to in enumerate(self.to) if rank in to)

    @property
    def symmetric(self) -> bool:
        """Whether everyone receives from those it sends to."""
        return all(set(to) == set(self.sources(rank)) for rank, to in enumerate(self.to))

    def weights(self) -> NDArray[np.float64]:
        r"""The matrix :math:`W` with which ranks average: :math:`x_i' = \sum_j W_{ij} x_j`, rows and columns summing to 1.

        For a symmetric graph by Metropolis and Hastings, :math:`W_{ij} = 1 / (1 + \max(d_i, d_j))`; where all send to and
        receive from equally many :math:`d` others, :math:`1 / (1 + d)`.

        Raises:
            InvalidArgument: Neither holds, so that averages would not keep the mean.

        Source:
            Xiao and Boyd, *Fast linear iterations for distributed averaging*, Systems & Control Letters 53 (2004), sec. 5;
            Assran, Loizou, Ballas and Rabbat, *Stochastic gradient push*, ICML 2019, section 3 (exponential graphs).
        """
        degrees = [len(to) for to in self.to]
        regular = len({*degrees, *(len(self.sources(rank)) for rank in range(self.size))}) == 1
        if not self.symmetric and not regular:
            raise InvalidArgument("a topology in which some receive from more ranks than they send to", "a balanced one")
        matrix = np.zeros((self.size, self.size))
        for source, to in enumerate(self.to):
            for rank in to:
                matrix[rank, source] = 1 / (1 + max(degrees[source], degrees[rank]))
        np.fill_diagonal(matrix, 1 - matrix.sum(axis=1))
        return matrix

    @property
    def spectral_gap(self) -> float:
        """1 minus the second largest singular value of the weights: how quickly averaging pulls ranks together."""
        values = np.linalg.svd(self.weights(), compute_uv=False)
        return float(1 - values[1]) if self.size > 1 else 1.0


def _graph(size: int, to: Callable[[int], list[int]]) -> Topology:
    if size < 1:
        raise InvalidArgument(f"a topology of {size} ranks", "at least one")
    return Topology(tuple(tuple(sorted({target % size for target in to(rank)} - {rank})) for rank in range(size)))


def ring(size: int) -> Topology:
    """Everyone with the ranks before and after it."""
    return _graph(size, lambda rank: [rank - 1, rank + 1])


def torus(size: int) -> Topology:
    """A grid, as square as ``size`` allows, whose ends meet: four neighbours each."""
    rows = next(rows for rows in range(isqrt(max(size, 1)), 0, -1) if size % rows == 0)
    columns = size // rows if size else 1

    def to(rank: int) -> list[int]:
        row, column = divmod(rank, columns)
        beside = [row * columns + (column + by) % columns for by in (-1, 1)]
        return beside + [(row + by) % rows * columns + column for by in (-1, 1)]

    return _graph(size, to)


def exponential(size: int) -> Topology:
    """Everyone sends to the ranks 1, 2, 4, … further; each rank is at most log2(ranks) messages from any other."""
    return _graph(size, lambda rank: [rank + 2**power for power in range((size - 1).bit_length())])


def complete(size: int) -> Topology:
    """Everyone with everyone."""
    return _graph(size, lambda _: list(range(size)))


TOPOLOGIES: Mapping[str, Callable[[int], Topology]] = {
    "complete": complete,
    "exponential": exponential,
    "ring": ring,
    "torus": torus,
}


def topology(name: str, size: int) -> Topology:
    """The topology of a name.

    Raises:
        UnknownName: There is none.
    """
    if name not in TOPOLOGIES:
        raise UnknownName("topology", name, TOPOLOGIES)
    return TOPOLOGIES[name](size)


def graph_of(setting: str | Topology, size: int) -> Topology:
    """The topology that is named, or given, for so many ranks.

    Raises:
        UnknownName: No topology has this name.
        InvalidArgument: One of another number of ranks, or something else.
    """
    if isinstance(setting, str):
        return topology(setting, size)
    if not isinstance(setting, Topology) or setting.size != size:
        raise InvalidArgument(f"topology={setting!r} for {size} ranks", f"a name, or a Topology of {size} ranks")
    return setting


_DECENTRALISED_TAG = 602


@dataclass(frozen=True)
class Decentralised(WrappingScheme[A]):
    r"""D-PSGD: every rank takes the weighted mean of its neighbours' parameters, and adds its own step,

    .. math:: x_i' = \sum_j W_{ij} x_j + (\operatorname{inner}(x_i) - x_i),

    where the inner rule has the gradient at :math:`x_i`. Parameters are averaged, not gradients: ranks stay apart, and are
    pulled together by the gap of :math:`W` (`Topology.spectral_gap`). The samples of a rank do not weight it: each has its
    own loss.

    Args:
        topology: ``ring``, ``torus``, ``exponential`` or ``complete``, or a `Topology` with weights.

    Raises:
        UnknownName: No such topology.
        InvalidArgument: A topology of another number of ranks, or without weights that keep the mean.

    Example:
        >>> import deep_bench as db
        >>> from deep_bench.arrays import NUMPY
        >>> from deep_bench.distributed.communicators.local import run_local
        >>> def on_rank(comm):
        ...     rule, w = Decentralised(db.optimizers["sgd"](lr=1.0), comm), {"w": np.array([4.0 * comm.rank])}
        ...     return rule.update({"w": np.ones(1)}, rule.init(w, NUMPY), w, NUMPY)[0]["w"].tolist()
        >>> run_local(4, on_rank)
        [[4.333333333333333], [3.0], [7.0], [5.666666666666666]]

    Source:
        Lian, Zhang, Zhang, Hsieh, Zhang and Liu, *Can decentralized algorithms outperform centralized algorithms?*, NeurIPS
        2017, algorithm 1.
    """

    topology: str | Topology = "ring"
    _graph: Topology = field(init=False, repr=False, compare=False)
    _weights: np.ndarray = field(init=False, repr=False, compare=False)
    _pool: Pool[A] = field(default_factory=Pool, init=False, repr=False, compare=False)

    promise: ClassVar[Promise] = "contracting"

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "_graph", graph_of(self.topology, self.comm.size))
        object.__setattr__(self, "_weights", self._graph.weights()[self.comm.rank])

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
        before = self._pool.packed(parameters, xp)
        pulled = [self._mean(flat) - flat for flat in before.flats]
        new, inner = self.stepped(gradients, state["inner"], parameters, xp, evaluate)
        after = self._pool.packed(new, xp)
        for flat, pull in zip(after.flats, pulled, strict=True):
            flat += pull
        return handed(after, new, self.inner, xp), {"steps": one_more(state, xp), "inner": inner}

    def _mean(self, mine: np.ndarray) -> np.ndarray:
        rank = self.comm.rank
        received = self.comm.exchange(mine, self._graph.to[rank], self._graph.sources(rank), _DECENTRALISED_TAG)
        received[rank] = mine
        first, *peers = sorted(received)
        total = received[first] * mine.dtype.type(self._weights[first])
        for peer in peers:
            total += received[peer] * mine.dtype.type(self._weights[peer])
        return total


_PUSH_TAG = 603


@dataclass(frozen=True)
class GradientPush(WrappingScheme[A]):
    r"""Push-sum around an inner rule. With a rank's own weight :math:`w_i`, 1 at first, and its parameters
    :math:`z_i = x_i / w_i`,

    .. math::
        y_i &= \operatorname{inner}(w_i z_i, g(z_i)), \\
        x_i' &= \sum_j p_{ij} y_j, \quad w_i' = \sum_j p_{ij} w_j, \quad z_i' = x_i' / w_i',

    where :math:`p_{ij} = 1 / (1 + \text{number of ranks that } j \text{ sends to in this step})`, for :math:`j` itself too.
    The sums of all :math:`x` and :math:`w` are kept on any graph in which everyone reaches everyone; it need not be
    balanced.

    Args:
        topology: ``exponential``, ``ring``, ``torus``, ``complete``, or a `Topology`.
        one_peer: In each step a rank sends to one of those it can, in turn: the nearest above it first. All of them
            otherwise.

    Raises:
        UnknownName: No such topology.
        InvalidArgument: A topology of another number of ranks.

    Example:
        >>> import deep_bench as db
        >>> from deep_bench.arrays import NUMPY
        >>> from deep_bench.distributed.communicators.local import run_local
        >>> def on_rank(comm):
        ...     rule, w = GradientPush(db.optimizers["sgd"](lr=1.0), comm), {"w": np.array([4.0 * comm.rank])}
        ...     return rule.update({"w": np.ones(1)}, rule.init(w, NUMPY), w, NUMPY)[0]["w"].tolist()
        >>> run_local(4, on_rank)
        [[5.0], [1.0], [5.0], [9.0]]

    Source:
        Assran, Loizou, Ballas and Rabbat, *Stochastic gradient push for distributed deep learning*, ICML 2019, algorithm 1,
        and its appendix for one peer on the exponential graph.
    """

    topology: str | Topology = "exponential"
    one_peer: bool = setting(True, FLAG)
    _graph: Topology = field(init=False, repr=False, compare=False)
    _pool: Pool[A] = field(default_factory=Pool, init=False, repr=False, compare=False)

    promise: ClassVar[Promise] = "contracting"

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "_graph", graph_of(self.topology, self.comm.size))

    def _remembered(self, parameters: Arrays[A], xp: ArrayFunctions[A]) -> dict[str, Any]:
        del parameters
        return {"weight": xp.array(1.0, np.float64)}

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
        steps, weight = number(state["steps"], xp), float(xp.host(state["weight"]))
        biased = handed(self._pool.packed(parameters, xp, weight), parameters, self.inner, xp)
        new, inner = self.stepped(gradients, state["inner"], biased, xp, evaluate)
        half = self._pool.packed(new, xp)
        pushed = self._pushed(np.array([weight]), steps)
        for flat in half.flats:
            np.divide(self._pushed(flat, steps), flat.dtype.type(pushed[0]), out=flat)
        new_state = {"steps": one_more(state, xp), "inner": inner, "weight": xp.array(pushed[0], np.float64)}
        return handed(half, new, self.inner, xp), new_state

    def _pushed(self, mine: np.ndarray, step: int) -> np.ndarray:
        """What this rank and those that send to it in this step give it."""
        rank, to = self.comm.rank, [self._peers(peer, step) for peer in range(self.comm.size)]
        part = mine * mine.dtype.type(1 / (1 + len(to[rank])))
        received = self.comm.exchange(part, to[rank], [peer for peer, peers in enumerate(to) if rank in peers], _PUSH_TAG)
        received[rank] = part
        first, *senders = sorted(received)
        total = received[first].copy()
        for peer in senders:
            total += received[peer]
        return total

    def _peers(self, rank: int, step: int) -> tuple[int, ...]:
        to = self._graph.to[rank]
        if not self.one_peer or not to:
            return to
        nearest = sorted(to, key=lambda peer: (peer - rank) % self.comm.size)
        return (nearest[step % len(nearest)],)


_ASK, _THEIRS, _MEAN = 607, 608, 609
_PAIR, _DONE = 0, 1


class _PassiveRank:
    """What a passive rank does for those that ask. One message is waited for at any time, also between steps."""

    def __init__(self, scheme: Gossip[Any]) -> None:
        self._comm, self._record = scheme.comm, scheme.record
        self._asking = set(scheme.neighbours)
        self._most = len(scheme.neighbours)
        self._head = np.empty(1, np.int64)
        self._request: Request = self._comm.irecv(self._head, ANY, _ASK)

    def some(self, mine: Buffers) -> None:
        """Answer those that asked, but each no more than once on average, so that this rank gets on as well."""
        for _ in range(self._most):
            if not self._asking or not self._request.test():
                return
            self._next(mine)

    def all(self, mine: Buffers) -> None:
        """Answer until all have finished."""
        while self._asking:
            self._next(mine)

    def _next(self, mine: Buffers) -> None:
        received = self._request.wait()
        assert isinstance(received, Received)
        if self._head[0] == _DONE:
            self._asking.remove(received.source)
        else:
            if self._record is not None:  # before the other one can go on, so that a shared list keeps the order
                self._record.append((received.source, self._comm.rank))
            for flat in mine.flats:
                theirs = np.empty_like(flat)
                self._comm.recv(theirs, received.source, _THEIRS)
                flat += theirs
                flat /= 2
                self._comm.send(flat, received.source, _MEAN)
        if self._asking:
            self._request = self._comm.irecv(self._head, ANY, _ASK)


@dataclass(frozen=True)
class Gossip(WrappingScheme[A]):
    r"""AD-PSGD on a ring of two kinds of ranks. An active rank :math:`i`, after a gradient at :math:`x_i`, draws a passive
    neighbour :math:`j`:

    .. math:: \bar x = (x_i + x_j) / 2, \quad x_j' = \bar x, \quad x_i' = \operatorname{inner}(\bar x, g(x_i)).

    A passive rank answers those that ask when it has a gradient itself, which was taken before they did, and then steps with
    it. Even ranks are active, odd ones passive; those next to each other on the ring are neighbours, but for the ends of an
    odd number of ranks, both active. Only active ranks wait, and only for passive ones, so that nobody waits for ever.
    Samples weight nothing: each rank has its own loss.

    Ranks may take different numbers of steps; each calls ``finish`` after its last, in which passive ones answer until all
    that may ask have finished.

    Args:
        seed: Of the draws, which are a function of it, of the step and of the rank.
        record: A list that gets what happened on this rank: ``(i, j)`` where it, passive, answered rank :math:`i`, and
            ``(i, i)`` for each step it took without an average. Ranks of one process may share the list, which then has all
            events in their order.

    Example:
        >>> import deep_bench as db
        >>> from deep_bench.arrays import NUMPY
        >>> from deep_bench.distributed.communicators.local import run_local
        >>> log = []
        >>> def on_rank(comm):
        ...     rule, w = Gossip(db.optimizers["sgd"](lr=1.0), comm, record=log), {"w": np.array([8.0 * comm.rank])}
        ...     w, state = rule.update({"w": np.ones(1)}, rule.init(w, NUMPY), w, NUMPY)
        ...     return rule.finish(state, w, NUMPY)[0]["w"].tolist()
        >>> run_local(2, on_rank), log
        ([[3.0], [3.0]], [(0, 1), (1, 1)])

    Source:
        Lian, Zhang, Zhang and Liu, *Asynchronous decentralized parallel stochastic gradient descent*, ICML 2018,
        algorithm 1, and its notes on implementation for two kinds of ranks against deadlock.
    """

    seed: int = setting(0, SEED)
    record: list[tuple[int, int]] | None = field(default=None, repr=False, compare=False)
    _pool: Pool[A] = field(default_factory=Pool, init=False, repr=False, compare=False)
    _answers: list[_PassiveRank] = field(default_factory=list, init=False, repr=False, compare=False)

    promise: ClassVar[Promise] = "contracting"
    lockstep: ClassVar[bool] = False

    @property
    def neighbours(self) -> tuple[int, ...]:
        """The ranks that this one can average with."""
        rank, size = self.comm.rank, self.comm.size
        near = {(rank - 1) % size, (rank + 1) % size}
        return tuple(sorted(peer for peer in near if peer % 2 != rank % 2))

    @property
    def active(self) -> bool:
        """Whether this rank asks, and does not answer."""
        return self.comm.rank % 2 == 0

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
        buffers = self._pool.packed(by_name(parameters), xp)
        asks = self.active and bool(self.neighbours)
        if asks:
            self._ask(buffers, number(state["steps"], xp))
        elif self.neighbours:
            self._open().some(buffers)
        if self.record is not None and not asks:
            self.record.append((self.comm.rank, self.comm.rank))
        mean = handed(buffers, parameters, self.inner, xp)
        new, inner = self.stepped(gradients, state["inner"], mean, xp, evaluate)
        return new, {"steps": one_more(state, xp), "inner": inner}

    def finish(self, state: Tree, parameters: Arrays[A], xp: ArrayFunctions[A]) -> tuple[dict[str, A], dict[str, Any]]:
        """See `DistributedOptimizer.finish`."""
        self.meet(parameters, xp)
        if self.active:
            for peer in self.neighbours:
                self.comm.send(np.array([_DONE], np.int64), peer, _ASK)
            return dict(parameters), dict(state)
        buffers = self._pool.packed(by_name(parameters), xp)
        self._open().all(buffers)
        self._answers.clear()
        return handed(buffers, parameters, self.inner, xp), dict(state)

    def _ask(self, mine: Buffers, step: int) -> None:
        chosen = int(drawn(self.seed, step, self.comm.rank).integers(len(self.neighbours)))
        peer = self.neighbours[chosen]
        self.comm.send(np.array([_PAIR], np.int64), peer, _ASK)
        for flat in mine.flats:
            self.comm.send(flat, peer, _THEIRS)
            self.comm.recv(flat, peer, _MEAN)

    def _open(self) -> _PassiveRank:
        if not self._answers:
            self._answers.append(_PassiveRank(self))
        return self._answers[0]
