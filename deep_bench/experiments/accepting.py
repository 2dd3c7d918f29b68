"""Whether what a recipe accepts and shows fits what it measures: figures, units, directions, labels."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from deep_bench.errors import InvalidArgument
from deep_bench.experiments.acceptance import BITS, VERDICT, WHERE, Rule, wrong_direction
from deep_bench.experiments.bits import most_bits
from deep_bench.experiments.cell import Cell
from deep_bench.experiments.expected import Kind, has_bits, is_known, labels_of, needed, verdicts_of
from deep_bench.experiments.refusal import at_line, line_of, nearest, several
from deep_bench.experiments.units import in_unit
from deep_bench.yaml_text import Place

Known = tuple[Cell, Mapping[str, Kind]]
"""A cell, and the figures that its results can have."""

_ABOVE_ZERO = ("s", "ns", "B", "B/s", "J")


def check_accepted(
    rules: Sequence[Rule], metrics: Sequence[str], cells: Sequence[Known], lines: Mapping[Place, int]
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
    faults = [*_wrong_metrics(metrics, cells, lines)]
    for rule in rules:
        faults += _wrong_where(rule, [cell for cell, _ in cells], lines) or _wrong_figure(rule, cells, lines)
    if faults:
        raise several(list({fault.came: fault for fault in faults}.values()))


def _wrong_metrics(metrics: Sequence[str], cells: Sequence[Known], lines: Mapping[Place, int]) -> Iterator[InvalidArgument]:
    figure_names = list(dict.fromkeys(name for _, figures in cells for name in figures))
    for number, name in enumerate(metrics):
        if name not in figure_names:
            yield _no_figure(name, "metrics", cells[0][0], figure_names, line_of(lines, ("metrics", number)))


def _wrong_where(rule: Rule, cells: Sequence[Cell], lines: Mapping[Place, int]) -> list[InvalidArgument]:
    label_maps = [labels_of(cell) for cell in cells]
    faults = []
    for name, value in rule.where.items():
        line = at_line(line_of(lines, (*rule.place, WHERE, name)))
        if not any(is_known(name, labels) for labels in label_maps):
            names = sorted({f"{label}NAME" if label.endswith(".") else label for labels in label_maps for label in labels})
            came = f"{line}{name!r} of where is no label of the results of level {cells[0].level}"
            faults.append(_fault(came, name, names))
            continue
        values = {candidate for labels in label_maps for candidate in labels.get(name) or ()}
        if values and value not in values and all(labels.get(name) is not None for labels in label_maps):
            faults.append(_fault(f"{line}no result has {name}={value}", value, sorted(values)))
    if not faults and not any(map(rule.about, cells)):
        which = ", ".join(f"{name}={value}" for name, value in rule.where.items())
        line = at_line(line_of(lines, (*rule.place, WHERE)))
        faults.append(InvalidArgument(f"{line}no cell has results with {which}", "labels that occur together"))
    return faults


def _wrong_figure(rule: Rule, cells: Sequence[Known], lines: Mapping[Place, int]) -> list[InvalidArgument]:
    """What is wrong in the first cell in which something is."""
    line = line_of(lines, (*rule.place, rule.figure))
    about = ((cell, figures) for cell, figures in cells if rule.about(cell))
    faults = (_in_cell(rule, cell, figures, line) for cell, figures in about)
    return [fault for fault in faults if fault is not None][:1]


def _in_cell(rule: Rule, cell: Cell, kinds: Mapping[str, Kind], line: int | None) -> InvalidArgument | None:
    about = f"{at_line(line)}{rule.figure!r} of accept"
    if rule.figure == VERDICT:
        possible = verdicts_of(cell)
        missing = not set(rule.verdicts) & set(possible)
        came = f"{about}: {' or '.join(rule.verdicts)}, where nothing is checked ({_of(cell)})"
        return InvalidArgument(came, f"one of {', '.join(possible)}, or no such condition") if missing else None
    if rule.figure == BITS:
        came = f"{about}: none are found out ({_of(cell)})"
        return _wrong_bits(rule, cell, about) if has_bits(cell) else InvalidArgument(came, f"one of {', '.join(kinds)}")
    kind = kinds.get(rule.figure)
    if kind is None:
        extra = [VERDICT, *([BITS] if has_bits(cell) else [])]
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


def _wrong_bits(rule: Rule, cell: Cell, about: str) -> InvalidArgument | None:
    most = most_bits(cell)
    possible = rule.value < most or (rule.value == most and rule.sign == ">=")
    came = f"{about}: {rule.sign} {rule.value:g}, and {most} are all that its type has ({_of(cell)})"
    return None if possible else InvalidArgument(came, f"at most {most}: float16 has 11, float32 24, float64 53")


def _no_figure(name: str, part: str, cell: Cell, names: Iterable[str], line: int | None) -> InvalidArgument:
    need = needed(cell.level, name)
    came = f"{at_line(line)}{name!r} of {part} is no figure of the results ({_of(cell)})"
    return InvalidArgument(f"{came}: it needs {need}") if need else _fault(came, name, list(names))


def _fault(came: str, name: str, names: Sequence[str]) -> InvalidArgument:
    near = nearest(name, names)
    return InvalidArgument(came, f"one of {', '.join(names)}", near)


def _of(cell: Cell) -> str:
    return f"level {cell.level}{', cell ' + cell.name if cell.factors else ''}"
