"""Ratios to a named base, with the absolute times that they are of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite

from deep_bench.errors import UnknownName
from deep_bench.measure.units import significant
from deep_bench.results.comparing.comparison import said as word_for
from deep_bench.results.comparing.comparison import severity
from deep_bench.results.comparing.correction import corrected
from deep_bench.results.comparing.estimate import Estimate, estimate
from deep_bench.results.comparing.starts import BETWEEN_STARTS
from deep_bench.results.report.model import Block, Cell, Column, Lines, Sign, Table, Text, clean
from deep_bench.results.report.naming import further, of_kinds, settings, system_of, title_of
from deep_bench.results.result import Result
from deep_bench.results.table import amount, problem

MARGIN = 0.02
"""The relative difference that counts as none."""

_MOST = 1_000


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
class _Pair:
    before: Result
    after: Result
    change: Estimate

    @property
    def apart(self) -> bool:
        return self.before.file != self.after.file


def asked(results: Sequence[Result], base: str) -> Base:
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


def usual(results: Sequence[Result]) -> Base | None:
    """The base where none is asked for: the system with most results that are not wrong; ``None`` where there is only one.

    Of several the first; kernels of the user's own come after frameworks.
    """
    order = list(dict.fromkeys(map(system_of, results)))
    if len(order) < 2:
        return None
    sound = Counter(system_of(r) for r in results if severity(r.outcome) == 0 and r.main is not None)
    operators = {system_of(r) for r in results if r.labels.get("framework") == "operator"}
    return Base("system", min(order, key=lambda name: (name in operators, -sound[name], order.index(name))))


def blocks(results: Sequence[Result], base: str | None) -> list[Block]:
    """A table for each kind of record that has several systems."""
    named = asked(results, base) if base is not None else None
    tables: list[Table] = []
    extra: list[str] = []
    shown: list[_Pair] = []
    for kind, kind_results in of_kinds(results).items():
        kind_base = named or usual(kind_results)
        pairs = _pairs(kind_results, kind_base) if kind_base is not None and kind != "scaling" else []
        if kind_base is not None and pairs:
            measured = [_measured(*pair) for pair in pairs[:_MOST]]
            tables.append(_table(kind, measured, kind_base))
            shown += measured
            extra += [f"{title_of(kind)}: the first {_MOST} of {len(pairs)} ratios"] if len(pairs) > _MOST else []
    if not tables:
        return [Text("Nothing stands beside anything else of the same problem, so there are no ratios.")]
    lines = [
        "A ratio is of two medians; below 1 is less than the base. The 95 % interval is of each ratio alone; the words hold "
        "for all ratios of a table together (Holm), and no difference means within 2 % by two one-sided tests.",
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


def _measured(before: Result, after: Result) -> _Pair:
    assert before.main is not None
    assert after.main is not None
    return _Pair(before, after, estimate(before.main, after.main, MARGIN, apart=before.file != after.file))


def _pairs(results: Sequence[Result], base: Base) -> list[tuple[Result, Result]]:
    """The base on the same problem, of the same record where that has it, and each result."""
    bases: dict[str, list[Result]] = {}
    for result in results:
        if base.of(result) == base.value and result.main is not None:
            bases.setdefault(problem(result), []).append(result)
    pairs = []
    for result in results:
        candidates = [candidate for candidate in bases.get(problem(result), []) if _agree(candidate, result, base.factor)]
        if base.of(result) == base.value or result.main is None or not candidates:
            continue
        before = next((candidate for candidate in candidates if candidate.file == result.file), None) or _elsewhere(
            candidates, result
        )
        if before is not None and before.main is not None and before.main.name == result.main.name:
            pairs.append((before, result))
    return pairs


def _agree(first: Result, second: Result, factor: str) -> bool:
    """Whether no label that both have tells them apart beside the factor."""
    ours, theirs = settings(first, factor), settings(second, factor)
    return all(theirs.get(name, value) == value for name, value in ours.items())


def _elsewhere(candidates: Sequence[Result], result: Result) -> Result | None:
    """The base of another record, if it is of the same machine."""
    return next((candidate for candidate in candidates if _machine(candidate) == _machine(result)), None)


def _machine(result: Result) -> tuple[object, ...]:
    e = result.environment
    return () if e is None else (e.hostname, e.cpu_model, e.kernel, [gpu.name for gpu in e.gpus or ()])


def _table(kind: str, pairs: Sequence[_Pair], base: Base) -> Table:
    tested = [pair.change for pair in pairs if pair.change.p is not None and pair.change.p_equivalent is not None]
    p = corrected([float(change.p or 0) for change in tested], "holm")
    equivalence_p = corrected([float(change.p_equivalent or 0) for change in tested], "holm")
    by_id = {id(change): both for change, both in zip(tested, zip(p, equivalence_p, strict=True), strict=True)}
    name = clean(base.value) if base.factor == "system" else clean(f"{base.factor} {base.value}")
    telling = further([pair.after for pair in pairs], base.of)
    columns = (
        Column("problem"), Column(clean(base.factor)), *(Column(clean(label)) for label in telling),
        Column("verdict", first=True), Column("median", True, first=True),
        Column(f"{name}, the base", True), Column("verdict of the base"), Column("ratio", True, first=True),
        Column("95 % interval", True), Column("in words"),
    )  # fmt: skip
    rows = tuple(
        _row(pair, base, [values[number] for values in telling.values()], by_id.get(id(pair.change), (None, None)))
        for number, pair in enumerate(pairs)
    )
    figure = pairs[0].after.main
    subtitle = f": {clean(figure.name)}, {figure.direction} is better" if figure is not None else ""
    return Table(f"{title_of(kind)} over {name}{subtitle}", columns, rows, keys=2 + len(telling))


def _row(pair: _Pair, base: Base, telling: Sequence[str], p: tuple[float | None, float | None]) -> tuple[Cell, ...]:
    figure = pair.after.main
    assert figure is not None
    change = pair.change
    wrong = max(severity(pair.before.outcome), severity(pair.after.outcome)) >= 2
    word = "not comparable: a result is wrong" if wrong else word_for(change, *p, figure.unit, figure.direction)
    ends = change.interval
    return (
        clean(problem(pair.after), 160),
        clean(base.of(pair.after), 120),
        *telling,
        Sign(pair.after.outcome),
        clean(amount(figure.median, figure.unit)),
        clean(amount(change.before, figure.unit)),
        Sign(pair.before.outcome),
        _shown(change.value, change),
        "too few" if ends is None else f"{_shown(ends[0], change)} to {_shown(ends[1], change)}",
        f"{word}{'; of two records' if pair.apart else ''}",
    )


def _shown(value: float, change: Estimate) -> str:
    """A ratio, or a difference with its sign."""
    if not isfinite(value):
        return "no end" if value > 0 else "–"
    return significant(value) if change.scale == "ratio" else f"{value:+.3g}"
