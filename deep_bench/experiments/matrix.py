"""The matrix of a recipe: which combinations of factors there are, and which of them are one measurement."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from math import prod
from typing import Any

from deep_bench.errors import InvalidArgument
from deep_bench.experiments.refusal import at_line, line_of, nearest
from deep_bench.experiments.schema import ExperimentModel
from deep_bench.yaml_text import Place

MOST_CELLS = 10_000

Combination = Mapping[str, Any]


def combinations(model: ExperimentModel, lines: Mapping[Place, int]) -> list[Combination]:
    """All combinations of the factors, without those that are excluded and with those that are included; each once.

    Raises:
        InvalidArgument: They are too many or none; a factor has no values, or one twice; or ``exclude`` names a factor or
            value that there is not.
    """
    _check_values(model, lines)
    count = prod(len(values) for values in model.matrix.values())
    if count > MOST_CELLS:
        raise InvalidArgument(f"the matrix of {model.name!r} has {count} combinations", f"at most {MOST_CELLS}")
    _check_excluded(model, lines)
    remaining = [
        combination for combination in _product(model.matrix) if not any(_fits(combination, rule) for rule in model.exclude)
    ]
    added = [
        {**combination, **entry}
        for entry in model.include
        for combination in _product({name: values for name, values in model.matrix.items() if name not in entry})
    ]
    unique: list[Combination] = list({canonical(combination): combination for combination in [*remaining, *added]}.values())
    if not 0 < len(unique) <= MOST_CELLS:
        raise InvalidArgument(f"the matrix of {model.name!r} leaves {len(unique)} combinations", f"1 to {MOST_CELLS}")
    return unique


def measurements(found: Iterable[Combination], together: str | None) -> list[tuple[Combination, tuple[Any, ...]]]:
    """Combinations that differ in nothing but the factor that is compared within one measurement, put together.

    Args:
        found: The combinations.
        together: That factor; ``None`` if it does not vary.

    Returns:
        The other factors, and the values of that one.

    Example:
        >>> combinations = [{"on": "torch", "batch": 1}, {"on": "onnxruntime", "batch": 1}, {"on": "torch", "batch": 8}]
        >>> measurements(combinations, "on")
        [({'batch': 1}, ('torch', 'onnxruntime')), ({'batch': 8}, ('torch',))]
    """
    groups: dict[str, tuple[Combination, dict[str, Any]]] = {}
    for combination in found:
        remaining = {name: value for name, value in combination.items() if name != together}
        _, values = groups.setdefault(canonical(remaining), (remaining, {}))
        if together is not None and together in combination:
            values[canonical(combination[together])] = combination[together]
    return [(remaining, tuple(values.values())) for remaining, values in groups.values()]


def selected(found: Sequence[Any], wanted: Sequence[str], known: Mapping[str, Sequence[Any]]) -> list[Any]:
    """The cells that have these values of factors.

    Args:
        found: Cells.
        wanted: ``factor=value`` each; of several values of one factor, any.
        known: Factor to its values.

    Raises:
        InvalidArgument: No ``factor=value``, or none that there is.
    """
    requested: dict[str, set[str]] = {}
    for text in wanted:
        name, equals, value = text.partition("=")
        if not equals or name not in known:
            raise InvalidArgument(
                f"--only {text!r}", f"factor=value of {', '.join(known) or '(nothing varies)'}", nearest(name, known)
            )
        values = [_word(option) for option in known[name]]
        if value not in values:
            raise InvalidArgument(f"--only {text!r}", f"{name} is one of {', '.join(values)}", nearest(value, values))
        requested.setdefault(name, set()).add(value)
    return [c for c in found if all(_word(c.factors.get(name)) in values for name, values in requested.items())]


def canonical(value: Any) -> str:
    """The same text for the same value."""
    return json.dumps(value, sort_keys=True, default=str)


def _word(value: Any) -> str:
    return value if isinstance(value, str) else canonical(value)


def _product(matrix: Mapping[str, Sequence[Any]]) -> Iterator[dict[str, Any]]:
    for values in product(*matrix.values()):
        yield dict(zip(matrix, values, strict=True))


def _fits(combination: Combination, rule: Combination) -> bool:
    return all(canonical(combination.get(name)) == canonical(value) for name, value in rule.items())


def _check_values(model: ExperimentModel, lines: Mapping[Place, int]) -> None:
    for name, values in model.matrix.items():
        if not values:
            line = at_line(line_of(lines, ("matrix", name)))
            raise InvalidArgument(f"{line}the factor {name!r} has no values", "one value at least")
        visited: set[str] = set()
        for number, value in enumerate(values):
            if canonical(value) in visited:
                line = at_line(line_of(lines, ("matrix", name, number)))
                raise InvalidArgument(f"{line}the factor {name!r} has the value {_word(value)} twice", "each value once")
            visited.add(canonical(value))


def _check_excluded(model: ExperimentModel, lines: Mapping[Place, int]) -> None:
    for number, rule in enumerate(model.exclude):
        line = at_line(line_of(lines, ("exclude", number)))
        if not rule:
            raise InvalidArgument(f"{line}an exclusion without factors, which leaves nothing", "factor: value")
        for name, value in rule.items():
            if name not in model.matrix:
                raise InvalidArgument(
                    f"{line}{name!r} is excluded, which does not vary",
                    f"one of {', '.join(model.matrix) or '(nothing varies)'}",
                    nearest(name, model.matrix),
                )
            if canonical(value) not in map(canonical, model.matrix[name]):
                values = ", ".join(_word(option) for option in model.matrix[name])
                raise InvalidArgument(f"{line}{name}={_word(value)} is excluded, which there is not", f"one of {values}")
