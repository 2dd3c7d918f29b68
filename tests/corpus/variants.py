"""Correct implementations: other orders of summation, fused and tiled forms, other formulas of the same function."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np
from scipy import signal, special

import deep_bench as db
from deep_bench.check import InProcessSubject

from .problems import BUILDERS, problem
from .subjects import Patch, Patched


@dataclass(frozen=True)
class Entry:
    """One labelled system.

    Args:
        name: Unique.
        problem: The name of the problem it is judged on.
        subject: Makes it.
        held_out: Whether it was never looked at when thresholds were chosen.
        native: Whether it is a framework's own kernel.
    """

    name: str
    problem: str
    subject: Callable[[], Any]
    held_out: bool = False
    native: bool = False


# Products


def _sequential(f: Any, x: Any, _: Any) -> Any:
    total = np.zeros((*x[0].shape[:-1], x[1].shape[-1]), x[0].dtype)
    for k in range(x[0].shape[-1]):
        total += x[0][..., k, None] * x[1][k]
    return total


def _reversed(f: Any, x: Any, _: Any) -> Any:
    return np.matmul(x[0][..., ::-1].copy(), x[1][::-1].copy())


def _pairwise(f: Any, x: Any, _: Any) -> Any:
    terms = x[0][..., None] * x[1]
    while terms.shape[-2] > 1:
        half = terms.shape[-2] // 2
        rest = terms[..., 2 * half :, :]
        terms = np.concatenate((terms[..., :half, :] + terms[..., half : 2 * half, :], rest), axis=-2)
    return terms[..., 0, :]


def _kahan(f: Any, x: Any, _: Any) -> Any:
    total = np.zeros((*x[0].shape[:-1], x[1].shape[-1]), x[0].dtype)
    carry = np.zeros_like(total)
    for k in range(x[0].shape[-1]):
        term = x[0][..., k, None] * x[1][k] - carry
        new = total + term
        carry = (new - total) - term
        total = new
    return total


def _split(parts: int) -> Patch:
    def patch(f: Any, x: Any, _: Any) -> Any:
        cuts = np.array_split(np.arange(x[0].shape[-1]), parts)
        return sum(np.matmul(x[0][..., c], x[1][c]) for c in cuts)

    return patch


def _fma(f: Any, x: Any, _: Any) -> Any:
    """Fused multiply-add: the product is exact in float64, one rounding for each step."""
    total = np.zeros((*x[0].shape[:-1], x[1].shape[-1]), x[0].dtype)
    for k in range(x[0].shape[-1]):
        total = (total.astype(np.float64) + x[0][..., k, None].astype(np.float64) * x[1][k]).astype(x[0].dtype)
    return total


def _in_double(f: Any, x: Any, a: Any) -> Any:
    return f(*(v.astype(np.float64) if v is not None and v.dtype.kind == "f" else v for v in x), **a)


def _einsum(f: Any, x: Any, _: Any) -> Any:
    return np.einsum("...ij,jk->...ik", x[0], x[1])


def _transposed(f: Any, x: Any, _: Any) -> Any:
    return np.swapaxes(np.matmul(x[1].T.copy(), np.swapaxes(x[0], -1, -2).copy()), -1, -2)


# Convolutions


def _direct(f: Any, x: Any, a: Any) -> Any:
    """A direct convolution: tap by tap, channel by channel."""
    left, top, right, bottom = (a["pads"][k] for k in (0, 1, 2, 3))
    padded = np.pad(x[0], ((0, 0), (0, 0), (left, right), (top, bottom)))
    (kh, kw), (sh, sw) = x[1].shape[2:], a.get("strides", (1, 1))
    oh, ow = (padded.shape[2] - kh) // sh + 1, (padded.shape[3] - kw) // sw + 1
    y = np.zeros((x[0].shape[0], x[1].shape[0], oh, ow), x[0].dtype)
    for c, i, j in itertools.product(range(x[1].shape[1]), range(kh), range(kw)):
        window = padded[:, c, i : i + sh * oh : sh, j : j + sw * ow : sw]
        y += x[1][:, c, i, j][:, None, None] * window[:, None]
    return y + x[2].reshape(-1, 1, 1)


def _channels_last(f: Any, x: Any, a: Any) -> Any:
    """The channels in reverse order, so that the same terms are added from the other end."""
    return f(x[0][:, ::-1].copy(), x[1][:, ::-1].copy(), *x[2:], **a)


def _split_channels(f: Any, x: Any, a: Any) -> Any:
    half = x[0].shape[1] // 2
    return f(x[0][:, :half], x[1][:, :half], **a) + f(x[0][:, half:], x[1][:, half:], *x[2:], **a)


def _by_transform(f: Any, x: Any, a: Any) -> Any:
    """A convolution through Fourier transforms in float64, as a library of signal processing does it."""
    pads = a["pads"]
    padded = np.pad(x[0].astype(np.float64), ((0, 0), (0, 0), (pads[0], pads[2]), (pads[1], pads[3])))
    flipped = x[1][:, :, ::-1, ::-1].astype(np.float64)
    y = [[sum(signal.fftconvolve(n[c], m[c], "valid") for c in range(len(n))) for m in flipped] for n in padded]
    return np.array(y) + x[2].reshape(-1, 1, 1)


# Normalisations


def _welford(f: Any, x: Any, a: Any) -> Any:
    """Layer normalisation with mean and variance updated element by element."""
    mean = np.zeros(x[0].shape[:-1], x[0].dtype)
    squares = np.zeros_like(mean)
    for k in range(x[0].shape[-1]):
        delta = x[0][..., k] - mean
        mean = mean + delta / x[0].dtype.type(k + 1)
        squares = squares + delta * (x[0][..., k] - mean)
    variance = squares / x[0].dtype.type(x[0].shape[-1])
    scale = 1 / np.sqrt(variance + x[0].dtype.type(a["epsilon"]))
    return (x[0] - mean[..., None]) * scale[..., None] * x[1] + x[2]


def _layer_folded(f: Any, x: Any, a: Any) -> Any:
    mean = x[0].mean(-1, keepdims=True)
    scale = 1 / np.sqrt(((x[0] - mean) ** 2).mean(-1, keepdims=True) + x[0].dtype.type(a["epsilon"]))
    return x[0] * scale * x[1] + (x[2] - mean * scale * x[1])


def _batch_folded(f: Any, x: Any, a: Any) -> Any:
    scale = x[1] / np.sqrt(x[4] + x[0].dtype.type(a["epsilon"]))
    each = (-1, 1, 1)
    return x[0] * scale.reshape(each) + (x[2] - x[3] * scale).reshape(each)


def _batch_divided(f: Any, x: Any, a: Any) -> Any:
    each = (-1, 1, 1)
    root = np.sqrt(x[4] + x[0].dtype.type(a["epsilon"])).reshape(each)
    return x[1].reshape(each) * ((x[0] - x[3].reshape(each)) / root) + x[2].reshape(each)


# Functions


def _softmax_two(f: Any, x: Any, a: Any) -> Any:
    scaled = x[0] * x[0].dtype.type(math.log2(math.e))
    e = np.exp2(scaled - scaled.max(a["axis"], keepdims=True))
    return e * (1 / e.sum(a["axis"], keepdims=True))


def _softmax_online(f: Any, x: Any, a: Any) -> Any:
    rows = np.moveaxis(x[0], a["axis"], -1)
    top, total = np.full(rows.shape[:-1], -np.inf, rows.dtype), np.zeros(rows.shape[:-1], rows.dtype)
    for k in range(rows.shape[-1]):
        new = np.maximum(top, rows[..., k])
        total = total * np.exp(top - new) + np.exp(rows[..., k] - new)
        top = new
    return np.moveaxis(np.exp(rows - top[..., None]) / total[..., None], -1, a["axis"])


def _logsoftmax_two(f: Any, x: Any, a: Any) -> Any:
    top = x[0].max(a["axis"], keepdims=True)
    return x[0] - (top + np.log(np.exp(x[0] - top).sum(a["axis"], keepdims=True)))


def _sigmoid_by_tanh(f: Any, x: Any, _: Any) -> Any:
    half = x[0].dtype.type(0.5)
    return half + half * np.tanh(half * x[0])


def _sigmoid_naive(f: Any, x: Any, _: Any) -> Any:
    return 1 / (1 + np.exp(-x[0]))


def _tanh_by_exp(f: Any, x: Any, _: Any) -> Any:
    e = np.expm1(-2 * np.abs(x[0]))
    return np.copysign(-e / (2 + e), x[0])


def _tanh_naive(f: Any, x: Any, _: Any) -> Any:
    return 1 - 2 / (np.exp(2 * x[0]) + 1)


def _gelu_by_cdf(f: Any, x: Any, _: Any) -> Any:
    return x[0] * special.ndtr(x[0])


def _gelu_half_last(f: Any, x: Any, _: Any) -> Any:
    return (x[0] * (1 + special.erf(x[0] * x[0].dtype.type(math.sqrt(0.5))))) * x[0].dtype.type(0.5)


def _elu_naive(f: Any, x: Any, a: Any) -> Any:
    alpha = x[0].dtype.type(a.get("alpha", 1))
    return np.where(x[0] > 0, x[0], alpha * (np.exp(np.minimum(x[0], 0)) - 1))


def _softplus_naive(f: Any, x: Any, _: Any) -> Any:
    return np.log(1 + np.exp(x[0]))


def _mean_by_reciprocal(f: Any, x: Any, a: Any) -> Any:
    axes = tuple(int(v) for v in x[1])
    count = math.prod(x[0].shape[k] for k in axes)
    return x[0].sum(axes, keepdims=True) * x[0].dtype.type(1 / count)


def _mean_nested(f: Any, x: Any, a: Any) -> Any:
    y = x[0]
    for k in x[1]:
        y = y.mean(int(k), keepdims=True)
    return y


def _sum_sequential(f: Any, x: Any, a: Any) -> Any:
    return np.add.accumulate(x[0], axis=1)[:, -1:]


def _sum_sorted(f: Any, x: Any, a: Any) -> Any:
    return np.sort(x[0], axis=1).sum(1, keepdims=True)


def _pool_sequential(f: Any, x: Any, a: Any) -> Any:
    flat = x[0].reshape(*x[0].shape[:2], -1)
    y = np.add.accumulate(flat, axis=-1)[..., -1] / x[0].dtype.type(flat.shape[-1])
    return y[..., None, None]


def _logsumexp(f: Any, x: Any, a: Any) -> Any:
    return special.logsumexp(x[0].astype(np.float64), axis=1, keepdims=True).astype(x[0].dtype)


def _norm_scaled(f: Any, x: Any, a: Any) -> Any:
    top = np.abs(x[0]).max(1, keepdims=True)
    return top * np.sqrt(((x[0] / top) ** 2).sum(1, keepdims=True))


def _division_by_reciprocal(f: Any, x: Any, a: Any) -> Any:
    return x[0] * (1 / x[1])


def _exp_by_two(f: Any, x: Any, a: Any) -> Any:
    """Cody and Waite's reduction: the multiple of log(2) is taken off in two parts."""
    n = np.rint(x[0] * x[0].dtype.type(math.log2(math.e)))
    high = x[0].dtype.type(0.693359375)
    r = (x[0] - n * high) - n * x[0].dtype.type(math.log(2) - 0.693359375)
    return np.ldexp(np.exp(r), n.astype(np.int32))


