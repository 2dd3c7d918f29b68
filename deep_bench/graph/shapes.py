"""What is known of the values of a graph: element types, dimensions, contents; for new nodes as they are written.

And how the windows of convolutions and pools lie along one axis: what the reference and every adapter share.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import onnx
import onnx_ir as ir
from onnx.shape_inference import infer_node_outputs

from deep_bench.graph.node import as_array, is_standard, operator_facts, schema

Type = onnx.TypeProto
_SMALL = 64
"""Constants with more elements are no shapes or axes: inference goes without their contents."""


if TYPE_CHECKING:
    from deep_bench.graph.network import Network


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
        operator_schema = schema(node, self.opset) if is_standard(node) and operator_facts(node).alike is None else None
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
    alike = operator_facts(node).alike
    for output, index in alike(len(node.outputs)) if alike is not None else ():
        like = node.inputs[index]
        if like is not None:
            yield node.outputs[output], like


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


Length = TypeVar("Length", int, Any)
"""A whole number, or a framework's own integer where a length is known only when the network runs."""


def span(kernel: int, dilation: int) -> int:
    """How many elements lie between the first and the last one of a window, both included: ``(kernel - 1) * dilation + 1``.

    Example:
        >>> span(kernel=3, dilation=2)
        5
    """
    return (kernel - 1) * dilation + 1


def split_padding(total: Length, *, upper: bool) -> tuple[Length, Length]:
    """Padding before and after; an odd element goes to the end if ``upper``, else to the beginning.

    Example:
        >>> split_padding(3, upper=True), split_padding(3, upper=False)
        ((1, 2), (2, 1))
    """
    small = total // 2
    return (small, total - small) if upper else (total - small, small)


def same_padding(size: int, extent: int, stride: int, *, upper: bool) -> tuple[int, int]:
    """Padding before and after, such that there are ``ceil(size / stride)`` windows.

    Args:
        size: The length of the axis.
        extent: The `span` of a window.
        stride: The distance between windows.
        upper: For ``SAME_UPPER``; else ``SAME_LOWER``.

    Example:
        >>> same_padding(size=5, extent=2, stride=2, upper=True)
        (0, 1)

    Source:
        ONNX AveragePool, opset 22, attribute ``auto_pad``.
    """
    return split_padding(max((-(-size // stride) - 1) * stride + extent - size, 0), upper=upper)


def window_count(size: int, begin: int, end: int, extent: int, stride: int, *, ceil: bool = False) -> int:
    """The number of windows: ``floor((size + begin + end - extent) / stride) + 1``.

    With ``ceil`` the quotient is rounded up, and a window that would start beyond the padded beginning of the axis is left
    out.

    Args:
        size: The length of the axis.
        begin: Padding before it.
        end: Padding after it.
        extent: The `span` of a window.
        stride: The distance between windows.
        ceil: Whether a last window that is only partly inside counts.

    Example:
        >>> window_count(4, 0, 0, extent=3, stride=2), window_count(4, 0, 0, extent=3, stride=2, ceil=True)
        (1, 2)

    Source:
        ONNX MaxPool, opset 22.
    """
    room = size + begin + end - extent
    count = (-(-room // stride) if ceil else room // stride) + 1
    if ceil and (count - 1) * stride >= size + begin:
        count -= 1
    return max(count, 0)


class Types:
    """Element types and ranks of a network's values, inferred when first asked for.

    Args:
        network: The network as it is before the first rule, which it may change later; ``None`` if nothing is known.
    """

    def __init__(self, network: Network | None) -> None:
        self._model = None if network is None else _opaque_where_foreign(network)
        self._known: dict[str, onnx.TypeProto.Tensor] | None = None

    def dtype(self, value: ir.Value | None) -> np.dtype | None:
        """The element type of a value, or ``None`` if it is unknown."""
        tensor_type = self._tensor(value)
        if tensor_type is None or tensor_type.elem_type in (onnx.TensorProto.UNDEFINED, onnx.TensorProto.STRING):
            return None
        return np.dtype(onnx.helper.tensor_dtype_to_np_dtype(tensor_type.elem_type))

    def rank(self, value: ir.Value | None) -> int | None:
        """The number of dimensions of a value, or ``None`` if it is unknown."""
        tensor_type = self._tensor(value)
        return len(tensor_type.shape.dim) if tensor_type is not None and tensor_type.HasField("shape") else None

    def _tensor(self, value: ir.Value | None) -> onnx.TypeProto.Tensor | None:
        if self._model is None or value is None:
            return None
        if self._known is None:
            self._known = _infer(self._model)
        return self._known.get(str(value.name))


def inferred(network: Network) -> dict[str, onnx.TypeProto.Tensor]:
    """Name to element type and dimensions of every value, as far as the standard's inference tells."""
    return _infer(_opaque_where_foreign(network))


def _opaque_where_foreign(network: Network) -> ir.Model:
    """A copy of the model in which the nodes of another version than the network's are unknown to inference."""
    model, opset = network.model.clone(), network.opset
    for node in model.graph.all_nodes():
        if node.op_type == "STFT" and "onesided" not in node.attributes:
            node.attributes.add(ir.AttrInt64("onesided", 1))  # inference takes 0 for the default
        if node.version not in (None, opset):
            node.domain, node.version = _OPAQUE, None
            model.graph.opset_imports[_OPAQUE] = 1
    if opset < _INFERRED_SINCE:
        model.graph.opset_imports.pop("ai.onnx", None)
        model.graph.opset_imports[""] = _INFERRED_SINCE
    return model


def _infer(bare: ir.Model) -> dict[str, onnx.TypeProto.Tensor]:
    for value in [v for g in [bare.graph, *bare.graph.subgraphs()] for n in g for v in n.outputs]:
        value.shape = None  # what the file declares may be wrong; what follows from the inputs is not
    for name, value in list(bare.graph.initializers.items()):
        if value.const_value is not None and value.const_value.size > _LARGEST_DECIDING:
            value.type, value.shape = ir.TensorType(value.const_value.dtype), ir.Shape(value.const_value.shape.numpy())
            del bare.graph.initializers[name]
            if value not in bare.graph.inputs:
                bare.graph.inputs.append(value)
    tensor_types: dict[str, onnx.TypeProto.Tensor] = {}
    try:
        _collect(onnx.shape_inference.infer_shapes(ir.to_proto(bare)).graph, tensor_types)
    except (onnx.shape_inference.InferenceError, RuntimeError):
        return {}  # unknown is always right: the rules then write forms that need no types
    return tensor_types


def _collect(graph: onnx.GraphProto, tensor_types: dict[str, onnx.TypeProto.Tensor]) -> None:
    for value in [*graph.input, *graph.value_info, *graph.output]:
        if value.type.HasField("tensor_type"):
            tensor_types[value.name] = value.type.tensor_type
    for tensor in graph.initializer:
        tensor_types[tensor.name] = onnx.helper.make_tensor_type_proto(tensor.data_type, tensor.dims).tensor_type
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                _collect(attribute.g, tensor_types)


_OPAQUE = "deep_bench.opaque"
_INFERRED_SINCE = 6
"""Most older schemas infer nothing. Ranks and element types of what they have in common with opset 6 are the same."""


_LARGEST_DECIDING = 64
"""Initializers with more elements never decide a shape; inference goes without their contents."""
