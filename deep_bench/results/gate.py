"""`Gate`: what the fixture ``deep_bench_gate`` gives a test, with the record of what the test measures."""

from __future__ import annotations

import copy
import hashlib
import os
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from deep_bench.errors import Incomparable, InvalidArgument
from deep_bench.measure.compare import BETWEEN_STARTS
from deep_bench.measure.environment import capture, provenance
from deep_bench.measure.session import Series, time_call
from deep_bench.records import store
from deep_bench.records.folders import output_folder
from deep_bench.records.model import Record, SampleSet, SystemRecord, VerdictRecord
from deep_bench.results import Result, Results, gather
from deep_bench.results.change import severity
from deep_bench.results.comparing import Condition, compare, failures, unjudged
from deep_bench.results.comparisons import Comparisons, change_text, medians_text

_COMMIT = "commit"


@dataclass
class Gate:
    """Measures, keeps, compares, and fails the test where the result is slower, or wrong.

    Args:
        test: The test's name.
        records: The folder that records are kept in; ``None`` to keep none.
        baseline: The folder of records to compare with; ``None`` for none.
        across: What may differ from the baseline beside the commit.
        conditions: Further conditions that fail any gate.
        tell: Told each thing that was found, as a line.
    """

    test: str
    records: Path | None
    baseline: Path | None
    across: tuple[str, ...]
    conditions: tuple[str, ...]
    tell: Callable[[str], object]
    _used: set[str] = field(default_factory=set)

    def __call__(
        self,
        what: Any,
        *,
        name: str = "",
        slower: float = BETWEEN_STARTS,
        margin: float | None = None,
        fail_on: Sequence[str] = (),
        check: Check | None = None,
        budget: float = 1.0,
        **timing: Any,
    ) -> Comparisons | None:
        """Let a call, or what a run found, pass or fail.

        A call is timed in this process, for ``budget`` seconds. It fails where it is wrong, or *slower* than the baseline
        and even the interval's better end is beyond ``slower``. What cannot be told passes, but for ``cannot-tell`` in the
        conditions. The summary says what one start cannot judge, less than 10 %, and where there is no baseline.

        Args:
            what: A callable without arguments; or a record, or what `deep_bench.run`, `deep_bench.operators.study` or
                training runs return.
            name: Tells several gates of one test apart.
            slower: The share by which it may be slower.
            margin: The share that counts as none; by default 2 %, or ``slower`` if that is less.
            fail_on: Further conditions, as ``deep-bench compare --fail-on`` has them.
            check: Given what the call returns, before it is timed: returns ``False`` or raises ``AssertionError`` where
                that is wrong.
            budget: Seconds to time a call.
            **timing: Further arguments of `deep_bench.measure.session.time_call`: ``synchronize``, ``threaded``, ``timer``.

        Returns:
            The comparison; ``None`` without a baseline.

        Raises:
            InvalidArgument: Two gates of a test have one name, or an argument is out of range.
            AssertionError: What ``check`` raised; the record says *wrong*.
        """
        if name in self._used:
            raise InvalidArgument(
                f"two gates of one test with the name {name!r}", "a name for each", 'gate(…, name="other")'
            )
        if not 0 < slower < float("inf"):
            raise InvalidArgument(f"slower={slower}", "a share above 0, such as 0.05")
        self._used.add(name)
        near = min(0.02, slower) if margin is None else margin
        words = [Condition("slower", slower), Condition("wrong"), *map(Condition.parse, (*fail_on, *self.conditions))]
        label = f"{self.test} {name}".rstrip()
        if callable(what):
            record, fault = measure_call(what, label, check=check, budget=budget, **timing)
        elif check is not None:
            raise InvalidArgument("check beside a result", "a call to check", "a result has its own verdict")
        else:
            record, fault = what, None
        if self.records is not None:
            mine = gather(save_marked(record, label, output_folder(self.records)))
        else:
            with tempfile.TemporaryDirectory(prefix="deep_bench-") as folder:
                mine = gather(save_marked(record, label, Path(folder)))
        for result in mine:
            if severity(result.outcome) >= 2:
                reason = result.errors[0].message if result.errors else result.verdict.reason if result.verdict else ""
                self._say(name, f"{result.outcome}: {reason}")
                if fault is not None:
                    raise fault
                pytest.fail(f"{result.name}: {result.outcome}: {reason}", pytrace=False)
        return self._compared(mine, label, name, near, words)

    def _compared(
        self, mine: Results, label: str, name: str, margin: float, conditions: Sequence[Condition]
    ) -> Comparisons | None:
        theirs, remark = self._theirs(label)
        if not theirs:
            self._say(name, f"no baseline{remark}: {', '.join(map(_main, mine))}")
            return None
        try:
            comparisons = compare(theirs, mine, factor=_COMMIT, allow=self.across, margin=margin)
        except Incomparable as error:
            self._say(name, f"not comparable with the baseline: {error.came.splitlines()[0]}")
            pytest.fail(f"{error}\n(with pytest: --deep-bench-across)", pytrace=False)
        for comparison in comparisons:
            if comparison.tested or comparison.word == "not comparable":
                row = f"{comparison.name} {comparison.metric}".strip()
                self._say(name, f"{row} {comparison.word}: {change_text(comparison.estimate)}, {medians_text(comparison)}")
        for line in unjudged(comparisons, conditions):
            self._say(name, line)
        if reasons := failures(comparisons, conditions):
            pytest.fail("\n".join(["fails on " + reason for reason in reasons] + ["", comparisons.table()]), pytrace=False)
        return comparisons

    def _theirs(self, label: str) -> tuple[list[Result], str]:
        """The baseline's results of this gate, and a remark on why there may be none."""
        if self.baseline is None:
            return [], ""
        results = gather(self.baseline)
        mine = [result for result in results if result.labels.get(TEST_LABEL) == label]
        gates = {result.labels[TEST_LABEL] for result in results if TEST_LABEL in result.labels}
        remarks = [f"{self.baseline.name} has {len(gates)} other gates, such as {min(gates)}"] if gates and not mine else []
        remarks += [f"{len(results.refused)} files of {self.baseline.name} could not be read"] if results.refused else []
        return mine, f" ({'; '.join(remarks)})" if remarks else ""

    def _say(self, name: str, line: str) -> None:
        self.tell(f"{name}: {line}" if name else line)


