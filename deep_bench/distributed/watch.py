"""``watched``: ranks that watch each other, so that none waits for ever for one that is lost.

Each rank's `Teller` tells rank 0's `Monitor` where it is, in lines of JSON over TCP; the monitor ends all together.
"""

from __future__ import annotations

import json
import os
import platform
import resource
import secrets
import select
import selectors
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, dataclass, field
from math import inf
from pathlib import Path
from threading import Lock, Thread
from time import monotonic
from typing import Any

import numpy as np
import psutil

from deep_bench.distributed.communicators.communicator import Communicator, cause
from deep_bench.distributed.communicators.local import LocalCommunicator
from deep_bench.distributed.faults import (
    GRACE_S,
    Failure,
    Fault,
    Kind,
    PlaceFinder,
    RankPlace,
    RankStatus,
    Tracebacks,
    Verdicts,
    failure_of,
    fault_message,
    killed_for_memory,
    of_communication,
    stacks,
)
from deep_bench.errors import DeepBenchError, InvalidArgument

FAULT, INTERRUPTED = 3, 130
"""Exit statuses of a run that a rank has ended, and of one that was interrupted."""


_FLUSHING_S = 1.0


def say(text: str) -> None:
    """Tell on the error stream, on lines of its own, in one piece."""
    begin = "\n" if sys.stderr.isatty() else ""  # a progress bar may stand there
    with suppress(OSError):
        os.write(2, f"{begin}deep-bench: {text}\n".encode())


def leave(status: int) -> None:
    """End the process, after what was printed is written out."""
    flushing = Thread(target=_flush, daemon=True)  # somebody may hold the stream for ever
    flushing.start()
    flushing.join(_FLUSHING_S)
    os._exit(status)


def kill(pids: Iterable[int]) -> None:
    """Kill processes of this host, which do not end by themselves."""
    for pid in pids:
        with suppress(OSError):
            os.kill(pid, signal.SIGKILL)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()


_LARGEST = 2**22
"""A line that is longer than this many bytes is of no rank."""


_SENDING_S = 2.0
"""So long may it take to send a line, before the other end counts as gone."""


class LineConnection:
    """One end of a connection.

    Args:
        connection: A socket.
    """

    def __init__(self, connection: socket.socket) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.settimeout(_SENDING_S)
        self.connection = connection
        self._lock, self._rest = Lock(), b""

    def fileno(self) -> int:
        """That of the socket."""
        return self.connection.fileno()

    def say(self, **content: Any) -> bool:
        """Send one line; whether the other end is still there. Any thread may."""
        with self._lock:
            try:
                self.connection.sendall(json.dumps(content).encode() + b"\n")
            except OSError:
                return False
            return True

    def hear(self, within_s: float) -> list[dict[str, Any]] | None:
        """The lines that come within some time, as soon as there are any; ``None`` once the other end is gone."""
        try:
            poll = select.poll()
            poll.register(self.connection, select.POLLIN)
            if not poll.poll(within_s * 1e3):
                return []
            came = self.connection.recv(2**16)
            *whole, self._rest = (self._rest + came).split(b"\n")
            return None if not came or len(self._rest) > _LARGEST else [dict(json.loads(line)) for line in whole]
        except (OSError, ValueError):
            return None

    def stop_hearing(self) -> None:
        """Have whoever hears at this moment stop."""
        with suppress(OSError):
            self.connection.shutdown(socket.SHUT_RD)

    def finish(self, within_s: float) -> None:
        """Say no more, and wait for the other end to close: what is unheard when this one ends would undo what it said.

        Args:
            within_s: At most so long.
        """
        with suppress(OSError):
            self.connection.shutdown(socket.SHUT_WR)
        until = monotonic() + within_s
        while (remaining := until - monotonic()) > 0 and self.hear(remaining) is not None:
            pass

    def close(self) -> None:
        """Close the connection."""
        self.connection.close()


def listening(everywhere: bool) -> socket.socket:
    """A socket that others can connect to, on a port that is free.

    Args:
        everywhere: From other hosts too.
    """
    return socket.create_server(("" if everywhere else "127.0.0.1", 0), backlog=1024)


