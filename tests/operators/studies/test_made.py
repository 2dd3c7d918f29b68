"""What is computed from a study's record."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from deep_bench.errors import InvalidArgument, InvalidRecord
from deep_bench.measure.roofline import Rate, Roofline
from deep_bench.operators.studies.result import Study
from deep_bench.operators.studies.settings import FORWARD
from deep_bench.operators.studies.table import fixed_cost
from deep_bench.records.model import ErrorRecord
from deep_bench.records.store import load
from tests.operators.studies.made import study_of

SIZES = [100, 1_000, 10_000, 100_000]


def test_the_cost_of_a_call_of_no_size_is_found_by_extrapolation() -> None:
    times = [2e-6 + 3e-10 * n for n in SIZES]
    found = fixed_cost(list(study_of({"a": times}, SIZES)["a"].values()))
    assert found.cases == 4
    assert found.seconds == pytest.approx(2e-6, rel=0.05)
    assert found.low <= found.seconds <= found.high
    assert found.clear


def test_there_is_none_where_times_are_no_line_over_size() -> None:
    made = study_of({"a": [1e-6, 9e-6, 2e-6, 8e-5]}, SIZES)
    assert not fixed_cost(list(made["a"].values())).clear
    assert "cannot tell from these 4 cases" in made.table(160)


def test_there_is_none_of_few_cases_or_of_like_sizes() -> None:
    assert fixed_cost(list(study_of({"a": [1e-6] * 3}, SIZES[:3])["a"].values())) is None
    assert fixed_cost(list(study_of({"a": [1e-6] * 4}, [100, 110, 120, 130])["a"].values())) is None


def test_totals_and_the_base() -> None:
    made = study_of({"a": [1e-3, 1e-2, 1e-1, 1.0], "b": [2e-3, 2e-2, 2e-1, 2.0]}, SIZES)
    assert made.base == "a"
    assert made.speed("b").value == pytest.approx(2.0, rel=0.02)
    assert made.compare("b", "100").word == "slower"
    assert made.compare("a", "100").word == "equivalent"
    assert made.flop_rate("a") == pytest.approx(sum(SIZES) / made.total("a").value * 1e9)
    assert "2.00" in made.table(160)


def test_the_share_of_the_roof() -> None:
    rates = [
        Rate(kind="gemm", by="numpy", dtype="float32", value=1e9),
        Rate(kind="copy", by="numpy", dtype="float64", value=1e9),
    ]
    roofline = Roofline(rates=rates).model_dump(mode="json")
    made = study_of({"a": [1.6e-6, 1.6e-5, 1.6e-4, 1.6e-3]}, SIZES, roofline=roofline)
    share = made["a", "10000"].share
    assert share.bound == "memory"
    assert share.roof == pytest.approx(0.5, rel=0.05)
    assert "50 % memory" in made.table(160) or "49 % memory" in made.table(160)


def test_samples_of_trials_go_to_hdf5_and_back(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    sizes = [int(n) for n in rng.integers(100, 10_000, 30)]
    sizes = sorted(set(sizes))
    made = study_of({"a": [1e-6 * n for n in sizes], "b": [2e-6 * n for n in sizes]}, sizes)
    file = made.save(tmp_path)
    assert len(list(tmp_path.glob("*.h5"))) == 1
    assert "made" in file.name
    again = load(file)
    for before, after in zip(made.record.systems, again.systems, strict=True):
        for one, other in zip(before.trials, after.trials, strict=True):
            assert [b.ns.tolist() for b in one.samples[0].blocks] == [b.ns.tolist() for b in other.samples[0].blocks]


@pytest.mark.parametrize("kind", ["time", "error", "violin", "roofline"])
def test_every_kind_of_picture(tmp_path: Path, kind: str) -> None:
    pytest.importorskip("matplotlib")
    roofline = Roofline(rates=[
        Rate(kind="gemm", by="numpy", dtype="float32", value=1e9, low=9e8, high=1.1e9),
        Rate(kind="copy", by="numpy", dtype="float64", value=1e9, low=9e8, high=1.1e9),
    ]).model_dump(mode="json")  # fmt: skip
    made = study_of({"a": [1e-3, 1e-2, 1e-1, 1.0], "wrong": [2e-3, 2e-2, 2e-1, 2.0]}, SIZES, roofline=roofline)
    assert made.plot(tmp_path / "x.png", kind).stat().st_size > 10_000
    assert made.plot(tmp_path / "x.svg", kind, cases=["100", "1000"]).read_text(encoding="utf-8").startswith("<?xml")


def test_pictures_that_cannot_be_drawn(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    made = study_of({"a": [1e-3]}, [100])
    with pytest.raises(InvalidArgument, match="one of time, error, violin, roofline"):
        made.plot(tmp_path / "x.png", "bars")
    with pytest.raises(InvalidArgument, match="deep-bench roofline measures it"):
        made.plot(tmp_path / "x.png", "roofline")
    made["a", "100"].record.samples.clear()
    with pytest.raises(InvalidArgument, match="was timed"):
        Study(made.record).plot(tmp_path / "x.png")


def test_a_notebook_gets_escaped_text() -> None:
    page = study_of({"<b>a</b>": [1e-3]}, [100])._repr_html_()
    assert page.startswith("<pre>")
    assert "<b>" not in page


def test_a_record_without_contestants_is_no_study() -> None:
    with pytest.raises(InvalidRecord, match="no contestants"):
        study_of({}, [100])


SEVEN = (1.0, 1.1, 0.9, 1.2, 0.8, 1.05, 0.95)


def test_of_several_launches_medians_and_intervals_are_over_their_medians() -> None:
    made = study_of({"a": [1e-3, 1e-2], "b": [2e-3, 2e-2]}, [100, 1000], launches=SEVEN)
    trial = made["a", "100"]
    medians = sorted(summary.median / 1e9 for summary in trial.summaries())
    assert made.launches == len(medians) == 7
    assert trial.median() == pytest.approx(medians[3])
    interval = trial.interval()
    assert (interval.low, interval.high) == (pytest.approx(medians[0]), pytest.approx(medians[6]))
    assert interval.basis == "launches"
    assert made.compare("b", "100").basis == "launches"
    total = made.total("a")
    assert total.basis == "launches"
    assert total.value == pytest.approx(1.01e-3 * 1e9 + 1e-2 * 1e9, rel=0.02)
    assert total.interval[0] == pytest.approx(0.8 / 1.0 * total.value, rel=0.03)
    assert made.speed("b").value == pytest.approx(2.0, rel=0.02)
    assert made.speed("b").basis == "launches"
    assert made.speed("b").interval[0] < 2.0 < made.speed("b").interval[1]
    assert "7 launches: medians, intervals and ratios are over the medians of fresh processes" in made.table(200)
    assert {row[f"{FORWARD} basis"] for row in made.rows()} == {"launches"}


def test_of_few_launches_there_is_no_interval() -> None:
    made = study_of({"a": [1e-3, 1e-2], "b": [2e-3, 2e-2]}, [100, 1000], launches=SEVEN[:2])
    assert made["a", "100"].interval() is None
    assert made.total("a").interval is None
    assert made.table(200).count("too few launches") == 7


def test_within_one_launch_that_is_said() -> None:
    assert "intervals are within one launch of each process" in study_of({"a": [1e-3]}, [100]).table(200)


def test_the_twin_has_a_row_of_its_own_and_is_no_contestant() -> None:
    made = study_of({"a": [1e-3, 1e-2], "b": [2e-3, 2e-2], "a (A/A)": [1e-3, 1e-2]}, [100, 1000])
    assert made.contestants == ("a", "b")
    assert len(made.rows()) == 4
    assert made.compare_twins("100").word == "equivalent"
    assert made.twins.value == pytest.approx(1.0, rel=0.01)
    assert made.as_json()["twins"]["contestant"] == "a"
    lines = made.table(200).splitlines()
    rows = [line for line in lines if "a (A/A)" in line]
    assert len(rows) == 3
    assert all("A/A " in row.split("a (A/A)")[1] for row in rows)
    assert any(line.startswith("A/A: a against itself: ratio ") and "of the total mean nothing" in line for line in lines)


def test_twins_that_differ_are_no_good_sign() -> None:
    made = study_of({"a": [1e-3], "a (A/A)": [1.2e-3]}, [100])
    assert "the two should not differ: processes of one contestant do here, so use --launches 10" in made.table(200)


def test_without_a_twin_there_is_none() -> None:
    made = study_of({"a": [1e-3]}, [100])
    assert made.twin is made.twins is made.compare_twins("100") is made.as_json()["twins"] is None


def test_the_base_is_kept_with_the_record(tmp_path: Path) -> None:
    made = study_of({"a": [1e-3], "b": [2e-3]}, [100])
    made.record.recipe.options["base"] = "b"
    assert Study.load(made.save(tmp_path)).base == "b"


@pytest.mark.parametrize("width", [80, 120, 160])
def test_a_table_is_as_wide_as_it_may_be_and_nothing_of_it_is_lost(width: int) -> None:
    rates = [
        Rate(kind="gemm", by="numpy", dtype="float32", value=1e9),
        Rate(kind="copy", by="numpy", dtype="float64", value=1e9),
    ]
    times = {"a": [1.6e-6, 1.6e-5], "a rather long name": [2e-6, 2e-5], "a (A/A)": [1.6e-6, 1.6e-5]}
    made = study_of(times, [1000, 10_000], roofline=Roofline(rates=rates).model_dump(mode="json"))
    drawn = [line for line in made.table(width).splitlines() if line[:1] in "┏┃┡│├└" and line]
    assert max(map(len, drawn)) <= width
    heads = " ".join(line for line in drawn if line.startswith("┃"))
    for name in ("verdict", "bits", "time (95 %", "GFLOP/s", "GB/s", "of the roof", "set-up", "time over a", "verdicts"):
        assert name in heads
    assert "┃ contestant" in heads
    assert sum(" slower" in line for line in drawn) == 2


def test_a_contestant_is_not_faster_than_itself() -> None:
    made = study_of({"a": [1e-3], "b": [2e-3], "b (A/A)": [1e-3]}, [100])
    row = next(line for line in made.table(200).splitlines() if "b (A/A)" in line)
    assert " differs over b" in row
    assert made.as_json()["twins"]["cases"]["100"]["word"] == "differs"


def test_what_was_not_looked_at_has_no_bits() -> None:
    made = study_of({"a": [1e-3]}, [100], bits=27.0)
    made["a", "100"].record.verdict.verdict = "no information"
    again = Study(made.record)
    assert again["a", "100"].significant_bits is None
    assert "27.0" not in again.table(200)
    assert again.rows()[0]["significant_bits"] is None


def troubled() -> Study:
    """A study with a case of no elements, a contestant that failed, a wrong one below zero bits, and more than colours."""
    labels = ["a", "b", "wrong", "d", "e", "f", "g", "h", "failing"]
    rates = [
        Rate(kind="gemm", by="numpy", dtype="float32", value=1e9),
        Rate(kind="copy", by="numpy", dtype="float64", value=1e9),
    ]
    times = {label: [1e-6 * n, 1e-5 * n, 1e-4 * n] for n, label in enumerate(labels, 1)}
    made = study_of(times, [0, 1000, 10_000], roofline=Roofline(rates=rates).model_dump(mode="json"))
    for system in made.record.systems:
        for trial in system.trials:
            trial.verdict = trial.verdict.model_copy(update={"significant_bits": 24.0 if system.label != "wrong" else -5.0})
            if trial.case == "0":
                trial.verdict.significant_bits, trial.verdict.verdict = 27.0, "no information"
            if system.label == "failing":
                trial.error, trial.verdict = ErrorRecord(kind="WorkerError", message="on purpose"), None
                trial.samples.clear()
    return Study(made.record)


@pytest.mark.parametrize(("kind", "empty"), [("time", True), ("error", True), ("violin", False), ("roofline", True)])
def test_pictures_say_who_is_wrong_and_what_is_not_shown(
    kind: str, empty: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn = drawn_by(monkeypatch, troubled(), kind, tmp_path)
    axes = drawn.axes[0]
    assert "wrong, or of reduced precision" in [text.get_text() for text in axes.get_legend().get_texts()]
    (crosses,) = [line for line in axes.lines if line.get_marker() == "x" and len(line.get_xdata())]
    assert len(crosses.get_xdata()) == 2
    below = drawn.get_supxlabel()
    assert "not shown: failing on Gelu 0, Gelu 1000, Gelu 10000: failed" in below
    assert ("not shown: a, b, wrong, d, e, f, g, h on Gelu 0: no elements" in below) == empty


def test_the_axis_of_bits_goes_below_zero_where_some_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    axes = drawn_by(monkeypatch, troubled(), "error", tmp_path).axes[0]
    assert axes.get_ylim()[0] < -5
    shown = {float(y) for line in axes.lines for y in line.get_ydata() if len(line.get_xdata())}
    assert 27.0 not in shown
    assert -5.0 in shown


def test_a_picture_of_one_case_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    axes = drawn_by(monkeypatch, study_of({"a": [1e-3]}, [100]), "time", tmp_path).axes[0]
    assert axes.get_title(loc="left").endswith(", 1 case")


def drawn_by(monkeypatch: pytest.MonkeyPatch, made: Study, kind: str, folder: Path) -> Any:
    """The figure that a picture was written from."""
    pytest.importorskip("matplotlib")
    from matplotlib.figure import Figure

    figures = []
    save = Figure.savefig
    monkeypatch.setattr(Figure, "savefig", lambda figure, *a, **o: (figures.append(figure), save(figure, *a, **o)))
    made.plot(folder / "x.svg", kind)
    return figures[0]
