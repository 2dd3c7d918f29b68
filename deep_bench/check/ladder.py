"""The precision ladder: the same network in float64, where rounding shrinks and a fault stays."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx_ir as ir

from deep_bench.graph import Network
from deep_bench.graph.node import subgraphs
from deep_bench.tensor import is_float

_WIDENED = (ir.DataType.FLOAT, ir.DataType.FLOAT16, ir.DataType.BFLOAT16)
_STATED = ("to", "dtype", "stash_type", "softmax_precision", "output_dtype")


def in_float64(network: Network, inputs: Mapping[str, np.ndarray]) -> tuple[Network, dict[str, np.ndarray]]:
    """A network and its inputs with float32, float16 and bfloat16 widened to float64: weights, casts and constants too."""
    changed = network.copy()
    _widen_graph(changed.graph)
    wide = {n: x.astype(np.float64) if is_float(x.dtype) and x.dtype.itemsize > 1 else x for n, x in inputs.items()}
    return Network(changed.model, name=f"{network.name} in float64"), wide


def _widen_graph(graph: ir.Graph) -> None:
    for value in graph.initializers.values():
        if value.const_value is not None and value.const_value.dtype in _WIDENED:
            value.const_value = ir.tensor(value.const_value.numpy().astype(np.float64), name=value.name)
            value.type = ir.TensorType(ir.DataType.DOUBLE)
    for value in (*graph.inputs, *graph.outputs):
        _widen_type(value)
    for node in graph:
        for value in node.outputs:
            _widen_type(value)
        for name, attribute in list(node.attributes.items()):
            _widen_attribute(node, name, attribute)
        for body in subgraphs(node).values():
            _widen_graph(body)


def _widen_type(value: ir.Value) -> None:
    if isinstance(value.type, ir.TensorType) and value.type.dtype in _WIDENED:
        value.type = ir.TensorType(ir.DataType.DOUBLE)


def _widen_attribute(node: ir.Node, name: str, attribute: ir.Attr) -> None:
    if attribute.type is ir.AttributeType.TENSOR and attribute.value.dtype in _WIDENED:
        node.attributes[name] = ir.AttrTensor(name, ir.tensor(attribute.value.numpy().astype(np.float64)))
    elif name in ("value_float", "value_floats") and node.op_type == "Constant":
        del node.attributes[name]
        node.attributes["value"] = ir.AttrTensor("value", ir.tensor(np.asarray(attribute.value, np.float64)))
    elif name in _STATED and attribute.type is ir.AttributeType.INT and attribute.value in [d.value for d in _WIDENED]:
        node.attributes[name] = ir.AttrInt64(name, ir.DataType.DOUBLE.value)
