"""The measurement over ranks that are threads: what is kept, what is computed from it, and faults that must be found."""

import os
import re
import signal

import numpy as np
import pytest

from deep_bench.distributed.collectives.operations import KINDS
from deep_bench.distributed.collectives.result import CommunicationResult, operation_blocks
from deep_bench.distributed.collectives.settings import BenchmarkSettings
from deep_bench.distributed.collectives.study import RecordKeeper, study
from deep_bench.distributed.collectives.timing import RankAgreement, RankBlock
from deep_bench.distributed.communicators.local import LocalCommunicator, run_local
from deep_bench.distributed.loggp import LogGP
from deep_bench.distributed.machine import Link, Machine, Segment, load_machine
from deep_bench.errors import InvalidArgument, InvalidRecord, Unsupported
from deep_bench.measure.environment import Environment
from deep_bench.records.model import Record
from deep_bench.records.store import load

QUICK = {"budget": 0.01, "ci_width": 0.5}


def _machine(hosts=None):
    import socket

    parameters = LogGP(L=1e-6, o=1e-6, g=1e-6, G=1e-9)
    link = Link(system="local", between="one node", pair=(0, 1), hosts=("a", "a"), segments=[Segment(parameters=parameters)])
    return Machine(deep_bench="0", environment=Environment(), hosts=hosts or [socket.gethostname()] * 2, links=[link])


class _Altered(LocalCommunicator):
    """A communicator with a fault, around ranks that are threads."""

    def __init__(self, comm):
        self.__dict__.update(comm.__dict__)


class _DropsRank0(_Altered):
    def allreduce(self, x, op="sum", out=None):
        given = np.zeros_like(x) if self.rank == 0 and op == "sum" else x
        return super().allreduce(given, op, out)


class _DoesNotWait(_Altered):
    def barrier(self):
        pass


class _Refuses(_Altered):
    def allreduce(self, x, op="sum", out=None):
        if x.dtype == np.float16:
            raise Unsupported("float16", "another type")
        return super().allreduce(x, op, out)


def _studied(ranks, settings, wrap=lambda comm: comm, **options):
    def on_rank(comm):
        return study({"local": comm, "other": wrap(comm)}, settings, progress=False, **options)

    results = run_local(ranks, on_rank)
    assert results[1:] == [None] * (ranks - 1)
    return results[0]


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    folder = tmp_path_factory.mktemp("results")
    settings = BenchmarkSettings(collectives=tuple(KINDS), sizes="8,64", **QUICK)
    results = run_local(
        3, lambda comm: study({"local": comm}, settings, machine=_machine(["a"] * 3), output=folder, progress=False)
    )
    assert results[1:] == [None, None]
    return results[0]


def test_all_benchmarks_are_right_and_every_ranks_samples_are_kept(kept):
    assert kept.ok
    assert not kept.record.notes
    assert kept.record.complete
    assert len(kept.rows) == 2 * 12 + 1
    for row in kept.rows:
        assert row.blocks
        assert all(block.ns.shape == block.begin.shape and len(block.ns) == 3 for block in row.blocks)
        assert row.summary.n == sum(block.ns.shape[1] for block in row.blocks)
        assert row.predicted.seconds > 0
        assert (row.rank_means is None) == row.kind.pair
    assert not (kept.path.parent / "machine.json").exists()  # it was given, not measured


def test_what_messages_cost_is_kept_before_anything_is_timed(tmp_path):
    RecordKeeper({}, BenchmarkSettings(), [], _machine(), measured=True, output=tmp_path)
    assert load_machine(tmp_path / "machine.json").links == _machine().links


def test_a_record_is_read_back_as_it_was(kept):
    again = CommunicationResult.load(kept.path)
    assert again.as_json() == kept.as_json()
    assert again.table(160) == kept.table(160).replace(str(kept.path), str(again.path))
    first = kept.rows[0].as_json()
    assert first["interval"] is None or first["interval"][0] <= first["median"] <= first["interval"][1]
    with pytest.raises(InvalidRecord, match="communication"):
        CommunicationResult(Record(deep_bench="0", environment=Environment()))
    assert load(kept.path)["local"].trials[0].verdict.verdict == "right"


