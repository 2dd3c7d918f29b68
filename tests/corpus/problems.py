"""Small networks with inputs that excite what they are made of: borders, ties, small variances, long sums, tails."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import deep_bench as db
from deep_bench.graph import OPSET, Network

Arrays = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Problem:
    """A network and what it is fed."""

    name: str
    network: Network
    inputs: Arrays


def single(
    operator: str, feeds: Mapping[str, np.ndarray | None], weights: Arrays | None = None, outputs: int = 1, **attributes: Any
) -> Callable[[], Problem]:
    """A problem of one node; ``feeds`` then ``weights`` are its inputs, in order; ``None`` omits one."""
    return lambda: chain(operator, feeds, [(operator, list(weights or {}), outputs, attributes)], weights)


def chain(
    name: str, feeds: Mapping[str, np.ndarray | None], nodes: Sequence[tuple[Any, ...]], weights: Arrays | None = None
) -> Problem:
    """A problem whose nodes follow each other: each takes the first output of the one before, then its weights."""
    made: list[onnx.NodeProto] = []
    current = [n if x is not None else "" for n, x in feeds.items()]
    for number, (operator, extra, count, attributes) in enumerate(nodes):
        outs = [f"y{number}" if k == 0 else f"y{number}_{k}" for k in range(count)]
        made.append(helper.make_node(operator, [*current, *extra], outs, name=f"{operator}_{number}", **attributes))
        current = outs[:1]
    last = [o for o in made[-1].output if o]
    return Problem(name, network(name, made, feeds, last, weights or {}), {n: x for n, x in feeds.items() if x is not None})


def network(
    name: str,
    nodes: Sequence[onnx.NodeProto],
    feeds: Mapping[str, np.ndarray | None],
    outputs: Sequence[str],
    weights: Arrays,
) -> Network:
    """A network of these nodes; the element types of its outputs are inferred."""
    graph = helper.make_graph(
        list(nodes),
        name,
        [_declared(n, x) for n, x in feeds.items() if x is not None],
        [helper.make_tensor_value_info(o, TensorProto.UNDEFINED, None) for o in outputs],
        [numpy_helper.from_array(w, n) for n, w in weights.items() if n],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET - 5)], ir_version=10)
    for value in model.graph.output:
        value.type.Clear()
    inferred = onnx.shape_inference.infer_shapes(model, data_prop=True)
    return Network.from_proto(inferred, name=name)


def _declared(name: str, x: np.ndarray) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)


def normal(*shape: int, scale: float = 1.0, shift: float = 0.0, seed: int = 0) -> np.ndarray:
    """Normal numbers in float32."""
    rng = np.random.default_rng([seed, *shape])
    return (rng.standard_normal(shape) * scale + shift).astype(np.float32)


def positive(*shape: int, seed: int = 0) -> np.ndarray:
    """Numbers between 0.1 and 1.1 in float32."""
    return np.random.default_rng([seed, *shape]).random(shape, dtype=np.float32) + np.float32(0.1)


def tails(*shape: int) -> np.ndarray:
    """Numbers over many orders of magnitude, of both signs: functions are tried near zero and in their tails."""
    rng = np.random.default_rng(shape)
    return (rng.choice([-1, 1], shape) * 10.0 ** rng.uniform(-3, 1, shape)).astype(np.float32)


_X4 = {"x": normal(2, 8, 14, 14)}
_KERNEL = {"w": normal(12, 8, 3, 3, scale=0.2), "b": normal(12)}
_AFFINE = {"s": positive(8), "b": normal(8)}


def _recurrent(gates: int) -> Arrays:
    size, width = 12, 10
    w, r = normal(1, gates * size, width, scale=0.3), normal(1, gates * size, size, scale=0.3)
    return {"w": w, "r": r, "b": normal(1, 2 * gates * size, scale=0.3)}


def _small_variance() -> np.ndarray:
    """Rows of which some vary by little: only those show an epsilon."""
    x = normal(6, 16, 24)
    x[::2] *= np.float32(0.01)
    return x


def _mlp(dtype: type = np.float32) -> Problem:
    weights = {"w1": normal(64, 96, scale=0.2), "w2": normal(96, 96, scale=0.2), "w3": normal(96, 10, scale=0.2)}
    weights = {n: w.astype(dtype) for n, w in weights.items()}
    steps = [("MatMul", ["w1"], 1, {}), ("Relu", [], 1, {}), ("MatMul", ["w2"], 1, {}), ("Tanh", [], 1, {})]
    nodes = [*steps, ("MatMul", ["w3"], 1, {}), ("Softmax", [], 1, {"axis": -1})]
    return chain(f"mlp {np.dtype(dtype)}", {"x": normal(16, 64).astype(dtype)}, nodes, weights)


def _block() -> Problem:
    """A residual block of a transformer without its attention: normalise, widen, GELU, narrow."""
    weights = {"s": positive(48), "b": normal(48), "w1": normal(48, 192, scale=0.2), "w2": normal(192, 48, scale=0.2)}
    nodes = [
        ("LayerNormalization", ["s", "b"], 1, {"axis": -1, "epsilon": 1e-3}),
        ("MatMul", ["w1"], 1, {}),
        ("Gelu", [], 1, {}),
        ("MatMul", ["w2"], 1, {}),
        ("LayerNormalization", ["s", "b"], 1, {"axis": -1, "epsilon": 1e-3}),
    ]
    return chain("block", {"x": normal(4, 12, 48)}, nodes, weights)


def _digits() -> Problem:
    image = np.random.default_rng(5).random((4, 1, 8, 8), dtype=np.float32)
    return Problem("digits-cnn", db.load("digits-cnn").with_sizes({"batch": 4}), {"image": image})


def _normalised() -> Problem:
    weights = {**_KERNEL, "s": positive(12), "o": normal(12), "m": normal(12), "v": positive(12) * np.float32(0.05)}
    steps = [
        ("Conv", ["w", "b"], 1, {"pads": [1, 1, 1, 1]}),
        ("BatchNormalization", ["s", "o", "m", "v"], 1, {"epsilon": 1e-3}),
    ]
    nodes = [*steps, ("Relu", [], 1, {}), ("GlobalAveragePool", [], 1, {})]
    return chain("conv-bn-relu-pool", _X4, nodes, weights)


def _ties() -> np.ndarray:
    return np.round(normal(16, 32) * 2) / np.float32(2)


_MATRIX = {"x": normal(48, 256), "w": normal(256, 32)}
_BN = {"s": positive(8), "o": normal(8), "m": normal(8), "v": positive(8) * np.float32(0.05)}
_IMAGE = {"x": normal(1, 3, 9, 11)}
_SCALES = {"": np.zeros(0, np.float32), "scales": np.array([1, 1, 1.7, 2.3], np.float32)}

BUILDERS: Mapping[str, Callable[[], Problem]] = {
    "MatMul": single("MatMul", _MATRIX),
    "MatMul positive": single("MatMul", {"x": positive(32, 512), "w": positive(512, 16)}),
    "MatMul long": single("MatMul", {"x": normal(8, 2048), "w": normal(2048, 24)}),
    "MatMul short": single("MatMul", {"x": normal(24, 16), "w": normal(16, 24)}),
    "Gemm": single("Gemm", {"x": normal(24, 64)}, {"w": normal(20, 64), "b": normal(20)}, alpha=0.5, beta=2.0, transB=1),
    "Conv": single("Conv", _X4, _KERNEL, pads=[1, 0, 1, 2], strides=[2, 1]),
    "Conv large": single("Conv", {"x": normal(1, 8, 96, 96)}, _KERNEL, pads=[1, 1, 1, 1]),
    "Conv 1d": single("Conv", {"x": normal(2, 16, 60)}, {"w": normal(8, 16, 5)}, dilations=[2], pads=[4, 4]),
    "Conv depthwise": single("Conv", _X4, {"w": normal(8, 1, 3, 3), "b": normal(8)}, group=8, pads=[1, 1, 1, 1]),
    "ConvTranspose": single(
        "ConvTranspose",
        {"x": normal(1, 8, 7, 7)},
        {"w": normal(8, 6, 3, 3), "b": normal(6)},
        strides=[2, 2],
        pads=[1, 1, 1, 1],
    ),
    "BatchNormalization": single("BatchNormalization", _X4, _BN, epsilon=1e-3),
    "LayerNormalization": single(
        "LayerNormalization", {"x": _small_variance()}, {"s": positive(24), "b": normal(24)}, axis=-1, epsilon=1e-3
    ),
    "InstanceNormalization": single("InstanceNormalization", {"x": normal(2, 8, 9, 9, scale=0.1)}, _AFFINE, epsilon=1e-3),
    "Softmax": single("Softmax", {"x": normal(6, 40, 9, scale=4)}, axis=1),
    "LogSoftmax": single("LogSoftmax", {"x": normal(6, 40, 9, scale=4)}, axis=1),
    "Sigmoid": single("Sigmoid", {"x": normal(64, 64, scale=4)}),
    "Tanh": single("Tanh", {"x": tails(64, 64)}),
    "Erf": single("Erf", {"x": tails(64, 64)}),
    "Gelu": single("Gelu", {"x": normal(64, 64, scale=2)}),
    "Elu": single("Elu", {"x": tails(64, 64)}, alpha=0.7),
    "Selu": single("Selu", {"x": normal(64, 64)}),
    "Softplus": single("Softplus", {"x": normal(64, 64, scale=4)}),
    "HardSwish": single("HardSwish", {"x": normal(64, 64, scale=3)}),
    "LeakyRelu": single("LeakyRelu", {"x": normal(64, 64)}, alpha=0.1),
    "MaxPool": single("MaxPool", {"x": normal(2, 4, 13, 13)}, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]),
    "AveragePool": single(
        "AveragePool", {"x": normal(2, 4, 13, 13)}, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]
    ),
    "GlobalAveragePool": single("GlobalAveragePool", {"x": normal(2, 16, 56, 56, shift=1)}),
    "ReduceMean": single("ReduceMean", {"x": normal(16, 33, 65, shift=0.5)}, {"axes": np.array([1, 2])}),
    "ReduceSum": single("ReduceSum", {"x": normal(32, 1024)}, {"axes": np.array([1])}),
    "ReduceL2": single("ReduceL2", {"x": normal(64, 96)}, {"axes": np.array([1])}),
    "ReduceLogSumExp": single("ReduceLogSumExp", {"x": normal(64, 96, scale=3)}, {"axes": np.array([1])}),
    "CumSum": single("CumSum", {"x": normal(32, 64)}, {"axis": np.array(1)}),
    "LSTM": single("LSTM", {"x": normal(15, 4, 10)}, _recurrent(4), outputs=3, hidden_size=12),
    "GRU": single("GRU", {"x": normal(15, 4, 10)}, _recurrent(3), outputs=2, hidden_size=12, linear_before_reset=1),
    "Attention": single("Attention", {"q": normal(2, 4, 10, 16), "k": normal(2, 4, 14, 16), "v": normal(2, 4, 14, 16)}),
    "Resize": single("Resize", _IMAGE, _SCALES, mode="linear"),
    "Add": single("Add", {"x": normal(32, 1, 48), "w": normal(24, 1)}),
    "Div": single("Div", {"x": normal(48, 48), "w": positive(48)}),
    "Exp": single("Exp", {"x": normal(64, 64, scale=5)}),
    "Log": single("Log", {"x": np.abs(tails(64, 64))}),
    "Pow": single("Pow", {"x": positive(64, 64), "p": np.array(2.5, np.float32)}),
    "Sqrt": single("Sqrt", {"x": np.abs(tails(64, 64))}),
    "ArgMax": single("ArgMax", {"x": _ties()}, axis=1),
    "TopK": single("TopK", {"x": normal(16, 32)}, {"k": np.array([5])}, outputs=2),
    "Transpose": single("Transpose", {"x": normal(6, 7, 8)}, perm=[1, 2, 0]),
    "Pad": single("Pad", {"x": normal(4, 9, 9)}, {"pads": np.array([0, 2, 1, 0, 1, 3])}, mode="reflect"),
    "Clip": single("Clip", {"x": normal(64, 64)}, {"low": np.array(-0.5, np.float32), "high": np.array(0.8, np.float32)}),
    "LRN": single("LRN", {"x": normal(2, 12, 6, 6, scale=3)}, size=5, alpha=0.1, beta=0.75),
    "mlp": _mlp,
    "mlp float16": lambda: _mlp(np.float16),
    "block": _block,
    "digits-cnn": _digits,
    "conv-bn-relu-pool": _normalised,
}
"""Name to problem."""


@cache
def problem(name: str) -> Problem:
    """One of the problems, built once; also a real network, which is fetched.

    Raises:
        Unreachable: A real network cannot be fetched.
    """
    if name not in BUILDERS:
        from .real import real_problem

        return real_problem(name)
    made = BUILDERS[name]()
    return Problem(name, made.network, made.inputs)
