"""Kernels to put into networks, and the networks."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

import deep_bench as db
from deep_bench.framework import Adapter
from deep_bench.graph import Network

FRAMEWORKS = ("onnxruntime", "reference", "tensorflow", "torch")


class Relu(db.Operator):
    computes = "Relu"

    def __init__(self, slope: float = 0.0, factor: float = 1.0) -> None:
        self.slope, self.factor = slope, factor
        self.seen: list[str] = []

    def forward(self, x: np.ndarray) -> np.ndarray:
        self.seen.append(type(x).__name__)
        return np.where(x > 0, x, x.dtype.type(self.slope) * x)

    def backward(self, grads: Any, inputs: Any, outputs: Any) -> Any:
        return (grads[0] * (inputs[0] > 0) * grads[0].dtype.type(self.factor),)


class ForwardOnly(db.Operator):
    computes = "Relu"

    def forward(self, x: np.ndarray) -> np.ndarray:
        return np.maximum(x, 0)


class Gemm(db.Operator):
    computes = "Gemm"

    def forward(self, a: Any, b: Any, c: Any = None, *, transB: int = 0) -> Any:
        y = a @ (b.T if transB else b)
        return y if c is None else y + c

    def backward(self, grads: Any, inputs: Any, outputs: Any, *, transB: int = 0) -> Any:
        a, b, *c = inputs
        (g,) = grads
        db_ = g.T @ a if transB else a.T @ g
        return (g @ (b if transB else b.T), db_, *(g.sum(0) for _ in c))


class Split(db.Operator):
    computes = "Split"

    def __init__(self) -> None:
        self.missing: list[int] = []

    def forward(self, x: Any, split: Any, *, axis: int = 0) -> Any:
        return tuple(np.ascontiguousarray(y) for y in np.split(x, np.cumsum(split)[:-1], axis))

    def backward(self, grads: Any, inputs: Any, outputs: Any, *, axis: int = 0) -> Any:
        self.missing = [i for i, g in enumerate(grads) if g is None]
        full = [np.zeros_like(y) if g is None else g for g, y in zip(grads, outputs, strict=True)]
        return np.concatenate(full, axis), *(None for _ in inputs[1:])


def parse(text: str, opset: int = 21) -> Network:
    return Network.from_proto(onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["": {opset}]> {text}'))


def adapter(name: str) -> Adapter[Any]:
    if name != "reference":
        pytest.importorskip(name)
    return db.frameworks[name]()  # type: ignore[no-any-return]


def digits() -> Network:
    return db.load("digits-cnn").with_loss("SoftmaxCrossEntropyLoss", output="logits", target="label")


def batch() -> dict[str, np.ndarray]:
    return {"image": np.random.default_rng(0).random((3, 1, 8, 8), np.float32), "label": np.arange(3)}


def gradients(
    on: Adapter[Any], network: Network, inputs: dict[str, np.ndarray], loss: str = "loss"
) -> dict[str, np.ndarray]:
    executor = on.prepare(network, mode="train")
    _, found = executor.gradients({n: on.from_numpy(a) for n, a in inputs.items()}, loss)
    return {name: on.to_numpy(g) for name, g in found.items()}
