"""Conditions on a comparison: which fail, which are refused, and which cannot be judged."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from deep_bench.errors import Incomparable, InvalidArgument
from deep_bench.results import Result
from deep_bench.results.comparing import Condition, compare, failures, unjudged
from tests.results.made import result, runs, times


@pytest.mark.parametrize(
    ("text", "level", "fails"),
    [
        ("slower:5%", 1.2, True),
        ("slower:5%", 1.04, False),
        ("slower", 1.04, False),
        ("slower", 1.15, True),
        ("worse:5%", 1.2, True),
        ("slower:50%", 1.2, False),
        ("slower:5%", 0.8, False),
        ("cannot-tell", 1.2, False),
        ("wrong", 1.2, False),
    ],
)
def test_conditions(text: str, level: float, fails: bool) -> None:
    found = compare([result(times())], [result(times(level), file="b.json")])
    assert bool(failures(found, [Condition.parse(text)])) == fails
    assert str(Condition.parse(text)) == text


@pytest.mark.parametrize(
    ("text", "level", "open_"),
    [
        ("slower:5%", 1.07, True),
        ("slower", 1.0, True),
        ("worse:5%", 1.0, True),
        ("slower:10%", 1.07, False),
        ("slower:5%", 0.93, False),
        ("slower:5%", 0.97, True),
        ("slower:5%", 1.3, False),
        ("cannot-tell", 1.0, False),
        ("wrong", 1.0, False),
    ],
)
@pytest.mark.parametrize("direction", ["lower", "higher"])
def test_what_single_launches_cannot_judge_is_said(text: str, level: float, open_: bool, direction: str) -> None:
    unit = "s" if direction == "lower" else "samples/s"
    sides = [
        [result(replace(times(at, seed), unit=unit, direction=direction), file=f"{seed}.json")]
        for seed, at in enumerate((1.0, level if direction == "lower" else 1 / level))
    ]
    left = unjudged(compare(*sides), [Condition.parse(text)])
    assert [line.startswith(f"cannot judge {text}: forward: ") for line in left] == [True] * open_
    assert all("launches: 4" in line and f"ask for {text.partition(':')[0]}:10%" in line for line in left)


def test_what_took_turns_or_has_launches_or_is_no_time_is_judged() -> None:
    conditions = [Condition.parse("slower:5%"), Condition.parse("slower")]
    by_turns = compare([result(times(noise=0.1))], [result(times(1.03, noise=0.1))])
    launched = compare(*([result(times(1, 9 * s + i), file=f"{s}/{i}.json", day=i) for i in range(5)] for s in (0, 1)))
    energy = compare(*([result(replace(times(1, i), unit="J"), file=f"{i}.json")] for i in (1, 2)))
    assert {one.word for one in (by_turns[0], energy[0])} == {"cannot tell"}
    assert [unjudged(found, conditions) for found in (by_turns, launched)] == [[], []]
    assert unjudged(energy, conditions[:1]) == ["cannot judge slower:5%: both sides have no time or rate in common"]
    assert len(unjudged(energy, [Condition.parse("worse:5%")])) == 1


def few(blocks: int, *cases: str, level: float = 1.0, **more: Any) -> list[Result]:
    return [result(times(level, count=blocks, seed=i), runs(1.0, name="setup"), case=case, **more)
            for i, case in enumerate(cases)]  # fmt: skip


@pytest.mark.parametrize("text", ["slower:5%", "slower", "worse:5%", "cannot-tell"])
def test_a_gate_that_tests_nothing_or_not_all_does_not_pass(text: str) -> None:
    condition = [Condition.parse(text)]
    nothing = compare(few(2, "a"), few(2, "a", level=2.0, file="b.json"))
    assert failures(nothing, condition) == []
    (line,) = unjudged(nothing, condition)
    assert line.startswith(
        f"cannot judge {text}: nothing was tested: forward, setup: 2 and 2 blocks, where an interval takes"
    )
    part = compare([*few(2, "a"), *few(12, "b")], [*few(2, "a", level=2.0), *few(12, "b", level=0.7)])
    (line,) = unjudged(part, condition)
    assert line.startswith(f"cannot judge {text}: not tested: a forward: 2 and 2 blocks, where an interval takes 6")
    assert unjudged(compare(few(12, "a"), few(12, "a", level=0.7)), condition) == []
    once = [[result(times(level), runs(level)), result(times(level))] for level in (1.0, 0.7)]
    assert unjudged(compare(*(side[1:] for side in once)), condition) == []
    assert "not tested: time to target: a single value" in unjudged(compare(*(side[:1] for side in once)), condition)[0]
    wrong = compare(few(12, "a"), few(12, "a", level=2.0, verdict="wrong"))
    assert "nothing was tested: forward, setup: right → wrong" in unjudged(wrong, condition)[0]
    assert len(unjudged(compare(few(12, "a"), [result(case="a", failed="no memory")]), condition)) == 1


def test_a_note_names_the_rows_that_were_not_tested() -> None:
    found = compare([*few(2, "a"), *few(12, "b")], [*few(2, "a", level=2.0), *few(12, "b", level=0.7)])
    notes = [note for note in found.notes if note.startswith("not tested")]
    assert notes[0].startswith("not tested: a forward: 2 and 2 blocks")
    assert notes[1].startswith("not tested: setup: a single value")
    mixed = compare([*few(2, "a"), *few(3, "b")], [*few(2, "a", level=2.0), *few(3, "b", level=0.7)]).notes
    assert [note.split(":")[1] for note in mixed if "blocks, where" in note] == [" a forward", " b forward"]


def test_conditions_on_scores_and_rates() -> None:
    def side(score: float, rate: float) -> list[Result]:
        spread = np.linspace(0, 0.001, 6)
        accuracy = runs(*(score + spread), name="accuracy", unit="", direction="higher")
        return [result(accuracy, runs(*(rate + spread), name="throughput", unit="samples/s", direction="higher"))]

    found = compare(side(0.9, 100), side(0.8, 90))
    assert failures(found, [Condition.parse("worse:5%")]) == ["worse:5%: accuracy", "worse:5%: throughput"]
    assert failures(found, [Condition.parse("slower:5%")]) == ["slower:5%: throughput"]
    assert failures(found, [Condition.parse("worse:20%")]) == []


@pytest.mark.parametrize("text", ["slow", "slower:5", "slower:-5%", "wrong:5%", "", "faster"])
def test_bad_conditions_are_refused(text: str) -> None:
    with pytest.raises(InvalidArgument, match="slower:5%"):
        Condition.parse(text)


@pytest.mark.parametrize(
    ("where", "labels", "factor"),
    [
        ({"hostname": "another"}, {}, "host"),
        ({"governor": "powersave"}, {}, "governor"),
        ({"packages": {"torch": "2.9", "numpy": "2.5"}}, {}, "numpy"),
        ({}, {"network": "alexnet"}, "network"),
        ({}, {"network.sha256": "b" * 64}, "network.sha256"),
        ({}, {"system": "torch:threads=1", "option.threads": "1"}, "option.threads"),
    ],
)
def test_a_gate_refuses_a_factor_that_nobody_named(where: dict[str, Any], labels: dict[str, str], factor: str) -> None:
    before = [result(times(), **{"network.sha256": "a" * 64})]
    after = [result(times(), where=where, **{"network.sha256": "a" * 64, **labels})]
    found = compare(before, after)
    assert found.factor == factor
    with pytest.raises(Incomparable, match=f"--factor {factor}") as caught:
        failures(found, [Condition.parse("slower:5%")])
    assert caught.value.differences[factor]
    assert re.search("[0-9a-f]{13}", str(caught.value)) is None
    assert failures(compare(before, after, factor=factor), [Condition.parse("slower:5%")]) == []
    assert failures(found, []) == []


@pytest.mark.parametrize(
    "where",
    [
        {},
        {"git": {"commit": "b" * 40, "branch": "main", "dirty": False}},
        {"packages": {"torch": "2.10", "numpy": "2.4"}},
        {"packages": {"torch": "2.9", "numpy": "2.4", "deep-bench": "1.1"}},
    ],
)
def test_a_gate_takes_time_commit_and_version_unasked(where: dict[str, Any]) -> None:
    found = compare([result(times())], [result(times(), where=where, day=1)])
    assert failures(found, [Condition.parse("slower:5%")]) == []


def test_a_condition_within_the_margin_is_refused() -> None:
    found = compare([result(times())], [result(times(1.015))])
    with pytest.raises(InvalidArgument, match="margin"):
        failures(found, [Condition.parse("slower:1%")])
