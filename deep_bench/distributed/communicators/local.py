"""Ranks as threads of one process, one of which runs at a time: deterministic, for tests and teaching."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Hashable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from itertools import count
from threading import Condition, Thread
from typing import Any, ClassVar, TypeVar

import numpy as np

from deep_bench.distributed.communicators.communicator import (
    ANY,
    Communicator,
    CompletedRequest,
    Received,
    Reduction,
    Request,
    check_color,
    check_peer,
    check_writable,
)
from deep_bench.errors import CommunicationFailed, DeepBenchError, InvalidArgument


class Calls:
    """The collective operations of some groups of ranks: the n-th of each rank must be the n-th of all.

    Example:
        >>> calls = Calls()
        >>> calls.came("world", 0, 2, "broadcast", root=0)
        >>> calls.came("world", 1, 2, "broadcast", root=1)
        Traceback (most recent call last):
        deep_bench.errors.CommunicationFailed: rank 1 calls broadcast(root=1), and rank 0 broadcast(root=0)
        Expected: the same call on all ranks of a group
    """

    def __init__(self) -> None:
        self._numbers: defaultdict[tuple[Hashable, int], int] = defaultdict(int)
        self._open: dict[tuple[Hashable, int], list[Any]] = {}

    def came(self, group: Hashable, rank: int, size: int, operation: str, **arguments: Any) -> None:
        """A rank begins an operation.

        Args:
            group: Of which ranks it is one.
            rank: Its number there.
            size: The number of ranks there.
            operation: The name.
            arguments: What must be the same on all ranks.

        Raises:
            CommunicationFailed: Another rank began something else, or otherwise.
        """
        call = f"{operation}({', '.join(f'{name}={value}' for name, value in arguments.items())})"
        number = self._numbers[group, rank]
        self._numbers[group, rank] += 1
        first = self._open.setdefault((group, number), [call, rank, 0])
        if call != first[0]:
            raise CommunicationFailed(
                f"rank {rank} calls {call}, and rank {first[1]} {first[0]}", "the same call on all ranks of a group"
            )
        first[2] += 1
        if first[2] == size:
            del self._open[group, number]


def call_form(x: np.ndarray) -> str:
    """The number of elements and their type."""
    return f"{x.size} elements of {x.dtype}"


Ready = Callable[[], bool]


class TurnSchedule:
    """Passes the turn from rank to rank. The thread that has it runs until it must wait for another rank.

    Args:
        ranks: How many.
        order: ``None``: the next rank that can go on, by number. A seed: one of those that can, drawn at every message as
            well. A list: the choices of an earlier run, to repeat it.

    Attributes:
        choices: The ranks that were chosen so far.
        failure: Why no rank can go on, if it came to that.
    """

    def __init__(self, ranks: int, order: int | Sequence[int] | None = None) -> None:
        self.choices: list[int] = []
        self.failure: DeepBenchError | None = None
        self._ranks = ranks
        self._draws = np.random.default_rng(order) if isinstance(order, int) else None
        self._script = None if order is None or isinstance(order, int) else list(order)
        self._changed = Condition()
        self._waiting: dict[int, tuple[str, Ready]] = {rank: ("its begin", lambda: True) for rank in range(ranks)}
        self._turn: int | None = None
        self._stopped: BaseException | None = None

    @property
    def preempts(self) -> bool:
        """Whether the turn may pass where nobody has to wait."""
        return self._draws is not None or self._script is not None

    def begin(self, rank: int) -> None:
        """Wait for the first turn."""
        with self._changed:
            if self._turn is None and rank == 0:
                self._pass(after=self._ranks - 1)
            self._await(rank)

    def wait(self, rank: int, what: str, ready: Ready) -> None:
        """Return when something is so, with the turn.

        Args:
            rank: Who waits.
            what: For what, in words.
            ready: Whether it is so.

        Raises:
            CommunicationFailed: No rank can go on; or another rank failed.
        """
        with self._changed:
            if not self.preempts and ready():
                return
            self._waiting[rank] = (what, ready)
            self._pass(after=rank)
            self._await(rank)

    def rest(self, rank: int) -> None:
        """Let the others go on before this rank does."""
        with self._changed:
            self._waiting[rank] = ("its next turn", lambda: True)
            self._pass(after=rank)
            self._await(rank)

    def end(self, rank: int, failure: BaseException | None = None) -> None:
        """This rank has come to its end; or failed, whereupon all others fail too."""
        with self._changed:
            self._waiting.pop(rank, None)
            if failure is not None and self._stopped is None:
                self._stopped = failure
            self._pass(after=rank)

    def _await(self, rank: int) -> None:
        self._changed.wait_for(lambda: self._turn == rank or self._stopped is not None)
        if self._stopped is not None:
            raise CommunicationFailed(f"rank {rank} was stopped: {self._stopped}")
        self._waiting.pop(rank)

    def _pass(self, after: int) -> None:
        able = [rank for rank, (_, ready) in sorted(self._waiting.items()) if ready()]
        if not able and self._waiting and self._stopped is None:
            message = "; ".join(f"rank {rank} waits for {event}" for rank, (event, _) in sorted(self._waiting.items()))
            self.failure = self._stopped = CommunicationFailed(
                f"no rank can go on: {message}", "messages that match", "compare what each rank sends and receives"
            )
        self._turn = self._chosen(able, after) if able else None
        self._changed.notify_all()

    def _chosen(self, able: list[int], after: int) -> int:
        if self._script is not None:
            if len(self.choices) >= len(self._script) or self._script[len(self.choices)] not in able:
                self.failure = self._stopped = InvalidArgument(
                    f"a schedule whose choice {len(self.choices)} cannot be followed: ranks {able} can go on",
                    "the choices of a run of the same program",
                )
                return able[0]
            rank = self._script[len(self.choices)]
        elif self._draws is not None:
            rank = able[int(self._draws.integers(len(able)))]
        else:
            rank = min(able, key=lambda r: (r - after - 1) % self._ranks)
        self.choices.append(rank)
        return rank


T = TypeVar("T")


@dataclass(eq=False)
class _Message:
    number: int
    source: int
    tag: int
    content: np.ndarray


class _Receive(Request):
    def __init__(self, comm: LocalCommunicator, out: np.ndarray, source: int, tag: int) -> None:
        self._comm, self._out, self._source, self._tag = comm, out, source, tag
        self._received: Received | None = None

    def fits(self, message: _Message) -> bool:
        """Whether this waits for such a message."""
        return message.tag == self._tag and self._source in (ANY, message.source)

    def take(self, message: _Message) -> None:
        """Write a message where it goes."""
        content, out = message.content, self._out
        if content.dtype != out.dtype or content.size > out.size:
            raise CommunicationFailed(
                f"rank {message.source} sent {content.size} elements of {content.dtype}",
                f"at most {out.size} of {out.dtype}, which is what rank {self._comm.rank} receives",
            )
        if content.size == out.size:
            out[...] = content.reshape(out.shape)
        else:
            out.flat[: content.size] = content
        self._received = Received(message.source, message.tag, content.size)

    def wait(self) -> Received:
        """Let other ranks go on until it is there."""
        comm = self._comm
        sender = "anyone" if self._source == ANY else f"rank {self._source}"
        comm._world.schedule.wait(
            comm._ranks[comm.rank], f"a message from {sender} with tag {self._tag}", lambda: self._received is not None
        )
        assert self._received is not None
        return self._received

    def test(self) -> bool:
        """Whether it is there; lets other ranks go on before it answers."""
        if self._received is None:
            self._comm._world.schedule.rest(self._comm._ranks[self._comm.rank])
        return self._received is not None


@dataclass(eq=False)
class _Box:
    """What came for one rank and was not asked for yet, and what it asked for that did not come yet."""

    arrived: deque[_Message] = field(default_factory=deque)
    wanted: list[_Receive] = field(default_factory=list)


class _World:
    """What the threads share. Only the one whose turn it is touches it."""

    def __init__(self, schedule: TurnSchedule) -> None:
        self.schedule = schedule
        self.boxes: defaultdict[tuple[Any, int], _Box] = defaultdict(_Box)
        self.numbers = count()
        self.calls = Calls()

    def unread(self) -> str:
        """The messages that nobody received, in words."""
        return "; ".join(
            f"{call_form(message.content)} with tag {message.tag} from rank {message.source} to rank {to}"
            + ("" if len(place) == 1 else f" of the group {place[1:]}")
            for (place, to), box in self.boxes.items()
            for message in box.arrived
        )


class LocalCommunicator(Communicator):
    """Ranks as threads of this process; made by `run_local`.

    Made without arguments, it is that of the thread it is made in: one rank alone outside of `run_local`.

    Example:
        >>> run_local(3, lambda comm: comm.allreduce(np.array([comm.rank + 1])).tolist())
        [[6], [6], [6]]
        >>> LocalCommunicator().size
        1
    """

    name: ClassVar[str] = "local"

    def __init__(self) -> None:
        current = _CURRENT.get()
        self._ranks: tuple[int, ...]
        if current is None:
            self._world, self._place, self._ranks, self.rank = _World(TurnSchedule(1)), ("world",), (0,), 0
        else:
            self._world, self._place = current._world, current._place
            self._ranks, self.rank = current._ranks, current.rank
        self.size = len(self._ranks)
        self._splits = count()

    @classmethod
    def _member(cls, world: _World, place: tuple[Any, ...], ranks: tuple[int, ...], rank: int) -> LocalCommunicator:
        member = cls.__new__(cls)
        member._world, member._place, member._ranks, member.rank = world, place, ranks, rank
        member.size, member._splits = len(ranks), count()
        return member

    def isend(self, x: np.ndarray, to: int, tag: int = 0) -> Request:
        """See `Communicator.isend`; the array is copied at once."""
        check_peer(self, to, tag)
        message = _Message(next(self._world.numbers), self.rank, tag, np.array(x).reshape(-1))
        box = self._world.boxes[self._place, to]
        taker = next((candidate for candidate in box.wanted if candidate.fits(message)), None)
        if taker is None:
            box.arrived.append(message)
        else:
            box.wanted.remove(taker)
            taker.take(message)
        if self._world.schedule.preempts:
            self._world.schedule.rest(self._ranks[self.rank])
        return CompletedRequest()

    def irecv(self, out: np.ndarray, source: int = ANY, tag: int = 0) -> Request:
        """See `Communicator.irecv`."""
        check_peer(self, source, tag, anyone=True)
        check_writable(out)
        begun = _Receive(self, out, source, tag)
        box = self._world.boxes[self._place, self.rank]
        match = next((message for message in box.arrived if begun.fits(message)), None)
        if match is None:
            box.wanted.append(begun)
        else:
            box.arrived.remove(match)
            begun.take(match)
        return begun

    def split(self, color: int | None, key: int = 0) -> LocalCommunicator | None:
        """See `Communicator.split`."""
        check_color(color)
        mine = np.array([-1 if color is None else color, key, color is None], np.int64)
        rows = self.allgather(mine)
        number = next(self._splits)
        if color is None:
            return None
        members = sorted((int(k), rank) for rank, (c, k, out) in enumerate(rows) if not out and c == color)
        ranks = tuple(self._ranks[rank] for _, rank in members)
        place = (*self._place, number, color)
        return self._member(self._world, place, ranks, [rank for _, rank in members].index(self.rank))

    # Collective operations: the others' arguments are known here, so that they are compared

    def _calls(self, operation: str, **arguments: Any) -> None:
        self._world.calls.came(self._place, self.rank, self.size, operation, **arguments)

    def broadcast(self, x: np.ndarray, root: int = 0) -> np.ndarray:
        """See `Communicator.broadcast`."""
        self._calls("broadcast", x=call_form(x), root=root)
        return super().broadcast(x, root)

    def reduce(self, x: np.ndarray, op: Reduction = "sum", root: int = 0) -> np.ndarray | None:
        """See `Communicator.reduce`."""
        self._calls("reduce", x=call_form(x), op=op, root=root)
        return super().reduce(x, op, root)

    def allreduce(self, x: np.ndarray, op: Reduction = "sum", out: np.ndarray | None = None) -> np.ndarray:
        """See `Communicator.allreduce`."""
        self._calls("allreduce", x=call_form(x), op=op)
        return super().allreduce(x, op, out)

    def gather(self, x: np.ndarray, root: int = 0) -> np.ndarray | None:
        """See `Communicator.gather`."""
        self._calls("gather", x=call_form(x), root=root)
        return super().gather(x, root)

    def allgather(self, x: np.ndarray, counts: Sequence[int] | None = None, out: np.ndarray | None = None) -> np.ndarray:
        """See `Communicator.allgather`."""
        if counts is None:
            self._calls("allgather", x=call_form(x))
        else:
            self._calls("allgather", x=x.dtype, counts=[int(elements) for elements in counts])
        return super().allgather(x, counts, out)

    def scatter(self, x: np.ndarray | None, out: np.ndarray, root: int = 0) -> np.ndarray:
        """See `Communicator.scatter`."""
        self._calls("scatter", out=call_form(out), root=root)
        return super().scatter(x, out, root)

    def reduce_scatter(
        self, x: np.ndarray, counts: Sequence[int] | None = None, op: Reduction = "sum", out: np.ndarray | None = None
    ) -> np.ndarray:
        """See `Communicator.reduce_scatter`."""
        element_counts = None if counts is None else [int(elements) for elements in counts]
        self._calls("reduce_scatter", x=call_form(x), counts=element_counts, op=op)
        return super().reduce_scatter(x, counts, op, out)

    def alltoall(self, x: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        """See `Communicator.alltoall`."""
        self._calls("alltoall", x=call_form(x))
        return super().alltoall(x, out)

    def abort(self, reason: str) -> None:
        """Fail on this rank, whereupon all others do."""
        raise CommunicationFailed(f"rank {self.rank} ended the run: {reason}")


_CURRENT: ContextVar[LocalCommunicator | None] = ContextVar("current", default=None)


def run_local(
    ranks: int,
    function: Callable[[LocalCommunicator], T],
    *,
    order: int | Sequence[int] | None = None,
    choices: list[int] | None = None,
) -> list[T]:
    """Run a function on several ranks, each a thread of this process, and return what each returned.

    One thread runs at a time, until it has to wait for another; what happens is the same every time.

    Args:
        ranks: How many.
        function: Called with each rank's communicator.
        order: Which rank goes on: see `Schedule`. ``None`` for the next one; a seed for one that is drawn, at every message.
        choices: Gets the ranks as they were chosen; as ``order``, they repeat the run.

    Raises:
        CommunicationFailed: No rank can go on, each waiting for another; ranks differ in a collective operation or its
            arguments; or a message was never received.
        Exception: What the function raised first, with the rank in a note.

    Example:
        >>> def ring(comm):
        ...     received = np.empty(1, np.int64)
        ...     comm.sendrecv(np.array([comm.rank]), (comm.rank + 1) % 3, received, (comm.rank - 1) % 3)
        ...     return int(received[0])
        >>> run_local(3, ring)
        [2, 0, 1]
    """
    if ranks < 1:
        raise InvalidArgument(f"{ranks} ranks", "at least one")
    schedule = TurnSchedule(ranks, order)
    world = _World(schedule)
    results: list[Any] = [None] * ranks
    failures: list[tuple[int, BaseException]] = []

    def thread(rank: int) -> None:
        comm = LocalCommunicator._member(world, ("world",), tuple(range(ranks)), rank)
        _CURRENT.set(comm)
        failure: BaseException | None = None
        try:
            schedule.begin(rank)
            results[rank] = function(comm)
        except BaseException as error:  # raised again below, in the caller's thread
            failure = error
            failures.append((rank, error))
        finally:
            schedule.end(rank, failure)

    threads = [Thread(target=thread, args=(rank,), name=f"rank {rank}", daemon=True) for rank in range(ranks)]
    for worker in threads:
        worker.start()
    for worker in threads:
        worker.join()
    if choices is not None:
        choices[:] = schedule.choices
    if failures:
        if schedule.failure is not None:
            raise schedule.failure
        rank, error = failures[0]
        error.add_note(f"on rank {rank} of {ranks}")
        raise error
    if unread := world.unread():
        raise CommunicationFailed(f"messages that were never received: {unread}", "a recv for each send")
    return results
