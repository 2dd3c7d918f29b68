"""Making a case from shapes, arrays and attributes, checked against the operator's schema."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from onnx.defs import OpSchema

from deep_bench.errors import InvalidArgument
from deep_bench.operators.argument import Argument, Draw
from deep_bench.operators.case_schema import (
    allowed_types,
    check_attributes,
    check_count,
    formal_at,
    input_names,
    schema_of,
    signature,
    split,
)
from deep_bench.operators.case_values import element_type
from deep_bench.operators.draws_table import draw_of, is_setting
from deep_bench.tensor import STRING, TensorSpec, is_inexact, text

if TYPE_CHECKING:
    from deep_bench.operators.case import Case

Made = np.ndarray | tuple[int, ...] | list[Any] | Argument | TensorSpec | int | float | bool | None

_WRITTEN = re.compile(r"(\w+)\s*\[([\d\s,]*)\]")
_PREFERRED = tuple(map(np.dtype, ("float32", "int64", "uint8", "int8", "int32", "bool")))


def make_case(
    cls: type[Case],
    operator: str | Callable[..., Any],
    inputs: Sequence[Any],
    attributes: Mapping[str, Any],
    *,
    dtype: str | np.dtype | type | None,
    draws: Mapping[str, Draw],
    outputs: int | None,
) -> Case:
    """See `Case.of`."""
    from deep_bench.operators.case_label import label_of

    read = [_read(value) for value in inputs]
    target_dtype = None if dtype is None else element_type(dtype)
    domain, name = split(operator)
    schema = schema_of(domain, name) if isinstance(operator, str) else None
    if schema is not None:
        check_count(name, schema, read)
        check_attributes(name, schema, attributes)
    types = _element_types(name, schema, read, target_dtype)
    arguments = tuple(None if v is None else _argument(v, t) for v, t in zip(read, types, strict=True))
    names = input_names(operator, len(arguments))
    _check_draws(operator, draws, names)
    output_count = outputs if outputs is not None else _output_count(name, schema, read, attributes)
    case = cls(operator, arguments, attributes, outputs=output_count)
    _check_settings(case)
    drawn = tuple(_with_draw(case, i, supplied, draws) for i, supplied in enumerate(read))
    case = cls(operator, drawn, attributes, outputs=output_count)
    if schema is not None:
        case.results  # noqa: B018 (what does not fit is refused here, not at the first run)
    return cls(operator, drawn, attributes, label_of(case), outputs=output_count)


def _output_count(name: str, schema: OpSchema | None, supplied: Sequence[Made], attributes: Mapping[str, Any]) -> int:
    """As few outputs as the operator can give."""
    if name == "Split":
        sizes = supplied[1] if len(supplied) > 1 else None
        return len(sizes) if isinstance(sizes, np.ndarray | list) else int(attributes.get("num_outputs", 1))
    return 1 if schema is None else max(1, schema.min_output)


def _with_draw(case: Case, index: int, supplied: Made, draws: Mapping[str, Draw]) -> Argument | None:
    """The argument, with the draw that the caller names for it, or else its operator's own."""
    argument = case.arguments[index]
    if argument is None or argument.value is not None:
        return argument
    if argument.spec.name in draws:
        return Argument(argument.spec, draw=draws[argument.spec.name])
    return argument if isinstance(supplied, Argument) else Argument(argument.spec, draw=draw_of(case, index))


def _check_draws(operator: str | Callable[..., Any], draws: Mapping[str, Draw], names: Sequence[str]) -> None:
    for name in draws:
        if name not in names:
            raise InvalidArgument(f"a draw for {name!r}", f"one of its inputs: {', '.join(names)}", signature(operator))


def _check_settings(case: Case) -> None:
    for argument in case.arguments:
        if argument is not None and argument.value is None and is_setting(case.operator, argument.spec.name):
            raise InvalidArgument(
                f"{case.op_type} with {argument} to be drawn",
                f"the numbers that {argument.spec.name} holds, since they decide what {case.op_type} does",
                f"give a list or an array; a shape is a tuple, a constant of shape {list(argument.shape)} a list",
            )


