"""``Monitor``: rank 0's thread that hears all ranks, and ends them together."""

from __future__ import annotations

import resource
import selectors
from contextlib import suppress
from dataclasses import asdict
from threading import Thread
from time import monotonic
from typing import Any

from deep_bench.distributed.faults.leaving import FAULT, INTERRUPTED, kill
from deep_bench.distributed.faults.lines import Lines
from deep_bench.distributed.faults.party import Party
from deep_bench.distributed.faults.report import Tracebacks, killed_for_memory, message
from deep_bench.distributed.faults.verdict import Failure, Fault, Seen, Verdicts
from deep_bench.distributed.faults.where import Place, Where, stacks

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

    def __init__(self, party: Party, where: Where) -> None:
        super().__init__(name="monitor of ranks", daemon=True)
        self.judges = self.survives = self.over = False
        self._party, self._where = party, where
        moment = monotonic()
        statuses = {rank: Seen(member.host, member.pid, moment) for rank, member in enumerate(party.members)}
        self._verdicts = Verdicts(statuses, patience_s=party.patience_s, every_s=party.beat_s)
        self._lines: dict[int, Lines] = {}
        self._killed = killed_for_memory()
        self._selector = selectors.DefaultSelector()
        self._selector.register(party.server, selectors.EVENT_READ)
        _allow_files(len(party.members))

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
                self._selector.register(Lines(self._party.server.accept()[0]), selectors.EVENT_READ)
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

    def _welcome(self, lines: Lines, content: dict[str, Any]) -> int | None:
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
            self._verdicts.told(rank, Place(**content["place"]), monotonic())
        if "failure" in content:
            self._verdicts.failed(rank, Failure(**content["failure"]), monotonic())
        if "goodbye" in content:
            self._verdicts.left(rank)

    def _drop(self, lines: Lines, rank: int | None) -> None:
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

    def _last_words(self, within_s: float) -> list[tuple[Lines, int, list[dict[str, Any]] | None]]:
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
        return message(
            fault,
            self._verdicts.ranks,
            len(self._party.members),
            file=None if tracebacks is None else tracebacks.file,
            resume="" if tracebacks is None else self._party.resume,
            out_of_memory=local and killed_for_memory() > self._killed,
        )


def _allow_files(ranks: int) -> None:
    """As many connections as there are ranks."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = ranks + soft
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit if hard == resource.RLIM_INFINITY else min(limit, hard), hard))
