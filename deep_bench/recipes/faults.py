"""What is wrong with a recipe: where in its file, and what it could have been.

A recipe is plain data, which a command line, a record and a file in JSON can say.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date
from typing import Any

from pydantic import BaseModel, ValidationError

from deep_bench.errors import DeepBenchError, InvalidArgument, nearest, shortened
from deep_bench.study.settings import SettingsModel
from deep_bench.yaml_text import Place, RecipePart, model_in

_MANY = 5
_LONGEST_VALUE = 200


def line_of(lines: Mapping[Place, int], path: Sequence[Any]) -> int | None:
    """The line of a value, or of what it would be part of; names of types that pydantic puts into a path are passed over."""
    prefix: Place = ()
    for part in path:
        if (*prefix, part) in lines:
            prefix = (*prefix, part)
    return lines.get(prefix) if prefix else None


def at_line(line: int | None) -> str:
    """How a message begins that is about a line.

    Example:
        >>> at_line(12), at_line(None)
        ('line 12: ', '')
    """
    return "" if line is None else f"line {line}: "


def unknown_field(where: str, name: str, choices: Iterable[str], line: int | None) -> InvalidArgument:
    """The error for a field that there is not.

    Args:
        where: What it is no field of.
        name: The field.
        choices: What there is.
        line: Where it is written.
    """
    choices = list(choices)
    near = nearest(name, choices)
    message = f"{at_line(line)}{name!r} is no field of {where}" + (f"; {near}" if near else "")
    return InvalidArgument(message, f"one of {', '.join(choices)}", near)


def refusal(
    model: type[BaseModel], where: str, error: ValidationError, lines: Mapping[Place, int], at: Place
) -> InvalidArgument:
    """The error that names each wrong field with its line, in the order of the file.

    Args:
        model: What was validated.
        where: What it is called.
        error: What pydantic says.
        lines: Where each value of the file is.
        at: The place in the file that was validated.
    """
    faults = [
        (line_of(lines, (*at, *fault["loc"])), fault) for fault in _one_per_field(error.errors(include_url=False), lines, at)
    ]
    faults.sort(key=lambda pair: pair[0] or 0)
    return several([_fault_in_words(model, where, fault, line) for line, fault in faults])


def several(faults: Sequence[InvalidArgument]) -> InvalidArgument:
    """The error that tells of several, each with what was expected.

    Args:
        faults: At least one.

    Example:
        >>> print(several([InvalidArgument("line 3: 'x' is 2", "at most 1"), InvalidArgument("line 4: 'y' is none")]).came)
        2 things are wrong:
          line 3: 'x' is 2; expected: at most 1
          line 4: 'y' is none
    """
    if len(faults) == 1:
        return faults[0]
    lines = [_in_a_line(fault) for fault in faults]
    extra = [f"and {len(lines) - _MANY} more"] if len(lines) > _MANY else []
    return InvalidArgument("\n  ".join([f"{len(lines)} things are wrong:", *lines[:_MANY], *extra]))


def _in_a_line(fault: InvalidArgument) -> str:
    if fault.advice:
        return fault.came if fault.advice in fault.came else f"{fault.came}; {fault.advice}"
    return f"{fault.came}; expected: {fault.expected}" if fault.expected else fault.came


def in_file(file: str, error: DeepBenchError) -> InvalidArgument:
    """An error of what is in a file, with the file's name before it.

    Example:
        >>> in_file("mine.yaml", InvalidArgument("line 3: 'x' is 2", "at most 1")).came
        "mine.yaml, line 3: 'x' is 2"
    """
    came = error.came if file in error.came else f"{file}{', ' if error.came.startswith('line ') else ': '}{error.came}"
    return InvalidArgument(came, error.expected, error.advice)


def kind_of(value: Any) -> str:
    """What a value in YAML is, for a reader who does not write Python.

    Example:
        >>> kind_of(None), kind_of([1]), kind_of("text"), kind_of(2.5), kind_of({})
        ('empty', 'a list', 'a text', 'a number', 'fields')
    """
    kinds = {type(None): "empty", list: "a list", str: "a text", int: "a number", float: "a number", dict: "fields"}
    return kinds.get(type(value), f"a {type(value).__name__}")


def _one_per_field(faults: Sequence[Any], lines: Mapping[Place, int], at: Place) -> list[Any]:
    """One fault for each field: a field of several types has one for each of them."""
    by_place: dict[tuple[Any, ...], Any] = {}
    for fault in faults:
        written = tuple(part for part in fault["loc"][:2] if isinstance(part, str))[:1]
        place = (line_of(lines, (*at, *fault["loc"])), written)
        previous = by_place.get(place)
        if previous is None or len(fault["loc"]) > len(previous["loc"]) or fault["type"] == "extra_forbidden":
            by_place[place] = fault
    return list(by_place.values())


def _fault_in_words(model: type[BaseModel], where: str, fault: Any, line: int | None) -> InvalidArgument:
    path = [str(part) for part in fault["loc"]]
    inner = _model_at(model, fault["loc"][:-1])
    if fault["type"] == "extra_forbidden":
        return unknown_field(where if len(path) == 1 else path[0], path[-1], names(inner), line)
    if fault["type"] == "missing":
        received = (
            [str(name) for name in fault["input"] if name not in names(inner)] if isinstance(fault["input"], dict) else []
        )
        near = difflib.get_close_matches(path[-1], received, n=1)
        advice = f"is {near[0]!r} it, misspelt?" if near else ""
        return InvalidArgument(f"{at_line(line)}{where} lacks {path[-1]!r}", f"a value for {path[-1]!r}", advice)
    message = fault["msg"].removeprefix("Value error, ").removeprefix("Input should be ")
    value = "empty" if fault["input"] is None else shortened(repr(fault["input"]), _LONGEST_VALUE)
    return InvalidArgument(f"{at_line(line)}{'.'.join(_shown(path))!r} of {where} is {value}", message)


def _shown(path: Sequence[str]) -> list[str]:
    """A path without the names of types."""
    return [part for part in path if not part.endswith("Fields") and part not in ("str", "int") and "[" not in part] or list(
        path
    )


def names(model: type[BaseModel]) -> list[str]:
    """The fields of a model, as they are written; settings that it shares with others come last, before what all have."""
    ranks = dict.fromkeys(model.model_fields, 0)
    for base in model.__mro__[1:]:
        rank = 1 if issubclass(base, SettingsModel) else 2 if RecipePart in base.__bases__ else 0
        ranks |= dict.fromkeys(ranks.keys() & getattr(base, "__annotations__", {}), rank)
    fields = sorted(model.model_fields.items(), key=lambda item: ranks[item[0]])
    return [field.alias or name for name, field in fields]


def _model_at(model: type[BaseModel], path: Sequence[Any]) -> type[BaseModel]:
    for step in path:
        field = next((f for n, f in model.model_fields.items() if (f.alias or n) == step), None)
        inner = None if field is None else model_in(field.annotation)
        model = inner or model
    return model


_LARGEST = 2**63


def check_plain(content: Mapping[str, Any], lines: Mapping[Place, int]) -> None:
    """See that there is nothing in it but texts, numbers, yes and no, nothing, lists and fields.

    Args:
        content: A recipe as a file has it.
        lines: Where each value of the file is.

    Raises:
        InvalidArgument: There is something else, such as a date.

    Example:
        >>> import datetime
        >>> check_plain({"fixed": {"seed": datetime.date(2026, 1, 1)}}, {("fixed",): 2, ("fixed", "seed"): 3})
        Traceback (most recent call last):
            ...
        deep_bench.errors.InvalidArgument: line 3: 'fixed.seed' is a date, 2026-01-01
        Expected: a text in quotes, or a number
    """
    if faults := list(_faults(content, (), lines)):
        raise several(faults)


def _faults(value: Any, place: Place, lines: Mapping[Place, int]) -> Iterator[InvalidArgument]:
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _faults(inner, (*place, name), lines)
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from _faults(inner, (*place, number), lines)
    elif fault := _wrong(value):
        came = f"{at_line(line_of(lines, place))}{'.'.join(map(str, place))!r} is {fault}"
        yield InvalidArgument(came, "a text in quotes, or a number")


def _wrong(value: Any) -> str:
    """What a value is that is none of a recipe's; empty for all others."""
    if value is None or isinstance(value, str | bool):
        return ""
    if isinstance(value, int):
        return "" if -_LARGEST <= value < _LARGEST else "a whole number of more than 64 bits"
    if isinstance(value, float):
        return "" if math.isfinite(value) else f"the number {value}"
    return f"a date, {value}" if isinstance(value, date) else f"a {type(value).__name__}"
