"""A study as a table of all cases, a summary, and what else is worth knowing.

That includes what a call costs whatever its size: found by extrapolating the times of several sizes to none.
"""

from __future__ import annotations

import io
import sys
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from rich.text import Text
from scipy.optimize import nnls

from deep_bench.measure.compare import BY_WALL, twins_line
from deep_bench.measure.rules import kept_line
from deep_bench.measure.units import amount, duration, duration_range, share, significant
from deep_bench.operators.studies.settings import BACKWARD, BOTH, COLD, DISPATCH, FORWARD, NUMPY
from deep_bench.operators.studies.trial import Trial, twin_word
from deep_bench.records.table import columns, print_line, print_table

if TYPE_CHECKING:
    from deep_bench.operators.studies.result import Study

_FEWEST_CASES = 4
_LEAST_SPAN = 4.0
_WIDEST = 3.0
_LARGEST_ERROR = 0.3


@dataclass(frozen=True)
class FixedCost:
    """The time of a call of no size.

    Args:
        seconds: By extrapolation.
        low: The least value when any one of the cases is left out.
        high: The greatest.
        error: The largest relative error of the fit.
        cases: Over how many cases.
    """

    seconds: float
    low: float
    high: float
    error: float
    cases: int

    @property
    def clear(self) -> bool:
        """Whether the times are a straight line over size, and the value stands whichever case is left out."""
        return self.error <= _LARGEST_ERROR and self.low > 0 and self.high <= _WIDEST * self.low


def fixed_cost(trials: Sequence[Trial]) -> FixedCost | None:
    r"""Fit :math:`t = a + b w + c q` to the times of one contestant on one operator, and give :math:`a`.

    ``w`` is the number of FLOPs and ``q`` that of bytes; relative errors are minimised, and no coefficient is negative.
    ``None`` where there are fewer than four cases, or their sizes are within a factor of four.

    Args:
        trials: Those of one contestant, of one operator.
    """
    pairs = [(t.median(), t.case.cost) for t in trials]
    points = [(time, cost.flops, cost.bytes) for time, cost in pairs if time is not None and cost is not None]
    if len(points) < _FEWEST_CASES or min(p[2] for p in points) <= 0:
        return None
    if max(p[2] for p in points) < _LEAST_SPAN * min(p[2] for p in points):
        return None
    table = np.array(points, dtype=float)
    fits = [_fitted(np.delete(table, i, axis=0))[0] for i in range(len(table))]
    seconds, error = _fitted(table)
    return FixedCost(seconds, min(fits), max(fits), error, len(points))


def _fitted(table: NDArray[np.float64]) -> tuple[float, float]:
    """The time of no size, and the largest relative error of the fit."""
    times, sizes = table[:, 0], table[:, 1:]
    scale = np.maximum(sizes.max(axis=0), 1.0)
    columns = np.column_stack([np.full(len(times), times.min()), sizes / scale * times.max()])
    solution, _ = nnls(columns / times[:, None], np.ones(len(times)))
    return float(solution[0] * times.min()), float(np.abs(columns @ solution / times - 1).max())


_STYLES = {"right": "green", "wrong": "bold red", "failed": "bold red", "reduced precision": "yellow"}
_FURTHER_QUANTITIES = (BOTH, BACKWARD, COLD, NUMPY, DISPATCH)
_REMARKS = 12
"""How many lines of one kind are printed before the rest is counted."""


def as_text(study: Study, width: int | None = None) -> str:
    """All of it, as plain text or with a terminal's colours."""
    out = io.StringIO()
    console = Console(file=out, width=width or columns(), force_terminal=sys.stdout.isatty(), highlight=False)
    print_table(console, _cases(study), keys=2)
    if len(study.cases) > 1:
        print_line(console, "")
        print_table(console, _summary(study))
    print_line(console, "")
    for line in lines_below(study):
        print_line(console, line)
    return "\n".join(line.rstrip() for line in out.getvalue().rstrip("\n").splitlines())


