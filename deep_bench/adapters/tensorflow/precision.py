"""A network in another floating-point precision: what the precision ladder climbs."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from deep_bench.graph import Network

_FLOATS = (ir.DataType.FLOAT, ir.DataType.FLOAT16, ir.DataType.BFLOAT16, ir.DataType.DOUBLE)

_TYPE_ATTRIBUTES = ("to", "dtype", "stash_type", "softmax_precision", "output_dtype")
"""Attributes that state an element type."""

_SCALED = {"Resize": 2, "Upsample": 1}

_DEFAULTS = {
    "ConstantOfShape": "value",
    "RandomNormal": "dtype",
    "RandomUniform": "dtype",
    "BlackmanWindow": "output_datatype",
    "HammingWindow": "output_datatype",
    "HannWindow": "output_datatype",
}
"""Operators whose results are float32 unless an attribute says otherwise."""


def in_precision(network: Network, dtype: np.dtype) -> Network:
    """The network with every floating-point value, constant and cast of the four usual types in one type.

    Args:
        network: A network.
        dtype: The element type that takes the place of float16, bfloat16, float32 and float64.
    """
    target = ir.DataType.from_numpy(dtype)
    changed = network.copy()
    nodes = list(changed.all_nodes())
    for graph in [changed.graph, *(g for node in nodes for g in _graphs(node))]:
        for value in [*graph.inputs, *graph.initializers.values()]:
            if not _is_scale(value):
                _retype(value, target)
                value.const_value = _converted(value.const_value, target)
    for node in nodes:
        if any(_is_scale(value) for value in node.outputs):
            continue
        for value in node.outputs:
            _retype(value, target)
        for name, attribute in list(node.attributes.items()):
            node.attributes[name] = _attribute(attribute, target)
        if node.op_type in _DEFAULTS and not {"value", "dtype", "output_datatype"} & set(node.attributes):
            name = _DEFAULTS[node.op_type]
            zero = ir.AttrTensor(name, ir.tensor(np.zeros(1, dtype), dtype=target))
            node.attributes[name] = zero if name == "value" else ir.AttrInt64(name, int(target))
    return Network(changed.model, name=network.name)


def _is_scale(value: ir.Value) -> bool:
    """Whether a value only holds the scales of ``Resize``, which are float32 in every network."""
    uses = value.uses()
    return bool(uses) and all(use.node.op_type in _SCALED and use.idx == _SCALED[use.node.op_type] for use in uses)


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
    if attribute.type == ir.AttributeType.TENSOR and attribute.as_tensor().dtype in _FLOATS:
        array = attribute.as_tensor().numpy().astype(target.numpy())
        return ir.AttrTensor(attribute.name, ir.tensor(array, dtype=target))
    if attribute.name in _TYPE_ATTRIBUTES and attribute.type == ir.AttributeType.INT and attribute.as_int() in _FLOATS:
        return ir.AttrInt64(attribute.name, int(target))
    if attribute.name in ("value_float", "value_floats"):
        numbers = attribute.as_floats() if attribute.name == "value_floats" else attribute.as_float()
        return ir.AttrTensor("value", ir.tensor(np.asarray(numbers, target.numpy()), dtype=target))
    return attribute
