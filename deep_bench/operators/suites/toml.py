"""Reading a suite from TOML."""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, get_args

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from deep_bench.errors import DeepBenchError, InvalidArgument
from deep_bench.operators.case import Case
from deep_bench.operators.case_schema import input_names
from deep_bench.operators.case_values import element_type
from deep_bench.operators.draws import check_draw
from deep_bench.operators.suites.functions import function_of
from deep_bench.operators.suites.suite import Suite

Size = Annotated[int, Field(ge=0)]


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class InputModel(_Model):
    """An input: drawn if it has no value."""

    shape: list[Size] | None = None
    dtype: str | None = None
    draw: str | None = None
    value: Any = None
    omitted: bool = False


class CaseModel(_Model):
    """A case."""

    operator: str
    inputs: list[list[Size] | str | InputModel] = []
    attributes: dict[str, Any] = {}
    dtype: str | None = None
    label: str | None = None
    tags: list[str] = []
    count: int = 1
    source: str = ""
    outputs: int | None = None


class SuiteModel(_Model):
    """A suite."""

    name: str | None = None
    source: str = ""
    licence: str = ""
    notes: list[str] = []
    cases: Annotated[list[CaseModel], Field(min_length=1)]


def read_suite(path: Path) -> Suite:
    """See `Suite.from_toml`."""
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
        model = SuiteModel.model_validate(content)
    except OSError as error:
        raise InvalidArgument(f"the suite {path} cannot be read: {error.strerror}", "a TOML file") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidArgument(f"the suite {path} is no TOML: {error}", "see https://toml.io") from error
    except ValidationError as error:
        raise _refusal(path, error) from error
    cases = [_case(path, i, case) for i, case in enumerate(model.cases)]
    return Suite(model.name or path.stem, cases, model.source, model.licence, tuple(model.notes))


def _case(path: Path, index: int, model: CaseModel) -> Case:
    try:
        operator = function_of(model.operator)
        names = input_names(operator, len(model.inputs))
        draws = {n: i.draw for n, i in zip(names, model.inputs, strict=True) if isinstance(i, InputModel) and i.draw}
        for draw in draws.values():
            check_draw(draw)
        return Case.of(
            operator,
            *map(_input, model.inputs),
            dtype=model.dtype,
            label=model.label,
            tags=model.tags,
            count=model.count,
            source=model.source,
            outputs=model.outputs,
            draws=draws,
            settings={name: _attribute(value) for name, value in model.attributes.items()},
        )
    except DeepBenchError as error:
        raise InvalidArgument(f"{path}, cases[{index}]: {error.came}", error.expected, error.advice) from error


def _input(entry: list[int] | str | InputModel) -> Any:
    """What `Case.of` takes for it."""
    if isinstance(entry, list):
        return tuple(entry)
    if isinstance(entry, str):
        return entry
    if entry.omitted:
        return None
    if entry.value is not None:
        return _array(entry.value, entry.dtype, entry.shape)
    if entry.shape is None:
        raise InvalidArgument("an input without shape and value", "one of the two, or omitted = true")
    shape = tuple(entry.shape)
    return f"{entry.dtype}{list(shape)}" if entry.dtype else shape


def _array(value: Any, dtype: str | None, shape: Sequence[int] | None) -> Any:
    if dtype is None:
        return value
    kind = element_type(dtype)
    return np.asarray(value, dtype=object).astype(kind).reshape(np.shape(value) if shape is None else tuple(shape))


def _attribute(value: Any) -> Any:
    if isinstance(value, dict):
        unknown = sorted(set(value) - {"value", "dtype", "shape"})
        if unknown or "value" not in value:
            raise InvalidArgument(f"an attribute {value}", 'an array as {value = [...], dtype = "..."}')
        return np.asarray(_array(value["value"], value.get("dtype"), value.get("shape")))
    return value


def _refusal(path: Path, error: ValidationError) -> InvalidArgument:
    """The first thing that is wrong, with its place and, for a field that does not exist, the nearest one that does."""
    first = next((e for e in error.errors() if e["type"] == "extra_forbidden"), error.errors()[0])
    place = _place(first["loc"])
    if first["type"] == "extra_forbidden":
        fields = _fields(first["loc"])
        near = difflib.get_close_matches(str(first["loc"][-1]), fields, n=1)
        advice = f"did you mean {near[0]!r}?" if near else ""
        return InvalidArgument(f"{path}: there is no field {place!r}", f"one of {', '.join(fields)}", advice)
    if first["type"] == "missing":
        return InvalidArgument(f"{path} has no {place!r}", "this field")
    return InvalidArgument(f"{path}: {place} is {first['input']!r}", first["msg"].removeprefix("Input should be "))


def _fields(location: Sequence[int | str]) -> list[str]:
    model = InputModel if "inputs" in location else CaseModel if "cases" in location else SuiteModel
    return list(model.model_fields)


def _place(location: Sequence[int | str]) -> str:
    """``cases[2].inputs[0].shape``; the names that pydantic gives the kinds of an input are left out."""
    kinds = {"str", "InputModel", *(str(t) for t in get_args(CaseModel.model_fields["inputs"].annotation))}
    parts = [p for p in location if p not in kinds and not re.match(r"list\[|str$|InputModel", str(p))]
    return "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in parts).removeprefix(".")