def connected(addresses: list[str], port: int, token: str, within_s: float, **who: Any) -> LineConnection | None:
    """A connection to the first address where somebody answers that knows the token; ``None`` if there is none.

    Args:
        addresses: Names or numbers of one host.
        port: Where it listens.
        token: What only ranks of this run know.
        within_s: For each address.
        **who: What to say of oneself.
    """
    for address in addresses:
        try:
            lines = LineConnection(socket.create_connection((address, port), timeout=within_s))
        except OSError:
            continue
        heard = lines.hear(within_s) if lines.say(token=token, **who) else None
        if heard and heard[0].get("token") == token:
            return lines
        lines.close()
    return None


_BYTES = 512
_TOKEN_BYTES = 16
_BEAT_S = 0.5
_BEATS_A_SECOND = 128
"""So many does rank 0 hear at most, of all ranks together."""


@dataclass(frozen=True)
class Member:
    """A rank, and how it is reached.

    Args:
        host: Where it runs.
        pid: Its process.
        port: Where it listens.
        addresses: Of its host.
    """

    host: str
    pid: int
    port: int
    addresses: list[str]


@dataclass(frozen=True)
class Party:
    """All ranks, as one of them sees them.

    Args:
        rank: This one.
        members: All, by rank.
        token: What only they know.
        server: Where this one listens.
        patience_s: How long a rank may be silent, or keep others waiting.
        folder: Where tracebacks are written; ``None`` for nowhere.
        resume: How to go on after a fault.
        tell: Says something to the user.
        leave: Ends this process with a status.
    """

    rank: int
    members: list[Member]
    token: str
    server: socket.socket
    patience_s: float
    folder: Path | None = None
    resume: str = ""
    tell: Callable[[str], object] = field(default=say, repr=False)
    leave: Callable[[int], object] = field(default=leave, repr=False)

    @property
    def beat_s(self) -> float:
        """How often each rank tells where it is."""
        return min(max(_BEAT_S, len(self.members) / _BEATS_A_SECOND), self.patience_s / 4)

    def reach(self, rank: int, within_s: float) -> LineConnection | None:
        """A connection to another rank; ``None`` if it does not answer."""
        peer, me = self.members[rank], self.members[self.rank]
        return connected(peer.addresses, peer.port, self.token, within_s, rank=self.rank, pid=me.pid)

    def beside(self, rank: int) -> bool:
        """Whether another rank is on this one's host."""
        return self.members[rank].host == self.members[self.rank].host


def assembled(comm: Communicator, patience_s: float, folder: Path | None, resume: str, host: str | None = None) -> Party:
    """Tell all ranks of each other; they all call this together.

    Args:
        comm: The ranks.
        patience_s: See `Party`.
        folder: See `Party`.
        resume: See `Party`.
        host: Where this rank runs.
    """
    host = host or platform.node()
    hosts = _gather_members(comm, host.encode())
    alone = len(set(hosts)) == 1
    server = listening(everywhere=not alone)
    mine = [host, os.getpid(), server.getsockname()[1], ["127.0.0.1"] if alone else _addresses(host)]
    members = [Member(*json.loads(row)) for row in _gather_members(comm, json.dumps(mine).encode())]
    token = np.frombuffer(secrets.token_bytes(_TOKEN_BYTES), np.uint8).copy()
    comm.broadcast(token)
    return Party(comm.rank, members, token.tobytes().hex(), server, patience_s, folder, resume)


def _gather_members(comm: Communicator, text: bytes) -> list[bytes]:
    padded = np.zeros(_BYTES, np.uint8)
    padded[: len(text)] = np.frombuffer(text[:_BYTES], np.uint8)
    return [row.tobytes().rstrip(b"\0") for row in comm.allgather(padded)]


def _addresses(host: str) -> list[str]:
    """The names and numbers by which other hosts may reach this one; a few."""
    addresses = [
        entry.address for entries in psutil.net_if_addrs().values() for entry in entries if entry.family == socket.AF_INET
    ]
    return [host, *(address for address in addresses if not address.startswith("127."))][:8]


