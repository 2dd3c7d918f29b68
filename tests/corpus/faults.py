"""Faults as people make them: each patch is one mistake in one operator."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import ml_dtypes
import numpy as np

from .problems import problem
from .subjects import Halfway, Patch, Patched, Stale
from .variants import Entry


def _with(**changes: Any) -> Patch:
    """The operator with other attributes."""
    return lambda f, x, a: f(*x, **{**a, **changes})


def _on_inputs(change: Callable[[list[Any]], list[Any]]) -> Patch:
    """The operator on other inputs."""
    return lambda f, x, a: f(*change(x), **a)


def _after(change: Callable[[Any], Any]) -> Patch:
    """The operator with its first result changed."""

    def patch(f: Any, x: Any, a: Any) -> Any:
        y = f(*x, **a)
        return (change(y[0]), *y[1:]) if isinstance(y, tuple) else change(y)

    return patch


def _rounded_factors(to: Callable[[np.ndarray], np.ndarray]) -> Patch:
    return lambda f, x, a: f(to(x[0]), to(x[1]), *x[2:], **a)


def _tf32(x: np.ndarray) -> np.ndarray:
    if x.dtype != np.float32:
        return x
    bits = x.view(np.uint32)
    return ((bits + np.uint32(0xFFF) + ((bits >> np.uint32(13)) & np.uint32(1))) & np.uint32(0xFFFFE000)).view(np.float32)


def _bfloat16(x: np.ndarray) -> np.ndarray:
    return x.astype(ml_dtypes.bfloat16).astype(x.dtype) if x.dtype == np.float32 else x


def _float16(x: np.ndarray) -> np.ndarray:
    return x.astype(np.float16).astype(x.dtype) if x.dtype == np.float32 else x


def _set(value: float) -> Callable[[Any], Any]:
    """One element in the middle set to a value."""

    def change(y: Any) -> Any:
        y = np.array(y)
        y.reshape(-1)[y.size // 2 + 1] = value
        return y

    return change


def _swapped(axis: int) -> Callable[[Any], Any]:
    """Two neighbours along an axis swapped."""

    def change(y: Any) -> Any:
        order = np.arange(y.shape[axis])
        order[[1, 2]] = order[[2, 1]]
        return np.take(y, order, axis=axis)

    return change


def _without(*positions: int) -> Patch:
    return _on_inputs(lambda x: [None if k in positions else v for k, v in enumerate(x)])


def _scaled(position: int, factor: float) -> Patch:
    def change(x: list[Any]) -> list[Any]:
        return [v * v.dtype.type(factor) if k == position else v for k, v in enumerate(x)]

    return _on_inputs(change)


def _biased_variance(f: Any, x: Any, a: Any) -> Any:
    """The variance divided by n - 1."""
    n = x[0].shape[-1]
    centred = x[0] - x[0].mean(-1, keepdims=True)
    variance = (centred**2).sum(-1, keepdims=True) / x[0].dtype.type(n - 1)
    return centred / np.sqrt(variance + x[0].dtype.type(a["epsilon"])) * x[1] + x[2]


def _variance_by_squares(f: Any, x: Any, a: Any) -> Any:
    """The epsilon left out where it is needed and added to the root instead."""
    centred = x[0] - x[0].mean(-1, keepdims=True)
    return centred / (np.sqrt((centred**2).mean(-1, keepdims=True)) + x[0].dtype.type(a["epsilon"])) * x[1] + x[2]


def _gelu_tanh(f: Any, x: Any, a: Any) -> Any:
    return f(x[0], approximate="tanh")


def _gelu_sigmoid(f: Any, x: Any, a: Any) -> Any:
    return x[0] / (1 + np.exp(x[0].dtype.type(-1.702) * x[0]))


def _last_missing(f: Any, x: Any, a: Any) -> Any:
    """The last term of each sum left out."""
    return f(x[0][..., :-1], x[1][:-1], **a)


def _gates(order: list[int]) -> Patch:
    def change(x: list[Any]) -> list[Any]:
        size = x[2].shape[-1]
        rows = np.concatenate([np.arange(g * size, (g + 1) * size) for g in order])
        biases = np.concatenate([rows, rows + len(order) * size])
        return [x[0], x[1][:, rows], x[2][:, rows], x[3][:, biases], *x[4:]]

    return _on_inputs(change)


def _padded_average(f: Any, x: Any, a: Any) -> Any:
    return f(*x, **{**a, "count_include_pad": 1})


def _zero_padded(f: Any, x: Any, a: Any) -> Any:
    """A maximum pool that pads with zeros."""
    pads = a.pop("pads")
    padded = np.pad(x[0], ((0, 0), (0, 0), (pads[0], pads[2]), (pads[1], pads[3])))
    return f(padded, **a)


def _last_tie(f: Any, x: Any, a: Any) -> Any:
    return f(*x, **{**a, "select_last_index": 1})


def _mean_less_one(f: Any, x: Any, a: Any) -> Any:
    count = math.prod(x[0].shape[int(k)] for k in x[1])
    return f(*x, **a) * x[0].dtype.type(count / (count - 1))


def _half_tile(f: Any, x: Any, a: Any) -> Any:
    """The last rows of the matrix product are those of a tile that was never accumulated fully."""
    y = np.array(f(*x, **a))
    y[-3:] -= np.matmul(x[0][-3:, -8:], x[1][-8:])
    return y


_BN_EPSILON = _with(epsilon=1e-5)
_PATCHES: Mapping[tuple[str, str], Patch] = {
    ("BatchNormalization", "BatchNormalization with another epsilon"): _BN_EPSILON,
    ("conv-bn-relu-pool", "BatchNormalization with another epsilon"): _BN_EPSILON,
    ("BatchNormalization", "BatchNormalization without epsilon"): _with(epsilon=0.0),
    ("LayerNormalization", "LayerNormalization with another epsilon"): _with(epsilon=1e-5),
    ("LayerNormalization", "LayerNormalization with the variance over n - 1"): _biased_variance,
    ("LayerNormalization", "LayerNormalization with epsilon outside the root"): _variance_by_squares,
    ("block", "LayerNormalization with another epsilon"): _with(epsilon=1e-5),
    ("InstanceNormalization", "InstanceNormalization with another epsilon"): _with(epsilon=1e-4),
    ("InstanceNormalization", "InstanceNormalization with swapped channels"): _after(_swapped(1)),
    ("Conv", "Conv with swapped channels"): _after(_swapped(1)),
    ("Conv", "Conv with shifted padding"): _with(pads=(0, 1, 2, 1)),
    ("Conv", "Conv without bias"): _without(2),
    ("Conv", "Conv with flipped kernel"): _on_inputs(lambda x: [x[0], x[1][..., ::-1], *x[2:]]),
    ("Conv", "Conv with transposed kernel"): _on_inputs(lambda x: [x[0], np.swapaxes(x[1], 2, 3), *x[2:]]),
    ("Conv", "Conv with TF32"): _rounded_factors(_tf32),
    ("Conv", "Conv with bfloat16"): _rounded_factors(_bfloat16),
    ("Conv", "Conv with edge padding"): lambda f, x, a: f(
        np.pad(x[0], ((0, 0), (0, 0), (1, 1), (0, 2)), "edge"), *x[1:], **{**a, "pads": (0, 0, 0, 0)}
    ),
    ("Conv large", "Conv with one zeroed element"): _after(_set(0.0)),
    ("Conv large", "Conv with one NaN"): _after(_set(np.nan)),
    ("Conv 1d", "Conv with dilation ignored"): _with(dilations=(1,), pads=(2, 2)),
    ("Conv depthwise", "Conv with swapped channels"): _after(_swapped(1)),
    ("digits-cnn", "Conv with TF32"): _rounded_factors(_tf32),
    ("digits-cnn", "BatchNormalization with another epsilon"): _with(epsilon=1e-4),
    ("digits-cnn", "Gemm without bias"): _without(2),
    ("digits-cnn", "GlobalAveragePool off by one"): _after(lambda y: y * y.dtype.type(16 / 15)),
    ("ConvTranspose", "ConvTranspose with shifted padding"): _with(pads=(0, 2, 2, 0)),
    ("ConvTranspose", "ConvTranspose with flipped kernel"): _on_inputs(lambda x: [x[0], x[1][..., ::-1, ::-1], *x[2:]]),
    ("MatMul", "MatMul with TF32"): _rounded_factors(_tf32),
    ("MatMul", "MatMul with bfloat16"): _rounded_factors(_bfloat16),
    ("MatMul", "MatMul with float16"): _rounded_factors(_float16),
    ("MatMul", "MatMul with a result in bfloat16"): _after(_bfloat16),
    ("MatMul", "MatMul without its last term"): _last_missing,
    ("MatMul", "MatMul with one zeroed element"): _after(_set(0.0)),
    ("MatMul", "MatMul with an unfinished tile"): _half_tile,
    ("MatMul positive", "MatMul with TF32"): _rounded_factors(_tf32),
    ("MatMul positive", "MatMul with bfloat16"): _rounded_factors(_bfloat16),
    ("MatMul long", "MatMul with TF32"): _rounded_factors(_tf32),
    ("MatMul long", "MatMul without its last term"): _last_missing,
    ("mlp", "MatMul with TF32"): _rounded_factors(_tf32),
    ("mlp", "MatMul with bfloat16"): _rounded_factors(_bfloat16),
    ("mlp", "Softmax over the wrong axis"): _with(axis=0),
    ("mlp float16", "MatMul without its last term"): _last_missing,
    ("MatMul short", "MatMul with TF32"): _rounded_factors(_tf32),
    ("Gemm", "Gemm without bias"): _without(2),
    ("Gemm", "Gemm with alpha ignored"): _with(alpha=1.0),
    ("Gemm", "Gemm with beta ignored"): _with(beta=1.0),
    ("Gemm", "Gemm with the bias twice"): _scaled(2, 2.0),
    ("Gelu", "Gelu by tanh"): _gelu_tanh,
    ("Gelu", "Gelu by sigmoid"): _gelu_sigmoid,
    ("block", "Gelu by tanh"): _gelu_tanh,
    ("Softmax", "Softmax over the wrong axis"): _with(axis=-1),
    ("Softmax", "Softmax scaled by 0.9999"): _after(lambda y: y * y.dtype.type(0.9999)),
    ("Softmax", "Softmax in float16"): _after(_float16),
    ("Elu", "Elu with alpha ignored"): _with(alpha=1.0),
    ("Selu", "Selu with short constants"): _with(alpha=1.6733, gamma=1.0507),
    ("LeakyRelu", "LeakyRelu with the default slope"): _with(alpha=0.01),
    ("HardSwish", "HardSwish by sigmoid"): lambda f, x, a: x[0] / (1 + np.exp(-x[0])),
    ("AveragePool", "AveragePool counting the padding"): _padded_average,
    ("MaxPool", "MaxPool padding with zeros"): _zero_padded,
    ("ReduceMean", "ReduceMean over one less"): _mean_less_one,
    ("ReduceSum", "ReduceSum without the last term"): _on_inputs(lambda x: [x[0][:, :-1], x[1]]),
    ("ReduceL2", "ReduceL2 without the root"): _after(np.square),
    ("CumSum", "CumSum exclusive"): _with(exclusive=1),
    ("LSTM", "LSTM with gates in another order"): _gates([0, 2, 1, 3]),
    ("LSTM", "LSTM without bias"): _without(3),
    ("LSTM", "LSTM with TF32"): _on_inputs(lambda x: [_tf32(x[0]), _tf32(x[1]), _tf32(x[2]), *x[3:]]),
    ("GRU", "GRU with the reset gate first"): _with(linear_before_reset=0),
    ("GRU", "GRU with gates in another order"): _gates([1, 0, 2]),
    ("Attention", "Attention without scale"): _with(scale=1.0),
    ("Attention", "Attention with a causal mask"): _with(is_causal=1),
    ("Resize", "Resize with aligned corners"): _with(coordinate_transformation_mode="align_corners"),
    ("Resize", "Resize asymmetric"): _with(coordinate_transformation_mode="asymmetric"),
    ("ArgMax", "ArgMax of the last tie"): _last_tie,
    ("TopK", "TopK of the smallest"): _with(largest=0),
    ("Transpose", "Transpose with another order"): lambda f, x, a: np.ascontiguousarray(x[0].transpose(2, 1, 0)).reshape(
        7, 8, 6
    ),
    ("Pad", "Pad symmetric"): lambda f, x, a: np.pad(x[0], ((0, 0), (2, 1), (1, 3)), "symmetric"),
    ("Clip", "Clip without its upper limit"): _without(2),
    ("LRN", "LRN with alpha not divided"): _with(alpha=0.5),
    ("Pow", "Pow with a rounded exponent"): _scaled(1, 1.001),
    ("Tanh", "Tanh in bfloat16"): _after(_bfloat16),
    ("Erf", "Erf by tanh"): lambda f, x, a: np.tanh(
        x[0] * (x[0].dtype.type(1.1283792) + x[0].dtype.type(0.1009) * x[0] * x[0])
    ),
    ("Add", "Add with a wrong broadcast"): lambda f, x, a: x[0] + np.resize(x[1][::-1], x[1].shape),
}


def faults() -> Iterator[Entry]:
    """Every fault made by hand, with and without a ladder in turn."""
    for number, ((where, name), patch) in enumerate(_PATCHES.items()):
        yield Entry(f"{name} in {where}", where, _patched(where, name.split(" ")[0], patch, number % 2 == 0))
    for where in ("digits-cnn", "mlp", "Conv", "block"):
        yield Entry(f"stale buffer in {where}", where, lambda where=where: Stale(problem(where), {}))
        yield Entry(f"last row not written in {where}", where, lambda where=where: Halfway(problem(where), {}, ladder=False))


def _patched(where: str, operator: str, patch: Patch, ladder: bool) -> Callable[[], Patched]:
    return lambda: Patched(problem(where), {operator: patch}, ladder=ladder)