def _cases(study: Study) -> Table:
    """A row for each contestant on each case."""
    timed = [quantity for quantity in _FURTHER_QUANTITIES if any(trial.blocks(quantity) for trial in study.trials)]
    rates = any(trial.flop_rate for trial in study.trials)
    moves = any(trial.byte_rate for trial in study.trials)
    table = Table(title=Text(_title(study)), pad_edge=False)
    for name in ("case", "contestant", "verdict"):
        table.add_column(name)
    roofs = ["of the roof"] if study.roofline is not None else []
    names = ["bits", "time (95 % interval)", *(["GFLOP/s"] if rates else []), *(["GB/s"] if moves else []), *roofs]
    metrics = _metrics(study)
    ratios = len(study.contestants) > 1 or study.twin is not None
    names += [*timed, *metrics, "set-up", f"time over {study.base}" if ratios else ""]
    for name in filter(None, names):
        table.add_column(name, justify="right")
    for case in study.cases:
        # the trials of a case, the A/A row last
        twin = [] if study.twin is None else [t for label, t in study[study.twin.label].items() if label == case]
        trials = [t for t in study.trials if t.case.label == case] + twin
        for number, trial in enumerate(trials):
            word = _word(trial)
            row: list[str | Text] = [_case_name(trial) if not number else "", trial.label, Text(word, _STYLES.get(word, ""))]
            row += ["–" if trial.significant_bits is None else f"{trial.significant_bits:.1f}", _time(trial, FORWARD)]
            row += [_giga(trial.flop_rate)] if rates else []
            row += [_giga(trial.byte_rate)] if moves else []
            row += [_roof(trial)] if roofs else []
            row += [duration(trial.median(quantity)) for quantity in timed]
            row += [_metric(trial, name) for name in metrics]
            row += [_setup(trial)]
            row += [_ratio(study, trial)] if ratios else []
            table.add_row(*row, end_section=number == len(trials) - 1)
    return table


def _word(trial: Trial) -> str:
    """The verdict, or that the row is of a contestant that has one already."""
    return "A/A" if trial.system.twin_of is not None and trial.record.error is None else trial.verdict


def _summary(study: Study) -> Table:
    """A row for each contestant, over the cases that all were timed on."""
    number, counts = len(study.common), {study[study.contestants[0]][c].case.facts.count for c in study.common}
    weighted = ", each as often as it occurs" if counts - {1} else ""
    title = f"total over {_of(number, len(study.cases))} cases{weighted}"
    if number < len(study.cases):
        title += ": those that all contestants were timed on"
    table = Table(title=Text(title), pad_edge=False)
    for name in ("contestant", "verdicts"):
        table.add_column(name)
    for name in ("total time (95 % interval)", "GFLOP/s", f"time over {study.base} (95 % interval)"):
        table.add_column(name, justify="right")
    for label in (*study.contestants, *([study.twin.label] if study.twin is not None else [])):
        total, rate, speed = study.total(label), study.flop_rate(label), study.speed(label)
        time, ratio = "–", "–"
        if total is not None:
            ends = None if total.interval is None else duration_range(*(end / 1e9 for end in total.interval))
            time = f"{duration(total.value / 1e9)} ({ends or f'too few {total.basis}'})"
        if speed is not None:
            ends = None if speed.interval is None else " to ".join(map(significant, speed.interval))
            ratio = "1 (base)" if label == study.base else f"{significant(speed.value)} ({ends or f'too few {speed.basis}'})"
        verdicts = _verdicts(study, label) if label in study.contestants else Text("A/A")
        table.add_row(label, verdicts, time, _giga(rate), ratio)
    return table


