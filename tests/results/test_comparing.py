"""Results of two sides: what is paired, what is refused, what is said."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from deep_bench.errors import Incomparable, InvalidArgument, UnknownName
from deep_bench.results import Result, gather
from deep_bench.results.comparing import Condition, compare, compare_within, failures
from deep_bench.results.comparisons import Comparisons
from tests.results.made import figure, result, runs, times


def words(found: Comparisons) -> dict[str, str]:
    return {f"{one.name} {one.metric}".strip(): one.word for one in found}


def three(*levels: float, seed: int = 0, **more: Any) -> list[Result]:
    return [result(times(level, seed + i), case=f"case {i}", kind="operators", **more) for i, level in enumerate(levels)]


def test_each_word_and_its_direction() -> None:
    before = [result(times(1.0, 1, noise=0.006), case=name) for name in ("same", "up", "down")] + [
        result(times(1.0, 2, noise=0.2), case="noisy")
    ]
    after = [
        result(times(level, 3, noise=noise), case=name, file="b.json")
        for name, level, noise in (("same", 1.0, 0.006), ("up", 1.4, 0.006), ("down", 0.6, 0.006), ("noisy", 1.0, 0.2))
    ]
    assert words(compare(before, after, margin=0.2)) == {
        "same forward": "equivalent", "up forward": "slower", "down forward": "faster", "noisy forward": "cannot tell",
    }  # fmt: skip


def test_between_single_launches_taken_apart_nothing_under_10_per_cent_is_called() -> None:
    levels = {"same": 1.0, "a little slower": 1.07, "a little faster": 0.95, "slower": 1.2, "faster": 0.8}
    before = [result(times(1.0, 1), case=name) for name in levels]
    after = [result(times(level, 3), case=name, file="b.json") for name, level in levels.items()]
    found = compare(before, after)
    assert [one.word for one in found] == [*["cannot tell"] * 3, "slower", "faster"]
    assert {one.estimate.starts for one in found} == {0.1}
    notes = " ".join(found.notes)
    assert notes.count("one launch each") == 1
    assert "nothing under 10 % is called faster or slower" in notes
    assert "launches: 4" in notes
    assert "equivalent: " not in notes
    by_turns = compare(before, [replace(one, file=before[0].file) for one in after])
    assert [one.word for one in by_turns] == ["equivalent", "slower", "faster", "slower", "faster"]
    assert "nothing under" not in " ".join(by_turns.notes)


def test_several_launches_and_scores_are_called_whatever_starts_do() -> None:
    random = np.random.default_rng(0)
    launched = [
        [result(times(level * (1 + i / 1000), i), file=f"{level}/{i}.json", day=i) for i in range(6)]
        for level in (1.0, 1.05)
    ]
    found = compare(*launched)
    assert (found[0].word, found[0].estimate.starts) == ("slower", 0.0)

    def scored(name: str, unit: str, level: float) -> Any:
        return figure(tuple(random.normal(level, level / 1000, (12, 20))), name=name, unit=unit)

    units = {"error": "", "wrong": "%", "off by": "bits", "memory": "B", "time": "s", "energy": "J"}
    sides = [
        [result(*(scored(name, unit, level) for name, unit in units.items()), file=file)]
        for level, file in ((4000.0, "a.json"), (4200.0, "b.json"))
    ]
    found = compare(*sides)
    assert words(found) == {
        "error": "worse", "wrong": "worse", "off by": "worse", "memory": "worse", "time": "cannot tell",
        "energy": "cannot tell",
    }  # fmt: skip
    assert "error, wrong, off by, memory: one launch each: only a change that is surely beyond 2 %" in " ".join(found.notes)


def test_rates_and_scores_go_the_other_way() -> None:
    def side(rate: float, score: float, loss: float) -> Result:
        spread = np.array([0.0, 0.001, 0.002, 0.003, 0.004, 0.005])
        return result(
            runs(*(rate * (1 + spread)), name="throughput", unit="samples/s", direction="higher"),
            runs(*(score + spread), name="accuracy", unit="", direction="higher"),
            runs(*(loss + spread), name="loss", unit="", direction="lower"),
            runs(*(4096 * (1 + spread) / rate), name="memory", unit="B", direction="lower"),
            kind="training",
        )

    found = compare([side(100, 0.9, 0.5)], [side(150, 0.8, 0.6)])
    assert words(found) == {"throughput": "faster", "accuracy": "worse", "loss": "worse", "memory": "better"}
    accuracy = next(one for one in found if one.metric == "accuracy")
    assert accuracy.estimate.scale == "difference"
    assert accuracy.estimate.value == pytest.approx(-0.1)


def test_what_is_wrong_comes_first_and_is_not_faster() -> None:
    found = compare([result(times())], [result(times(0.5), verdict="wrong", file="b.json")])
    assert words(found) == {"forward": "not comparable"}
    assert found.tests == 0
    assert [(change.before, change.after, change.worse) for change in found.changes] == [("right", "wrong", True)]
    assert found.table(80).splitlines()[0] == "! right → wrong: it is wrong"


@pytest.mark.parametrize(
    ("before", "after", "word"),
    [
        ("right", "reduced precision", "not comparable"),
        ("reduced precision", "reduced precision", "faster"),
        ("wrong", "wrong", "not comparable"),
        ("right", None, "faster"),
        ("no information", "right", "faster"),
    ],
)
def test_verdicts_decide_what_may_be_compared(before: str, after: str | None, word: str) -> None:
    found = compare([result(times(), verdict=before)], [result(times(0.5), verdict=after, file="b.json")])
    assert words(found) == {"forward": word}


def test_what_failed_is_told() -> None:
    found = compare([result(times())], [result(failed="out of memory\nat line 3", file="b.json")])
    assert len(found) == 0
    assert "! right → failed: out of memory at line 3" in found.table(80)
    assert failures(found, [Condition.parse("wrong")]) == ["wrong: right → failed"]


def test_the_factor_is_found() -> None:
    torch = result(times(), version="2.9", **{"option.threads": "1"})
    newer = result(
        times(1.2),
        version="2.10",
        where={"packages": {"torch": "2.10", "triton": "3", "numpy": "2.4"}},
        **{"option.threads": "1"},
    )
    assert compare([torch], [newer]).factor == "version"
    other = result(times(1.2), framework="onnxruntime", system="onnxruntime", **{"option.threads": "1"})
    found = compare([torch], [other], allow=["versions"])
    assert (found.factor, found.pairings[0].values) == ("framework", ("torch", "onnxruntime"))
    commit = result(times(), where={"git": {"commit": "b" * 40, "branch": "x", "dirty": True}})
    found = compare([result(times())], [commit])
    assert (found.factor, found.pairings[0].values) == ("commit", ("aaaaaaaaaaaa", "bbbbbbbbbbbb with changes"))
    assert compare([torch], [torch]).factor == "record"


def test_more_than_one_factor_is_refused_and_listed() -> None:
    before, after = (
        [result(times(), network="lenet")],
        [result(times(), network="lenet", where={"governor": "powersave", "cpu_model": "Another"})],
    )
    with pytest.raises(Incomparable) as caught:
        compare(before, after)
    assert caught.value.differences == {"cpu model": ("A CPU", "Another"), "governor": ("performance", "powersave")}
    assert "governor: performance | powersave" in str(caught.value)
    assert "--across governor" in str(caught.value)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
    with pytest.raises(Incomparable, match="cpu model"):
        compare(before, after, factor="governor")
    found = compare(before, after, factor="governor", allow=["cpu model"])
    assert found.pairings[0].across == {"cpu model": ("A CPU", "Another")}
    assert "differs as well, as allowed: cpu model A CPU → Another" in found.table(80)
    assert compare(before, after, factor="clock", allow=["machine"]).tests == 1


@pytest.mark.parametrize(
    ("where", "labels", "name"),
    [
        ({"hostname": "node2"}, {}, "host"),
        ({"variables": {"OMP_NUM_THREADS": "8"}}, {}, "OMP_NUM_THREADS"),
        ({"cpus_allowed": [0]}, {}, "cpus allowed"),
        ({"packages": {"torch": "2.8", "numpy": "2.4"}}, {}, "torch"),
        ({"blas": [{"user_api": "blas", "internal_api": "mkl", "version": "1", "num_threads": 1}]}, {}, "blas"),
        ({}, {"network.sha256": "00"}, "network.sha256"),
        ({}, {"data": "mnist"}, "data"),
        ({}, {"optimizer.lr": "0.1"}, "optimizer.lr"),
    ],
)
def test_whatever_matters_is_seen(where: dict[str, Any], labels: dict[str, str], name: str) -> None:
    before = result(times(), optimizer="Adam", **{"network.sha256": "ff", "data": "digits", "optimizer.lr": "0.2"})
    about = {"network.sha256": "ff", "data": "digits", "optimizer.lr": "0.2", **labels}
    after = result(times(), optimizer="Adam", where=where, **about)
    with pytest.raises(Incomparable) as caught:
        compare([before], [after], factor="commit")
    assert name in caught.value.differences


def test_what_does_not_matter_is_no_difference() -> None:
    variables = {"OMP_NUM_THREADS": "4", "SLURM_JOB_ID": "2"}
    where = {"variables": variables, "load": [9.0], "packages": {"torch": "2.9", "numpy": "2.4", "keras": "3"}}
    after = result(times(), launches="3", cell="0f", where=where)
    assert compare([result(times())], [after]).factor == "record"


def test_an_unknown_environment_is_a_difference() -> None:
    with pytest.raises(Incomparable, match=r"governor: performance \| unknown"):
        compare([result(times())], [result(times(), where={"governor": None})], factor="commit")


def test_unpaired_results_are_listed() -> None:
    found = compare(three(1.0, 1.0, 1.0), three(1.0, 1.0))
    assert [r.labels["case"] for r in found.left[0]] == ["case 2"]
    assert "only on the side 'before': torch on case 2" in found.table(80)
    assert failures(found, [Condition.parse("unpaired")]) == ["unpaired: torch on case 2 on lenet"]
    assert failures(compare(three(1.0), three(1.0)), [Condition.parse("unpaired")]) == []
    with pytest.raises(Incomparable, match=r"network: lenet \| resnet"):
        compare([result(times())], [result(times(), network="resnet")], factor="commit")


def test_records_of_one_thing_are_launches_of_it() -> None:
    before = [result(times(1 + i / 1000, i), file=f"a/{i}.json", day=2 * i) for i in range(6)]
    after = [result(times(1.1 + i / 1000, i), file=f"b/{i}.json", day=2 * i + 1) for i in range(5)]
    found = compare(before, after)
    assert (found[0].estimate.basis, found[0].estimate.counts, found[0].word) == ("launches", (6, 5), "slower")
    assert found.pairings[0].values == ("6 records of a", "5 records of b")
    assert any("6 and 5 of the two sides" in note for note in found.notes)
    with pytest.raises(Incomparable, match="differ among themselves"):
        compare([*before, result(times(), where={"git": {"commit": "c" * 40}})], after)
    compare([*before, result(times(), where={"git": {"commit": "c" * 40}})], after, allow=["commit"])


def test_one_wrong_launch_makes_all_wrong() -> None:
    after = [result(times(), verdict=word, file="b.json") for word in ("right", "wrong", "right")]
    assert compare([result(times())], after).changes[0].after == "wrong"


def test_systems_of_one_record() -> None:
    results = [
        result(times(1.0), framework="torch", system="torch"),
        result(times(2.0), framework="onnxruntime", system="onnxruntime:threads=1", **{"option.threads": "1"}),
        result(times(0.5), framework="reference", system="reference"),
    ]
    found = compare_within(results, "torch")
    assert words(found) == {"onnxruntime:threads=1 forward": "slower", "reference forward": "faster"}
    assert not found.pairings[0].pairs[0].apart
    assert found.tests == 2
    with pytest.raises(UnknownName, match="did you mean 'torch'"):
        compare_within(results, "torhc")
    with pytest.raises(InvalidArgument, match="only system 'torch'"):
        compare_within(results[:1], "torch")
    with pytest.raises(InvalidArgument, match="no results on the side"):
        compare([], results)


def test_the_correction_takes_all_tests_together() -> None:
    before = [result(runs(*np.linspace(1, 1.01, 5), name="time"), case=f"{i:02}") for i in range(20)]
    after = [result(runs(*np.linspace(1.1, 1.11, 5), name="time"), case=f"{i:02}") for i in range(20)]
    holm, bh = compare(before, after), compare(before, after, correction="bh")
    assert {one.word for one in holm if one.cases == 1} == {"cannot tell"}
    assert {one.alone for one in holm if one.cases == 1} == {"slower"}
    assert {one.word for one in bh} == {"slower"}
    notes = " ".join(holm.notes)
    assert "20 tests; Holm" in notes
    assert "with 5 and 5 launches p is at least 0.0079" in notes
    assert compare(before, after, correction="none").tests == 20


def test_a_total_is_the_ratio_of_total_times() -> None:
    found = compare(three(1.0, 10.0, 1.0), three(2.0, 10.0, 1.0, seed=9))
    total = found[-1]
    assert (total.name, total.cases, total.word) == ("total of 3 cases torch", 3, "slower")
    assert total.estimate.value == pytest.approx(13 / 12, rel=0.005)
    wrong = three(2.0, 10.0, 1.0, seed=9)
    wrong[0] = result(times(2.0), case="case 0", kind="operators", verdict="wrong")
    assert compare(three(1.0, 10.0, 1.0), wrong)[-1].cases == 2
    launched = [
        [
            result(runs(*(level * np.linspace(1, 1.01, 6)), name="forward"), case=str(level), kind="operators")
            for level in side
        ]
        for side in ((1.0, 2.0), (1.0, 2.0))
    ]
    again = compare(*launched)[-1]
    assert (again.cases, again.estimate.basis, again.estimate.value) == (2, "launches", 1.0)


def test_totals_are_told_apart_as_other_rows_are() -> None:
    def side(level: float, file: str, *systems: str) -> list[Result]:
        about = [(case, dtype, system) for dtype in ("float32", "float64") for system in systems for case in "ab"]
        return [
            result(times(level), case=case, kind="operators", dtype=dtype, system=system, framework=system, file=file)
            for case, dtype, system in about
        ]

    found = compare(side(1.0, "a.json", "torch", "jax"), side(1.2, "b.json", "torch", "jax"))
    assert [one.name for one in found if one.cases > 1] == [
        "total of 2 cases torch dtype=float32", "total of 2 cases jax dtype=float32",
        "total of 2 cases torch dtype=float64", "total of 2 cases jax dtype=float64",
    ]  # fmt: skip
    within = compare_within(side(1.0, "a.json", "torch", "jax", "tf"), "torch")
    assert [one.name for one in within if one.cases > 1] == [
        "total of 2 cases jax dtype=float32", "total of 2 cases jax dtype=float64",
        "total of 2 cases tf dtype=float32", "total of 2 cases tf dtype=float64",
    ]  # fmt: skip


def test_a_single_value_is_not_tested() -> None:
    sides = [[result(times(), runs(at, name="setup"))] for at in (1.0, 2.0)]
    found = compare(*sides)
    assert words(found) == {"forward": "equivalent", "setup": "cannot tell"}
    assert found.tests == 1
    assert any(note.startswith("not tested: setup: a single value shows no spread") for note in found.notes)
    assert failures(found, [Condition.parse("cannot-tell")]) == []


def test_metrics_that_one_side_has() -> None:
    found = compare([result(times())], [result(times(), runs(1.0, name="energy", unit="J"))])
    assert "only on the side 'after': energy" in found.notes
    with pytest.raises(UnknownName, match="metric"):
        compare([result(times())], [result(times())], metrics=["forwrad"])
    with pytest.raises(InvalidArgument, match="which only one side has"):
        compare([result(times())], [result(times(), runs(1.0, name="energy", unit="J"))], metrics=["forward", "energy"])


@pytest.mark.parametrize(
    ("options", "match"),
    [({"margin": 0.0}, "margin"), ({"margin": 1.5}, "margin"), ({"correction": "bonferoni"}, "correction"),
     ({"factor": "versoin"}, "did you mean"), ({"allow": ["goverr"]}, "did you mean")],
)  # fmt: skip
def test_bad_arguments_are_refused(options: dict[str, Any], match: str) -> None:
    with pytest.raises((InvalidArgument, UnknownName), match=match):
        compare([result(times(), version="1")], [result(times(), version="1")], **options)


def test_the_table_keeps_within_80_columns_and_json_holds_all(tmp_path: Path) -> None:
    before = [result(times(), case=f"Conv 64x{i}x224x224 float32", kind="operators") for i in range(3)]
    after = [result(times(1.2), case=f"Conv 64x{i}x224x224 float32", kind="operators", file="b.json") for i in range(3)]
    found = compare(before, after)
    assert max(map(len, found.table(80).splitlines())) <= 80
    read = json.loads(found.save(tmp_path / "found.json").read_text())
    assert [one["word"] for one in read["comparisons"]] == ["slower"] * 4
    assert read["correction"]["tests"] == 4
    assert found[1:3] == found.comparisons[1:3]


def test_never_reached_is_shown_and_written() -> None:
    after = [result(runs(*[9.0] * 5, censored=[True] * 5))]
    found = compare([result(runs(1.0, 2.0, 3.0, 4.0, 5.0))], after)
    assert found[0].word == "slower"
    assert "2.000" not in str(found)
    assert "3.000 → never s" in str(found)
    assert "Gehan" in " ".join(found.notes)
    json.dumps(found.as_json(), allow_nan=False)


def test_names_from_elsewhere_cannot_write_over_the_terminal() -> None:
    hostile = "\x1b[2J[bold]x[/bold]\n! forged"
    sides = [[result(times(), case=name) for name in (hostile, "plain")] for _ in "ab"]
    shown = compare(*sides).table(80)
    assert "\x1b" not in shown
    assert "[bold]x[/bold]" in shown.replace("\n", "")
    assert not any(line.startswith("!") for line in shown.splitlines())
    with pytest.raises(Incomparable) as caught:
        compare([result(times(), case=hostile)], [result(times(), case="plain")], factor="commit")
    assert "\x1b" not in str(caught.value)


def test_a_picture(tmp_path: Path) -> None:
    rows = [(f"{level:.2f}", level, "right") for level in (0.5, 0.97, 1.0, 1.05, 1.3)] + [("wrong", 0.7, "wrong")]
    before = [result(times(), case=name, kind="operators") for name, _, _ in rows]
    after = [result(times(level), case=name, kind="operators", verdict=verdict) for name, level, verdict in rows]
    found = compare(before, after)
    assert found.plot(tmp_path / "forest.png").stat().st_size > 10_000
    with pytest.raises(InvalidArgument, match="no ratio"):
        compare(*[[result(runs(1.0))]] * 2).plot(tmp_path / "none.png")


def test_records_of_every_kind(records: Path) -> None:
    for kind in ("network", "operators", "communication", "training", "scaling"):
        found = compare(gather(records / kind), gather(records / kind))
        assert found.factor == "record"
        assert len(found) > 0
        assert not {"faster", "slower", "better", "worse"} & {one.word for one in found}
        assert max(map(len, found.table(80).splitlines())) <= 80
