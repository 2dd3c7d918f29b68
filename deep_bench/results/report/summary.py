"""What a report concludes: the verdict, all figures, ratios to a named base, predictions, and what failed.

Ratios stand beside the absolute times that they are of, and each prediction says that it is one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite

import numpy as np

from deep_bench.distributed.scaling.record import ScalingRecord, where_it_stops
from deep_bench.distributed.scaling.report import FigureRows, measured_rows, step_rows
from deep_bench.errors import UnknownName
from deep_bench.measure.compare import BETWEEN_STARTS, BY_WALL, Estimate, corrected, estimate
from deep_bench.measure.units import significant
from deep_bench.results.change import severity
from deep_bench.results.report.model import (
    MARKS,
    Block,
    Cell,
    Code,
    Column,
    Lines,
    RecordSource,
    Sign,
    Table,
    Text,
    clean,
    clean_lines,
    further_labels,
    of_kinds,
    settings_of,
    system_of,
    title_of,
)
from deep_bench.results.result import Figure, Result
from deep_bench.results.results import Refused, amount_text, interval_text, problem_name

_MOST_LISTED = 30
_WORTH = ("failed", "wrong", "reduced precision", "cannot tell", "no information")
"""Outcomes that need a reason, the worst first."""


_MEANINGS = {
    "right": "nothing but rounding tells the result from that of the reference",
    "reduced precision": "computed less precisely than the data type allows",
    "wrong": "no rounding explains the difference: the times of these mean nothing",
    "cannot tell": "neither right nor wrong could be shown",
    "no information": "the rounding error reaches the result itself, so nothing can be checked",
    "failed": "ended with an error",
    "unchecked": "nothing was checked, so the times stand without a verdict",
}


def outcome_counts(results: Sequence[Result]) -> dict[str, int]:
    """Outcome to how many results have it, those that are known first and in their order."""
    by_outcome = Counter(result.outcome for result in results)
    return {
        word: by_outcome[word] for word in (*MARKS, *(word for word in by_outcome if word not in MARKS)) if by_outcome[word]
    }


def verdict_sentence(results: Sequence[Result]) -> str:
    """The verdict in one sentence.

    Example:
        >>> verdict_sentence([])
        'No results.'
    """
    by_outcome = outcome_counts(results)
    if not by_outcome:
        return "No results."
    total = len(results)
    bad = by_outcome.get("wrong", 0) + by_outcome.get("failed", 0)
    if set(by_outcome) == {"right"}:
        return (
            ("", "The result is right.", "Both results are right.")[total]
            if total < 3
            else f"All {total} results are right."
        )
    if bad:
        return f"{bad} of {total} result{'s' * (total != 1)} {'is' if bad == 1 else 'are'} wrong or failed."
    if set(by_outcome) == {"unchecked"}:
        if all(result.kind == "scaling" for result in results):
            return "These are predictions from traces of few ranks and measured steps of one."
        return "Nothing was checked: these are times and scores without a verdict on the numbers that were computed."
    right = by_outcome.get("right", 0)
    return f"Nothing was found wrong; {right} of {total} results {'is' if right == 1 else 'are'} right."


def verdict_blocks(results: Sequence[Result]) -> tuple[Block, ...]:
    """The counts with their signs, how many runs reached their target, and the results that are not right and why."""
    lines = tuple(
        (Sign(word), f"{count}; {_MEANINGS.get(word, 'a word that this version does not know')}")
        for word, count in outcome_counts(results).items()
    )
    parts: list[Block] = [Lines(lines)]
    reached = []
    for result in results:
        figure = result.figures.get("time to target")
        if figure is not None and figure.launches:
            runs, goal = len(figure.launches), clean(result.labels.get("target", "the target"), 120)
            subject = f"{clean(system_of(result))} on {clean(problem_name(result))}"
            reached.append(f"{subject}: {runs - sum(figure.censored)} of {runs} runs reached {goal}")
    if reached:
        parts.append(Lines(tuple(reached[:_MOST_LISTED])))
    if unfinished := sum(not result.complete for result in results):
        parts.append(Text(f"{unfinished} of the results are of runs that did not come to their end."))
    doubtful = sorted((r for r in results if r.outcome in _WORTH), key=lambda r: _WORTH.index(r.outcome))
    if doubtful:
        extra = len(doubtful) - _MOST_LISTED
        shown: list[str | tuple[Sign, str]] = [
            (Sign(r.outcome), f"{clean(system_of(r))} on {clean(problem_name(r))}: {outcome_reason(r)}")
            for r in doubtful[:_MOST_LISTED]
        ]
        if extra > 0:
            shown.append(f"and {extra} more, which the tables have")
        parts.append(Lines(tuple(shown)))
    return tuple(parts)


def outcome_reason(result: Result) -> str:
    """Why the outcome is what it is."""
    if result.errors:
        first = result.errors[0]
        suffix = f" (and {len(result.errors) - 1} more errors)" if len(result.errors) > 1 else ""
        return f"{clean(first.kind)}: {clean(first.message, 300)}{suffix}"
    return clean(result.verdict.reason, 400) if result.verdict is not None else "nothing was checked"


MOST_ROWS = 5_000
"""Rows of a summary, and of all figures of a kind together, at most."""


_MOST_FIGURES = 1_500
_MOST_REASONS = 12
_PREDICTED = "predicted"


def summary_blocks(results: Sequence[Result], known: Sequence[RecordSource]) -> list[Block]:
    """A table for each kind of record; the verdict stands before the time.

    Args:
        results: All of them.
        known: Their records, as far as they were read again.
    """
    parts: list[Block] = []
    for kind, kind_results in of_kinds(results).items():
        predictions = [source.record for source in known if source.kind == kind and isinstance(source.record, ScalingRecord)]
        if predictions and len({result.file for result in kind_results}) == len(predictions):
            parts += [block for record in predictions for block in prediction_blocks(record)]
            continue
        parts.append(_summary_table(kind, kind_results))
        parts += _aside_blocks(kind_results)
        parts += _without_interval(kind_results)
        if len(kind_results) > MOST_ROWS:
            parts.append(_more_rows(MOST_ROWS, len(kind_results)))
    return parts


def _aside_blocks(results: Sequence[Result]) -> list[Block]:
    """Which samples the n of a table does not count, or counts with another time."""
    shown = results[:MOST_ROWS]
    labels = further_labels(shown)
    lines = []
    for number, result in enumerate(shown):
        figure, (problem, system) = result.main, _names(result)
        if figure is not None and figure.aside:
            every = np.concatenate(figure.aside)
            ends = " to ".join(clean(amount_text(float(end), figure.unit)) for end in (every.min(), every.max()))
            apart = "".join(f", {clean(name)} {values[number]}" for name, values in labels.items())
            lines.append(
                f"{system} on {problem}{apart}: the median is of {clean(figure.remark, 200)}; {len(every)} samples were "
                f"preempted, another process having the processor: they took {ends} as they were timed"
            )
    overflow = [f"and {len(lines) - _MOST_REASONS} more, which All figures has"] if len(lines) > _MOST_REASONS else []
    return [Lines((*lines[:_MOST_REASONS], *overflow))] if lines else []


def _names(result: Result) -> tuple[str, str]:
    """Problem and system, as rows begin."""
    return clean(problem_name(result), 160), clean(system_of(result), 120)


def _without_interval(results: Sequence[Result]) -> list[Block]:
    """Why figures of the table have no interval, and what to do."""
    reasons = Counter(r.main.without_interval for r in results[:MOST_ROWS] if r.main is not None and not _predicts(r.main))
    lines = tuple(f"No interval of {count} of these: {clean(reason)}." for reason, count in reasons.items() if reason)
    return [Lines(lines[:_MOST_REASONS])] if lines else []


_MEASURED = (Column("95 % interval", True), Column("interval over"), Column("n", True))


def _summary_table(kind: str, results: Sequence[Result]) -> Table:
    shown = results[:MOST_ROWS]
    telling = further_labels(shown)
    figures = [result.main for result in shown if result.main is not None]
    names = list(dict.fromkeys(figure.name for figure in figures))
    several = len(names) > 1
    columns = (
        Column("problem"),
        Column("system"),
        *(Column(clean(name)) for name in telling),
        Column("verdict", first=True),
        *([Column("figure", first=True)] if several else []),
        Column("median" if any(figure.count > 1 for figure in figures) else "value", True, first=True),
        *_MEASURED,
        Column("significant bits", True),
    )
    rows: list[tuple[Cell, ...]] = []
    for number, result in enumerate(shown):
        figure, labels = result.main, [values[number] for values in telling.values()]
        figure_name = [clean(figure.name) if figure is not None else "–"] if several else []
        bits = result.verdict.significant_bits if result.verdict is not None else None
        cells = (*figure_cells(figure, result), "–" if bits is None else f"{bits:.1f}")
        rows.append((*_names(result), *labels, Sign(result.outcome), *figure_name, *cells))
    subtitle = f": {clean(f'{names[0]}, {figures[0].direction} is better')}" if len(names) == 1 else ""
    return Table(f"{title_of(kind)}{subtitle}", columns, tuple(rows), keys=2)


def figure_cells(figure: Figure | None, result: Result) -> tuple[str, str, str, str]:
    """Median, interval, what it is over, and n."""
    if figure is None:
        return "–", "–", "–", "0"
    shown = isfinite(figure.median) or figure.unit == "s"
    return (
        clean(amount_text(figure.median, figure.unit)) if shown else "–",
        "too few" if figure.interval is None else clean(interval_text(figure)),
        basis_text(figure, result),
        "–" if _PREDICTED in figure.name else str(figure.count),
    )


def basis_text(figure: Figure, result: Result) -> str:
    """What the interval is over.

    Example:
        >>> from datetime import datetime
        >>> from pathlib import Path
        >>> import numpy as np
        >>> result = Result("training", Path("r.json"), datetime(2026, 1, 1), {}, {})
        >>> basis_text(Figure("time", "s", "lower", tuple((np.array([float(n)]),) for n in range(7))), result)
        '7 runs'
    """
    if _predicts(figure):
        return "predicted, not measured"
    launches, runs = len(figure.medians), result.kind == "training"
    if launches > 1:
        return f"{launches} {'runs' if runs else 'launches'}"
    where = "one run" if runs else "one launch"
    return where if figure.interval is None else f"{figure.interval.basis} of {where}"


def _predicts(figure: Figure) -> bool:
    return _PREDICTED in figure.name or figure.remark.startswith(_PREDICTED)


def figure_blocks(results: Sequence[Result]) -> list[Block]:
    """All figures of all results, folded."""
    parts: list[Block] = []
    for kind, kind_results in of_kinds(results).items():
        telling = further_labels(kind_results)
        rows = [
            (
                *_names(result),
                *(values[number] for values in telling.values()),
                clean(figure.name),
                *figure_cells(figure, result),
                clean(figure.remark, 200),
            )
            for number, result in enumerate(kind_results)
            for figure in result.figures.values()
        ]
        columns = (
            Column("problem"),
            Column("system"),
            *(Column(clean(name)) for name in telling),
            Column("figure", first=True),
            Column("median", True, first=True),
            *_MEASURED,
            Column("remark"),
        )
        shown = tuple(rows[:_MOST_FIGURES])
        parts.append(Table(f"{title_of(kind)}: all figures", columns, shown, keys=2, folded=True))
        if len(rows) > _MOST_FIGURES:
            parts.append(_more_rows(_MOST_FIGURES, len(rows)))
    return parts


def _more_rows(shown: int, total: int) -> Text:
    return Text(f"The first {shown} of {total} rows; all are in the records: deep-bench export.")


def prediction_blocks(record: ScalingRecord) -> list[Block]:
    """The step, its parts and the speed-up for each number of ranks; what was measured beside it; and where it stops."""
    parts: list[Block] = [_prediction_table(step_rows(record))]
    if record.measured:
        parts.append(_prediction_table(measured_rows(record)))
    lines = (
        [*where_it_stops(record), f"machine: {record.machine}", f"simulator: {record.simulator}"] if record.points else []
    )
    if any(point.beyond for point in record.points):
        lines.append("*: more ranks than measured steps; see the assumptions among the notes")
    return [*parts, Lines(tuple(map(clean, lines)))]


def _prediction_table(rows: FigureRows) -> Table:
    """The rows without columns that have nothing in them, such as those of a simulator that was not asked."""
    places = [place for place, cells in enumerate(zip(*rows.cells, strict=True)) if set(cells) != {"–"}]
    columns = tuple(Column(rows.columns[place].strip(), True) for place in places)
    cells = tuple(tuple(clean(row[place]) for place in places) for row in rows.cells)
    return Table(clean(f"{rows.title[:1].upper()}{rows.title[1:]}"), columns, cells)


MARGIN = 0.02
"""The relative difference that counts as none."""


_MOST_RATIOS = 1_000


@dataclass(frozen=True)
class Base:
    """What others are compared with.

    Args:
        factor: The label that tells it from them.
        value: Its value of it.
    """

    factor: str
    value: str

    def of(self, result: Result) -> str:
        """A result's value of the factor."""
        return system_of(result) if self.factor == "system" else result.labels.get(self.factor, "–")


