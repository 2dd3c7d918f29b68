"""Faults of softmax, its logarithm and its loss."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..patches import after, attributes, bfloat16, element, float16, on_input, rounded_inputs, swapped, times
from ..subjects import Patch


def _exponentials(x: Any, axis: int) -> Any:
    return np.exp(x - x.max(axis, keepdims=True))


def _unshifted(f: Any, x: Any, a: Any) -> Any:
    """Without taking the maximum off: it overflows."""
    e = np.exp(x[0])
    return e / e.sum(a["axis"], keepdims=True)


def _last_tile_lost(f: Any, x: Any, a: Any) -> Any:
    """The sum leaves out the last element."""
    e = _exponentials(x[0], a["axis"])
    return e / np.delete(e, -1, a["axis"]).sum(a["axis"], keepdims=True)


def _stale_maximum(f: Any, x: Any, a: Any) -> Any:
    """Online, but the sum is not scaled when a new maximum comes."""
    rows = np.moveaxis(x[0], a["axis"], -1)
    top, total = np.full(rows.shape[:-1], -np.inf, rows.dtype), np.zeros(rows.shape[:-1], rows.dtype)
    for k in range(rows.shape[-1]):
        top = np.maximum(top, rows[..., k])
        total = total + np.exp(rows[..., k] - top)
    return np.moveaxis(np.exp(rows - top[..., None]) / total[..., None], -1, a["axis"])


def _summed_in(to: Any) -> Patch:
    """The sum of the exponentials in a narrower format."""

    def patch(f: Any, x: Any, a: Any) -> Any:
        e = _exponentials(x[0], a["axis"])
        return e / to(e.sum(a["axis"], keepdims=True))

    return patch


def _epsilon_below(f: Any, x: Any, a: Any) -> Any:
    """A small number added to the sum, so that it is never zero."""
    e = _exponentials(x[0], a["axis"])
    return e / (e.sum(a["axis"], keepdims=True) + e.dtype.type(1e-4))


def _other_base(f: Any, x: Any, a: Any) -> Any:
    """To the base 2 by a factor with two digits."""
    e = np.exp2((x[0] - x[0].max(a["axis"], keepdims=True)) * x[0].dtype.type(1.44))
    return e / e.sum(a["axis"], keepdims=True)


def _log_of_clipped(f: Any, x: Any, a: Any) -> Any:
    e = _exponentials(x[0], a["axis"])
    return np.log(np.maximum(e / e.sum(a["axis"], keepdims=True), e.dtype.type(1e-4)))


def _cast_before_log(f: Any, x: Any, a: Any) -> Any:
    shifted = x[0] - x[0].max(a["axis"], keepdims=True)
    return shifted - np.log(bfloat16(np.exp(shifted).sum(a["axis"], keepdims=True)))


FAULTS: Mapping[tuple[str, str], Patch] = {
    ("Softmax", "Softmax over the wrong axis"): attributes(axis=-1),
    ("Softmax", "Softmax scaled by 0.9999"): after(times(0.9999)),
    ("Softmax", "Softmax in float16"): after(float16),
    ("Softmax", "Softmax of bfloat16"): rounded_inputs(bfloat16),
    ("Softmax", "Softmax without its last element in the sum"): _last_tile_lost,
    ("Softmax", "Softmax with a stale maximum"): _stale_maximum,
    ("Softmax", "Softmax with an epsilon"): _epsilon_below,
    ("Softmax", "Softmax of temperature 1.001"): lambda f, x, a: f(x[0] / x[0].dtype.type(1.001), **a),
    ("Softmax", "Softmax with swapped rows"): after(swapped(0)),
    ("Softmax", "Softmax with one zeroed element"): after(element(0.0)),
    ("Softmax long", "Softmax summed in float16"): _summed_in(float16),
    ("Softmax long", "Softmax summed in bfloat16"): _summed_in(bfloat16),
    ("Softmax long", "Softmax without its last element in the sum"): _last_tile_lost,
    ("Softmax long", "Softmax with a stale maximum"): _stale_maximum,
    ("Softmax long", "Softmax to a short base"): _other_base,
    ("Softmax wide", "Softmax without shift"): _unshifted,
    ("Softmax wide", "Softmax of float16"): rounded_inputs(float16),
    ("Softmax wide", "Softmax to a short base"): _other_base,
    ("Softmax masked", "Softmax with a finite mask"): lambda f, x, a: f(np.maximum(x[0], x[0].dtype.type(-5)), **a),
    ("Softmax masked", "Softmax shifted by one place"): on_input(0, lambda v: np.roll(v, 1, -1)),
    ("LogSoftmax", "LogSoftmax over the wrong axis"): attributes(axis=-1),
    ("LogSoftmax", "LogSoftmax of clipped results"): _log_of_clipped,
    ("LogSoftmax", "LogSoftmax with a sum in bfloat16"): _cast_before_log,
    ("LogSoftmax", "LogSoftmax to base 2"): after(times(1.4426950)),
    ("SoftmaxCrossEntropyLoss", "SoftmaxCrossEntropyLoss as a sum"): attributes(reduction="sum"),
    ("SoftmaxCrossEntropyLoss", "SoftmaxCrossEntropyLoss in float16"): rounded_inputs(float16),
    ("SoftmaxCrossEntropyLoss", "SoftmaxCrossEntropyLoss of the next class"): lambda f, x, a: f(x[0], (x[1] + 1) % 10, **a),
    ("SoftmaxCrossEntropyLoss", "SoftmaxCrossEntropyLoss over one less"): after(lambda y: y * y.dtype.type(24 / 23)),
}