def _pow_by_exp(f: Any, x: Any, a: Any) -> Any:
    return np.exp(x[1] * np.log(x[0]))


def _root_newton(f: Any, x: Any, a: Any) -> Any:
    y = (x[0] ** x[0].dtype.type(0.5)).astype(x[0].dtype)
    half = x[0].dtype.type(0.5)
    return half * (y + x[0] / y)


def _gemm_scaled_first(f: Any, x: Any, a: Any) -> Any:
    return np.matmul(x[0] * x[0].dtype.type(a["alpha"]), x[1].T) + x[0].dtype.type(a["beta"]) * x[2]


def _attention_tiled(f: Any, x: Any, a: Any) -> Any:
    """Keys in tiles, with a running maximum and a running sum."""
    q, k, v = x[:3]
    scale = q.dtype.type(1 / math.sqrt(q.shape[-1]))
    top = np.full((*q.shape[:-1], 1), -np.inf, q.dtype)
    total, result = np.zeros_like(top), np.zeros((*q.shape[:-1], v.shape[-1]), q.dtype)
    for tile in np.array_split(np.arange(k.shape[-2]), 3):
        scores = np.matmul(q, np.swapaxes(k[..., tile, :], -1, -2)) * scale
        new = np.maximum(top, scores.max(-1, keepdims=True))
        weight, old = np.exp(scores - new), np.exp(top - new)
        total = total * old + weight.sum(-1, keepdims=True)
        result = result * old + np.matmul(weight, v[..., tile, :])
        top = new
    return result / total


