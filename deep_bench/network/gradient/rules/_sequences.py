"""Sums and zeros of sequences."""

from __future__ import annotations

import onnx
import onnx_ir as ir

from deep_bench.network.gradient.symbol import Symbol
from deep_bench.network.gradient.tape import Tape


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
