"""A network in another floating-point precision: what the precision ladder climbs."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from deep_bench.graph import Network

_FLOATS = (ir.DataType.FLOAT, ir.DataType.FLOAT16, ir.DataType.BFLOAT16, ir.DataType.DOUBLE)


def in_precision(network: Network, dtype: np.dtype) -> Network:
    """The network with every floating-point value, constant and cast of the four usual types in one type.

    Args:
        network: A network.
        dtype: The element type that takes the place of float16, bfloat16, float32 and float64.
    """
    target = ir.DataType.from_numpy(dtype)
    changed = network.copy()
    for value in [*changed.graph.inputs, *changed.graph.initializers.values()]:
        _retype(value, target)
    for value in changed.graph.initializers.values():
        value.const_value = _converted(value.const_value, target)
    for node in changed.all_nodes():
        for value in node.outputs:
            _retype(value, target)
        for name, attribute in list(node.attributes.items()):
            node.attributes[name] = _attribute(attribute, target)
        for graph in _graphs(node):
            for value in [*graph.inputs, *graph.initializers.values()]:
                _retype(value, target)
            for value in graph.initializers.values():
                value.const_value = _converted(value.const_value, target)
    return Network(changed.model, name=network.name)


def _graphs(node: ir.Node) -> list[ir.Graph]:
    return [a.as_graph() for a in node.attributes.values() if a.type == ir.AttributeType.GRAPH]


def _retype(value: ir.Value, target: ir.DataType) -> None:
    if isinstance(value.type, ir.TensorType) and value.type.dtype in _FLOATS:
        value.type = ir.TensorType(target)


def _converted(tensor: ir.TensorProtocol | None, target: ir.DataType) -> ir.TensorProtocol | None:
    if tensor is None or tensor.dtype not in _FLOATS:
        return tensor
    return ir.tensor(tensor.numpy().astype(target.numpy()), dtype=target, name=tensor.name)


def _attribute(attribute: ir.Attr, target: ir.DataType) -> ir.Attr:
    if attribute.type == ir.AttributeType.TENSOR:
        return ir.AttrTensor(attribute.name, _converted(attribute.as_tensor(), target))
    if attribute.name in ("to", "dtype") and attribute.type == ir.AttributeType.INT and attribute.as_int() in _FLOATS:
        return ir.AttrInt64(attribute.name, int(target))
    if attribute.name in ("value_float", "value_floats"):
        numbers = attribute.as_floats() if attribute.name == "value_floats" else attribute.as_float()
        return ir.AttrTensor("value", ir.tensor(np.asarray(numbers, target.numpy()), dtype=target))
    return attribute
