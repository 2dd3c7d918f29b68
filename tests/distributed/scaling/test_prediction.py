"""Times by formulas, by hand and by SimGrid; files for other simulators."""

from __future__ import annotations

from collections import defaultdict, deque
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from deep_bench.distributed.loggp import ALGORITHMS, POWERS_OF_TWO, LogGP
from deep_bench.distributed.machine import Link, Segment
from deep_bench.distributed.scaling import simulators
from deep_bench.distributed.scaling.formulas import Rules, expected_slowest, predicted, slowest
from deep_bench.distributed.scaling.pattern import PEERS, CallSlot, Form, Pattern, groups
from deep_bench.distributed.scaling.program import SCHEDULES, Program, Round
from deep_bench.distributed.scaling.record import TimesRecord
from deep_bench.distributed.scaling.simulators import (
    COLLECTIVE,
    COMPUTING,
    NETWORKS,
    VERSION,
    read_chakra,
    read_goal,
    write_chakra,
    write_goal,
)
from deep_bench.distributed.scaling.trace import CallPhase
from deep_bench.errors import InvalidArgument, UnknownName

WIRE = LogGP(L=5e-6, o=1e-6, g=0.0, G=1e-9, gamma=5e-10)
LINK = Link(system="mpi", between="nodes", pair=(0, 1), hosts=("a", "b"), segments=[Segment(parameters=WIRE)])
N = 4096
NOTHING = np.zeros(8)
ALONE = ("all ranks alike", lambda _: 0)


def allreduce(size: int, phase: CallPhase = CallPhase.UPDATING) -> CallSlot:
    return CallSlot("allreduce", phase, Form(str(size), lambda _: size), ("all ranks", groups(2)["all ranks"]))


def pattern(*slots: CallSlot) -> Pattern:
    return Pattern(((slots,),), ALONE, (2, 3, 4))


def times(gradients: np.ndarray, ready: tuple[float, ...] = ()) -> TimesRecord:
    zeros = np.zeros(len(gradients))
    return TimesRecord(batch=8, source="test", before=zeros, gradients=gradients, update=zeros, ready=list(ready))


def played(parts: list[list[Round]], machine: LogGP) -> float:
    """When the last rank ends, if a message takes M(n), and adding up gamma a byte."""
    clocks, at = [0.0] * len(parts), [0] * len(parts)
    wires: defaultdict[tuple[int, int], deque[tuple[float, float]]] = defaultdict(deque)
    posted = [False] * len(parts)
    while any(at[r] < len(part) for r, part in enumerate(parts)):
        moved = False
        for r, part in enumerate(parts):
            if at[r] == len(part):
                continue
            now = part[at[r]]
            if not posted[r]:
                for to, n in now.sends:
                    wires[r, to].append((clocks[r] + machine.message(n), n))
                posted[r] = moved = True
            if all(wires[source, r] for source, _ in now.receives):
                came = [wires[source, r].popleft() for source, _ in now.receives]
                assert [n for _, n in came] == [n for _, n in now.receives]
                end = max([clocks[r] + machine.o * bool(now.sends), *(when for when, _ in came)])
                clocks[r], at[r], posted[r], moved = end + machine.combining(now.added), at[r] + 1, False, True
        assert moved, "nobody can go on"
    assert not any(wires.values()), "messages that nobody takes"
    return max(clocks)


@pytest.mark.parametrize(("collective", "algorithm"), [(c, a) for c, found in SCHEDULES.items() for a in found])
def test_schedules_match_and_take_as_long_as_their_formulas(collective: str, algorithm: str) -> None:
    made = SCHEDULES[collective][algorithm]
    for ranks in (2, 4, 8, 16, 3, 5, 6, 12):
        power = ranks & (ranks - 1) == 0
        if not power and (collective, algorithm) in POWERS_OF_TWO:
            continue
        took = played([list(made(ranks, rank, N)) for rank in range(ranks)], WIRE)
        exact = power and algorithm not in ("linear", "posted", "pipelined chain")
        if exact:
            assert took == pytest.approx(ALGORITHMS[collective][algorithm](ranks, N, WIRE), rel=0.02)
    assert set(SCHEDULES[collective]) == set(ALGORITHMS[collective])


def test_the_slowest_of_many() -> None:
    samples, rng = np.random.default_rng(0).gamma(4, size=50), np.random.default_rng(1)
    for ranks in (1, 7, 300):
        drawn = rng.choice(samples, size=(4000, ranks)).max(axis=1)
        assert expected_slowest(samples, ranks) == pytest.approx(drawn.mean(), rel=0.03)
        assert slowest(samples, ranks, 4000, rng).mean() == pytest.approx(drawn.mean(), rel=0.03)


def test_a_step_waits_for_the_slowest_and_says_where_samples_end() -> None:
    some = times(np.array([1e-3] * 99 + [5e-3]))
    two, many = (
        predicted(pattern(allreduce(40, CallPhase.AGREEING), allreduce(N)), p, some, Rules(LINK, {})) for p in (2, 4096)
    )
    assert 1e-3 < two.computing < 1.2e-3
    assert many.computing == pytest.approx(5e-3)
    assert many.beyond
    assert not two.beyond
    assert two.least <= two.mean <= two.most
    assert two.low <= two.mean <= two.high
    assert [cost.algorithm for cost in many.costs] == ["recursive doubling", "recursive doubling"]
    assert two.sent_most == 40 + N


