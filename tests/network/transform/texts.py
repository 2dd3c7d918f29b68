"""Small networks, written down."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx

import deep_bench as db


def network(body: str, opset: int = 21, **constants: Any) -> db.Network:
    """``f (float[2,3] x) => (float y) { … }`` with initializers."""
    proto = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["": {opset}]> {body}')
    proto.graph.initializer.extend(onnx.numpy_helper.from_array(np.asarray(a), name) for name, a in constants.items())
    return db.Network.from_proto(proto)


def run(of: db.Network, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Its outputs on the reference."""
    return db.frameworks["reference"]().prepare(of)(inputs)


def operators(of: db.Network) -> list[str]:
    """Of its nodes, in order."""
    return [node.op_type for node in of.nodes]


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    """Standard normal numbers in float32."""
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def digits(batch: int = 3) -> tuple[db.Network, dict[str, np.ndarray]]:
    """The network that ships, for a fixed batch, and images."""
    return db.load("digits-cnn").with_sizes({"batch": batch}), {"image": np.abs(normal(batch, 1, 8, 8))}
