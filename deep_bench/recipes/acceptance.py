"""Acceptance: what the figures of a cell must be, and whether that fits what the recipe measures.

The figures, verdicts and labels that a cell can have are known before anything runs: which is better, in which unit, and how
many significant bits.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from deep_bench.errors import InvalidArgument, nearest
from deep_bench.measure.units import in_unit, read_amount
from deep_bench.recipes.cell import VERDICTS, Cell, FigureKind
from deep_bench.recipes.faults import at_line, line_of, several
from deep_bench.results.result import LABEL_NAMES, text_of
from deep_bench.yaml_text import Place

if TYPE_CHECKING:
    from deep_bench.results.result import Result

FACTOR = "factor."
"""Before the label of a factor that has the name of another label."""


Values = frozenset[str] | None
"""Of a label; ``None`` for any, where it is not known before."""


def labels_of(cell: Cell) -> dict[str, Values]:
    """The labels that the results of a cell have, and their values; a factor's name stands for the factor.

    Example:
        >>> from deep_bench.recipes import load_experiment
        >>> found = labels_of(load_experiment("small-network").cells[1])
        >>> sorted(found["system"]), sorted(found["batch"]), found["device"]
        (['onnxruntime', 'reference'], ['64'], None)
    """
    labels: dict[str, Values] = dict.fromkeys((*cell.fields.labels, "host", "launches"))
    labels |= {name: frozenset(values) for name, values in cell.fields.label_values().items()}
    labels |= {"kind": frozenset([cell.level]), "recipe": frozenset([cell.recipe]), "cell": frozenset([cell.id])}
    for name, value in cell.factors.items():
        labels[name] = frozenset([text_of(value)])
        if name in LABEL_NAMES:
            labels[f"{FACTOR}{name}"] = labels[name]
    return labels


def is_label(name: str, labels: Mapping[str, Values]) -> bool:
    """Whether there is such a label, or one of which it says more.

    Example:
        >>> [is_label(name, {"option.": None, "network": None}) for name in ("option.threads", "network.sha256", "sytem")]
        [True, True, False]
    """
    head, dot, _ = name.partition(".")
    return name in labels or (bool(dot) and (f"{head}." in labels or head in labels))


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
            words = written if isinstance(written, list) else [written]
            for word in words:
                if word not in VERDICTS:
                    near = nearest(str(word), VERDICTS)
                    came = f"{word!r} is no verdict, which are {', '.join(VERDICTS)}"
                    raise ValueError(came + (f"; {near}" if near else ""))
            return cls(figure, verdicts=tuple(words), where=where or {}, place=place)
        match = re.fullmatch(r"\s*(<=|>=|<|>)\s*(.+)", written) if isinstance(written, str) else None
        if match is None:
            raise ValueError(f'{written!r} is no condition: write "<= 5 ms" or ">= 20"')
        value, unit = read_amount(match[2])
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

    def judge(self, result: Result) -> RuleOutcome:
        """Whether a result fulfils it."""
        if self.figure == VERDICT:
            return RuleOutcome(self, result.outcome in self.verdicts, result.outcome)
        if self.figure == BITS:
            bits = None if result.verdict is None else result.verdict.significant_bits
            if bits is None:
                return RuleOutcome(self, False, "no significant bits were found out")
            return RuleOutcome(self, self._holds(bits, self.value), f"{bits:.1f}")
        figure = result.figures.get(self.figure)
        if figure is None:
            available = ", ".join(result.figures) or "none"
            return RuleOutcome(
                self, False, f"no such figure: there are {available}; {nearest(self.figure, result.figures)}".rstrip("; ")
            )
        if self.better != figure.direction:
            return RuleOutcome(self, False, wrong_direction(figure.direction))
        from deep_bench.results.results import amount_text

        try:
            limit = in_unit(self.value, self.unit, figure.unit)
        except ValueError as error:
            return RuleOutcome(self, False, str(error))
        if math.isnan(figure.median):
            return RuleOutcome(self, False, "it has no samples")
        interval, text = figure.interval, amount_text(figure.median, figure.unit)
        remark = WITHOUT if interval is None else WITHIN if interval.low <= limit <= interval.high else ""
        finding = f"{text}; {remark}" if remark else text
        return RuleOutcome(self, self._holds(figure.median, limit), finding, remark=remark)

    def _holds(self, value: float, limit: float) -> bool:
        return {"<=": value <= limit, "<": value < limit, ">=": value >= limit, ">": value > limit}[self.sign]


@dataclass(frozen=True)
class RuleOutcome:
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
    """The conditions of a recipe, each by itself; `deep_bench.recipes.acceptance` sees whether they fit the recipe.

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


def judge_rules(rules: Sequence[Rule], results: Sequence[Result]) -> list[RuleOutcome]:
    """What results have to say to all conditions; a condition without a result that it is about is missed.

    Args:
        rules: The conditions.
        results: Of a cell.
    """
    judgements = []
    for rule in rules:
        about = []
        for result in results:  # where a factor has the name of another label, the factor is meant
            labels = {name: result.labels.get(f"{FACTOR}{name}", result.labels.get(name)) for name in rule.where}
            if labels == dict(rule.where):
                about.append(result)
        if not about:
            which = ", ".join(f"{name}={value}" for name, value in rule.where.items())
            judgements.append(RuleOutcome(rule, False, f"no result{' with ' + which if which else ''}"))
        for result in about:
            judgement = rule.judge(result)
            judgements.append(replace(judgement, result=result.name))
    return judgements


