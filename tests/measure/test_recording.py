"""How what keeps a record ends."""

from __future__ import annotations

from pathlib import Path

import pytest

from deep_bench.measure.environment import Environment
from deep_bench.measure.progress import Bars, recording
from deep_bench.records.model import Record


@pytest.fixture
def record() -> Record:
    return Record(deep_bench="0", environment=Environment(), systems=[], complete=False)


def within(record: Record, error: BaseException | None = None) -> Path:
    with recording(record, Bars(False)) as folder:
        assert folder.is_dir()
        assert not record.complete
        if error is not None:
            raise error
    return folder


def test_the_end_completes_the_record(record: Record) -> None:
    assert not within(record).exists()
    assert (record.complete, record.interrupted) == (True, False)
    assert record.load_after is not None


def test_an_interruption_ends_it_and_is_said(record: Record) -> None:
    within(record, KeyboardInterrupt())
    assert (record.complete, record.interrupted) == (False, True)


def test_an_error_is_not_held_back(record: Record) -> None:
    with pytest.raises(RuntimeError, match="on purpose"):
        within(record, RuntimeError("on purpose"))
    assert (record.complete, record.interrupted) == (False, False)