_LAST_WORDS_S = 2.0
"""So long do ranks have to tell their stacks and end."""


class Monitor(Thread):
    """Hears where ranks are; when one is at fault, tells it once, and has all end.

    Args:
        party: The ranks; this is rank 0.
        where: The place of rank 0, which knows how far all are.

    Attributes:
        judges: Whether all are connected, so that a connection which ends means something.
        survives: Whether the others go on without a rank that is lost.
        over: Whether it is no longer wanted.
    """

    def __init__(self, party: Party, where: PlaceFinder) -> None:
        super().__init__(name="monitor of ranks", daemon=True)
        self.judges = self.survives = self.over = False
        self._party, self._where = party, where
        moment = monotonic()
        statuses = {rank: RankStatus(member.host, member.pid, moment) for rank, member in enumerate(party.members)}
        self._verdicts = Verdicts(statuses, patience_s=party.patience_s, every_s=party.beat_s)
        self._lines: dict[int, LineConnection] = {}
        self._killed = killed_for_memory()
        self._selector = selectors.DefaultSelector()
        self._selector.register(party.server, selectors.EVENT_READ)
        # as many connections as there are ranks
        ranks = len(party.members)
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        limit = ranks + soft
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit if hard == resource.RLIM_INFINITY else min(limit, hard), hard))

    def run(self) -> None:
        """Until all ranks have said goodbye, or one is at fault."""
        try:
            self._watch()
        finally:
            for key in list(self._selector.get_map().values()):
                open_end: Any = key.fileobj
                open_end.close()
            self._selector.close()

    def _watch(self) -> None:
        due = 0.0
        while self._verdicts.here and not self.over:
            self._hear(max(due - monotonic(), 0.0))
            moment = monotonic()
            if moment >= due:
                due = moment + self._party.beat_s
                place = asdict(self._verdicts.ranks[0].place)
                for rank, lines in list(self._lines.items()):
                    if rank:
                        lines.say(place=place)
            fault = self._verdicts.fault(moment) if self.judges else None
            if fault is not None and not self._survived(fault):
                self._end(fault)
                return

    def _hear(self, within_s: float) -> None:
        for key, _ in self._selector.select(within_s):
            if key.fileobj is self._party.server:
                self._selector.register(LineConnection(self._party.server.accept()[0]), selectors.EVENT_READ)
                continue
            lines: Any = key.fileobj
            rank = next((rank for rank, candidate in self._lines.items() if candidate is lines), None)
            heard = lines.hear(0.0)
            for content in heard or ():
                rank = self._welcome(lines, content) if rank is None else rank
                if rank is None:
                    heard = None
                    break
                self._take(rank, content)
            if heard is None:
                self._drop(lines, rank)

    def _welcome(self, lines: LineConnection, content: dict[str, Any]) -> int | None:
        """The rank that has just connected; ``None`` if it is none of this run."""
        rank = content.get("rank")
        if content.get("token") != self._party.token or rank not in self._verdicts.ranks or rank in self._lines:
            return None
        self._lines[rank] = lines
        lines.say(token=self._party.token)
        return int(rank)

    def _take(self, rank: int, content: dict[str, Any]) -> None:
        if rank not in self._verdicts.ranks:
            return
        if "place" in content:
            self._verdicts.heard_from(rank, RankPlace(**content["place"]), monotonic())
        if "failure" in content:
            self._verdicts.failed(rank, Failure(**content["failure"]), monotonic())
        if "goodbye" in content:
            self._verdicts.left(rank)

    def _drop(self, lines: LineConnection, rank: int | None) -> None:
        self._selector.unregister(lines)
        lines.close()
        if rank is not None:
            del self._lines[rank]
            if rank in self._verdicts.ranks:
                self._verdicts.gone(rank)

    # Ends

    def _survived(self, fault: Fault) -> bool:
        """Whether the others go on, after it was told and the rank is certainly gone."""
        if not self.survives or fault.kind not in ("lost", "silent", "hangs") or 0 in fault.ranks:
            return False
        self._party.tell(f"{self._message(fault)}\nThe others go on without it.")
        self._order(fault, {})
        for rank in fault.ranks:
            if rank in self._lines:
                # Killed, not ended: MPI tells the others of those only.
                self._lines[rank].say(kill=[self._party.members[rank].pid])
            self._verdicts.forget(rank)
        return True

    def _end(self, fault: Fault) -> None:
        ranks = self._verdicts.ranks
        status = INTERRUPTED if fault.kind == "interrupted" else FAULT
        tracebacks = Tracebacks(None if fault.kind == "interrupted" else self._party.folder)
        tracebacks.begin(sorted(ranks.items()))
        self._party.tell(self._message(fault, tracebacks))
        self._order(fault, {"end": status})
        if ranks[0].failure is None:
            tracebacks.add(0, ranks[0].host, stacks())
        dumb = fault.ranks if fault.kind == "silent" else ()
        until = monotonic() + _LAST_WORDS_S
        while self._lines.keys() - {0, *dumb} and monotonic() < until:
            for lines, rank, heard in self._last_words(until - monotonic()):
                for content in heard or ():
                    if "stacks" in content:
                        tracebacks.add(rank, ranks[rank].host, content["stacks"])
                if heard is None:
                    self._drop(lines, rank)
        self._party.leave(status)

    def _last_words(self, within_s: float) -> list[tuple[LineConnection, int, list[dict[str, Any]] | None]]:
        ranks = {id(lines): rank for rank, lines in self._lines.items()}
        ready: list[Any] = [key.fileobj for key, _ in self._selector.select(max(within_s, 0.0))]
        return [(lines, ranks[id(lines)], lines.hear(0.0)) for lines in ready if id(lines) in ranks]

    def _order(self, fault: Fault, order: dict[str, Any]) -> None:
        """Tell all ranks what to do; those beside a rank that does not answer kill it."""
        silent = fault.ranks if fault.kind == "silent" else ()
        members = self._party.members
        for rank, lines in self._lines.items():
            pids = [members[peer].pid for peer in silent if members[peer].host == members[rank].host]
            if rank and rank not in silent and (order or pids):
                lines.say(kill=pids, **order)
        kill(members[peer].pid for peer in silent if self._party.beside(peer))

    def _message(self, fault: Fault, tracebacks: Tracebacks | None = None) -> str:
        local = self._party.beside(fault.ranks[0]) and fault.kind == "lost"
        for rank in fault.ranks:
            self._verdicts.ranks[rank].place = self._where.least(self._verdicts.ranks[rank].place)
        return fault_message(
            fault,
            self._verdicts.ranks,
            len(self._party.members),
            file=None if tracebacks is None else tracebacks.file,
            resume="" if tracebacks is None else self._party.resume,
            out_of_memory=local and killed_for_memory() > self._killed,
        )


