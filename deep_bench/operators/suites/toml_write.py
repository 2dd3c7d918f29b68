"""Writing a suite as TOML."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from deep_bench.errors import InvalidArgument
from deep_bench.measure.storage import replace
from deep_bench.operators.argument import Argument
from deep_bench.operators.case import Case
from deep_bench.operators.suites.functions import path_of
from deep_bench.operators.suites.suite import Suite
from deep_bench.tensor import STRING, is_float


def write_suite(suite: Suite, path: Path) -> Path:
    """See `Suite.save`."""
    head = {"name": suite.name, "source": suite.source, "licence": suite.licence, "notes": list(suite.notes)}
    lines = [f"{key} = {_text(value)}" for key, value in head.items() if value]
    for case in suite:
        lines += ["", "[[cases]]", *(f"{key} = {_text(value)}" for key, value in _fields(case).items())]
    if not path.parent.is_dir():
        raise InvalidArgument(
            f"no folder {str(path.parent)!r} for the suite", "a folder that exists", "create it, or name another"
        )
    replace(path, lambda temporary: temporary.write_text("\n".join(lines) + "\n", encoding="utf-8"))
    return path


def _fields(case: Case) -> dict[str, Any]:
    fields = {
        "operator": case.operator if isinstance(case.operator, str) else path_of(case.operator),
        "label": case.label,
        "inputs": [_input(case, a) for a in case.arguments],
        "outputs": case.outputs,
    }
    if case.attributes:
        fields["attributes"] = {name: _attribute(value) for name, value in case.attributes.items()}
    optional = {"tags": sorted(case.tags), "source": case.source, "count": case.count if case.count != 1 else None}
    return {**fields, **{key: value for key, value in optional.items() if value}}


def _input(case: Case, argument: Argument | None) -> Any:
    if argument is None:
        return {"omitted": True}
    if argument.value is not None:
        return _array(argument.value)
    if callable(argument.draw):
        raise InvalidArgument(
            f"{case.name} draws {argument.spec.name} by a function, which cannot be written down", "a named draw"
        )
    dtype = "string" if argument.dtype == STRING else str(argument.dtype)
    return {"shape": list(argument.shape), "dtype": dtype, "draw": argument.draw}


def _array(array: np.ndarray) -> dict[str, Any]:
    if array.dtype.kind == "c":
        raise InvalidArgument(f"a constant of {array.dtype}", "real numbers, which TOML can hold")
    dtype = "string" if array.dtype == STRING else str(array.dtype)
    plain = array.astype(np.float64) if is_float(array.dtype) else array
    listed = plain.tolist() if plain.dtype.kind in "fiubO" else plain.astype(np.int64).tolist()
    return {"value": listed, "dtype": dtype, "shape": list(array.shape)}


def _attribute(value: Any) -> Any:
    return _array(value) if isinstance(value, np.ndarray) else value


def _text(value: Any) -> str:
    """A value in TOML's own notation, on one line."""
    if isinstance(value, bool | np.bool_):
        return "true" if value else "false"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, int | np.integer):
        return str(int(value))
    if isinstance(value, float | np.floating):
        return repr(float(value))
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_key(k)} = {_text(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_text, value)) + "]"
    raise InvalidArgument(f"{value!r} in a suite", "numbers, strings, lists and arrays, which TOML can hold")


def _key(name: str) -> str:
    return name if name.replace("_", "").isalnum() and name.isascii() else json.dumps(name, ensure_ascii=False)