_PATCHES: Mapping[tuple[str, str], Patch] = {
    **{
        (name, f"MatMul {kind}"): patch
        for name in ("MatMul", "MatMul positive", "MatMul long", "mlp")
        for kind, patch in (
            ("sequential", _sequential),
            ("in reverse", _reversed),
            ("split in 4", _split(4)),
            ("split in 7", _split(7)),
            ("FMA", _fma),
            ("accumulated in float64", _in_double),
            ("einsum", _einsum),
            ("transposed", _transposed),
        )
    },
    ("MatMul", "MatMul pairwise"): _pairwise,
    ("MatMul", "MatMul Kahan"): _kahan,
    ("Conv", "Conv direct"): _direct,
    ("Conv", "Conv channels reversed"): _channels_last,
    ("Conv", "Conv channels split"): _split_channels,
    ("Conv", "Conv in float64"): _in_double,
    ("Conv large", "Conv by Fourier transform"): _by_transform,
    ("digits-cnn", "Conv in float64"): _in_double,
    ("digits-cnn", "BatchNormalization folded"): _batch_folded,
    ("LayerNormalization", "LayerNormalization Welford"): _welford,
    ("LayerNormalization", "LayerNormalization folded"): _layer_folded,
    ("LayerNormalization", "LayerNormalization in float64"): _in_double,
    ("block", "LayerNormalization Welford"): _welford,
    ("BatchNormalization", "BatchNormalization folded"): _batch_folded,
    ("BatchNormalization", "BatchNormalization divided"): _batch_divided,
    ("conv-bn-relu-pool", "BatchNormalization folded"): _batch_folded,
    ("Softmax", "Softmax base 2"): _softmax_two,
    ("Softmax", "Softmax online"): _softmax_online,
    ("Softmax", "Softmax in float64"): _in_double,
    ("LogSoftmax", "LogSoftmax in one logarithm"): _logsoftmax_two,
    ("Sigmoid", "Sigmoid by tanh"): _sigmoid_by_tanh,
    ("Sigmoid", "Sigmoid naive"): _sigmoid_naive,
    ("Tanh", "Tanh by expm1"): _tanh_by_exp,
    ("Tanh", "Tanh naive"): _tanh_naive,
    ("Erf", "Erf in float64"): _in_double,
    ("Gelu", "Gelu by normal distribution"): _gelu_by_cdf,
    ("Gelu", "Gelu halved last"): _gelu_half_last,
    ("Elu", "Elu naive"): _elu_naive,
    ("Softplus", "Softplus naive"): _softplus_naive,
    ("ReduceMean", "ReduceMean by reciprocal"): _mean_by_reciprocal,
    ("ReduceMean", "ReduceMean nested"): _mean_nested,
    ("ReduceSum", "ReduceSum sequential"): _sum_sequential,
    ("ReduceSum", "ReduceSum sorted"): _sum_sorted,
    ("GlobalAveragePool", "GlobalAveragePool sequential"): _pool_sequential,
    ("ReduceLogSumExp", "ReduceLogSumExp in float64"): _logsumexp,
    ("ReduceL2", "ReduceL2 scaled"): _norm_scaled,
    ("Div", "Div by reciprocal"): _division_by_reciprocal,
    ("Exp", "Exp by Cody and Waite"): _exp_by_two,
    ("Pow", "Pow by exponential"): _pow_by_exp,
    ("Sqrt", "Sqrt by Newton"): _root_newton,
    ("Gemm", "Gemm scaled first"): _gemm_scaled_first,
    ("Attention", "Attention in float64"): _in_double,
    ("Attention", "Attention tiled"): _attention_tiled,
    ("LSTM", "LSTM in float64"): _in_double,
    ("GRU", "GRU in float64"): _in_double,
    ("mlp float16", "MatMul accumulated in float32"): lambda f, x, a: np.matmul(
        x[0].astype(np.float32), x[1].astype(np.float32)
    ),
    ("mlp float16", "MatMul sequential"): _sequential,
    ("Resize", "Resize in float64"): _in_double,
}


def variants() -> Iterator[Entry]:
    """Every correct variant: those made here with and without a ladder in turn, and the frameworks that are installed."""
    for number, ((where, name), patch) in enumerate(_PATCHES.items()):
        yield Entry(f"{name} in {where}", where, _patched(where, name.split(" ")[0], patch, number % 2 == 0))
    for framework in ("torch", "onnxruntime", "tensorflow"):
        if find_spec(framework) is not None:
            for where in BUILDERS:
                yield Entry(f"{framework} on {where}", where, _native(framework, where), native=True)


def _patched(where: str, operator: str, patch: Patch, ladder: bool) -> Callable[[], Patched]:
    return lambda: Patched(problem(where), {operator: patch}, ladder=ladder)


def _native(framework: str, where: str) -> Callable[[], InProcessSubject]:
    def make() -> InProcessSubject:
        posed = problem(where)
        return InProcessSubject(db.frameworks[framework](), posed.network, posed.inputs)

    return make