_ANSWER_S = 3.0
"""So long does a rank wait for a lower one to say that it speaks."""


_LINGER_S = 1.5
"""So long does the one that speaks answer the others."""


_LATE_S = 2.0


class Teller(Thread):
    """Tells where this rank is, and does what rank 0 orders.

    When rank 0 is gone, the lowest rank that is left speaks: each asks those below it, and ends if one answers.

    Args:
        party: The ranks.
        lines: The connection to rank 0.
        where: This rank's place.
    """

    def __init__(self, party: Party, lines: LineConnection, where: PlaceFinder) -> None:
        super().__init__(name="teller of this rank", daemon=True)
        self._party, self._lines, self._where = party, lines, where
        self._over = False
        self._first = RankPlace()

    def failed(self, failure: Failure) -> None:
        """Tell of an exception of this rank."""
        self._lines.say(place=asdict(self._where.place()), failure=asdict(failure))

    def goodbye(self) -> None:
        """This rank has come to its end as it should."""
        self._over = True
        self._lines.say(goodbye=True)
        self._lines.stop_hearing()

    def run(self) -> None:
        """Until this rank has said goodbye, or ends."""
        with closing(self._lines):
            self._talk()

    def _talk(self) -> None:
        moment = heard_at = monotonic()
        due, slept_at = moment, -inf
        while not self._over:
            if moment >= due:
                due = moment + self._party.beat_s
                self._lines.say(place=asdict(self._where.place()))
            contents = self._lines.hear(due - moment)
            moment = monotonic()
            if self._over:
                return
            if moment - due > _LATE_S:
                heard_at = slept_at = moment  # this process has slept itself: silence is not rank 0's
            if contents is None:
                if moment - slept_at < self._party.beat_s:  # rank 0 gave this process up, and has said so
                    self._party.leave(FAULT)
                else:
                    self._succeed("lost", 0.0)
                return
            if contents:
                heard_at = moment
            for content in contents:
                if "place" in content:
                    self._first = RankPlace(**content["place"])
                kill(content.get("kill", ()))
                if "end" in content:
                    self._over = True
                    self._lines.say(stacks=stacks())
                    self._lines.finish(_LATE_S)
                    self._party.leave(content["end"])
            if self._over:
                return
            if self._party.rank and moment - heard_at > self._party.patience_s:
                self._succeed("silent", moment - heard_at)
                return

    # Without rank 0

    def _succeed(self, kind: Kind, since_s: float) -> None:
        if not self._party.rank:
            return  # the monitor of this very process has ended
        for lower in range(1, self._party.rank):
            speaks = self._party.reach(lower, _ANSWER_S + self._party.beat_s)
            if speaks is not None:
                with closing(speaks):
                    speaks.say(stacks=stacks())
                self._party.leave(FAULT)
                return
        fault = Fault(kind, tuple(range(self._party.rank)), since_s)
        party, moment = self._party, monotonic()
        statuses = {rank: RankStatus(member.host, member.pid, moment) for rank, member in enumerate(party.members)}
        for rank in fault.ranks:
            statuses[rank].place = self._where.least(self._first if rank == 0 else statuses[rank].place)
        tracebacks = Tracebacks(party.folder)
        tracebacks.begin(())
        party.tell(fault_message(fault, statuses, len(party.members), file=tracebacks.file, resume=party.resume))
        if fault.kind == "silent":
            kill(party.members[rank].pid for rank in fault.ranks if party.beside(rank))
        tracebacks.add(party.rank, party.members[party.rank].host, stacks())
        self._answer(tracebacks, moment + _LINGER_S + party.beat_s)
        party.leave(FAULT)

    def _answer(self, tracebacks: Tracebacks, until: float) -> None:
        """Say to those that ask that somebody has spoken."""
        waiting = set(range(self._party.rank + 1, len(self._party.members)))
        with selectors.DefaultSelector() as selector:
            selector.register(self._party.server, selectors.EVENT_READ)
            while waiting and monotonic() < until:
                if not selector.select(until - monotonic()):
                    return
                lines = LineConnection(self._party.server.accept()[0])
                for content in lines.hear(1.0) or ():
                    if content.get("token") == self._party.token:
                        lines.say(token=self._party.token)
                        waiting.discard(content["rank"])
                        for last in lines.hear(1.0) or ():
                            rank = content["rank"]
                            tracebacks.add(rank, self._party.members[rank].host, last.get("stacks", ""))
                lines.close()


