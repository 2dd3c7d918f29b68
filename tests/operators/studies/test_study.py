"""Studies end to end, on small budgets; times themselves are never asserted."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import deep_bench as db
from deep_bench.cli import main
from deep_bench.errors import FrameworkMissing, InvalidArgument, InvalidRecord, UnknownName
from deep_bench.measure.metrics import Metric
from deep_bench.measure.timing import CacheFlush
from deep_bench.operators import Case, Study, study
from deep_bench.operators.studies.settings import BACKWARD, BOTH, COLD, DISPATCH, FORWARD, NUMPY

KERNELS = Path(__file__).with_name("kernels.py")
QUICK: dict[str, Any] = {"budget": 0.1, "ci_width": 0.9, "dispatch": False, "progress": False, "twin": False}


def kernel(name: str) -> str:
    return f"{KERNELS}:{name}"


def add(*shape: int, **options: Any) -> Case:
    return Case.of("Add", shape, shape, **options)


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Study:
    output = tmp_path_factory.mktemp("results")
    cases = [add(4, 8), add(64, count=3)]
    options = {**QUICK, "dispatch": True, "backward": True, "numpy": True, "cold": True, "budget": 0.4}
    return study([kernel("Doubled"), kernel("Off"), "reference"], cases, output=output, **options)


def test_each_has_a_verdict_and_a_time(found: Study) -> None:
    assert found.contestants == ("Doubled", "Off", "reference")
    assert found.cases == ("4x8 4x8", "64 64")
    assert [found[label, "64 64"].verdict for label in found.contestants] == ["right", "wrong", "right"]
    assert found["Doubled", "Add 64 64"] is found["Doubled", "64 64"]
    assert list(found["Off"]) == list(found.cases)
    for trial in found.trials:
        assert trial.median() > 0
        assert trial.record.setup_ns > 0
        assert trial.record.first_call_ns > 0
    assert found["Doubled", "64 64"].significant_bits > 22
    assert not found.ok


def test_what_is_timed(found: Study) -> None:
    trial = found["Doubled", "4x8 4x8"]
    assert {s.quantity for s in trial.record.samples} == {FORWARD, BOTH, BACKWARD, COLD, NUMPY, DISPATCH}
    assert all(b.batch == 1 for b in trial.blocks(COLD))
    assert {s.quantity for s in found["Doubled", "64 64"].record.samples} == {FORWARD, BOTH, BACKWARD, COLD, NUMPY}
    assert "frameworks compute gradients together" in found["reference", "64 64"].record.unavailable[BACKWARD]


def test_rates_are_of_the_operators_definition(found: Study) -> None:
    trial = found["Doubled", "64 64"]
    assert trial.case.cost.flops == 64
    assert trial.case.cost.bytes == 3 * 4 * 64
    assert trial.flop_rate == pytest.approx(64 / trial.median())
    assert trial.byte_rate == pytest.approx(768 / trial.median())


def test_the_summary_weighs_cases_by_how_often_they_occur(found: Study) -> None:
    assert found.common == found.cases
    expected = found["Doubled", "4x8 4x8"].median() + 3 * found["Doubled", "64 64"].median()
    assert found.total("Doubled").value == pytest.approx(expected * 1e9)
    assert found.base == "reference"
    assert found.speed("reference").value == 1.0
    ratio = found.speed("Doubled")
    assert ratio.value == pytest.approx(found.total("Doubled").value / found.total("reference").value)
    assert found.flop_rate("Doubled") == pytest.approx((32 + 3 * 64) / expected)


def test_the_table_is_recomputed_from_the_record(found: Study) -> None:
    again = Study.load(found.path)
    assert again.table(200) == found.table(200)
    assert again.as_json() == found.as_json()
    json.dumps(again.as_json(), allow_nan=False)
    assert Study.load(found.path.parent).path == found.path


def test_the_table_says_what_a_reader_must_know(found: Study) -> None:
    table = found.table(240)
    for words in (
        "Add 64 64 (x 3)",
        "1 (base)",
        "2 wrong",
        "each as often as it occurs",
        "record: ",
        "backward: not available",
    ):
        assert words in table, words
    assert "in float64 the error stays" in table


def test_rows(found: Study) -> None:
    rows = found.rows()
    assert len(rows) == 6
    assert {row["contestant"] for row in rows} == set(found.contestants)
    assert rows[0][FORWARD] == found.trials[0].median()
    assert rows[3]["count"] == 3


def test_a_data_frame_needs_pandas(found: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(FrameworkMissing, match="pip install pandas"):
        found.to_dataframe()


def test_a_data_frame_has_the_rows(found: Study) -> None:
    pandas = pytest.importorskip("pandas")
    frame = found.to_dataframe()
    assert isinstance(frame, pandas.DataFrame)
    assert len(frame) == 6


def test_unknown_names_are_suggested(found: Study) -> None:
    with pytest.raises(UnknownName, match="did you mean 'Doubled'"):
        found["Double"]
    with pytest.raises(UnknownName, match="did you mean '64 64'"):
        found["Doubled", "64 6"]
    with pytest.raises(UnknownName, match="contestant"):
        study(["reference"], add(2), base="torch", **QUICK)


def test_logs_lie_beside_the_record(found: Study) -> None:
    assert {f.stem for f in found.path.with_suffix(".logs").iterdir()} == set(found.contestants)


def test_a_network_record_is_no_study(tmp_path: Path) -> None:
    result = db.run("digits-cnn", on=["reference"], budget=0.1, check="off", twin=False, progress=False)
    with pytest.raises(InvalidRecord, match="not of a study"):
        Study.load(result.save(tmp_path))
    with pytest.raises(InvalidRecord, match="holds 0 records"):
        Study.load(KERNELS.parents[1])


def test_local_classes_functions_and_lambdas_reach_their_process() -> None:
    factor = 2

    class Local(db.Operator):
        computes = lambda x: x * 2  # noqa: E731

        def forward(self, x: np.ndarray) -> np.ndarray:
            return factor * x

    case = Case.of(Local().target, (3, 4))
    found = study({"mine": Local(), "its class": Local}, case, **QUICK)
    assert [trial.verdict for trial in found.trials] == ["right", "right"]
    assert found["mine", case.label].median() > 0


def test_in_process_for_a_debugger() -> None:
    found = study([kernel("Doubled"), kernel("Off")], add(4), in_process=True, **QUICK)
    assert [t.verdict for t in found.trials] == ["right", "wrong"]
    assert "measured in one process" in found.table()


def test_unchecked_is_said() -> None:
    found = study(kernel("Off"), add(4), check="off", **QUICK)
    assert found["Off", "4 4"].verdict == "unchecked"
    assert found.ok
    assert "unchecked" in found.table()


def test_metrics_watch_calls_of_their_own() -> None:
    class Calls(Metric):
        name, unit, direction = "calls", "", "higher"
        seen = 0

        def __call__(self, moment: Any, index: int, time_ns: int, data: Any) -> None:
            self.seen += 1

        def measurement(self) -> Any:
            return self.found([self.seen])

    found = study(kernel("Doubled"), add(4), metrics=[Calls, "instructions"], in_process=True, **QUICK)
    assert found["Doubled", "4 4"].record.metrics[0]["values"] == [20.0]
    assert "calls" in found.table(200)
    assert "20.0" in found.table(200)
    assert "instructions" in found.table(200)
    with pytest.raises(UnknownName, match="metric 'speed'"):
        study(kernel("Doubled"), add(4), metrics=["speed"], **QUICK)


def test_a_framework_empties_the_caches_of_its_device() -> None:
    from deep_bench.operators.studies.system import device_flush, flush_of

    reference = db.frameworks["reference"]()
    assert device_flush(reference, 4096)() is None
    assert isinstance(flush_of(reference), CacheFlush)


def test_an_instance_in_a_file_is_a_contestant_too() -> None:
    assert study({"x": kernel("instance")}, add(2), in_process=True, **QUICK)["x", "2 2"].verdict == "right"


@pytest.mark.long
def test_launches_and_the_twin_are_in_the_record(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cases = [add(4), add(8)]
    options = {**QUICK, "twin": True, "launches": 2, "output": tmp_path}
    found = study({"mine": kernel("Doubled"), "other": kernel("Off")}, cases, base="other", **options)
    assert {s.label: s.twin_of for s in found.record.systems} == {"mine": None, "other": None, "other (A/A)": "other"}
    for system in found.record.systems:
        for trial in system.trials:
            assert [s.launch for s in trial.samples] == [0, 1]
            assert all(s.blocks for s in trial.samples)
            assert (trial.verdict is None) == (system.twin_of is not None)
    assert (found.launches, found.base) == (2, "other")
    assert found.compare_twins("4 4").basis == "launches"
    again = Study.load(found.path)
    assert again.table(200) == found.table(200)
    assert again.as_json() == found.as_json()
    with pytest.raises(SystemExit):
        main(["show", str(found.path)])
    assert "A/A: other against itself" in capsys.readouterr().out


def test_who_failed_in_a_case_is_not_asked_again() -> None:
    options = {**QUICK, "launches": 2, "check": "off", "in_process": True}
    found = study([kernel("Misbehaving"), kernel("Doubled")], [add(1), add(7)], **options)
    assert [len(t.launches()) for t in found["Misbehaving"].values()] == [0, 2]
    assert [len(t.launches()) for t in found["Doubled"].values()] == [2, 2]


def test_who_fails_in_a_later_launch_failed() -> None:
    found = study([kernel("Tiring"), kernel("Doubled")], add(3), launches=3, check="off", in_process=True, **QUICK)
    trial = found["Tiring", "3 3"]
    assert (trial.verdict, len(trial.launches())) == ("failed", 1)
    assert "tired" in trial.reason
    assert len(found["Doubled", "3 3"].launches()) == 3


def test_launches_are_a_whole_number() -> None:
    with pytest.raises(InvalidArgument, match="launches=0"):
        study("reference", add(2), launches=0, **QUICK)