def _main(result: Result) -> str:
    figure = result.main
    if figure is None:
        return result.name
    from deep_bench.measure.units import duration

    value = duration(figure.median) if figure.unit == "s" else f"{figure.median:.4g} {figure.unit}".rstrip()
    return f"{figure.name} {value}"


TEST_LABEL = "test"
"""The label that holds the name of a test."""


Check = Callable[[Any], object]

_QUANTITY = "call"
_CHECK_ANSWER = "what the test's own check says"


def measure_call(
    call: Callable[[], Any], label: str, *, check: Check | None, budget: float, **timing: Any
) -> tuple[Record, AssertionError | None]:
    """Check a call, and time it in this process.

    Args:
        call: What is timed.
        label: The gate's name.
        check: Given what the call returns.
        budget: Seconds.
        **timing: See `deep_bench.measure.session.time_call`.

    Returns:
        The record, and what the check raised. What is wrong is not timed.
    """
    verdict, fault = _run_check(call, check)
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
        **provenance(_environment()),
        systems=[system],
        in_process=True,
        complete=True,
        notes=[f"{workers} processes ran tests meanwhile"] if workers > 1 else [],
    ), fault


def _run_check(call: Callable[[], Any], check: Check | None) -> tuple[VerdictRecord | None, AssertionError | None]:
    if check is None:
        return None, None
    try:
        if check(call()) is False:
            raise AssertionError("check returned False")
    except AssertionError as error:
        return VerdictRecord(verdict="wrong", reason=f"{_CHECK_ANSWER}: {error}"), error
    return VerdictRecord(verdict="right", reason=_CHECK_ANSWER), None


_environment = cache(capture)
"""Noted once for all gates."""


def save_marked(found: Any, label: str, folder: Path) -> Path:
    """Write what a run found to a folder, marked with the gate's name.

    Args:
        found: A record, or an object with a ``record`` that it can ``save``.
        label: The gate's name.
        folder: Where to.

    Raises:
        InvalidArgument: It is neither.
    """
    if isinstance(found, Record):
        return store.save(_mark(found, label), folder)
    if not (hasattr(found, "record") and hasattr(found, "save")):
        expected = "a callable without arguments, a record, or what deep_bench.run and its like return"
        raise InvalidArgument(f"{type(found).__name__} for a gate", expected)
    mine = copy.copy(found)  # it is the test's: neither its record nor its path is changed
    mine.record = _mark(found.record, label)
    return Path(mine.save(folder))


def _mark(record: Any, label: str) -> Any:
    """The record as a cell whose factor is the gate's name; what is a recipe's cell keeps its own factors."""
    cell = record.recipe.options.get("cell") or {"recipe": "pytest", "factors": {}}
    name = hashlib.sha256(label.encode()).hexdigest()[:12]
    marked = {**cell, "id": cell.get("id", name), "factors": {**cell["factors"], TEST_LABEL: label}}
    recipe = record.recipe.model_copy(update={"options": {**record.recipe.options, "cell": marked}})
    return record.model_copy(update={"recipe": recipe})