PATIENCE_S = 600.0
"""An evaluation on rank 0, or the loading of data, may take so long while others wait."""


_CONNECTING_S = 10.0
_ENDED_S = 20.0


class RankWatch:
    """This rank, as it is watched.

    Args:
        party: The ranks.
        teller: Of this one.
        where: Its place.
        monitor: On rank 0.
    """

    def __init__(self, party: Party, teller: Teller, where: PlaceFinder, monitor: Monitor | None) -> None:
        self._party, self._teller, self._where, self._monitor = party, teller, where, monitor

    def follow(self, steps: Callable[[], int], calls: Callable[[], int], common: Callable[[], int] | None = None) -> None:
        """Tell others how far this rank is.

        Args:
            steps: How many steps it has taken.
            calls: How many operations are behind it.
            common: How many steps this rank knows that all have taken.
        """
        self._where.step, self._where.calls, self._where.common = steps, calls, common

    def survive(self) -> None:
        """From now on ranks but rank 0 may be lost: the others go on."""
        if self._monitor is not None:
            self._monitor.survives = True

    def failed(self, error: BaseException) -> None:
        """End all ranks, since this one cannot go on."""
        message = (
            str(error) if isinstance(error, DeepBenchError) else "".join(traceback.format_exception_only(error)).strip()
        )
        whole = "".join(traceback.format_exception(error))
        self._teller.failed(failure_of(error, message, whole, disturbed=of_communication(error)))
        time.sleep(GRACE_S + _ENDED_S)  # a thread ends this process before
        self._party.tell(f"rank {self._party.rank} failed, and rank 0 does not answer: {message}")
        self._party.leave(FAULT)

    def end(self) -> None:
        """This rank has come to its end as it should. Rank 0 waits for the others."""
        self._teller.goodbye()
        self._teller.join()
        if self._monitor is not None:
            self._monitor.join()
        self._party.server.close()