def test_overlap_hides_what_leaves_early() -> None:
    both, some = pattern(allreduce(N), allreduce(N)), times(np.full(40, 1e-3), (0.5, 1.0))
    apart = predicted(both, 16, some, Rules(LINK, {}))
    early = predicted(both, 16, some, Rules(LINK, {}, overlap_from=0))
    small = predicted(both, 16, some, Rules(LINK, {}, overlap_from=10**9))
    one = apart.communicating / 2
    assert early.communicating == pytest.approx(one)
    assert small.communicating == pytest.approx(apart.communicating)
    assert sum(cost.hidden for cost in early.costs) == pytest.approx(one)


def test_stated_algorithms() -> None:
    ring = predicted(pattern(allreduce(N)), 16, times(NOTHING), Rules(LINK, {"allreduce": "ring"}))
    assert ring.communicating == pytest.approx(ALGORITHMS["allreduce"]["ring"](16, N, WIRE))
    with pytest.raises(UnknownName):
        Rules(LINK, {"allreduce": "rings"})
    gather = replace(allreduce(N), operation="allgather")
    with pytest.raises(InvalidArgument, match="power of two"):
        predicted(pattern(gather), 6, times(NOTHING), Rules(LINK, {"allgather": "recursive doubling"}))


def exchange(size: int) -> CallSlot:
    ring = ("ring", PEERS["both beside on a ring"])
    return CallSlot("exchange", CallPhase.UPDATING, Form(str(size), lambda _: size), to=ring, sources=ring)


@pytest.mark.parametrize("network", NETWORKS)
def test_simgrid_agrees_where_nothing_is_congested(network: str) -> None:
    simulator = simulators.find_simulator()
    if isinstance(simulator, str):
        pytest.skip(simulator)
    both, rules = pattern(allreduce(40, CallPhase.AGREEING), allreduce(N)), Rules(LINK, {})
    for ranks in (2, 4):
        program = Program(both, ranks, times(NOTHING), rules)
        done = simulators.replay(simulator, program, NETWORKS[network](ranks), LINK)
        assert isinstance(done, simulators.SimulatedStep)
        assert done.seconds == pytest.approx(predicted(both, ranks, times(NOTHING), rules).mean, rel=0.25)
    many = simulators.replay(
        simulator, Program(pattern(exchange(N)), 600, times(np.full(9, 1e-3)), rules), NETWORKS[network](600), LINK
    )
    assert isinstance(many, simulators.SimulatedStep)
    assert many.messages == 1200
    assert many.seconds > 1e-3


def test_without_simgrid_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("deep_bench.distributed.scaling.simulators.shutil.which", lambda _: None)
    assert "no simulator: there is no C++ compiler" in str(simulators.find_simulator())


def test_too_many_messages_are_not_replayed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulators, "MOST_MESSAGES", 10)
    program = Program(pattern(exchange(N)), 64, times(NOTHING), Rules(LINK, {}))
    found = simulators.replay(simulators.Simulator(Path("none"), ""), program, NETWORKS["torus"](64), LINK)
    assert "128 messages" in str(found)


def test_goal_is_read_back(tmp_path: Path) -> None:
    program = Program(pattern(allreduce(N), exchange(80)), 6, times(np.full(9, 1e-3)), Rules(LINK, {}), steps=2)
    ranks = read_goal(write_goal(program, tmp_path / "a.goal"))
    sent = sorted((rank, to, size) for rank, one in enumerate(ranks) for to, size, _ in one.sends.values())
    come = sorted((source, rank, size) for rank, one in enumerate(ranks) for source, size, _ in one.receives.values())
    assert sent == come
    assert sum(size == 80 for *_, size in sent) == 2 * 6 * 2
    assert 1_000_000 in ranks[0].calc.values()
    labels = {*ranks[0].calc, *ranks[0].sends, *ranks[0].receives}
    assert set(ranks[0].needs) == labels - {"l1"}
    assert all(int(other[1:]) < int(label[1:]) for label, before in ranks[0].needs.items() for other in before)
    (tmp_path / "b.goal").write_text("num_ranks 1\nrank 0 {\nl1: put 8\n}\n", encoding="utf-8")
    with pytest.raises(InvalidArgument, match="line 3"):
        read_goal(tmp_path / "b.goal")


def test_chakra_is_read_back(tmp_path: Path) -> None:
    program = Program(pattern(allreduce(N), exchange(80)), 4, times(np.full(9, 2e-3)), Rules(LINK, {}))
    files = write_chakra(program, tmp_path / "a.et")
    assert [file.name for file in files] == [f"a.{rank}.et" for rank in range(4)]
    version, nodes = read_chakra(files[1])
    assert version == VERSION
    assert [node.type for node in nodes] == [COMPUTING, COMPUTING, COLLECTIVE, 5, 5, 6, 6, COMPUTING]
    assert nodes[1].duration_micros == 2000
    attributes = {a.name: getattr(a, a.WhichOneof("value")) for a in nodes[2].attr}
    assert (attributes["comm_type"], attributes["comm_size"], attributes["pg_name"]) == (0, N, "0-3/1")
    assert [list(node.data_deps) for node in nodes[2:6]] == [[1], [2], [2], [2]]
    whole = write_chakra(program, tmp_path / "a.json")[0].read_text(encoding="utf-8")
    assert '"Chakra 0.0.4, nodes of each rank"' in whole
    files[0].write_bytes(files[0].read_bytes()[:-1])
    with pytest.raises(InvalidArgument, match="ends within a message"):
        read_chakra(files[0])
