"""The threads that watch ranks, all in one process: who speaks, how often, and who ends with what."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from queue import Queue
from threading import Thread
from typing import Any

import pytest

from deep_bench.distributed.faults import Failure, PlaceFinder
from deep_bench.distributed.watch import Member, Monitor, Party, Teller, connected, listening

WITHIN_S = 20.0
RANKS = 3


class Watched:
    """Ranks that watch each other; what they say and end with comes into queues."""

    def __init__(self, folder: Path, patience_s: float = 60.0) -> None:
        self.told: Queue[tuple[int, str]] = Queue()
        self.ended: Queue[tuple[int, int]] = Queue()
        servers = [listening(everywhere=False) for _ in range(RANKS)]
        members = [Member(f"n{rank}", os.getpid(), s.getsockname()[1], ["127.0.0.1"]) for rank, s in enumerate(servers)]
        party = Party(0, members, "secret", servers[0], patience_s, folder, "go on with --resume")
        self.parties = [
            replace(party, rank=rank, server=server, tell=self._to(self.told, rank), leave=self._to(self.ended, rank))
            for rank, server in enumerate(servers)
        ]
        self.wheres = [PlaceFinder() for _ in range(RANKS)]
        self.monitor = Monitor(self.parties[0], self.wheres[0])
        self.monitor.start()
        self.lines = [one.reach(0, WITHIN_S) for one in self.parties]
        self.monitor.judges = True
        made = zip(self.parties, self.lines, self.wheres, strict=True)
        self.tellers = [Teller(party, lines, where) for party, lines, where in made if lines]

    def _to(self, queue: Queue[Any], rank: int) -> Callable[[Any], object]:
        return lambda what: queue.put((rank, what))

    def begin(self) -> None:
        for teller in self.tellers:
            teller.start()

    def end(self) -> None:
        self.monitor.over = True
        self.monitor.join(WITHIN_S)
        for teller in self.tellers:
            teller.goodbye()
            if teller.ident is not None:
                teller.join(WITHIN_S)
        for open_end in (*self.lines, *(one.server for one in self.parties)):
            assert open_end is not None
            open_end.close()


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[Watched]:
    made = Watched(tmp_path)
    yield made
    made.end()


def ended(watched: Watched, count: int) -> list[tuple[int, int]]:
    return sorted(watched.ended.get(timeout=WITHIN_S) for _ in range(count))


def test_one_that_fails_ends_all_with_one_message(watched: Watched, tmp_path: Path) -> None:
    watched.begin()
    watched.tellers[1].failed(Failure("raised", "ValueError: no", "Traceback: all of it"))
    rank, text = watched.told.get(timeout=WITHIN_S)
    assert (rank, text.splitlines()[:2]) == (
        0,
        ["rank 1 of 3 on n1 failed, before the first step: ValueError: no", "What to do: go on with --resume"],
    )
    assert ended(watched, 3) == [(0, 3), (1, 3), (2, 3)]
    watched.monitor.join(WITHIN_S)
    (file,) = tmp_path.glob("ranks_*.txt")
    assert str(file) in text
    assert "Traceback: all of it" in file.read_text()
    assert all(f"--- rank {rank} on n{rank}" in file.read_text() for rank in range(3))
    assert watched.told.empty()


def test_when_rank_0_is_gone_the_lowest_of_the_others_speaks(watched: Watched) -> None:
    watched.wheres[1].common = lambda: 15
    watched.begin()
    watched.monitor.over = True
    rank, text = watched.told.get(timeout=WITHIN_S)
    assert rank == 1
    assert text.startswith("rank 0 of 3 on n0 was killed or crashed, last heard of after 15 steps: ")
    assert ended(watched, 2) == [(1, 3), (2, 3)]
    assert watched.told.empty()


def test_where_it_may_the_others_go_on_without_a_lost_rank(watched: Watched) -> None:
    watched.monitor.survives = True
    watched.wheres[0].common = lambda: 15  # what all have agreed on is later than what each has told
    watched.begin()
    lines = watched.lines[2]
    assert lines is not None
    watched.tellers[2]._over = True
    lines.close()
    rank, text = watched.told.get(timeout=WITHIN_S)
    assert (rank, text.splitlines()[-1]) == (0, "The others go on without it.")
    assert text.startswith("rank 2 of 3 on n2 was killed or crashed, last heard of after 15 steps: ")
    for teller in watched.tellers[:2]:
        teller.goodbye()
    watched.monitor.join(WITHIN_S)
    assert not watched.monitor.is_alive()
    assert watched.ended.empty()


def test_nobody_without_the_token_is_heard(watched: Watched) -> None:
    port = watched.parties[0].members[0].port
    stranger: list[Any] = []
    asking = Thread(target=lambda: stranger.append(connected(["127.0.0.1"], port, "a guess", WITHIN_S, rank=1)))
    asking.start()
    asking.join(WITHIN_S)
    assert stranger == [None]
    assert watched.told.empty()
