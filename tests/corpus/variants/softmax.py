"""Correct softmaxes: to other bases, online, in two passes, with fast exponentials."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy import special

from ..patches import NormWise, algorithm, in_double
from ..subjects import Patch


def _two(f: Any, x: Any, a: Any) -> Any:
    scaled = x[0] * x[0].dtype.type(math.log2(math.e))
    e = np.exp2(scaled - scaled.max(a["axis"], keepdims=True))
    return e * (1 / e.sum(a["axis"], keepdims=True))


def _online(f: Any, x: Any, a: Any) -> Any:
    rows = np.moveaxis(x[0], a["axis"], -1)
    top, total = np.full(rows.shape[:-1], -np.inf, rows.dtype), np.zeros(rows.shape[:-1], rows.dtype)
    for k in range(rows.shape[-1]):
        new = np.maximum(top, rows[..., k])
        total = total * np.exp(top - new) + np.exp(rows[..., k] - new)
        top = new
    return np.moveaxis(np.exp(rows - top[..., None]) / total[..., None], -1, a["axis"])


def _by_logarithm(f: Any, x: Any, a: Any) -> Any:
    top = x[0].max(a["axis"], keepdims=True)
    return np.exp(x[0] - (top + np.log(np.exp(x[0] - top).sum(a["axis"], keepdims=True))))


def _sequential(f: Any, x: Any, a: Any) -> Any:
    e = np.exp(x[0] - x[0].max(a["axis"], keepdims=True))
    return e / np.take(np.add.accumulate(e, axis=a["axis"]), [-1], a["axis"])


def fast_exp(x: Any) -> Any:
    """Two to a power: the whole part by the exponent, the rest by a polynomial that is good to two units."""
    one = x.dtype.type
    scaled = np.maximum(x * one(math.log2(math.e)), one(-140))
    n = np.rint(scaled)
    r = (scaled - n) * one(math.log(2))
    y = one(1 / 5040)
    for k in (720, 120, 24, 6, 2, 1, 1):
        y = y * r + one(1 / k)
    return np.where(np.isneginf(x), 0, np.ldexp(y, n.astype(np.int32))).astype(x.dtype)


def _fast(f: Any, x: Any, a: Any) -> Any:
    """Exponentials of a fast-math library, and a division by a reciprocal."""
    e = fast_exp(x[0] - x[0].max(a["axis"], keepdims=True))
    return e * (1 / e.sum(a["axis"], keepdims=True))


def _log_in_one(f: Any, x: Any, a: Any) -> Any:
    top = x[0].max(a["axis"], keepdims=True)
    return x[0] - (top + np.log(np.exp(x[0] - top).sum(a["axis"], keepdims=True)))


def _log_by_library(f: Any, x: Any, a: Any) -> Any:
    return special.log_softmax(x[0], axis=a["axis"])


def _loss_by_rows(f: Any, x: Any, a: Any) -> Any:
    """The loss row by row, without writing the logarithms."""
    top = x[0].max(1)
    log_total = top + np.log(np.exp(x[0] - top[:, None]).sum(1))
    return (log_total - x[0][np.arange(len(x[0])), x[1]]).mean(dtype=x[0].dtype)


_SOFTMAXES: Mapping[str, Patch | NormWise] = {
    "base 2": _two,
    "online": _online,
    "by the algorithm online": algorithm("Softmax", "online"),
    "in float64": in_double,
    "by its logarithm": _by_logarithm,
    "added term by term": _sequential,
    "with fast exponentials": _fast,
}

VARIANTS: Mapping[tuple[str, str], Patch | NormWise] = {
    **{
        (where, f"Softmax {name}"): patch
        for where in ("Softmax", "Softmax long", "Softmax masked")
        for name, patch in _SOFTMAXES.items()
    },
    ("Softmax wide", "Softmax online"): _online,
    ("Softmax wide", "Softmax in float64"): in_double,
    ("Softmax wide", "Softmax by the algorithm online"): algorithm("Softmax", "online"),
    ("LogSoftmax", "LogSoftmax in one logarithm"): _log_in_one,
    ("LogSoftmax", "LogSoftmax by a library"): _log_by_library,
    ("LogSoftmax", "LogSoftmax in float64"): in_double,
    ("SoftmaxCrossEntropyLoss", "SoftmaxCrossEntropyLoss row by row"): _loss_by_rows,
    ("SoftmaxCrossEntropyLoss", "SoftmaxCrossEntropyLoss in float64"): in_double,
}
