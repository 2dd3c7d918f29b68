"""A generated network of at least a given number of nodes, in the mix that exported networks have."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx

import deep_bench as db

_CHANNELS, _SIDE, _HEADS, _WIDTH = 16, 8, 2, 32


class _Writer:
    """Nodes and initializers, with names of their own."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.nodes: list[onnx.NodeProto] = []
        self.initializers: list[onnx.TensorProto] = []
        self._rng = np.random.default_rng(0)

    @property
    def full(self) -> bool:
        return len(self.nodes) >= self.limit

    def node(self, operator: str, *inputs: str, **attributes: Any) -> str:
        output = f"{operator.lower()}.{len(self.nodes)}"
        self.nodes.append(onnx.helper.make_node(operator, inputs, [output], name=f"node.{len(self.nodes)}", **attributes))
        return output

    def weight(self, *shape: int) -> str:
        values = self._rng.standard_normal(shape) / max(np.sqrt(np.prod(shape[1:])), 1)
        return self.constant(values.astype(np.float32))

    def constant(self, array: Any) -> str:
        name = f"constant.{len(self.initializers)}"
        self.initializers.append(onnx.numpy_helper.from_array(np.asarray(array), name))
        return name


def large_network(nodes: int = 500) -> db.Network:
    """Residual blocks with batch normalization, and attention blocks with the shape arithmetic of exporters, in turn.

    Args:
        nodes: The number of nodes; the last block is finished.
    """
    w = _Writer(nodes)
    image, tokens = "image", "tokens"
    while not w.full:
        image = _residual(w, image)
        tokens = _attention(w, tokens)
    pooled = w.node("GlobalAveragePool", image)
    value = onnx.helper.make_tensor_value_info
    outputs = {w.node("Flatten", pooled): [_CHANNELS], tokens: ["length", _WIDTH]}
    graph = onnx.helper.make_graph(
        w.nodes,
        "large",
        [
            value("image", onnx.TensorProto.FLOAT, ["batch", _CHANNELS, _SIDE, _SIDE]),
            value("tokens", onnx.TensorProto.FLOAT, ["batch", "length", _WIDTH]),
        ],
        [value(name, onnx.TensorProto.FLOAT, ["batch", *shape]) for name, shape in outputs.items()],
        w.initializers,
    )
    opset = onnx.helper.make_opsetid("", 17)
    return db.Network.from_proto(onnx.helper.make_model(graph, opset_imports=[opset], ir_version=8))


def _residual(w: _Writer, x: str) -> str:
    y = x
    for _ in range(2):
        moments = [w.constant(np.full(_CHANNELS, v, np.float32)) for v in (1, 0, 0, 1)]
        y = w.node("Conv", y, w.weight(_CHANNELS, _CHANNELS, 3, 3), pads=[1, 1, 1, 1], kernel_shape=[3, 3])
        y = w.node("Relu", w.node("BatchNormalization", y, *moments))
    gate = w.node("Sigmoid", w.node("Conv", w.node("GlobalAveragePool", y), w.weight(_CHANNELS, _CHANNELS, 1, 1)))
    y = w.node("Relu", w.node("Add", w.node("Mul", y, gate), x))
    pooled = w.node("MaxPool", y, kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[1, 1])
    joined = w.node("Concat", y, pooled, axis=1)
    return w.node("Conv", joined, w.weight(_CHANNELS, 2 * _CHANNELS, 1, 1))


def _attention(w: _Writer, x: str) -> str:
    shape = w.node("Shape", x)
    batch, length = (w.node("Gather", shape, w.constant(np.int64(axis)), axis=0) for axis in (0, 1))
    ends = [w.node("Unsqueeze", end, w.constant([0])) for end in (batch, length)]
    split = w.node("Concat", *ends, w.constant([_HEADS, _WIDTH // _HEADS]), axis=0)
    whole = w.node("Concat", *ends, w.constant([_WIDTH]), axis=0)
    heads = []
    for perm in ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3]):
        projected = w.node("Add", w.node("MatMul", x, w.weight(_WIDTH, _WIDTH)), w.weight(_WIDTH))
        heads.append(w.node("Transpose", w.node("Reshape", projected, split), perm=perm))
    scores = w.node("Softmax", w.node("Div", w.node("MatMul", heads[0], heads[1]), w.constant(np.float32(4))), axis=-1)
    mixed = w.node("Transpose", w.node("MatMul", scores, heads[2]), perm=[0, 2, 1, 3])
    y = w.node("Add", w.node("MatMul", w.node("Reshape", mixed, whole), w.weight(_WIDTH, _WIDTH)), x)
    y = w.node("LayerNormalization", y, w.weight(_WIDTH), w.weight(_WIDTH), axis=-1)
    hidden = w.node("Add", w.node("MatMul", y, w.weight(_WIDTH, 2 * _WIDTH)), w.weight(2 * _WIDTH))
    bent = w.node("Mul", hidden, w.node("Sigmoid", hidden))
    kept = w.node("Slice", bent, w.constant([0]), w.constant([_WIDTH]), w.constant([2]))
    return w.node("LayerNormalization", w.node("Add", kept, y), w.weight(_WIDTH), w.weight(_WIDTH), axis=-1)