@dataclass(frozen=True)
class _Ratio:
    before: Result
    after: Result
    change: Estimate

    @classmethod
    def of(cls, before: Result, after: Result) -> _Ratio:
        assert before.main is not None
        assert after.main is not None
        return cls(before, after, estimate(before.main, after.main, MARGIN, apart=before.file != after.file))


def named_base(results: Sequence[Result], base: str) -> Base:
    """The base that is asked for: a system, or a label and its value.

    Args:
        results: All of them.
        base: ``"torch"``, ``"torch:threads=1"`` or ``"optimizer=Adam"``.

    Raises:
        UnknownName: No result has it.
    """
    systems = dict.fromkeys(map(system_of, results))
    if base in systems:
        return Base("system", base)
    factor, equals, value = base.partition("=")
    values = dict.fromkeys(result.labels[factor] for result in results if factor in result.labels)
    if equals and value in values:
        return Base(factor, value)
    raise UnknownName("base", base, [*systems, *(f"{factor}={choice}" for choice in values)])


def usual_base(results: Sequence[Result]) -> Base | None:
    """The base where none is asked for: the system with most results that are not wrong; ``None`` where there is only one.

    Of several the first; kernels of the user's own come after frameworks.
    """
    order = list(dict.fromkeys(map(system_of, results)))
    if len(order) < 2:
        return None
    sound = Counter(system_of(r) for r in results if severity(r.outcome) == 0 and r.main is not None)
    operators = {system_of(r) for r in results if r.labels.get("framework") == "operator"}
    return Base("system", min(order, key=lambda name: (name in operators, -sound[name], order.index(name))))


