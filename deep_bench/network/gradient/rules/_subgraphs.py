"""Graphs that rules write as attributes of nodes, the nodes that hold them, and sums and zeros of sequences."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir

from deep_bench.network.gradient.tape import Symbol, Tape

Type = onnx.TypeProto
Write = Callable[..., Sequence[Symbol]]
"""From a tape on a new graph and its inputs to its outputs."""


def subgraph(
    tape: Tape, label: str, types: Sequence[Type | None], write: Write, results: Sequence[Type | None] = ()
) -> ir.Graph:
    """A new graph that shares names and knowledge with a tape, and may use the values around it.

    Args:
        tape: Where the node that will hold it is written.
        label: What the names of its inputs start with.
        types: What is known of each of its inputs.
        write: Writes its nodes. What comes from around it is rewrapped: see `inside`.
        results: What is known of its first outputs, where inference does not tell.
    """
    inputs = [ir.Value(name=tape.names.fresh(f"{tape.base}.{label}")) for _ in types]
    for value, value_type in zip(inputs, types, strict=True):
        tape.knowledge.state(value, value_type)
        _declare(value, value_type)
    graph = ir.Graph(inputs, [], nodes=[], name=tape.names.fresh(f"{tape.base}.{label}.graph"))
    inner = Tape(graph, tape.names, tape.knowledge, tape.base)
    outputs = write(inner, *(Symbol(inner, value) for value in inputs))
    for output, value_type in itertools.zip_longest(outputs, results):
        result = output.value if _is_result(graph, output.value) else inner.Identity(output).value
        if tape.knowledge.dims(result) is None:
            tape.knowledge.state(result, value_type)
        _declare(result, tape.knowledge.type_of(result))
        graph.outputs.append(result)
    return graph


def _is_result(graph: ir.Graph, value: ir.Value) -> bool:
    """Whether a value can be an output: a node of the graph computes it, and it is no output yet."""
    producer = value.producer()
    return producer is not None and producer.graph is graph and value not in graph.outputs


def _declare(value: ir.Value, value_type: Type | None) -> None:
    if value_type is not None and value.type is None:
        value.type = ir.serde.deserialize_type_proto_for_type(value_type)
        value.shape = ir.serde.deserialize_type_proto_for_shape(value_type)


def inside(tape: Tape, x: Symbol) -> Symbol:
    """A symbol of another tape on this one, where arithmetic on it shall be written."""
    return Symbol(tape, x.value)


def summed(pairs: Iterable[tuple[ir.Value, Symbol]]) -> dict[ir.Value, Symbol]:
    """Gradients by value; where one is named twice, their sum."""
    sums: dict[ir.Value, Symbol] = {}
    for value, gradient in pairs:
        sums[value] = sum_of(sums[value], gradient) if value in sums else gradient
    return sums


@dataclass(frozen=True)
class Scanned:
    """A tensor that a ``Scan`` takes apart.

    Args:
        x: The tensor.
        axis: The axis that it is taken apart along.
        backwards: Whether from its end.
    """

    x: Symbol
    axis: int = 0
    backwards: bool = False


def scan(
    tape: Tape,
    write: Write,
    states: Sequence[Symbol],
    scanned: Sequence[Scanned],
    places: Sequence[tuple[int, bool]],
    elements: Sequence[Type | None],
) -> tuple[list[Symbol], list[Symbol]]:
    """Write a ``Scan``.

    Args:
        tape: Where it is written.
        write: Writes the body, from the states and the elements to the next states and the elements of the outputs.
        states: The first states.
        scanned: What it takes apart.
        places: For each output the axis along which it is stacked, and whether from its end.
        elements: What is known of what is stacked, where inference does not tell.

    Returns:
        The last states, and the outputs.
    """
    types = [tape.knowledge.type_of(s.value) for s in states]
    types += [element_type(tape.knowledge.type_of(s.x.value), s.axis) for s in scanned]
    body = subgraph(tape, "Scan", types, write, [*types[: len(states)], *elements])
    results = tape.Scan(
        *states,
        *(s.x for s in scanned),
        outputs=len(states) + len(places),
        body=body,
        num_scan_inputs=len(scanned),
        scan_input_axes=[s.axis for s in scanned],
        scan_input_directions=[int(s.backwards) for s in scanned],
        scan_output_axes=[axis for axis, _ in places] or None,
        scan_output_directions=[int(backwards) for _, backwards in places] or None,
    )
    length = _length(tape, scanned[0])
    for result, value_type in zip(results, [*types[: len(states)], *([None] * len(places))], strict=True):
        tape.knowledge.state(result.value, value_type)
    for result, value, (axis, _) in zip(results[len(states) :], body.outputs[len(states) :], places, strict=True):
        tape.knowledge.state(result.value, stacked_type(tape.knowledge.type_of(value), length, axis))
    return list(results[: len(states)]), list(results[len(states) :])


def _length(tape: Tape, scanned: Scanned) -> Any:
    dims = tape.known_dims(scanned.x.value)
    return None if dims is None else dims[scanned.axis]


def element_type(known: Type | None, axis: int = 0) -> Type | None:
    """The type of what a tensor is taken apart into along an axis."""
    if known is None or not known.HasField("tensor_type"):
        return None
    result_type = Type()
    result_type.CopyFrom(known)
    if known.tensor_type.HasField("shape"):
        del result_type.tensor_type.shape.dim[axis]
    return result_type


def stacked_type(known: Type | None, length: int | str | None = None, axis: int = 0) -> Type | None:
    """The type of tensors of one type stacked along a new axis."""
    if known is None or not known.HasField("tensor_type"):
        return None
    result_type = Type()
    result_type.tensor_type.elem_type = known.tensor_type.elem_type
    if known.tensor_type.HasField("shape"):
        dims = list(known.tensor_type.shape.dim)
        new = onnx.TensorShapeProto.Dimension()
        if isinstance(length, int):
            new.dim_value = length
        elif length:
            new.dim_param = length
        dims.insert(axis if axis >= 0 else axis + len(dims) + 1, new)
        result_type.tensor_type.shape.dim.extend(dims)
    return result_type


def zeros(x: Symbol) -> Symbol:
    """Zeros like a tensor, or like the tensors of a sequence."""
    return zeros_of(x) if is_sequence(x) else x.tape.zeros_like(x)


def zeros_or(found: Mapping[ir.Value, Symbol], x: Symbol) -> Symbol:
    """The gradient of a value, zeros if nothing depends on it."""
    gradient = found.get(x.value)
    return zeros(x) if gradient is None else gradient


def tensor_type(dtype: np.dtype | type, rank: int) -> Type:
    """The type of tensors with a number of dimensions."""
    return onnx.helper.make_tensor_type_proto(onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), [None] * rank)


def is_sequence(x):
    """Whether a value is a list of tensors."""
    value_type = x.tape.knowledge.type_of(x.value)
    return value_type is not None and value_type.HasField("sequence_type")


def mapped(function, *sequences):
    """The sequence of what a function returns for the tensors at each position."""
    tape, knowledge = sequences[0].tape, sequences[0].tape.knowledge
    body = ir.Graph([], [], nodes=[], name=tape.names.fresh(f"{tape.base}.body"), opset_imports={"": knowledge.opset})
    inner = Tape(body, tape.names, knowledge, tape.base)
    element = knowledge.type_of(sequences[0].value)
    if element is None:
        raise tape.refusal(f"the element type of {sequences[0].value.name!r} is unknown before a run")
    for _ in sequences:
        item = element.sequence_type.elem_type
        value = ir.Value(name=tape.names.fresh(f"{tape.base}.element"), type=ir.serde.deserialize_type_proto_for_type(item))
        knowledge.state(value, item)
        body.inputs.append(value)
    result = function(*(Symbol(inner, v) for v in body.inputs))
    kind = onnx.helper.np_dtype_to_tensor_dtype(result.dtype)
    result.value.type = ir.TensorType(ir.DataType(kind))
    body.outputs.append(result.value)
    output = tape.SequenceMap(*sequences, body=body)
    knowledge.state(output.value, onnx.helper.make_sequence_type_proto(onnx.helper.make_tensor_type_proto(kind, None)))
    return output


def sum_of(a, b):
    """The sum of two gradients: of tensors, or of the tensors at each position."""
    return mapped(lambda x, y: x + y, a, b) if is_sequence(a) else a + b


def zeros_of(sequence):
    """A sequence of zeros in the shapes of another's tensors."""
    return mapped(lambda x: x.tape.zeros_like(x), sequence)
