"""Copies of a record are no further launches, and a record says nothing of itself."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from deep_bench.results import Result
from deep_bench.results.comparing import Condition, compare, compare_within, unjudged
from tests.results.made import figure, result, runs, times


def copies(level: float, side: str, count: int = 5) -> list[Result]:
    return [result(times(level), file=f"{side}/{i}.json") for i in range(count)]


def noted(note: str, *sides: list[Result]) -> bool:
    return note in " ".join(compare(*sides).notes)


def test_copies_count_once() -> None:
    found, single = compare(copies(1.0, "a"), copies(1.02, "b")), compare(copies(1.0, "a", 1), copies(1.02, "b", 1))
    assert (found[0].word, found[0].estimate) == ("cannot tell", single[0].estimate)
    assert found.pairings[0].pairs[0].records == (1, 1)
    assert any(note.startswith("8 with the same samples as another record of their side count") for note in found.notes)
    assert found.as_json()["copies"] == [f"{side}/{i}.json" for side in "ab" for i in range(1, 5)]
    assert len(unjudged(found, [Condition.parse("slower:5%")])) == 1


def test_a_copy_with_another_time_is_one_and_four_launches_with_a_copy_are_four() -> None:
    before = [result(times(1.0, i), file=f"a/{i}.json", day=i) for i in range(4)]
    after = [result(times(1.2, i), file=f"b/{i}.json", day=i) for i in range(4)]
    found = compare([*before, replace(before[0], created=after[3].created)], after)
    assert found[0].estimate.counts == (4, 4)
    assert compare([*before, result(times(1.0, 4), day=9)], after)[0].estimate.counts == (5, 4)


def test_a_copy_that_is_called_wrong_makes_it_wrong() -> None:
    changed = result(times(1.0), file="a/changed.json", verdict="wrong")
    assert compare([result(times(1.0)), changed], copies(1.0, "b", 1))[0].word == "not comparable"


def test_scores_and_single_times_that_repeat_are_no_copies() -> None:
    def side(name: str) -> list[Result]:
        score = runs(0.9, name="accuracy", unit="", direction="higher")
        steps = figure([np.full(40, 1e-3)], name="step")
        return [result(score, runs(1.0), steps, file=f"{name}/{i}.json", day=i) for i in range(5)]

    found = compare(side("a"), [replace(one, created=one.created.replace(hour=3)) for one in side("b")])
    assert {one.estimate.counts for one in found} == {(5, 5)}
    assert not noted("same", side("a"), [replace(one, created=one.created.replace(hour=3)) for one in side("b")])


@pytest.mark.parametrize("file", ["a/0.json", "b/0.json"])
def test_a_record_beside_itself_is_told_and_no_gate_passes(file: str) -> None:
    found = compare(copies(1.0, "a", 1), [result(times(1.0), file=file)])
    assert "both sides are the same record: this compares it with itself" in found.table(200)
    for text in ("slower:5%", "worse:5%", "cannot-tell"):
        assert unjudged(found, [Condition.parse(text)]) == [
            f"cannot judge {text}: both sides are the same record; name two measurements"
        ]


def test_a_record_on_both_sides_is_named() -> None:
    after = [result(times(1.0), file="b/old.json"), result(times(1.2), file="b/new.json", day=1)]
    assert noted("old.json: the same record is on both sides", copies(1.0, "a", 1), after)
    assert not noted("the same record", copies(1.0, "a", 1), after[1:])


def test_copies_of_a_record_of_several_systems() -> None:
    one = [result(times(level), system=name, framework=name) for name, level in (("torch", 1.0), ("onnxruntime", 2.0))]
    several = [replace(r, file=r.file.with_name(f"{i}.json")) for i in range(3) for r in one]
    found = compare_within(several, "torch")
    assert (found[0].estimate, found[0].word) == (compare_within(one, "torch")[0].estimate, "slower")