def lines_below(study: Study) -> list[str]:
    """Reasons, findings, what is not available, what calling costs, notes, and where the record lies."""
    # why verdicts are other than right; the same reason for several cases once
    cases = defaultdict(list)
    for trial in study.trials:
        if trial.verdict not in ("right", "unchecked"):
            cases[trial.label, trial.verdict, trial.reason].append(trial.case.name)
        elif trial.verdict == "unchecked" and study.record.recipe.options.get("check") != "off":
            cases[trial.label, "unchecked", trial.reason].append(trial.case.name)
        for finding in trial.findings:
            cases[trial.label, "", finding].append(trial.case.name)
    lines = _limited(
        [f"{label}, {_some(names)}: {f'{word}: ' if word else ''}{reason}" for (label, word, reason), names in cases.items()]
    )
    lines += _limited([line for trial in study.trials for line in _remarks(trial)])
    absent = defaultdict(list)
    for trial in study.trials:
        for quantity, reason in trial.record.unavailable.items():
            if quantity in _FURTHER_QUANTITIES:
                absent[f"{quantity}: not available", reason].append(trial.label)
    for trial in study.trials:
        for metric in trial.record.metrics:
            if metric["unavailable"]:
                absent[str(metric["name"]), str(metric["unavailable"])].append(trial.label)
    lines += [f"{subject}: {', '.join(dict.fromkeys(labels))}: {reason}" for (subject, reason), labels in absent.items()]
    lines += [line for label in study.contestants for line in _fixed(study, label)]
    compared = [study.compare(trial.label, trial.case.label) for trial in study.trials if trial.label != study.base]
    reasons = Counter(comparison.why for comparison in compared if comparison is not None and comparison.why)
    lines += [f"no interval of {_of(number, len(compared))} ratios: {reason}" for reason, number in reasons.items()]
    if by_wall := sum(comparison is not None and comparison.by_wall for comparison in compared):
        lines.append(f"{_of(by_wall, len(compared))} ratios: {BY_WALL}")
    if study.twins is not None and study.twin is not None:
        lines.append(twins_line(study.twins, str(study.twin.twin_of), kind="contestant", whole=" of the total"))
    if study.launches > 1:
        lines.append(f"{study.launches} launches: medians, intervals and ratios are over the medians of fresh processes")
    elif study.launches:
        within = "intervals are within one launch of each process"
        lines.append(f"{within}: what differs between launches is seen with --launches 10")
    lines += study.record.notes
    if study.roofline is None:
        lines.append("no roofline of this machine was measured: deep-bench roofline")
    if any(trial.blocks() for trial in study.trials):
        lines.append(kept_line(study.record))
    if study.record.in_process:
        lines.append("measured in one process: the contestants could disturb each other")
    if study.interrupted:
        planned = study.record.recipe.options.get("cases")
        lines.append(
            f"interrupted after {_of(len(study.cases), planned)} cases: the figures are of what was measured until then"
        )
    elif not study.record.complete:
        lines.append("this study did not finish: the figures are of what was measured until then")
    if study.path is not None:
        lines.append(f"record: {study.path}")
    return lines


def _metrics(study: Study) -> list[str]:
    """The names of the metrics that found something."""
    return list(dict.fromkeys(str(m["name"]) for trial in study.trials for m in trial.record.metrics if m["values"]))


def _metric(trial: Trial, name: str) -> str:
    """The median of what a metric found."""
    for metric in trial.record.metrics:
        values = [float(v) for v in metric["values"]] if isinstance(metric["values"], list) else []  # type: ignore[arg-type]
        if metric["name"] == name and values:
            return amount(float(np.median(values)), str(metric["unit"]))
    return "–"


