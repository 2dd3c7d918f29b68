"""``Teller``: each rank's thread that tells rank 0 where it is, and notices when rank 0 is gone."""

from __future__ import annotations

import selectors
from contextlib import closing
from dataclasses import asdict
from threading import Thread
from time import monotonic
from typing import Any

from deep_bench.distributed.faults.leaving import FAULT, kill
from deep_bench.distributed.faults.lines import Lines
from deep_bench.distributed.faults.party import Party
from deep_bench.distributed.faults.report import Tracebacks, message
from deep_bench.distributed.faults.verdict import Failure, Fault, Kind, Seen
from deep_bench.distributed.faults.where import Place, Where, stacks

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

    def __init__(self, party: Party, lines: Lines, where: Where) -> None:
        super().__init__(name="teller of this rank", daemon=True)
        self._party, self._lines, self._where = party, lines, where
        self._over = False
        self._first = Place()

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
        heard_at, due = monotonic(), 0.0
        while not self._over:
            moment = monotonic()
            if moment - due > _LATE_S and due:
                heard_at = moment  # this process has slept itself
            if moment >= due:
                due = moment + self._party.beat_s
                self._lines.say(place=asdict(self._where.place()))
            heard = self._lines.hear(due - moment if due > moment else 0.0)
            if self._over:
                return
            if heard is None:
                self._succeed("lost", 0.0)
                return
            heard_at = monotonic() if heard else heard_at
            for content in heard:
                self._obey(content)
            if self._over:
                return
            if self._party.rank and monotonic() - heard_at > self._party.patience_s:
                self._succeed("silent", monotonic() - heard_at)
                return

    def _obey(self, content: dict[str, Any]) -> None:
        if "place" in content:
            self._first = Place(**content["place"])
        kill(content.get("kill", ()))
        if "end" in content:
            self._over = True
            self._lines.say(stacks=stacks())
            self._lines.finish(_LATE_S)
            self._party.leave(content["end"])

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
        self._speak(Fault(kind, tuple(range(self._party.rank)), since_s))

    def _speak(self, fault: Fault) -> None:
        party, moment = self._party, monotonic()
        statuses = {rank: Seen(member.host, member.pid, moment) for rank, member in enumerate(party.members)}
        for rank in fault.ranks:
            statuses[rank].place = self._where.least(self._first if rank == 0 else statuses[rank].place)
        tracebacks = Tracebacks(party.folder)
        tracebacks.begin(())
        party.tell(message(fault, statuses, len(party.members), file=tracebacks.file, resume=party.resume))
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
                lines = Lines(self._party.server.accept()[0])
                for content in lines.hear(1.0) or ():
                    if content.get("token") == self._party.token:
                        lines.say(token=self._party.token)
                        waiting.discard(content["rank"])
                        for last in lines.hear(1.0) or ():
                            rank = content["rank"]
                            tracebacks.add(rank, self._party.members[rank].host, last.get("stacks", ""))
                lines.close()