CellFigures = tuple[Cell, Mapping[str, FigureKind]]
"""A cell, and the figures that its results can have."""


_ABOVE_ZERO = ("s", "ns", "B", "B/s", "J")


def check_accepted(
    rules: Sequence[Rule], metrics: Sequence[str], cells: Sequence[CellFigures], lines: Mapping[Place, int]
) -> None:
    """See that each condition can be met, and that each figure of the final table can be there.

    Args:
        rules: The conditions.
        metrics: The figures of the table.
        cells: All cells with their figures.
        lines: Where each value of the file is.

    Raises:
        InvalidArgument: A figure or label that there is not, with the nearest that there is; a unit or a direction that is
            not the figure's; or a verdict that nothing can get.
    """
    faults: list[InvalidArgument] = []
    figure_names = list(dict.fromkeys(name for _, figures in cells for name in figures))
    for number, name in enumerate(metrics):
        if name not in figure_names:
            faults.append(_no_figure(name, "metrics", cells[0][0], figure_names, line_of(lines, ("metrics", number))))
    for rule in rules:
        in_where = _wrong_where(rule, [cell for cell, _ in cells], lines)
        faults += in_where
        line = line_of(lines, (*rule.place, rule.figure))
        about = ((cell, figures) for cell, figures in cells if not in_where and rule.about(cell))
        in_figures = (_wrong_figure(rule, cell, figures, line) for cell, figures in about)
        faults += [fault for fault in in_figures if fault is not None][:1]  # of the first cell in which something is wrong
    if faults:
        raise several(list({fault.came: fault for fault in faults}.values()))


def _wrong_where(rule: Rule, cells: Sequence[Cell], lines: Mapping[Place, int]) -> list[InvalidArgument]:
    label_maps = [labels_of(cell) for cell in cells]
    faults = []
    for name, value in rule.where.items():
        line = at_line(line_of(lines, (*rule.place, WHERE, name)))
        if not any(is_label(name, labels) for labels in label_maps):
            names = sorted({f"{label}NAME" if label.endswith(".") else label for labels in label_maps for label in labels})
            came = f"{line}{name!r} of where is no label of the results of level {cells[0].level}"
            faults.append(_unknown_name(came, name, names))
            continue
        values = {candidate for labels in label_maps for candidate in labels.get(name) or ()}
        if values and value not in values and all(labels.get(name) is not None for labels in label_maps):
            faults.append(_unknown_name(f"{line}no result has {name}={value}", value, sorted(values)))
    if not faults and not any(map(rule.about, cells)):
        which = ", ".join(f"{name}={value}" for name, value in rule.where.items())
        line = at_line(line_of(lines, (*rule.place, WHERE)))
        faults.append(InvalidArgument(f"{line}no cell has results with {which}", "labels that occur together"))
    return faults


def _wrong_figure(rule: Rule, cell: Cell, kinds: Mapping[str, FigureKind], line: int | None) -> InvalidArgument | None:
    about = f"{at_line(line)}{rule.figure!r} of accept"
    if rule.figure == VERDICT:
        possible = cell.fields.verdicts
        missing = not set(rule.verdicts) & set(possible)
        came = f"{about}: {' or '.join(rule.verdicts)}, where nothing is checked ({_place_of(cell)})"
        return InvalidArgument(came, f"one of {', '.join(possible)}, or no such condition") if missing else None
    if rule.figure == BITS:
        if not cell.fields.has_bits:
            return InvalidArgument(f"{about}: none are found out ({_place_of(cell)})", f"one of {', '.join(kinds)}")
        most = cell.fields.most_bits(cell)
        if rule.value < most or (rule.value == most and rule.sign == ">="):
            return None
        came = f"{about}: {rule.sign} {rule.value:g}, and {most} are all that its type has ({_place_of(cell)})"
        return InvalidArgument(came, f"at most {most}: float16 has 11, float32 24, float64 53")
    kind = kinds.get(rule.figure)
    if kind is None:
        extra = [VERDICT, *([BITS] if cell.fields.has_bits else [])]
        return _no_figure(rule.figure, "accept", cell, [*kinds, *extra], line)
    try:
        limit = in_unit(rule.value, rule.unit, kind.unit)
    except ValueError as error:
        return InvalidArgument(f"{about}: {error}")
    if rule.better != kind.direction:
        return InvalidArgument(f"{about}: {wrong_direction(kind.direction)}")
    if kind.unit in _ABOVE_ZERO and limit <= 0:
        return InvalidArgument(
            f"{about}: {rule.sign} {rule.value:g} {rule.unit}", "a limit above 0, as all that is found is"
        )
    return None


def _no_figure(name: str, part: str, cell: Cell, names: Iterable[str], line: int | None) -> InvalidArgument:
    need = cell.fields.what_is_needed(name)
    came = f"{at_line(line)}{name!r} of {part} is no figure of the results ({_place_of(cell)})"
    return InvalidArgument(f"{came}: it needs {need}") if need else _unknown_name(came, name, list(names))


def _unknown_name(came: str, name: str, names: Sequence[str]) -> InvalidArgument:
    near = nearest(name, names)
    return InvalidArgument(came, f"one of {', '.join(names)}", near)


def _place_of(cell: Cell) -> str:
    return f"level {cell.level}{', cell ' + cell.name if cell.factors else ''}"
