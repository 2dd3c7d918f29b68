"""Attributes as a native function gets them: plain numbers, lists and texts, ONNX's defaults included."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

import numpy as np
import onnx

from deep_bench.errors import InvalidArgument, Unsupported
from deep_bench.operators.case_schema import schema_of, signature, split
from deep_bench.operators.native_code.signature import Parameter

Plain = int | float | str | tuple[int, ...] | tuple[float, ...]


def defaults(computes: str | Callable[..., Any]) -> dict[str, Any]:
    """Name to default value: those of the operator's schema, or of the function's keyword arguments.

    Example:
        >>> defaults("Gemm")["alpha"], defaults(lambda x, *, slope=2: x)
        (1.0, {'slope': 2})
    """
    if not isinstance(computes, str):
        try:
            parameters = inspect.signature(computes).parameters.values()
        except (ValueError, TypeError):  # built into NumPy without a signature
            return {}
        # A default of None means that the argument is absent.
        return {p.name: p.default for p in parameters if p.default not in (p.empty, None) and p.kind != p.POSITIONAL_ONLY}
    schema = schema_of(*split(computes))
    if schema is None:
        return {}
    protos = {name: a.default_value for name, a in schema.attributes.items() if a.default_value.name}
    return {name: onnx.helper.get_attribute_value(value) for name, value in protos.items()}


def complete(computes: str | Callable[..., Any], given: Mapping[str, Any]) -> dict[str, Plain]:
    """The attributes given, and the defaults of the others.

    Raises:
        Unsupported: One is no number, text, or list of numbers.
    """
    return {n: _plain(n, v) for n, v in {**defaults(computes), **given}.items() if v is not None}


def check_known(computes: str | Callable[..., Any], parameters: Iterable[Parameter], function: str) -> None:
    """Refuse a signature with an attribute that the operator does not have and the signature gives no value.

    Raises:
        InvalidArgument: It names the attribute, and the nearest one.
    """
    schema = schema_of(*split(computes)) if isinstance(computes, str) else None
    if schema is None:
        return
    for parameter in parameters:
        name = parameter.attribute
        has_value = parameter.value and not parameter.value.startswith("attributes.")
        if name is None or has_value or name in schema.attributes:
            continue
        near = difflib.get_close_matches(name, schema.attributes, n=1)
        raise InvalidArgument(
            f"{computes} has no attribute {name!r}, which the signature of {function} takes",
            signature(str(computes)),
            f"did you mean {near[0]!r}?" if near else f"give it a value there: {parameter.type} {name} = 1, say",
        )


def refuse_others(
    computes: str | Callable[..., Any], given: Mapping[str, Plain], taken: Collection[str], function: str
) -> None:
    """Refuse attributes that a function's signature has no place for, unless they are as they are by default.

    Raises:
        Unsupported: It names the attribute.
    """
    usual = complete(computes, {})
    for name, value in given.items():
        if name not in taken and not (name in usual and _same(usual[name], value)):
            raise Unsupported(
                f"{name}={value!r} for {function}, whose signature has no such attribute",
                f"{', '.join(taken) or 'no attributes'}",
                f"put it into the signature ('float {name}', say), or leave such cases out",
            )


def _same(first: Plain, second: Plain) -> bool:
    """Whether ONNX, whose attributes are float32, takes them for the same."""
    if isinstance(first, float | int) and isinstance(second, float | int):
        return bool(np.float32(first) == np.float32(second))
    return first == second


def _plain(name: str, value: Any) -> Plain:
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, list | tuple):
        items = [n for n in map(_number, value) if n is not None]
        if len(items) == len(value):
            whole = tuple(n for n in items if isinstance(n, int))
            return whole if len(whole) == len(items) else tuple(map(float, items))
    number = value if isinstance(value, str) else _number(value)
    if number is None:
        raise Unsupported(
            f"the attribute {name} is a {type(value).__name__}",
            "a number, a text, or a list of numbers, for a native function",
            "leave such cases out",
        )
    return number


def _number(value: Any) -> int | float | None:
    if isinstance(value, bool | np.bool_ | int | np.integer):
        return int(value)
    return float(value) if isinstance(value, float | np.floating) else None
