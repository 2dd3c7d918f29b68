"""What is known of the values of a graph: element types, dimensions, contents; for new nodes as they are written."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
from onnx.shape_inference import infer_node_outputs

from deep_bench.graph.network import Network
from deep_bench.graph.node import as_array, is_standard, schema
from deep_bench.graph.upgrade.edit import inferred

Type = onnx.TypeProto
_SMALL = 64
"""Constants with more elements are no shapes or axes: inference goes without their contents."""

_ALIKE = ("GroupNormalization", "MeanVarianceNormalization")
"""Operators whose result is like their first input, though the standard's inference does not know it."""

_ALIKE_ELSEWHERE = (
    "Gelu",
    "BiasGelu",
    "FastGelu",
    "QuickGelu",
    "SkipLayerNormalization",
    "SkipSimplifiedLayerNormalization",
)
"""The same outside the standard, in ``com.microsoft``."""

_OPTIMIZERS: dict[str, tuple[int, ...]] = {"Adagrad": (0, 2), "Adam": (0, 2, 3), "Momentum": (0, 2)}
"""Which tensors of each one that is optimized (after two scalars) the results are like, by kind."""


class Knowledge:
    """Element types and dimensions by value; it grows with the graph.

    Args:
        network: The network to start from.
    """

    def __init__(self, network: Network) -> None:
        self.opset = network.opset
        self._types: dict[str, Type] = {}
        for name, tensor in inferred(network).items():
            self._types[name] = Type(tensor_type=tensor)
        for value in _declared(network):
            self._types.setdefault(str(value.name), ir.to_proto(value).type)
        for node in network.graph:
            if any(v.name and self.dims(v) is None for v in node.outputs):
                self.infer(node)

    def type_of(self, value: ir.Value) -> Type | None:
        """What is known of a value, if anything."""
        return self._types.get(str(value.name))

    def state(self, value: ir.Value, known: Type | None) -> None:
        """Learn the type of a value."""
        if known is not None:
            self._types[str(value.name)] = known

    def dtype(self, value: ir.Value) -> np.dtype | None:
        """The element type, or ``None`` if it is unknown or the value is no tensor of numbers."""
        value_type = self.type_of(value)
        if value_type is None or not value_type.HasField("tensor_type"):
            return None
        kind = value_type.tensor_type.elem_type
        if kind in (onnx.TensorProto.UNDEFINED, onnx.TensorProto.STRING):
            return None
        return np.dtype(onnx.helper.tensor_dtype_to_np_dtype(kind))

    def dims(self, value: ir.Value) -> tuple[int | str | None, ...] | None:
        """The dimensions, or ``None`` if not even their number is known."""
        value_type = self.type_of(value)
        if value_type is None or not value_type.HasField("tensor_type") or not value_type.tensor_type.HasField("shape"):
            return None
        return tuple(_dimension(d) for d in value_type.tensor_type.shape.dim)

    def infer(self, node: ir.Node) -> None:
        """Learn the types of a new node's outputs from those of its inputs, as far as the standard's rules tell."""
        for output, like in _like(node):
            self.state(output, self.type_of(like))
        operator_schema = schema(node, self.opset) if is_standard(node) and node.op_type not in _ALIKE else None
        if operator_schema is None:
            return
        types: dict[str, Type] = {}
        for value in node.inputs:
            value_type = None if value is None else self.type_of(value)
            if value is not None and value_type is None:
                self._count(node)
                return
            if value is not None and value_type is not None:
                types[str(value.name)] = value_type
        try:
            outputs = infer_node_outputs(operator_schema, _proto(node), types, _constants(node), None, self._imports())
        except (onnx.shape_inference.InferenceError, onnx.checker.ValidationError, RuntimeError):
            return  # unknown is always right: rules then refuse, or write forms that need no types
        for value in node.outputs:
            self.state(value, outputs.get(str(value.name)))

    def _count(self, node: ir.Node) -> None:
        """Shapes and sizes are of int64, whatever they are of."""
        if is_standard(node) and node.op_type in ("Shape", "Size"):
            shape = [None] if node.op_type == "Shape" else []
            self.state(node.outputs[0], onnx.helper.make_tensor_type_proto(onnx.TensorProto.INT64, shape))

    def _imports(self) -> list[onnx.OperatorSetIdProto]:
        return [onnx.helper.make_opsetid("", self.opset)]


def _like(node: ir.Node) -> Iterator[tuple[ir.Value, ir.Value]]:
    """Outputs that have the type of an input, where the standard's inference does not know it."""
    alike = _ALIKE if is_standard(node) else _ALIKE_ELSEWHERE if node.domain == "com.microsoft" else ()
    if node.op_type in alike and node.inputs[0] is not None:
        yield node.outputs[0], node.inputs[0]
    if node.domain == "ai.onnx.preview.training" and node.op_type in _OPTIMIZERS:
        kinds = _OPTIMIZERS[node.op_type]
        count = len(node.outputs) // len(kinds)
        for i, output in enumerate(node.outputs):
            like = node.inputs[2 + kinds[i // count] * count + i % count]
            if like is not None:
                yield output, like


def _proto(node: ir.Node) -> onnx.NodeProto:
    proto = ir.to_proto(node)
    if node.op_type == "LinearAttention" and len(node.outputs) == 1:
        proto.output.append("state")  # inference fails where it is not asked for
    return proto


def _declared(network: Network) -> Iterator[ir.Value]:
    """The values whose types the file states, for what inference does not know: containers, other domains."""
    for graph in (network.graph, *network.graph.subgraphs()):
        for value in (*graph.inputs, *graph.initializers.values(), *(v for node in graph for v in node.outputs)):
            if value.type is not None:
                yield value


def _constants(node: ir.Node) -> dict[str, onnx.TensorProto]:
    constants: dict[str, onnx.TensorProto] = {}
    for value in node.inputs:
        array = None if value is None or value.is_graph_input() else as_array(value)
        if value is not None and array is not None and array.dtype != object and array.size <= _SMALL:
            constants[str(value.name)] = onnx.numpy_helper.from_array(np.ascontiguousarray(array).reshape(array.shape))
    return constants


def _dimension(dim: Any) -> int | str | None:
    return dim.dim_value if dim.HasField("dim_value") else (dim.dim_param or None)
