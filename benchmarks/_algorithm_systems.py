"""The cases and systems that ``algorithms.py`` compares: one node, computed by the reference with a chosen algorithm."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from _side_by_side import TimedCall
from onnx import TensorProto, helper

import deep_bench as db


def _normal(*shape: int) -> np.ndarray:
    return np.random.default_rng(shape).standard_normal(shape, np.float32)


def inputs(operator: str) -> Sequence[np.ndarray]:
    """What an operator is fed."""
    made: Mapping[str, Sequence[np.ndarray]] = {
        "Attention": [_normal(1, 8, 128, 32), _normal(1, 8, 160, 32), _normal(1, 8, 160, 32)],
        "Conv": [_normal(4, 32, 28, 28), _normal(32, 32, 3, 3)],
        "LSTM": [_normal(32, 8, 64), _normal(1, 256, 64), _normal(1, 256, 64)],
        "LayerNormalization": [_normal(128, 512) + 32, _normal(512)],
        "MatMul": [_normal(256, 256), _normal(256, 256).T.copy()],
        "ReduceSum": [np.abs(_normal(256, 4096)), np.array([1])],
        "Softmax": [4 * _normal(128, 512)],
    }
    return made[operator]


OPERATORS = ("Conv", "MatMul", "ReduceSum", "LayerNormalization", "Softmax", "Attention", "LSTM")


def problem(operator: str) -> tuple[db.Network, dict[str, np.ndarray]]:
    """A network of one node, and its inputs."""
    stated: Mapping[str, Mapping[str, Any]] = {"Conv": {"pads": [1, 1, 1, 1]}, "LSTM": {"hidden_size": 64}}
    feeds = {f"x{number}": x for number, x in enumerate(inputs(operator))}
    node = helper.make_node(operator, list(feeds), ["y"], name=operator, **stated.get(operator, {}))
    graph = helper.make_graph(
        [node],
        operator,
        [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape) for n, x in feeds.items()],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=10)
    return db.Network.from_proto(onnx.shape_inference.infer_shapes(model)), feeds


def chosen(operator: str, algorithm: str) -> TimedCall:
    """The reference with an algorithm."""

    def make() -> Any:
        network, feeds = problem(operator)
        return db.frameworks["reference"](algorithms={operator: algorithm}).prepare(network).bind(feeds)

    return TimedCall(make)
