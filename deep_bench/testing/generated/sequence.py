"""Sequences and optional values: positions from either end, empty sequences, tensors of different shapes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
from onnx import helper

from deep_bench.tensor import is_float
from deep_bench.testing.generated.problem import Draw, GeneratedProblem, Type, code_of, dtypes, type_of

Generator = Callable[[Draw], GeneratedProblem]

_TYPES = dtypes("SequenceConstruct")
"""The element types that the operators of sequences have, all of them."""


def sequence_type(dtype: np.dtype) -> Type:
    """Of a sequence of tensors of any shape."""
    return helper.make_sequence_type_proto(helper.make_tensor_type_proto(code_of(dtype), None))


def tensors(draw: Draw, dtype: np.dtype, low: int = 1, high: int = 4) -> list[np.ndarray]:
    """Of different shapes."""
    return [draw.array(draw.shape(), dtype) for _ in range(draw.integer(low, high))]


def _position(draw: Draw, last: int, length: int) -> np.ndarray:
    return np.array(draw.integer(-length, last), draw.pick((np.int64, np.int32)))


def SequenceConstruct(draw: Draw) -> GeneratedProblem:
    """Of different shapes."""
    return GeneratedProblem("SequenceConstruct", tensors(draw, draw.pick(_TYPES)))


def SequenceEmpty(draw: Draw) -> GeneratedProblem:
    """Of every element type."""
    dtype = draw.pick((None, *_TYPES))
    result_types = {0: sequence_type(dtype or np.dtype(np.float32))}
    return GeneratedProblem(
        "SequenceEmpty", [], {"dtype": None if dtype is None else code_of(dtype)}, output_types=result_types
    )


def SequenceLength(draw: Draw) -> GeneratedProblem:
    """Also 0."""
    dtype = draw.pick(_TYPES)
    return GeneratedProblem("SequenceLength", [tensors(draw, dtype, 0)], types={0: sequence_type(dtype)})


def SequenceAt(draw: Draw) -> GeneratedProblem:
    """From either end."""
    xs = tensors(draw, draw.pick(_TYPES))
    return GeneratedProblem("SequenceAt", [xs, _position(draw, len(xs) - 1, len(xs))])


def SequenceErase(draw: Draw) -> GeneratedProblem:
    """By default the last; also the only one."""
    dtype = draw.pick(_TYPES)
    xs = tensors(draw, dtype)
    inputs = [xs, draw.maybe(_position(draw, len(xs) - 1, len(xs)))]
    return GeneratedProblem("SequenceErase", inputs, output_types={0: sequence_type(dtype)})


def SequenceInsert(draw: Draw) -> GeneratedProblem:
    """By default at the end; also into nothing."""
    dtype = draw.pick(_TYPES)
    xs = tensors(draw, dtype, 0)
    inputs = [xs, draw.array(draw.shape(), dtype), draw.maybe(_position(draw, len(xs), len(xs)))]
    return GeneratedProblem("SequenceInsert", inputs, types={0: sequence_type(dtype)})


def ConcatFromSequence(draw: Draw) -> GeneratedProblem:
    """Along an axis on which lengths differ, or along a new one."""
    dtype, shape, count = draw.pick(_TYPES), list(draw.shape(1, 3)), draw.integer(1, 4)
    if draw.boolean():
        xs = [draw.array(shape, dtype) for _ in range(count)]
        axis = draw.integer(-len(shape) - 1, len(shape))
        return GeneratedProblem("ConcatFromSequence", [xs], {"axis": axis, "new_axis": 1})
    axis, xs = draw.axis(len(shape)), []
    for _ in range(count):
        shape[axis] = draw.integer(0, 3)
        xs.append(draw.array(shape, dtype))
    return GeneratedProblem("ConcatFromSequence", [xs], {"axis": axis, "new_axis": draw.maybe(0)})


def SplitToSequence(draw: Draw) -> GeneratedProblem:
    """Into parts of one size, of given sizes, or of size 1 without the axis; an empty axis is left open."""
    shape, dtype = list(draw.shape(1, 3)), draw.pick([t for t in _TYPES if t.kind != "c"])
    axis, kind = draw.axis(len(shape)), draw.pick((np.int64, np.int32))
    split: Any = None
    shape[axis] = draw.integer(1, 5)
    how = draw.pick(("default", "default", "scalar", "sizes"))
    if how == "scalar":
        split = np.array(draw.integer(1, 6), kind)
    elif how == "sizes":
        split = np.array([draw.integer(1, 3) for _ in range(draw.integer(1, 3))], kind)
        shape[axis] = int(split.sum())
    settings = {"axis": axis if axis else draw.maybe(0), "keepdims": draw.pick((None, 0, 0, 1))}
    return GeneratedProblem("SplitToSequence", [draw.array(shape, dtype), split], settings)


def SequenceMap(draw: Draw) -> GeneratedProblem:
    """A body of one or two results, over a sequence, another one, and a tensor that is the same each time."""
    dtype = draw.pick([t for t in _TYPES if is_float(t) or t in (np.dtype("i8"), np.dtype("i4"))])
    shapes = [draw.full_shape(1, 2) for _ in range(draw.integer(1, 4))]
    xs = [draw.array(shape, dtype, "ties" if is_float(dtype) else "small") for shape in shapes]
    constant = draw.array((1,), dtype, "ties" if is_float(dtype) else "small")
    extra: list[Any] = draw.pick(([], [constant], [[x + x for x in xs]]))
    names = ["in0", "in1"][: 1 + len(extra)]
    nodes = [helper.make_node("Add", [names[0], names[-1]], ["out0"]), helper.make_node("Shape", ["in0"], ["out1"])]
    count = draw.integer(1, 2)
    infos = [helper.make_tensor_value_info(n, code_of(dtype), None) for n in (*names, "out0")]
    body_outputs = [infos[-1], helper.make_tensor_value_info("out1", onnx.TensorProto.INT64, None)][:count]
    body = helper.make_graph(nodes[:count], "body", infos[:-1], body_outputs)
    return GeneratedProblem("SequenceMap", [xs, *extra], {"body": body}, outputs=count)


def _optional(draw: Draw, empty: bool) -> tuple[Any, Type]:
    """A tensor or a sequence, and the type of an optional one."""
    dtype = draw.pick(_TYPES)
    value: Any = draw.pick((draw.array(draw.shape(), dtype), tensors(draw, dtype)))
    kind = helper.make_optional_type_proto(type_of(value))
    return (None if empty else value), kind


def Optional(draw: Draw) -> GeneratedProblem:
    """Full, or empty with a type."""
    value, kind = _optional(draw, empty=False)
    if draw.boolean():
        return GeneratedProblem("Optional", [value], output_types={0: kind})
    return GeneratedProblem("Optional", [], {"type": kind.optional_type.elem_type}, output_types={0: kind})


def OptionalHasElement(draw: Draw) -> GeneratedProblem:
    """Of an optional value, full or empty; of a tensor or sequence; of nothing."""
    value, kind = _optional(draw, empty=bool(draw.boolean()))
    how = draw.pick(("optional", "plain", "nothing"))
    if how == "nothing":
        return GeneratedProblem("OptionalHasElement", [])
    return GeneratedProblem("OptionalHasElement", [value], types={0: kind} if how == "optional" or value is None else {})


def OptionalGetElement(draw: Draw) -> GeneratedProblem:
    """Of an optional value that is not empty, or of what is none."""
    value, kind = _optional(draw, empty=False)
    return GeneratedProblem("OptionalGetElement", [value], types={0: kind} if draw.boolean() else {})


GENERATORS: dict[str, Generator] = {
    f.__name__: f
    for f in (
        ConcatFromSequence,
        Optional,
        OptionalGetElement,
        OptionalHasElement,
        SequenceAt,
        SequenceConstruct,
        SequenceEmpty,
        SequenceErase,
        SequenceInsert,
        SequenceLength,
        SequenceMap,
        SplitToSequence,
    )
}