def ratio_blocks(results: Sequence[Result], base: str | None) -> list[Block]:
    """A table for each kind of record that has several systems."""
    named = named_base(results, base) if base is not None else None
    tables: list[Table] = []
    extra: list[str] = []
    shown: list[_Ratio] = []
    for kind, kind_results in of_kinds(results).items():
        kind_base = named or usual_base(kind_results)
        pairs = _base_pairs(kind_results, kind_base) if kind_base is not None and kind != "scaling" else []
        if kind_base is not None and pairs:
            measured = [_Ratio.of(*pair) for pair in pairs[:_MOST_RATIOS]]
            tables.append(_ratio_table(kind, measured, kind_base))
            shown += measured
            extra += (
                [f"{title_of(kind)}: the first {_MOST_RATIOS} of {len(pairs)} ratios"] if len(pairs) > _MOST_RATIOS else []
            )
    if not tables:
        return [Text("Nothing stands beside anything else of the same problem, so there are no ratios.")]
    if by_wall := sum(pair.change.by_wall for pair in shown):
        extra.append(f"{by_wall} of them: {BY_WALL}.")
    lines = [
        "A ratio is of two medians; below 1 is less than the base. The 95 % interval is of each ratio alone; the words hold "
        "for all ratios of a table together (Holm), and equivalent means within 2 % by two one-sided tests.",
        "Systems of one record took turns when they were timed. A ratio of results from two records says so: there the "
        "difference between two runs is in it as well, and of single launches nothing under "
        f"{100 * BETWEEN_STARTS:g} % is called.",
        *extra,
        *(
            f"No interval: {clean(reason)}."
            for reason in dict.fromkeys(pair.change.why for pair in shown if pair.change.why)
        ),
    ]
    return [*tables, Lines(tuple(lines))]