_watch: RankWatch | None = None


@contextmanager
def watched(
    comm: Communicator,
    *,
    patience_s: float = PATIENCE_S,
    folder: Path | None = None,
    resume: str = "",
    host: str | None = None,
    but: tuple[type[BaseException], ...] = (),
) -> Iterator[RankWatch | None]:
    """Within the block no rank waits for ever for another: if one is killed, stopped, hangs or raises, all end.

    Each rank has a thread that tells rank 0 twice a second where it is, over a connection beside the communicator. Rank 0,
    or the lowest rank that is left, prints one message with the rank, its host and the cause; all leave with the status 3
    (130 after Ctrl-C), and all their stacks are in a file that the message names. A rank is lost when its connection ends;
    it is silent when nothing came for the patience; it hangs when it got no further for so long while others wait in an
    operation. Python code that keeps the interpreter's lock for so long counts as silent, and is killed.

    Ranks that are threads of one process, and one rank alone, are not watched.

    Args:
        comm: The ranks, which all call this together.
        patience_s: See above.
        folder: Where the file goes; ``None`` for no file.
        resume: What the message advises, to go on.
        host: Where this rank runs, as the message should say it.
        but: What all ranks raise together, each of which ends by itself.

    Raises:
        InvalidArgument: A patience that is not positive.
        CommunicationFailed: Ranks that cannot agree on how they are reached.

    Example:
        >>> with watched(LocalCommunicator()) as watch:
        ...     print(watch)
        None
    """
    global _watch
    if not patience_s > 0:
        raise InvalidArgument(f"a patience of {patience_s} s", "more than 0")
    if comm.size == 1 or isinstance(comm, LocalCommunicator):
        yield None
        return
    watch = _begun(assembled(comm, patience_s, folder, resume, host), comm)
    if watch is None:
        yield None
        return
    _watch = watch
    try:
        yield watch
    except but:
        watch.end()
        raise
    except BaseException as error:
        watch.failed(error)
        raise
    else:
        watch.end()
    finally:
        _watch = None


def current() -> RankWatch | None:
    """How this rank is watched, if it is."""
    return _watch


def end_all(comm: Communicator, error: BaseException) -> None:
    """End all ranks, since this one failed: by its watch, if it is watched.

    Args:
        comm: The ranks.
        error: Why.
    """
    if _watch is not None:
        _watch.failed(error)
    comm.abort(cause(error))


def _begun(party: Party, comm: Communicator) -> RankWatch | None:
    """The watch, if every rank reaches rank 0; else it is told, and there is none."""
    where = PlaceFinder()
    monitor = Monitor(party, where) if comm.rank == 0 else None
    if monitor is not None:
        monitor.start()
    lines = party.reach(0, _CONNECTING_S)
    reached = comm.allgather(np.array([lines is not None])).reshape(-1)
    if lines is not None and reached.all():
        if monitor is not None:
            monitor.judges = True
        teller = Teller(party, lines, where)
        teller.start()
        return RankWatch(party, teller, where, monitor)
    if lines is not None:
        lines.close()
    if monitor is not None:
        monitor.over = True
        monitor.join()
        hosts = ", ".join(sorted({party.members[int(rank)].host for rank in np.flatnonzero(~reached)}))
        party.tell(f"ranks do not watch each other: {party.members[0].host} cannot be reached from {hosts} by TCP")
    party.server.close()
    return None
