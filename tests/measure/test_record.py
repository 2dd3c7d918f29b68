from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from pydantic import ValidationError

from deep_bench.errors import InvalidInput
from deep_bench.measure.environment import Environment
from deep_bench.measure.session import Series
from deep_bench.measure.timing import Block, WarmUp
from deep_bench.records.model import BlockRecord, ErrorRecord, Record, SampleSet, SystemRecord, VerdictRecord, schema

ROOT = Path(__file__).parents[2]


def test_the_published_schema_is_current() -> None:
    published = (ROOT / "docs" / "record.schema.json").read_text(encoding="utf-8")
    assert json.loads(published) == json.loads(schema()), "python -m deep_bench.records.model > docs/record.schema.json"


def test_a_series_becomes_a_sample_set_and_its_blocks_come_back() -> None:
    block = Block(5, 2, np.array([3, 4]), np.array([True, False]), 9)
    warm_up = WarmUp(True, 7, 8, 9, (1.0, 2.0), 2, "steady")
    samples = SampleSet.of(Series("a", "native", 1, warm_up, [block], "width reached"))
    assert (samples.quantity, samples.launch, samples.stopped_because) == ("native", 1, "width reached")
    assert samples.warm_up.medians_ns == [1.0, 2.0]
    (back,) = samples.times()
    assert (back.start_ns, back.batch, back.resume_ns) == (5, 2, 9)
    assert back.ns.tolist() == [3, 4]
    assert back.preempted.tolist() == [True, False]


def test_launches_are_told_apart() -> None:
    block = Block(0, 1, np.array([3]), np.array([False]))
    sets = [SampleSet.of(Series("a", "native", n, None, [block] * n)) for n in range(3)]
    assert [len(blocks) for blocks in SystemRecord(label="a", framework="x", samples=sets).launches("native")] == [1, 2]


@pytest.mark.parametrize("wrong", [[1.5], ["a"], [[1]], [True]])
def test_times_are_integers(wrong: list[object]) -> None:
    with pytest.raises(ValidationError):
        BlockRecord(start_ns=0, batch=1, n=1, ns=wrong, preempted=[True])


def test_errors_that_are_infinite_or_no_number_survive_json() -> None:
    verdict = VerdictRecord(verdict="wrong", reason="", max_abs_error=float("inf"), max_rel_error=float("nan"))
    back = VerdictRecord.model_validate(json.loads(verdict.model_dump_json()))
    assert back.max_abs_error == float("inf")
    assert np.isnan(back.max_rel_error)


def test_an_error_is_recorded_with_its_class_and_traceback() -> None:
    error = InvalidInput("came", "expected")
    error.add_note("the traceback")
    assert ErrorRecord.of(error) == ErrorRecord(
        kind="InvalidInput", message="came\nExpected: expected", details="the traceback"
    )


def test_labels_differ() -> None:
    twice = [SystemRecord(label="a", framework="x")] * 2
    with pytest.raises(ValidationError, match="same label"):
        Record(deep_bench="0", environment=Environment(), systems=twice)


def test_systems_are_found_by_label() -> None:
    record = Record(deep_bench="0", environment=Environment(), systems=[SystemRecord(label="a", framework="x")])
    assert record["a"].framework == "x"
    with pytest.raises(KeyError):
        record["b"]
