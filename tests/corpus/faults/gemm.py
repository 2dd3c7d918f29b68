"""Faults of matrix products."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ..patches import (
    after,
    attributes,
    bfloat16,
    element,
    float8,
    float16,
    on_input,
    rounded_factors,
    scaled,
    swapped,
    tf32,
    times,
    without,
)
from ..problems.gemm import W_SCALE, X_SCALE
from ..subjects import Patch


def _last_missing(f: Any, x: Any, a: Any) -> Any:
    """The last term of each sum left out."""
    return f(x[0][..., :-1], x[1][..., :-1, :], **a)


def _half_tile(f: Any, x: Any, a: Any) -> Any:
    """The last rows of the matrix product are those of a tile that was never accumulated fully."""
    y = np.array(f(*x, **a))
    y[-3:] -= np.matmul(x[0][-3:, -8:], x[1][-8:])
    return y


def accumulated(to: Callable[[np.ndarray], np.ndarray]) -> Patch:
    """Sums kept in a narrower format: rounded after each term."""

    def patch(f: Any, x: Any, a: Any) -> Any:
        total = np.zeros((*x[0].shape[:-1], x[1].shape[-1]), x[0].dtype)
        for k in range(x[0].shape[-1]):
            total = to(total + x[0][..., k, None] * x[1][..., k, :][..., None, :])
        return total

    return patch


def _stale(f: Any, x: Any, a: Any) -> Any:
    """The accumulator of the second half of the columns is not cleared after the first."""
    y = np.array(f(*x, **a))
    half = y.shape[-1] // 2
    y[..., half : 2 * half] += y[..., :half]
    return y


def _tile_twice(f: Any, x: Any, a: Any) -> Any:
    """Tiles of the sum overlap by one term, which is added twice."""
    middle = x[0].shape[-1] // 2
    return f(*x, **a) + x[0][..., middle, None] * x[1][..., middle, None, :]


def _partial_sum_lost(f: Any, x: Any, a: Any) -> Any:
    """Split in four, of which only three are added."""
    cut = 3 * x[0].shape[-1] // 4
    return f(x[0][..., :cut], x[1][..., :cut, :], **a)


def _last_column(f: Any, x: Any, a: Any) -> Any:
    """The last column is that before it: an index clamped one too early."""
    y = np.array(f(*x, **a))
    y[..., -1] = y[..., -2]
    return y


def _first_matrix(f: Any, x: Any, a: Any) -> Any:
    """The stride between the matrices of a batch is 0."""
    return f(x[0], np.broadcast_to(x[1][:1], x[1].shape), **a)


def _bias_along_rows(f: Any, x: Any, a: Any) -> Any:
    return f(x[0], x[1], None, **a) + x[2][:, None] * x[2].dtype.type(a.get("beta", 1))


def _bias_before_scale(f: Any, x: Any, a: Any) -> Any:
    """``alpha (A B + beta C)``."""
    return f(x[0], x[1], x[2] * x[0].dtype.type(a["alpha"]), **a)


def _one_scale(f: Any, x: Any, a: Any) -> Any:
    """Scaled float8 whose product is multiplied by one of the two scales only."""
    return f(x[0] / X_SCALE, x[1], **a)


def _row_exponent(f: Any, x: Any, a: Any) -> Any:
    """Rows share one scale, so that small ones keep few bits: block floating point over the whole matrix."""
    unit = np.float32(np.max(np.abs(x[0])) * 2.0**-20)
    return f(np.rint(x[0] / unit) * unit, x[1], **a)


FAULTS: Mapping[tuple[str, str], Patch] = {
    ("MatMul", "MatMul with TF32"): rounded_factors(tf32),
    ("MatMul", "MatMul with bfloat16"): rounded_factors(bfloat16),
    ("MatMul", "MatMul with float16"): rounded_factors(float16),
    ("MatMul", "MatMul with float8 and scales"): rounded_factors(float8),
    ("MatMul", "MatMul with one factor in bfloat16"): on_input(1, bfloat16),
    ("MatMul", "MatMul with a result in bfloat16"): after(bfloat16),
    ("MatMul", "MatMul with a result in float16"): after(float16),
    ("MatMul", "MatMul accumulated in bfloat16"): accumulated(bfloat16),
    ("MatMul", "MatMul accumulated in float16"): accumulated(float16),
    ("MatMul", "MatMul accumulated in TF32"): accumulated(tf32),
    ("MatMul", "MatMul without its last term"): _last_missing,
    ("MatMul", "MatMul with one zeroed element"): after(element(0.0)),
    ("MatMul", "MatMul with an unfinished tile"): _half_tile,
    ("MatMul", "MatMul with a stale accumulator"): _stale,
    ("MatMul", "MatMul with a term added twice"): _tile_twice,
    ("MatMul", "MatMul with a partial sum lost"): _partial_sum_lost,
    ("MatMul", "MatMul with its last column repeated"): _last_column,
    ("MatMul", "MatMul with swapped rows"): after(swapped(0)),
    ("MatMul", "MatMul scaled by 1.0001"): after(times(1.0001)),
    ("MatMul positive", "MatMul with TF32"): rounded_factors(tf32),
    ("MatMul positive", "MatMul with bfloat16"): rounded_factors(bfloat16),
    ("MatMul positive", "MatMul accumulated in float16"): accumulated(float16),
    ("MatMul positive", "MatMul with a term added twice"): _tile_twice,
    ("MatMul long", "MatMul with TF32"): rounded_factors(tf32),
    ("MatMul long", "MatMul without its last term"): _last_missing,
    ("MatMul long", "MatMul accumulated in bfloat16"): accumulated(bfloat16),
    ("MatMul short", "MatMul with TF32"): rounded_factors(tf32),
    ("MatMul batched", "MatMul with TF32"): rounded_factors(tf32),
    ("MatMul batched", "MatMul with the first matrix for all"): _first_matrix,
    ("MatMul batched", "MatMul with swapped matrices"): after(lambda y: y[:, ::-1]),
    ("MatMul uneven", "MatMul with one scale for all rows"): _row_exponent,
    ("MatMul uneven", "MatMul with TF32"): rounded_factors(tf32),
    ("MatMul float16", "MatMul without its last term"): _last_missing,
    ("MatMul float16", "MatMul with a partial sum lost"): _partial_sum_lost,
    ("MatMul float16", "MatMul with its last column repeated"): _last_column,
    ("MatMul bfloat16", "MatMul with a stale accumulator"): _stale,
    ("MatMul bfloat16", "MatMul with an unfinished tile"): _half_tile,
    ("MatMul float8", "MatMul with one scale forgotten"): _one_scale,
    ("MatMul float8", "MatMul with one scale twice"): scaled(1, float(W_SCALE)),
    ("MatMul float8", "MatMul accumulated in float16"): accumulated(float16),
    ("MatMul float8", "MatMul with TF32"): after(tf32),
    ("MatMul float8", "QuantizeLinear with another scale"): scaled(1, 1.01),
    ("mlp", "MatMul with TF32"): rounded_factors(tf32),
    ("mlp", "MatMul with bfloat16"): rounded_factors(bfloat16),
    ("mlp", "Softmax over the wrong axis"): attributes(axis=0),
    ("mlp float16", "MatMul without its last term"): _last_missing,
    ("Gemm", "Gemm without bias"): without(2),
    ("Gemm", "Gemm with alpha ignored"): attributes(alpha=1.0),
    ("Gemm", "Gemm with beta ignored"): attributes(beta=1.0),
    ("Gemm", "Gemm with the bias twice"): scaled(2, 2.0),
    ("Gemm", "Gemm with the bias before alpha"): _bias_before_scale,
    ("Gemm", "Gemm with TF32"): rounded_factors(tf32),
    ("Gemm", "Gemm with its result in bfloat16"): after(bfloat16),
    ("Gemm transposed", "Gemm with the bias along the other axis"): lambda f, x, a: f(
        x[0], x[1], np.resize(x[2], (1, 48)), **a
    ),
    ("Gemm transposed", "Gemm with bfloat16"): rounded_factors(bfloat16),
    ("Gemm square", "Gemm with its first factor transposed"): attributes(transA=1),
    ("Gemm square", "Gemm with its second factor transposed"): attributes(transB=1),
    ("Gemm square", "Gemm with a transposed result"): after(lambda y: y.T),
    ("Gemm square", "Gemm with the bias along the other axis"): _bias_along_rows,
}
