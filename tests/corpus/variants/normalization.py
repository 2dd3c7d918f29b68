"""Correct normalizations: by Welford's update, folded into one product, in one pass."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..patches import NormWise, algorithm, batch_folded, in_double
from ..subjects import Patch


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


def _merged(f: Any, x: Any, a: Any) -> Any:
    """Mean and variance of the halves of each row, merged by Chan's formula."""
    one = x[0].dtype.type
    parts = np.array_split(x[0], 2, axis=-1)
    (na, nb), (ma, mb) = [one(p.shape[-1]) for p in parts], [p.mean(-1, keepdims=True) for p in parts]
    squares = [((p - m) ** 2).sum(-1, keepdims=True) for p, m in zip(parts, (ma, mb), strict=True)]
    n = na + nb
    mean = (na * ma + nb * mb) / n
    variance = (squares[0] + squares[1] + (mb - ma) ** 2 * na * nb / n) / n
    return (x[0] - mean) / np.sqrt(variance + one(a["epsilon"])) * x[1] + x[2]


def _root_by_newton(f: Any, x: Any, a: Any) -> Any:
    """A reciprocal root that starts from 12 bits and takes one step of Newton's method, as RSQRTPS asks for."""
    one = x[0].dtype.type
    mean = x[0].mean(-1, keepdims=True)
    v = ((x[0] - mean) ** 2).mean(-1, keepdims=True) + one(a["epsilon"])
    rough = np.asarray(1 / np.sqrt(v), x[0].dtype)
    rough = rough * one(1 + 2.0**-12)
    root = rough * (one(1.5) - one(0.5) * v * rough * rough)
    root = root * (one(1.5) - one(0.5) * v * root * root) if x[0].dtype == np.float64 else root
    return (x[0] - mean) * root * x[1] + x[2]


def _batch_divided(f: Any, x: Any, a: Any) -> Any:
    each = (-1, 1, 1)
    root = np.sqrt(x[4] + x[0].dtype.type(a["epsilon"])).reshape(each)
    return x[1].reshape(each) * ((x[0] - x[3].reshape(each)) / root) + x[2].reshape(each)


def _rms_sequential(f: Any, x: Any, a: Any) -> Any:
    squares = np.add.accumulate(x[0] * x[0], axis=-1)[..., -1:] / x[0].dtype.type(x[0].shape[-1])
    return x[0] * (1 / np.sqrt(squares + x[0].dtype.type(a["epsilon"]))) * x[1]


def _rms_scaled_first(f: Any, x: Any, a: Any) -> Any:
    root = np.sqrt((x[0] ** 2).mean(-1, keepdims=True) + x[0].dtype.type(a["epsilon"]))
    return x[0] * x[1] / root


def _instance_one_pass(f: Any, x: Any, a: Any) -> Any:
    mean, squares = x[0].mean((2, 3), keepdims=True), (x[0] ** 2).mean((2, 3), keepdims=True)
    scale = x[1][:, None, None] / np.sqrt(squares - mean**2 + x[0].dtype.type(a["epsilon"]))
    return (x[0] - mean) * scale + x[2][:, None, None]


def _groups_apart(f: Any, x: Any, a: Any) -> Any:
    groups = [np.split(v, a["num_groups"], axis) for v, axis in ((x[0], 1), (x[1], 0), (x[2], 0))]
    parts = [f(*part, **{**a, "num_groups": 1}) for part in zip(*groups, strict=True)]
    return np.concatenate(parts, axis=1)


def _lrn_by_exp(f: Any, x: Any, a: Any) -> Any:
    """The power by exponential and logarithm, the sum by differences of a running one."""
    one, half = x[0].dtype.type, a["size"] // 2
    padded = np.pad(x[0] ** 2, ((0, 0), (half, half), (0, 0), (0, 0)))
    total = sum(padded[:, k : k + x[0].shape[1]] for k in reversed(range(a["size"])))
    return x[0] * np.exp(-one(a["beta"]) * np.log(one(1) + one(a["alpha"] / a["size"]) * total))


_LAYER = "LayerNormalization"
VARIANTS: Mapping[tuple[str, str], Patch | NormWise] = {
    ("LayerNormalization", "LayerNormalization Welford"): _welford,
    ("LayerNormalization", "LayerNormalization folded"): _layer_folded,
    ("LayerNormalization", "LayerNormalization in float64"): in_double,
    ("LayerNormalization", "LayerNormalization merged from halves"): _merged,
    ("LayerNormalization", "LayerNormalization with a root by Newton"): _root_by_newton,
    ("LayerNormalization", "LayerNormalization by the algorithm welford"): algorithm(_LAYER, "welford"),
    ("LayerNormalization", "LayerNormalization in one pass"): NormWise(algorithm(_LAYER, "one_pass")),
    ("LayerNormalization over two axes", "LayerNormalization by the algorithm welford"): algorithm(_LAYER, "welford"),
    ("LayerNormalization over two axes", "LayerNormalization in float64"): in_double,
    ("LayerNormalization over two axes", "LayerNormalization in one pass"): NormWise(algorithm(_LAYER, "one_pass")),
    ("LayerNormalization shifted", "LayerNormalization Welford"): _welford,
    ("LayerNormalization shifted", "LayerNormalization folded"): _layer_folded,
    ("LayerNormalization shifted", "LayerNormalization merged from halves"): _merged,
    ("LayerNormalization shifted", "LayerNormalization in one pass"): NormWise(algorithm(_LAYER, "one_pass")),
    ("block", "LayerNormalization Welford"): _welford,
    ("block", "LayerNormalization folded"): _layer_folded,
    ("block", "LayerNormalization with a root by Newton"): _root_by_newton,
    ("block", "LayerNormalization in one pass"): NormWise(algorithm(_LAYER, "one_pass")),
    ("BatchNormalization", "BatchNormalization folded"): batch_folded,
    ("BatchNormalization", "BatchNormalization divided"): _batch_divided,
    ("BatchNormalization", "BatchNormalization in float64"): in_double,
    ("RMSNormalization", "RMSNormalization term by term"): _rms_sequential,
    ("RMSNormalization", "RMSNormalization scaled first"): _rms_scaled_first,
    ("RMSNormalization", "RMSNormalization in float64"): in_double,
    ("InstanceNormalization", "InstanceNormalization in one pass"): NormWise(_instance_one_pass),
    ("InstanceNormalization", "InstanceNormalization in float64"): in_double,
    ("GroupNormalization", "GroupNormalization group by group"): _groups_apart,
    ("GroupNormalization", "GroupNormalization in float64"): in_double,
    ("LRN", "LRN by exponential and logarithm"): _lrn_by_exp,
    ("LRN", "LRN in float64"): in_double,
}
