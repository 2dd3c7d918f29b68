"""What is computed from a study's record."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from deep_bench.errors import InvalidArgument, InvalidRecord
from deep_bench.measure.roofline import Rate, Roofline
from deep_bench.measure.storage import load
from deep_bench.operators.studies.fixed_cost import fixed_cost
from deep_bench.operators.studies.quantities import FORWARD
from deep_bench.operators.studies.result import Study
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
    assert made.compare("b", "100").ratio.basis == "launches"
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
    assert made.table(200).count("too few launches") == 6


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
