"""``Gate``: what the fixture ``deep_bench_gate`` gives a test."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from deep_bench.errors import Incomparable, InvalidArgument
from deep_bench.measure.folder import output_folder
from deep_bench.results import Result, Results, gather
from deep_bench.results.comparing import Comparisons, Condition, compare, failures, unjudged
from deep_bench.results.comparing.comparison import severity
from deep_bench.results.comparing.report import both, changed
from deep_bench.results.comparing.starts import BETWEEN_STARTS
from deep_bench.results.pytest_plugin.measured import TEST, Check, measured, saved

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
            margin: The share that counts as no difference; by default 2 %, or ``slower`` if that is less.
            fail_on: Further conditions, as ``deep-bench compare --fail-on`` has them.
            check: Given what the call returns, before it is timed: returns ``False`` or raises ``AssertionError`` where
                that is wrong.
            budget: Seconds to time a call.
            **timing: Further arguments of `deep_bench.measure.alone.time_call`: ``synchronize``, ``threaded``, ``timer``.

        Returns:
            The comparison; ``None`` without a baseline.

        Raises:
            InvalidArgument: Two gates of a test have one name, or an argument is out of range.
            AssertionError: What ``check`` raised; the record says *wrong*.
        """
        self._begin(name, slower)
        near = min(0.02, slower) if margin is None else margin
        words = [Condition("slower", slower), Condition("wrong"), *map(Condition.parse, (*fail_on, *self.conditions))]
        label = f"{self.test} {name}".rstrip()
        if callable(what):
            record, fault = measured(what, label, check=check, budget=budget, **timing)
        elif check is not None:
            raise InvalidArgument("check beside a result", "a call to check", "a result has its own verdict")
        else:
            record, fault = what, None
        mine = self._kept(record, label)
        self._refuse_wrong(mine, name, fault)
        return self._compared(mine, label, name, near, words)

    def _begin(self, name: str, slower: float) -> None:
        if name in self._used:
            raise InvalidArgument(
                f"two gates of one test with the name {name!r}", "a name for each", 'gate(…, name="other")'
            )
        if not 0 < slower < float("inf"):
            raise InvalidArgument(f"slower={slower}", "a share above 0, such as 0.05")
        self._used.add(name)

    def _kept(self, record: Any, label: str) -> Results:
        """The results of a record, which is in the folder of records from now on, if there is one."""
        if self.records is not None:
            return gather(saved(record, label, output_folder(self.records)))
        folder = Path(tempfile.mkdtemp(prefix="deep_bench-"))
        try:
            return gather(saved(record, label, folder))
        finally:
            shutil.rmtree(folder)

    def _refuse_wrong(self, mine: Results, name: str, fault: AssertionError | None) -> None:
        for result in mine:
            if severity(result.outcome) >= 2:
                reason = result.errors[0].message if result.errors else result.verdict.reason if result.verdict else ""
                self._say(name, f"{result.outcome}: {reason}")
                if fault is not None:
                    raise fault
                pytest.fail(f"{result.name}: {result.outcome}: {reason}", pytrace=False)

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
                self._say(name, f"{row} {comparison.word}: {changed(comparison.estimate)}, {both(comparison)}")
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
        mine = [result for result in results if result.labels.get(TEST) == label]
        gates = {result.labels[TEST] for result in results if TEST in result.labels}
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