def _base_pairs(results: Sequence[Result], base: Base) -> list[tuple[Result, Result]]:
    """The base on the same problem, of the same record where that has it, else of the same machine, and each result."""
    bases: dict[str, list[Result]] = {}
    for result in results:
        if base.of(result) == base.value and result.main is not None:
            bases.setdefault(problem_name(result), []).append(result)
    pairs = []
    for result in results:
        if base.of(result) == base.value or result.main is None:
            continue
        settings, candidates = settings_of(result, base.factor), []
        for candidate in bases.get(problem_name(result), []):  # no label that both have may tell them apart
            if all(settings.get(name, value) == value for name, value in settings_of(candidate, base.factor).items()):
                candidates.append(candidate)
        near = [candidate for candidate in candidates if candidate.file == result.file]
        near = near or [candidate for candidate in candidates if _machine_of(candidate) == _machine_of(result)]
        if near and near[0].main is not None and near[0].main.name == result.main.name:
            pairs.append((near[0], result))
    return pairs


def _machine_of(result: Result) -> tuple[object, ...]:
    e = result.environment
    return () if e is None else (e.hostname, e.cpu_model, e.kernel, [gpu.name for gpu in e.gpus or ()])


def _ratio_table(kind: str, pairs: Sequence[_Ratio], base: Base) -> Table:
    tested = [pair.change for pair in pairs if pair.change.p is not None and pair.change.p_equivalent is not None]
    p = corrected([float(change.p or 0) for change in tested], "holm")
    equivalence_p = corrected([float(change.p_equivalent or 0) for change in tested], "holm")
    by_id = {id(change): both for change, both in zip(tested, zip(p, equivalence_p, strict=True), strict=True)}
    name = clean(base.value) if base.factor == "system" else clean(f"{base.factor} {base.value}")
    telling = further_labels([pair.after for pair in pairs], base.of)
    columns = (
        Column("problem"),
        Column(clean(base.factor)),
        *(Column(clean(label)) for label in telling),
        Column("verdict", first=True),
        Column("median", True, first=True),
        Column(f"{name}, the base", True),
        Column("verdict of the base"),
        Column("ratio", True, first=True),
        Column("95 % interval", True),
        Column("in words"),
    )
    rows: list[tuple[Cell, ...]] = []
    for number, pair in enumerate(pairs):
        before, after, change = pair.before, pair.after, pair.change
        assert after.main is not None
        wrong = max(severity(before.outcome), severity(after.outcome)) >= 2
        word = change.word_for(*by_id.get(id(change), (None, None)))
        ends = change.interval
        rows.append(
            (
                clean(problem_name(after), 160),
                clean(base.of(after), 120),
                *(values[number] for values in telling.values()),
                Sign(after.outcome),
                clean(amount_text(after.main.median, after.main.unit)),
                clean(amount_text(change.before, after.main.unit)),
                Sign(before.outcome),
                _ratio_text(change.value, change),
                "too few" if ends is None else f"{_ratio_text(ends[0], change)} to {_ratio_text(ends[1], change)}",
                f"{'not comparable: a result is wrong' if wrong else word}"
                f"{'; of two records' if before.file != after.file else ''}",
            )
        )
    figure = pairs[0].after.main
    subtitle = f": {clean(figure.name)}, {figure.direction} is better" if figure is not None else ""
    return Table(f"{title_of(kind)} over {name}{subtitle}", columns, tuple(rows), keys=2 + len(telling))


