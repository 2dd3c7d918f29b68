"""Each fault that makes LoadGen crash, hang or print VALID ends in one clear error, in a process of its own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from threading import Thread

import numpy as np
import pytest

from deep_bench.mlperf.inference import InferenceRecord, Library, Settings, System, load_inference, run
from deep_bench.mlperf.inference.child import Ledger, Watchdog
from deep_bench.mlperf.inference.system import Respond, RunFailed

HERE = Path(__file__).parent
FAULTS = {
    "Raises": "ZeroDivisionError: planted",
    "Drops": "no answer for 1 s, and 1 of 40 samples wait for one",
    "Doubles": "was answered twice",
    "Late": "was answered after the end of the test",
    "ThreadRaises": "KeyError: 'planted'",
    "Hangs": "no answer for 1 s, and 1 of 40 samples wait for one",
    "Crashes": "crashed (SIGSEGV)",
    "LoadingRaises": "OSError: planted: the disk is gone",
}


def put(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> InferenceRecord:
    """Run a system of ``faulty.py`` under LoadGen: SingleStream, without a pilot."""
    pytest.importorskip("mlperf_loadgen", reason="LoadGen is not installed")
    monkeypatch.syspath_prepend(str(HERE))
    stall = 1.0 if name in ("Drops", "Hangs") else 5.0
    chosen = Settings(min_duration=0.1, target_latency=4e-6, stall=stall, check="off")
    return run("digits-cnn", "reference", settings=chosen, folder=folder, system=f"faulty:{name}")


@pytest.mark.long
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


def test_a_thread_that_ends_without_a_word_is_seen(tmp_path: Path) -> None:
    class Idle(System):
        def start(self, library: Library, respond: Respond) -> None:
            self.threads = (Thread(target=int, name="helper"),)

        def issue(self, ids: Sequence[int], indices: Sequence[int]) -> None: ...

    system, watchdog = Idle(), Watchdog(tmp_path, lambda: Ledger(lambda ids, rows: None), 5.0)
    system.start(None, None)  # type: ignore[arg-type]
    watchdog.watch(system)
    assert watchdog._found() is None
    system.threads[0].start()
    system.threads[0].join()
    assert "the thread helper of the system ended" in str(watchdog._found())
    watchdog.watch(None)
    assert watchdog._found() is None


def test_wrong_answers_in_performance_mode_are_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record = put("Wrong", tmp_path, monkeypatch)
    assert (record.loadgen.validity, record.loadgen.errors) == ("VALID", [])
    assert record.judgement is not None
    assert record.judgement.word == "INVALID"
    assert "below the target" in record.judgement.reasons[0]


@pytest.mark.parametrize(
    ("ids", "rows", "message"),
    [
        ([1], 1, "answered twice"),
        ([1_000_003], 1, "which LoadGen never issued"),
        ([2], 0, "0 answers of float64 to 1 samples"),
    ],
)
def test_a_ledger_hands_nothing_over_after_a_fault(ids: list[int], rows: int, message: str) -> None:
    sent: list[int] = []
    ledger = Ledger(lambda ids, rows: sent.extend(ids))
    ledger.issued([1, 2], [0, 0])
    ledger.complete([1], np.zeros(1))
    with pytest.raises(RunFailed, match=message):
        ledger.complete(ids, np.zeros(rows))
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
