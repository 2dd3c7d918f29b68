"""Twenty single operators in sizes that networks have them in: what ``operator_speed.py`` times."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from types import MappingProxyType
from typing import Any

import numpy as np
import onnx

import deep_bench as db

OPSET = 21
"""An operator set that every system here knows; newer ones ONNX Runtime lacks kernels for."""


@dataclass(frozen=True)
class OperatorCase:
    """One node.

    Args:
        operator: Its operator.
        fed: The inputs that are fed, which come first.
        constants: Those that are initializers, as weights are; ``None`` for an omitted one.
        attributes: Its attributes.
        outputs: The number of its outputs.
    """

    operator: str
    fed: tuple[np.ndarray, ...]
    constants: tuple[np.ndarray | None, ...] = ()
    attributes: Mapping[str, Any] = field(default_factory=dict)
    outputs: int = 1

    @property
    def feeds(self) -> dict[str, np.ndarray]:
        """Name to array of what is fed."""
        return {f"x{i}": array for i, array in enumerate(self.fed)}

    @property
    def output_names(self) -> list[str]:
        """The names of the results."""
        return [f"y{i}" for i in range(self.outputs)]

    @property
    def proto(self) -> onnx.ModelProto:
        """The one-node network."""
        names = [*self.feeds, *("" if c is None else f"c{i}" for i, c in enumerate(self.constants))]
        node = onnx.helper.make_node(self.operator, names, self.output_names, name="node", **self.attributes)
        graph = onnx.helper.make_graph(
            [node],
            self.operator,
            [
                onnx.helper.make_tensor_value_info(n, onnx.helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
                for n, a in self.feeds.items()
            ],
            [onnx.ValueInfoProto(name=n) for n in self.output_names],
            [onnx.numpy_helper.from_array(c, f"c{i}") for i, c in enumerate(self.constants) if c is not None],
        )
        proto = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", OPSET)], ir_version=10)
        return onnx.shape_inference.infer_shapes(proto)

    @property
    def network(self) -> db.Network:
        """The one-node network."""
        return db.Network.from_proto(self.proto)


@cache
def cases() -> Mapping[str, OperatorCase]:
    """Name to case."""
    rng = np.random.default_rng(0)

    def normal(*shape: int) -> np.ndarray:
        return rng.standard_normal(shape).astype(np.float32)

    pooled = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}
    dilated = {"strides": [2, 2], "dilations": [2, 2], "pads": [2, 2, 2, 2], "group": 4}
    upsampled = {"strides": [2, 2], "pads": [1, 1, 1, 1]}
    moments = (normal(64), normal(64), normal(64), np.abs(normal(64)) + 0.5)
    cell = (normal(1, 512, 64) / 8, normal(1, 512, 128) / 8, normal(1, 1024) / 8)
    scales = np.array([1, 1, 2, 2], np.float32)
    half_pixel = {"mode": "linear", "coordinate_transformation_mode": "half_pixel"}
    image = normal(8, 64, 28, 28)
    found = {
        "Conv 3x3": OperatorCase("Conv", (normal(8, 16, 28, 28),), (normal(32, 16, 3, 3), normal(32)), {"pads": [1] * 4}),
        "Conv strided, dilated, grouped": OperatorCase(
            "Conv", (normal(8, 32, 56, 56),), (normal(32, 8, 3, 3), normal(32)), dilated
        ),
        "MaxPool": OperatorCase("MaxPool", (normal(8, 16, 28, 28),), attributes=pooled),
        "AveragePool": OperatorCase("AveragePool", (normal(8, 16, 28, 28),), attributes=pooled | {"count_include_pad": 1}),
        "ConvTranspose": OperatorCase(
            "ConvTranspose", (normal(8, 16, 14, 14),), (normal(16, 8, 4, 4), normal(8)), upsampled
        ),
        "BatchNormalization": OperatorCase("BatchNormalization", (image,), moments),
        "Gemm": OperatorCase("Gemm", (normal(128, 256),), (normal(256, 128), normal(128))),
        "MatMul, batched": OperatorCase("MatMul", (normal(8, 64, 128), normal(8, 128, 64))),
        "Softmax": OperatorCase("Softmax", (normal(8, 8, 64, 64),), attributes={"axis": -1}),
        "LayerNormalization": OperatorCase("LayerNormalization", (normal(8, 128, 256),), (normal(256), normal(256))),
        "Add, broadcast": OperatorCase("Add", (image,), (normal(64, 1, 1),)),
        "Relu": OperatorCase("Relu", (image,)),
        "Sigmoid": OperatorCase("Sigmoid", (image,)),
        "ReduceMean": OperatorCase("ReduceMean", (image,), (np.array([2, 3]),), {"keepdims": 1}),
        "Gather": OperatorCase("Gather", (normal(10000, 128), rng.integers(0, 10000, (8, 128)))),
        "Resize": OperatorCase("Resize", (normal(1, 16, 32, 32),), (None, scales), half_pixel),
        "Transpose": OperatorCase("Transpose", (image,), attributes={"perm": [0, 2, 3, 1]}),
        "Concat": OperatorCase("Concat", tuple(normal(8, 16, 28, 28) for _ in range(4)), attributes={"axis": 1}),
        "TopK": OperatorCase("TopK", (normal(64, 1000),), (np.array([10]),), outputs=2),
        "LSTM": OperatorCase("LSTM", (normal(16, 8, 64),), cell, {"hidden_size": 128}, outputs=3),
    }
    return MappingProxyType(found)