def _ratio_text(value: float, change: Estimate) -> str:
    """A ratio, or a difference with its sign."""
    if not isfinite(value):
        return "no end" if value > 0 else "–"
    return significant(value) if change.scale == "ratio" else f"{value:+.3g}"


_MOST_FAILURES = 60
_MOST_DETAILS = 3_000
_ERRORS = (Column("system"), Column("problem"), Column("error"), Column("message"))


def failure_blocks(results: Sequence[Result], refused: Sequence[Refused]) -> list[Block]:
    """Each error with its details, and each file that was not read with the reason."""
    parts: list[Block] = []
    pairs = [(result, error) for result in results for error in result.errors]
    if pairs:
        shown = pairs[:_MOST_FAILURES]
        rows = tuple((*reversed(_names(result)), clean(error.kind), clean(error.message)) for result, error in shown)
        parts.append(Table("Errors", _ERRORS, rows, keys=2, wordy=True))
        for result, error in shown:
            if error.details.strip():
                details = clean_lines(error.details[-_MOST_DETAILS:])
                parts.append(Code(details, clean(f"{system_of(result)}: details")))
        if len(pairs) > _MOST_FAILURES:
            parts.append(Text(f"{len(pairs) - _MOST_FAILURES} more errors are in the records."))
    if refused:
        files = tuple((clean(refusal.file, 200), clean(refusal.reason)) for refusal in refused[:_MOST_FAILURES])
        parts.append(Table("Files that were not read", (Column("file"), Column("why")), files, wordy=True))
        if len(refused) > _MOST_FAILURES:
            parts.append(Text(f"{len(refused) - _MOST_FAILURES} more were not read."))
    return parts or [Text("Nothing failed, and every file was read.")]