def _read(value: Any) -> Made:
    """What a caller wrote for an input."""
    if value is None or isinstance(value, Argument | TensorSpec | np.ndarray | list | bool | int | float):
        return value
    if isinstance(value, np.generic):
        return np.asarray(value)
    if isinstance(value, str):
        return _parsed(value)
    if isinstance(value, tuple) and all(isinstance(d, int | np.integer) and d >= 0 for d in value):
        return tuple(map(int, value))
    raise InvalidArgument(
        f"an input {value!r}",
        "a shape such as (2, 3) with sizes of at least 0, an array, a number, 'int64[2, 3]', an Argument, or None",
    )


def _parsed(written: str) -> TensorSpec:
    match = _WRITTEN.fullmatch(written.strip())
    if match is None:
        raise InvalidArgument(f"an input {written!r}", "an element type and a shape, such as 'float16[2, 3]'")
    sizes = tuple(int(d) for d in match[2].split(",") if d.strip())
    return TensorSpec("", sizes, element_type(match[1]))


def _stated(value: Made) -> np.dtype | None:
    """The element type that an input states by itself: a list of numbers, or one alone, states none."""
    return value.dtype if isinstance(value, np.ndarray | Argument | TensorSpec) else None


def _element_types(
    name: str, schema: OpSchema | None, supplied: Sequence[Made], target_dtype: np.dtype | None
) -> tuple[np.dtype | None, ...]:
    """The element type of each input: stated by itself, or that of others of the same variable, or the preferred one."""
    if schema is None:
        return tuple(_stated(v) or _plain(v) or target_dtype or np.dtype("float32") for v in supplied)
    allowed = [allowed_types(schema, i) for i in range(len(supplied))]
    if target_dtype is not None and not any(target_dtype in types for types in allowed):
        listed = "; ".join(f"{formal_at(schema, i).name}: {', '.join(map(str, t))}" for i, t in enumerate(allowed))
        raise InvalidArgument(f"{name} of {target_dtype}", listed or "no inputs")
    bound: dict[str, tuple[np.dtype, str]] = {}
    for i, value in enumerate(supplied):
        value_dtype, formal = _stated(value), formal_at(schema, i)
        if value_dtype is None or not formal.is_homogeneous:
            continue
        if value_dtype not in allowed[i]:
            raise InvalidArgument(f"{name} with {formal.name} of {value_dtype}", f"one of {', '.join(map(str, allowed[i]))}")
        first, where = bound.setdefault(formal.type_str, (value_dtype, formal.name))
        if first != value_dtype:
            raise InvalidArgument(
                f"{name} with {where} of {first} and {formal.name} of {value_dtype}", "one element type for both"
            )
    return tuple(
        _stated(v) or _chosen(formal_at(schema, i), allowed[i], bound, target_dtype) if v is not None else None
        for i, v in enumerate(supplied)
    )


def _plain(value: Made) -> np.dtype | None:
    """What whole numbers, truth values and strings are where no schema says it; real ones are like the drawn inputs."""
    if not isinstance(value, list | int | float):
        return None
    array = text(np.asarray(value))
    return None if array.dtype.kind == "f" else array.dtype


def _chosen(
    formal: Any, allowed: Sequence[np.dtype], bound: Mapping[str, tuple[np.dtype, str]], target_dtype: np.dtype | None
) -> np.dtype:
    if formal.type_str in bound:
        return bound[formal.type_str][0]
    preferred = (*(() if target_dtype is None else (target_dtype,)), *_PREFERRED)
    return next((t for t in preferred if t in allowed), allowed[0])


def _argument(value: Made, dtype: np.dtype | None) -> Argument:
    if isinstance(value, Argument):
        return value
    if isinstance(value, TensorSpec):
        return Argument(value)
    if isinstance(value, tuple):
        return Argument(TensorSpec("", value, dtype or np.dtype("float32")))
    array = text(np.asarray(value))
    if not isinstance(value, np.ndarray) and dtype is not None and array.dtype != dtype:
        if (array.dtype.kind == "f" and not is_inexact(dtype)) or array.dtype == STRING:
            raise InvalidArgument(f"the constant {value!r}", f"numbers of {dtype}")
        array = array.astype(dtype)
    return Argument.constant(array)