def test_the_table_says_how_it_was_taken(kept):
    text = kept.table(160)
    assert "latency of float32 among 3 ranks" in text
    assert "the maximum over the ranks of each repetition" in text
    assert "half of a round trip between ranks 0 and 1" in text
    assert re.search(r"a skew of at most \d", text)
    assert "predicted: the cheapest known algorithm under LogGP" in text
    kept.record.environment.cpus_allowed, before = [0, 1], kept.record.environment.cpus_allowed
    assert "3 ranks share 2 CPUs" in kept.table(160)
    kept.record.environment.cpus_allowed = before
    assert max(map(len, text[: text.index("time: ")].splitlines())) <= 160


def test_the_picture_is_drawn(tmp_path):
    settings = BenchmarkSettings(collectives=("allreduce", "barrier"), sizes="8,64", **QUICK)
    result = _studied(2, settings, _DropsRank0, machine=_machine())
    assert result.plot(tmp_path / "two.png").stat().st_size > 10_000
    with pytest.raises(InvalidArgument, match="does not exist"):
        result.plot(tmp_path / "none" / "two.png")


def test_the_time_of_an_operation_is_the_maximum_over_ranks_and_a_pairs_that_of_its_first():
    block = RankBlock(np.zeros((2, 2), int), np.array([[30, 10], [20, 40]]), np.array([[True, False], [False, False]]), 5)
    (largest,) = operation_blocks([block])
    assert (largest.ns.tolist(), largest.preempted.tolist()) == ([30, 40], [True, False])
    (first,) = operation_blocks([block], 0, messages=2)
    assert first.calls_ns.tolist() == [3.0, 1.0]


def test_faults_are_told_beside_the_times():
    dropped = _studied(2, BenchmarkSettings(sizes="64", **QUICK), _DropsRank0, machine=_machine())
    assert [row.verdict for row in dropped.rows] == ["right", "wrong"]
    assert not dropped.ok
    assert "wrong elements, on ranks 0, 1" in dropped.rows[1].reason
    assert dropped.rows[1].seconds > 0
    assert "allreduce 64 B over other: wrong" in dropped.table(160)

    idle = _studied(2, BenchmarkSettings(collectives=("barrier",), **QUICK), _DoesNotWait, machine=_machine())
    assert [row.verdict for row in idle.rows] == ["right", "wrong"]
    assert "before rank" in idle.rows[1].reason

    refused = _studied(2, BenchmarkSettings(sizes="64", dtype="float16", **QUICK), _Refuses, machine=_machine())
    assert [row.verdict for row in refused.rows] == ["right", "failed"]
    assert refused.rows[1].reason.startswith("float16")
    assert any("nothing is predicted for other" in note for note in refused.record.notes)


def test_a_wish_to_stop_is_agreed_on_and_what_was_measured_is_kept(monkeypatch, tmp_path):
    asked = []

    def goes_on(self, wanted):
        asked.append(self.comm.rank)
        self._asked = len(asked) > 60 and self.comm.rank == 1
        return original(self, wanted)

    original = RankAgreement.goes_on
    monkeypatch.setattr(RankAgreement, "goes_on", goes_on)
    settings = BenchmarkSettings(sizes="8:4Ki", budget=0.05, ci_width=1e-6)
    result = _studied(2, settings, machine=_machine(), output=tmp_path)
    assert result.record.interrupted
    assert not result.record.complete
    assert 1 <= len(result.rows) < 20
    assert CommunicationResult.load(result.path).as_json() == result.as_json()


def test_signals_ask_and_are_given_back():
    together, before = RankAgreement(LocalCommunicator()), signal.getsignal(signal.SIGTERM)
    with together.listening():
        os.kill(os.getpid(), signal.SIGTERM)
        assert not together.goes_on(True)
    assert together.stopped
    assert signal.getsignal(signal.SIGTERM) is before


def test_what_does_not_fit_into_memory_is_not_begun(monkeypatch):
    from types import SimpleNamespace

    monkeypatch.setattr("psutil.virtual_memory", lambda: SimpleNamespace(available=1000, total=1000, percent=0))
    monkeypatch.setattr("deep_bench.measure.environment.capture", Environment)
    result = _studied(2, BenchmarkSettings(sizes="8Ki", **QUICK), lambda comm: comm, machine=_machine())
    assert [row.verdict for row in result.rows] == ["failed", "failed"]
    assert "allreduce of 8 KiB needs 80 KiB of a node" in result.rows[0].reason
    assert result.rows[0].seconds is None
    assert "failed" in result.table(160)


def test_one_rank_alone_or_no_communicator_is_refused():
    with pytest.raises(InvalidArgument, match="mpirun"):
        study({"local": LocalCommunicator()}, progress=False)
    with pytest.raises(InvalidArgument, match="communicators"):
        study({})
