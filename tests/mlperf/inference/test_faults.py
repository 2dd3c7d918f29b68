"""Each fault that makes LoadGen crash, hang or print VALID ends in one clear error, in a process of its own."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from deep_bench.mlperf.inference import InferenceRecord, Settings, load_inference, run
from deep_bench.mlperf.inference.faults import RunFailed
from deep_bench.mlperf.inference.ledger import Ledger

HERE = Path(__file__).parent
FAULTS = {
    "Raises": "ZeroDivisionError: planted",
    "Drops": "no answer for 2 s, and 1 of 40 samples wait for one",
    "Doubles": "was answered twice",
    "MakesUp": "which LoadGen never issued",
    "Miscounts": "0 answers of int64 to 1 samples",
    "Late": "was answered after the end of the test",
    "ThreadDies": "the thread helper of the system ended",
    "ThreadRaises": "KeyError: 'planted'",
    "Hangs": "no answer for 2 s, and 1 of 40 samples wait for one",
    "Crashes": "crashed (SIGSEGV)",
    "LoadingRaises": "OSError: planted: the disk is gone",
}


def put(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch, **settings: object) -> InferenceRecord:
    """Run a system of ``faulty.py`` under LoadGen: SingleStream, without a pilot."""
    pytest.importorskip("mlperf_loadgen", reason="LoadGen is not installed")
    monkeypatch.syspath_prepend(str(HERE))
    chosen = Settings(min_duration=0.2, target_latency=2e-6, stall=2.0, check="off", **settings)  # type: ignore[arg-type]
    return run("digits-cnn", "reference", settings=chosen, folder=folder, system=f"faulty:{name}")


@pytest.mark.parametrize(("name", "message"), FAULTS.items(), ids=FAULTS)
def test_a_fault_ends_the_run_with_its_reason(
    name: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = put(name, tmp_path / "run", monkeypatch)
    assert record.error is not None
    assert message in record.error.message
    assert record.judgement is not None
    assert (record.judgement.word, record.complete) == ("FAILED", False)
    assert load_inference(tmp_path / "run").error == record.error
    assert not (tmp_path / "run" / "fault.json").exists()


def test_a_system_without_faults_is_valid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record = put("Right", tmp_path, monkeypatch)
    assert record.error is None
    assert record.judgement is not None
    assert (record.judgement.word, record.judgement.reasons) == ("VALID", [])


def test_wrong_answers_in_performance_mode_are_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record = put("Wrong", tmp_path, monkeypatch)
    assert (record.loadgen.validity, record.loadgen.errors) == ("VALID", [])
    assert record.judgement is not None
    assert record.judgement.word == "INVALID"
    assert "below the target" in record.judgement.reasons[0]


def test_a_ledger_hands_nothing_over_after_a_fault() -> None:
    sent: list[int] = []
    ledger = Ledger(lambda ids, rows: sent.extend(ids))
    ledger.issued([1, 2], [0, 0])
    ledger.complete([1], np.zeros(1))
    with pytest.raises(RunFailed, match="answered twice"):
        ledger.complete([1], np.zeros(1))
    ledger.complete([2], np.zeros(1))
    assert sent == [1]
    assert isinstance(ledger.fault, RunFailed)


def test_a_ledger_keeps_when_each_sample_came_and_went() -> None:
    ledger = Ledger(lambda ids, rows: None, samples=4)
    ledger.issued([5, 6], [2, 0])
    ledger.issued([7], [3])
    ledger.complete([6, 5], np.array([8, 9]))
    found = ledger.columns()
    assert (found["index"].tolist(), found["query"].tolist()) == ([2, 0, 3], [0, 0, 1])
    assert (found["done_ns"] >= found["issued_ns"]).tolist() == [True, True, False]
    assert (ledger.outstanding, ledger.waiting(), ledger.answers().tolist()) == (1, [3], [8, -1, 9, -1])
