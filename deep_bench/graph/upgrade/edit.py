"""What a rule needs to rewrite a node: attributes, constants, nodes before it, and what is known of its inputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import onnx
import onnx_ir as ir

from deep_bench.errors import Unsupported
from deep_bench.graph.network import Network
from deep_bench.graph.node import as_array, operator_name, subgraphs

ORIGIN = "deep_bench.origin"
"""Key in a node's ``meta``: the name of the node, as the file has it, that this one helps to express."""

_OPAQUE = "deep_bench.opaque"
_INFERRED_SINCE = 6
"""Most older schemas infer nothing. Ranks and element types of what they have in common with opset 6 are the same."""

_SMALL = 64
"""Initializers with more elements never decide a shape; inference goes without their contents."""


class Names:
    """Names for new values and nodes that no value or node of a network has."""

    def __init__(self, network: Network) -> None:
        self._taken = {n.name for n in network.all_nodes()} | {v.name for n in network.all_nodes() for v in n.outputs}
        for graph in [network.graph, *network.graph.subgraphs()]:
            self._taken |= {v.name for v in graph.inputs} | set(graph.initializers)

    def fresh(self, base: str) -> str:
        """A name that starts with ``base`` and is new in the network; it is taken from now on."""
        name, number = base, 1
        while name in self._taken:
            name, number = f"{base}_{number}", number + 1
        self._taken.add(name)
        return name


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
        if value.const_value is not None and value.const_value.size > _SMALL:
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


class Edit:
    """A node that a rule rewrites in place; its outputs keep their names.

    Args:
        node: The node, inside a graph.
        opset: The version it is written in.
        names: Where new names come from.
        types: What is known of the values.
    """

    def __init__(self, node: ir.Node, opset: int, names: Names, types: Types) -> None:
        assert isinstance(node.graph, ir.Graph | ir.Function)
        self.node, self.opset, self.names, self.types = node, opset, names, types
        self.graph = node.graph
        self.base = str(node.outputs[0].name or node.name)

    # What is there

    def input(self, index: int) -> ir.Value | None:
        """An input, or ``None`` where it is omitted."""
        return self.node.inputs[index] if index < len(self.node.inputs) else None

    def known(self, index: int) -> np.ndarray | None:
        """The contents of an input that is a constant."""
        value = self.input(index)
        return None if value is None or value.is_graph_input() else as_array(value)

    def uses_output(self, index: int) -> bool:
        """Whether an output is consumed by a node or returned by the graph."""
        if index >= len(self.node.outputs):
            return False
        value = self.node.outputs[index]
        return bool(value.uses()) or value.is_graph_output()

    def take(self, name: str, default: Any = None) -> Any:
        """An attribute's value; the node does not have it any more."""
        attribute = self.node.attributes.pop(name, None)
        if attribute is None:
            return default
        if attribute.is_ref():
            raise self.unsupported(f"its attribute {name!r} is a parameter of a function that nobody calls")
        return attribute.value

    # What becomes of it

    def set(self, **attributes: Any) -> None:
        """State attributes."""
        for attribute in ir.convenience.convert_attributes(attributes):
            self.node.attributes[attribute.name] = attribute

    def become(self, op_type: str, *inputs: ir.Value | None, **attributes: Any) -> None:
        """Turn the node into another operator with these inputs and attributes."""
        self.node.op_type = op_type
        self.node.attributes.clear()
        self.set(**attributes)
        self.feed(*inputs)

    def feed(self, *inputs: ir.Value | None) -> None:
        """Give the node these inputs; trailing ``None`` are left out."""
        values = list(inputs)
        while values and values[-1] is None:
            values.pop()
        self.node.resize_inputs(len(values))
        for index, value in enumerate(values):
            self.node.replace_input_with(index, value)

    def constant(self, label: str, array: Any, dtype: Any = None) -> ir.Value:
        """A new constant beside the node."""
        tensor = ir.tensor(np.asarray(array, dtype=dtype))
        name = self.names.fresh(f"{self.base}.{label}")
        if isinstance(self.graph, ir.Graph):
            value = ir.Value(
                name=name, type=ir.TensorType(tensor.dtype), shape=ir.Shape(np.shape(array)), const_value=tensor
            )
            self.graph.register_initializer(value)
            return value
        return self.before("Constant", label=label, value=tensor)

    def constant_like(self, label: str, number: float, like: ir.Value | None) -> ir.Value:
        """A new constant scalar in the element type of another value."""
        dtype = self.types.dtype(like)
        scalar = self.constant(label, np.asarray(number, dtype or np.float32))
        return scalar if dtype is not None else self.before("CastLike", scalar, like, label=f"{label}.like")

    def before(self, op_type: str, *inputs: ir.Value | None, label: str, **attributes: Any) -> ir.Value:
        """A new node before this one, with one output, which is returned."""
        name = self.names.fresh(f"{self.base}.{label}")
        node = ir.Node(
            "",
            op_type,
            inputs,
            ir.convenience.convert_attributes(attributes),
            outputs=[ir.Value(name=name)],
            name=self.names.fresh(f"{self.node.name}.{label}"),
        )
        node.meta[ORIGIN] = self.node.name
        self.graph.insert_before(self.node, node)
        return node.outputs[0]

    def unsupported(self, reason: str) -> Unsupported:
        """The refusal of this node."""
        return Unsupported(
            f"node {self.node.name!r} ({operator_name(self.node)}, opset {self.opset}) has no equivalent: {reason}",
            advice="export the network again for a newer opset",
        )


def subgraph_of(node: ir.Node, name: str) -> ir.Graph:
    """A graph that the node holds as an attribute."""
    return subgraphs(node)[name]


Rule: TypeAlias = Callable[[Edit], None]
"""What brings a node to the version in which its operator's meaning, or the way to write it, changed."""