def _remarks(trial: Trial) -> list[str]:
    """What of the samples a reader must know to trust the median."""
    summary = trial.summary()
    if summary is None:
        return []
    remarks, name = [], f"{trial.label}, {trial.case.name}"
    if summary.selection != "all samples":
        moved = f" (of all: {duration(summary.median_of_all / 1e9)})"
        remarks.append(
            f"{name}: {share(summary.preempted)} of the samples were preempted; the median is of {summary.selection}{moved}"
        )
    if abs(summary.drift) > 0.05:
        remarks.append(f"{name}: drifted by {share(summary.drift)} while it was measured")
    unsteady = [s.warm_up for s in trial.record.samples if s.warm_up is not None and s.warm_up.steady is False]
    if unsteady:
        remarks.append(f"{name}: never became steady: {unsteady[0].reason}")
    return remarks


def _fixed(study: Study, label: str) -> list[str]:
    """What a call costs whatever its size, for each operator."""
    lines = []
    for operator in dict.fromkeys(trial.case.facts.operator for trial in study[label].values()):
        cost = fixed_cost([t for t in study[label].values() if t.case.facts.operator == operator])
        if cost is None:
            continue
        if not cost.clear:
            lines.append(f"{label}, {operator}: cost of a call of no size: cannot tell from these {cost.cases} cases")
            continue
        limits = duration_range(cost.low, cost.high)
        lines.append(
            f"{label}, {operator}: cost of a call of no size, by extrapolation over {cost.cases} cases: "
            f"{duration(cost.seconds)} ({limits} when one is left out)"
        )
    return lines


def _title(study: Study) -> str:
    suite = study.record.suite
    assert suite is not None
    source = f" · {suite.source}" if suite.source else ""
    return f"{suite.name}{source} · inputs: seed {study.record.recipe.seeds.get('study', 0)}"


def _case_name(trial: Trial) -> str:
    count = trial.case.facts.count
    return f"{trial.case.name} (x {count})" if count > 1 else trial.case.name


def _time(trial: Trial, quantity: str) -> str:
    median, interval = trial.median(quantity), trial.interval(quantity)
    if median is None:
        return "–"
    few = "too few launches" if len(trial.summaries(quantity)) > 1 else "too few samples"
    ends = few if interval is None else duration_range(interval.low, interval.high)
    return f"{duration(median)} ({ends})"


def _setup(trial: Trial) -> str:
    """Setting up and the first call together: what is paid once."""
    if trial.record.setup_ns is None or trial.record.first_call_ns is None:
        return "–"
    return duration((trial.record.setup_ns + trial.record.first_call_ns) / 1e9)


def _roof(trial: Trial) -> str:
    roof_share = trial.share
    if roof_share is None or roof_share.roof is None:
        return "–"
    return f"{100 * roof_share.roof:.0f} % {roof_share.bound}"


def _ratio(study: Study, trial: Trial) -> str:
    if trial.label == study.base:
        return "1 (base)"
    twin_of = trial.system.twin_of
    comparison = study.compare(trial.label, trial.case.label, twin_of)
    if comparison is None:
        return "–"
    word = comparison.word if twin_of is None else twin_word(comparison)
    return f"{significant(comparison.value)} {word}{f' over {twin_of}' if twin_of not in (None, study.base) else ''}"


def _giga(value: float | None) -> str:
    return "–" if value is None else significant(value / 1e9)


def _verdicts(study: Study, label: str) -> Text:
    words = [trial.verdict for trial in study[label].values()]
    parts = [f"{words.count(word)} {word}" for word in dict.fromkeys(words)]
    worst = next((word for word in ("failed", "wrong", "reduced precision") if word in words), "right")
    return Text(", ".join(parts) or "–", _STYLES[worst] if set(words) & set(_STYLES) else "")


def _of(number: int, whole: object) -> str:
    return f"{number}" if number == whole else f"{number} of {whole}"


def _some(names: list[str]) -> str:
    return ", ".join(names) if len(names) <= 3 else f"{', '.join(names[:2])} and {len(names) - 2} more cases"


def _limited(lines: list[str]) -> list[str]:
    return lines if len(lines) <= _REMARKS else [*lines[:_REMARKS], f"… and {len(lines) - _REMARKS} more such remarks"]
