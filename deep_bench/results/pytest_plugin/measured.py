"""The record of a call that a test gives, and of what a run found."""

from __future__ import annotations

import copy
import hashlib
import os
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from deep_bench import __version__
from deep_bench.errors import InvalidArgument
from deep_bench.measure import storage
from deep_bench.measure.alone import time_call
from deep_bench.measure.environment import Environment, capture
from deep_bench.measure.record import Record, SampleSet, SystemRecord, VerdictRecord
from deep_bench.measure.session import Series

TEST = "test"
"""The label that holds the name of a test."""

Check = Callable[[Any], object]

_QUANTITY = "call"
_ANSWER = "what the test's own check says"


def measured(
    call: Callable[[], Any], label: str, *, check: Check | None, budget: float, **timing: Any
) -> tuple[Record, AssertionError | None]:
    """Check a call, and time it in this process.

    Args:
        call: What is timed.
        label: The gate's name.
        check: Given what the call returns.
        budget: Seconds.
        **timing: See `deep_bench.measure.alone.time_call`.

    Returns:
        The record, and what the check raised. What is wrong is not timed.
    """
    verdict, fault = _judged(call, check)
    samples = []
    if fault is None:
        timed = time_call(call, budget_s=budget, **timing)
        series = Series(
            label, _QUANTITY, 0, timed.warm_up, list(timed.blocks), "width reached" if timed.reached else "budget spent"
        )
        samples = [SampleSet.of(series)]
    system = SystemRecord(label="this process", framework="callable", samples=samples, verdict=verdict)
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    return Record(
        deep_bench=__version__,
        command=sys.argv,
        environment=_environment(),
        systems=[system],
        in_process=True,
        complete=True,
        notes=[f"{workers} processes ran tests meanwhile"] if workers > 1 else [],
    ), fault


def _judged(call: Callable[[], Any], check: Check | None) -> tuple[VerdictRecord | None, AssertionError | None]:
    if check is None:
        return None, None
    try:
        if check(call()) is False:
            raise AssertionError("check returned False")
    except AssertionError as error:
        return VerdictRecord(verdict="wrong", reason=f"{_ANSWER}: {error}"), error
    return VerdictRecord(verdict="right", reason=_ANSWER), None


@cache
def _environment() -> Environment:
    """Noted once for all gates."""
    return capture()


def saved(found: Any, label: str, folder: Path) -> Path:
    """Write what a run found to a folder, marked with the gate's name.

    Args:
        found: A record, or an object with a ``record`` that it can ``save``.
        label: The gate's name.
        folder: Where to.

    Raises:
        InvalidArgument: It is neither.
    """
    if isinstance(found, Record):
        return storage.save(_marked(found, label), folder)
    if not (hasattr(found, "record") and hasattr(found, "save")):
        expected = "a callable without arguments, a record, or what deep_bench.run and its like return"
        raise InvalidArgument(f"{type(found).__name__} for a gate", expected)
    mine = copy.copy(found)  # it is the test's: neither its record nor its path is changed
    mine.record = _marked(found.record, label)
    return Path(mine.save(folder))


def _marked(record: Any, label: str) -> Any:
    """The record as a cell whose factor is the gate's name; what is a recipe's cell keeps its own factors."""
    cell = record.recipe.options.get("cell") or {"recipe": "pytest", "factors": {}}
    name = hashlib.sha256(label.encode()).hexdigest()[:12]
    marked = {**cell, "id": cell.get("id", name), "factors": {**cell["factors"], TEST: label}}
    recipe = record.recipe.model_copy(update={"options": {**record.recipe.options, "cell": marked}})
    return record.model_copy(update={"recipe": recipe})
