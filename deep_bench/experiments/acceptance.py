"""Acceptance: what the figures of a cell must be, which figure by figure knows what is better and in which unit it is."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from deep_bench.errors import InvalidArgument
from deep_bench.experiments.cell import Cell
from deep_bench.experiments.expected import FACTOR, VERDICTS, labels_of
from deep_bench.experiments.refusal import at_line, line_of, nearest, several
from deep_bench.experiments.units import amount, in_unit
from deep_bench.results.reading.labels import text_of
from deep_bench.yaml_text import Place

if TYPE_CHECKING:
    from deep_bench.results.result import Figure, Result

VERDICT = "verdict"
BITS = "significant bits"
WHERE = "where"

WITHOUT = "without an interval"
"""Remark: the samples are too few to say how far off the median may be."""

WITHIN = "the limit is within its interval"
"""Remark: the same measurement, made again, may well come out on the other side."""

_SIGNS = {"<=": "lower", "<": "lower", ">=": "higher", ">": "higher"}


@dataclass(frozen=True)
class Rule:
    """One condition.

    Args:
        figure: Its name; ``verdict`` and ``significant bits`` are those of the verdict.
        sign: ``<=``, ``<``, ``>=`` or ``>``; empty for verdicts.
        value: The limit, in
        unit: this unit, as written.
        verdicts: Which are accepted.
        where: Labels of the results that it is about; all of a cell by default.
        place: Of the group of conditions that it stands in, in the recipe.
    """

    figure: str
    sign: str = ""
    value: float = 0.0
    unit: str = ""
    verdicts: tuple[str, ...] = ()
    where: Mapping[str, str] = field(default_factory=dict)
    place: Place = field(default=(), compare=False)

    def __str__(self) -> str:
        if self.figure == VERDICT:
            return f"verdict {' or '.join(self.verdicts)}"
        return f"{self.figure} {self.sign} {self.value:g}{' ' if self.unit else ''}{self.unit}"

    @classmethod
    def parse(cls, figure: str, written: Any, where: Mapping[str, str] | None = None, place: Place = ()) -> Rule:
        """Read a condition as a recipe has it.

        Raises:
            ValueError: It is none; what one looks like is told.

        Example:
            >>> str(Rule.parse("forward", "<= 5 ms")), str(Rule.parse("verdict", ["right", "reduced precision"]))
            ('forward <= 5 ms', 'verdict right or reduced precision')
        """
        if figure == VERDICT:
            return cls(figure, verdicts=_verdicts(written), where=where or {}, place=place)
        match = re.fullmatch(r"\s*(<=|>=|<|>)\s*(.+)", written) if isinstance(written, str) else None
        if match is None:
            raise ValueError(f'{written!r} is no condition: write "<= 5 ms" or ">= 20"')
        value, unit = amount(match[2])
        if figure == BITS and (_SIGNS[match[1]] != "higher" or unit):
            raise ValueError(f'{written!r}: more significant bits are better, and have no unit: write ">= 20"')
        return cls(figure, match[1], value, unit, where=where or {}, place=place)

    @property
    def better(self) -> str:
        """Which values fulfil it: ``"lower"`` or ``"higher"`` ones."""
        return _SIGNS[self.sign]

    def about(self, cell: Cell) -> bool:
        """Whether a cell can have results that it is about."""
        labels = labels_of(cell)
        return all((values := labels.get(name)) is None or value in values for name, value in self.where.items())

    def judge(self, result: Result) -> Judged:
        """Whether a result fulfils it."""
        if self.figure == VERDICT:
            return Judged(self, result.outcome in self.verdicts, result.outcome)
        if self.figure == BITS:
            bits = None if result.verdict is None else result.verdict.significant_bits
            if bits is None:
                return Judged(self, False, "no significant bits were found out")
            return Judged(self, self._holds(bits, self.value), f"{bits:.1f}")
        figure = result.figures.get(self.figure)
        if figure is None:
            available = ", ".join(result.figures) or "none"
            return Judged(
                self, False, f"no such figure: there are {available}; {nearest(self.figure, result.figures)}".rstrip("; ")
            )
        return self._of(figure)

    def _of(self, figure: Figure) -> Judged:
        if self.better != figure.direction:
            return Judged(self, False, wrong_direction(figure.direction))
        from deep_bench.results import table

        try:
            limit = in_unit(self.value, self.unit, figure.unit)
        except ValueError as error:
            return Judged(self, False, str(error))
        if math.isnan(figure.median):
            return Judged(self, False, "it has no samples")
        interval = figure.interval
        remark = ""
        if interval is None:
            remark = WITHOUT
        elif interval.low <= limit <= interval.high:
            remark = WITHIN
        text = table.amount(figure.median, figure.unit)
        finding = f"{text}; {remark}" if remark else text
        return Judged(self, self._holds(figure.median, limit), finding, remark=remark)

    def _holds(self, value: float, limit: float) -> bool:
        return {"<=": value <= limit, "<": value < limit, ">=": value >= limit, ">": value > limit}[self.sign]


@dataclass(frozen=True)
class Judged:
    """A condition, and what a result has to say to it.

    Args:
        rule: The condition.
        met: Whether it is fulfilled.
        found: What was found.
        result: The result's name.
        remark: What makes it uncertain, whether it is met or not: `WITHOUT`, `WITHIN` or nothing.
    """

    rule: Rule
    met: bool
    found: str
    result: str = ""
    remark: str = ""

    def as_json(self) -> dict[str, str | bool]:
        """The same as plain JSON."""
        fields = {"result": self.result, "condition": str(self.rule), "found": self.found, "remark": self.remark}
        return {**fields, "met": self.met}

    def __str__(self) -> str:
        return f"{self.result + ': ' if self.result else ''}{self.rule} {'met' if self.met else 'missed'} ({self.found})"


def wrong_direction(better: str) -> str:
    """What is wrong with the sign of a condition.

    Example:
        >>> wrong_direction("lower")
        "lower is better: write '<='"
    """
    return f"{better} is better: write {next(sign for sign, direction in _SIGNS.items() if direction == better)!r}"


def rules_of(accept: Mapping[str, Any] | Sequence[Mapping[str, Any]], lines: Mapping[Place, int]) -> tuple[Rule, ...]:
    """The conditions of a recipe, each by itself; `deep_bench.experiments.accepting` sees whether they fit the recipe.

    Raises:
        InvalidArgument: One is none; with its line.

    Example:
        >>> [str(rule) for rule in rules_of({"forward": "<= 5 ms", "verdict": "right"}, {})]
        ['forward <= 5 ms', 'verdict right']
    """
    groups: list[tuple[Place, Mapping[str, Any]]]
    groups = [(("accept",), accept)] if isinstance(accept, Mapping) else [(("accept", n), a) for n, a in enumerate(accept)]
    rules: list[Rule] = []
    faults: list[InvalidArgument] = []
    for place, group in groups:
        where = group.get(WHERE, {})
        if not isinstance(where, Mapping):
            line = at_line(line_of(lines, (*place, WHERE)))
            faults.append(InvalidArgument(f"{line}'where' is {where!r}", "label: value, such as {system: torch}"))
            continue
        labels = {str(name): text_of(value) for name, value in where.items()}
        for figure, written in group.items():
            if figure == WHERE:
                continue
            try:
                rules.append(Rule.parse(figure, written, labels, place))
            except ValueError as error:
                line = at_line(line_of(lines, (*place, figure)))
                faults.append(InvalidArgument(f"{line}{figure!r} of accept: {error}"))
    if faults:
        raise several(faults)
    return tuple(rules)


def judged(rules: Sequence[Rule], results: Sequence[Result]) -> list[Judged]:
    """What results have to say to all conditions; a condition without a result that it is about is missed.

    Args:
        rules: The conditions.
        results: Of a cell.
    """
    judgements = []
    for rule in rules:
        about = [result for result in results if all(_label(result, name) == value for name, value in rule.where.items())]
        if not about:
            which = ", ".join(f"{name}={value}" for name, value in rule.where.items())
            judgements.append(Judged(rule, False, f"no result{' with ' + which if which else ''}"))
        for result in about:
            judgement = rule.judge(result)
            judgements.append(replace(judgement, result=result.name))
    return judgements


def _label(result: Result, name: str) -> str | None:
    """A label; where a factor has the name of another label, the factor is meant."""
    return result.labels.get(f"{FACTOR}{name}", result.labels.get(name))


def _verdicts(written: Any) -> tuple[str, ...]:
    words = written if isinstance(written, list) else [written]
    for word in words:
        if word not in VERDICTS:
            near = nearest(str(word), VERDICTS)
            raise ValueError(f"{word!r} is no verdict, which are {', '.join(VERDICTS)}" + (f"; {near}" if near else ""))
    return tuple(words)
