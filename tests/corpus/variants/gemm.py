"""Correct matrix products: every order of summation, split, tiled, fused, compensated, by Strassen, in scaled float8."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..patches import NormWise, algorithm, in_double
from ..problems.gemm import W_SCALE, X_SCALE
from ..subjects import Patch


def _einsum(f: Any, x: Any, _: Any) -> Any:
    return np.einsum("...ij,...jk->...ik", x[0], x[1])


def _reversed(f: Any, x: Any, _: Any) -> Any:
    return np.matmul(x[0][..., ::-1].copy(), x[1][..., ::-1, :].copy())


def _shuffled(f: Any, x: Any, _: Any) -> Any:
    order = np.random.default_rng(4).permutation(x[0].shape[-1])
    return np.matmul(x[0][..., order], x[1][..., order, :])


def _sorted(f: Any, x: Any, _: Any) -> Any:
    """Terms added from the smallest to the largest."""
    terms = x[0][..., None] * x[1][..., None, :, :]
    order = np.argsort(np.abs(terms), axis=-2)
    terms = np.take_along_axis(terms, order, -2)
    return np.add.accumulate(terms, axis=-2)[..., -1, :]


def _fma(f: Any, x: Any, _: Any) -> Any:
    """Fused multiply-add: the product is exact in float64, one rounding for each step."""
    total = np.zeros((*x[0].shape[:-1], x[1].shape[-1]), x[0].dtype)
    for k in range(x[0].shape[-1]):
        product = x[0][..., k, None].astype(np.float64) * x[1][..., k, :][..., None, :]
        total = (total.astype(np.float64) + product).astype(x[0].dtype)
    return total


def _split(parts: int) -> Patch:
    def patch(f: Any, x: Any, _: Any) -> Any:
        cuts = np.array_split(np.arange(x[0].shape[-1]), parts)
        return sum(np.matmul(x[0][..., c], x[1][..., c, :]) for c in cuts)

    return patch


def _interleaved(lanes: int) -> Patch:
    """As a vector unit adds: each lane every so many terms, then the lanes."""

    def patch(f: Any, x: Any, _: Any) -> Any:
        parts = [_sequential(f, [x[0][..., k::lanes], x[1][..., k::lanes, :]], _) for k in range(lanes)]
        while len(parts) > 1:
            parts = [a + b for a, b in zip(parts[::2], parts[1::2], strict=True)]
        return parts[0]

    return patch


def _transposed(f: Any, x: Any, _: Any) -> Any:
    return np.swapaxes(np.matmul(np.swapaxes(x[1], -1, -2).copy(), np.swapaxes(x[0], -1, -2).copy()), -1, -2)


def _sequential(f: Any, x: Any, _: Any) -> Any:
    total = np.zeros((*x[0].shape[:-1], x[1].shape[-1]), x[0].dtype)
    for k in range(x[0].shape[-1]):
        total = total + x[0][..., k, None] * x[1][..., k, :][..., None, :]
    return total


def _pairwise(f: Any, x: Any, _: Any) -> Any:
    terms = x[0][..., None] * x[1][..., None, :, :]
    while terms.shape[-2] > 1:
        half = terms.shape[-2] // 2
        rest = terms[..., 2 * half :, :]
        terms = np.concatenate((terms[..., :half, :] + terms[..., half : 2 * half, :], rest), axis=-2)
    return terms[..., 0, :]


def _kahan(f: Any, x: Any, _: Any) -> Any:
    total = np.zeros((*x[0].shape[:-1], x[1].shape[-1]), x[0].dtype)
    carry = np.zeros_like(total)
    for k in range(x[0].shape[-1]):
        term = x[0][..., k, None] * x[1][..., k, :][..., None, :] - carry
        new = total + term
        carry = (new - total) - term
        total = new
    return total


def _three_bfloat16(f: Any, x: Any, _: Any) -> Any:
    """float32 in three parts of bfloat16 each, and six of their nine products, as accelerators emulate it."""
    from ..patches import bfloat16

    def parts(v: Any) -> list[Any]:
        if v.dtype != np.float32:
            return [v]
        first = bfloat16(v)
        second = bfloat16(v - first)
        return [first, second, bfloat16(v - first - second)]

    a, b = parts(x[0]), parts(x[1])
    pairs = [(i, j) for i in range(len(a)) for j in range(len(b)) if i + j < 3]
    return sum(np.matmul(a[i], b[j]) for i, j in sorted(pairs, key=sum, reverse=True))


def _in_float32(f: Any, x: Any, a: Any) -> Any:
    return np.matmul(x[0].astype(np.float32), x[1].astype(np.float32))


def _in_float32_by_parts(f: Any, x: Any, a: Any) -> Any:
    """Accumulated in float32 over blocks that are each rounded to the narrow format and added in float32."""
    wide = [v.astype(np.float32) for v in x]
    return _sequential(f, wide, a)


def _scales_after(f: Any, x: Any, _: Any) -> Any:
    """float8 multiplied as it is, the two scales in one factor after the sum."""
    one = x[0].dtype.type
    return np.matmul(x[0] / one(X_SCALE), x[1] / one(W_SCALE)) * (one(X_SCALE) * one(W_SCALE))


def _promoted(f: Any, x: Any, _: Any) -> Any:
    """Scaled float8 in blocks of 32 terms, each brought to float32 and scaled before it is added."""
    one = x[0].dtype.type
    left, right = x[0] / one(X_SCALE), x[1] / one(W_SCALE)
    total = np.zeros((left.shape[0], right.shape[1]), left.dtype)
    for k in range(0, left.shape[1], 32):
        total = total + np.matmul(left[:, k : k + 32], right[k : k + 32]) * one(X_SCALE) * one(W_SCALE)
    return total


def _gemm_scaled_first(f: Any, x: Any, a: Any) -> Any:
    return np.matmul(x[0] * x[0].dtype.type(a["alpha"]), x[1].T) + x[0].dtype.type(a["beta"]) * x[2]


def _bias_first(f: Any, x: Any, a: Any) -> Any:
    """The accumulator starts with the bias."""
    left = x[0].T if a.get("transA") else x[0]
    right = x[1].T if a.get("transB") else x[1]
    one = x[0].dtype.type
    total = np.broadcast_to(x[2] * one(a.get("beta", 1)), (left.shape[0], right.shape[1])).copy()
    for k in range(left.shape[1]):
        total += left[:, k, None] * right[k] * one(a.get("alpha", 1))
    return total


_ORDERS: Mapping[str, Patch] = {
    "sequential": _sequential,
    "in reverse": _reversed,
    "split in 4": _split(4),
    "split in 7": _split(7),
    "FMA": _fma,
    "accumulated in float64": in_double,
    "einsum": _einsum,
    "transposed": _transposed,
}

_METHODS = ("blocked", "compensated", "sequential", "split_k")

VARIANTS: Mapping[tuple[str, str], Patch | NormWise] = {
    **{
        (name, f"MatMul {kind}"): patch
        for name in ("MatMul", "MatMul positive", "MatMul long", "mlp")
        for kind, patch in _ORDERS.items()
    },
    **{(name, f"Gemm by the algorithm {m}"): algorithm("Gemm", m) for name in ("Gemm", "Gemm transposed") for m in _METHODS},
    **{
        (name, f"MatMul by the algorithm {m}"): algorithm("MatMul", m)
        for name in ("MatMul batched", "MatMul uneven")
        for m in _METHODS
    },
    ("MatMul", "MatMul pairwise"): _pairwise,
    ("MatMul", "MatMul Kahan"): _kahan,
    ("MatMul", "MatMul shuffled"): _shuffled,
    ("MatMul", "MatMul sorted"): _sorted,
    ("MatMul", "MatMul in 8 lanes"): _interleaved(8),
    ("MatMul", "MatMul in 16 lanes"): _interleaved(16),
    ("MatMul", "MatMul in three parts of bfloat16"): _three_bfloat16,
    ("MatMul", "MatMul by Strassen"): NormWise(algorithm("MatMul", "strassen")),
    ("MatMul positive", "MatMul pairwise"): _pairwise,
    ("MatMul positive", "MatMul Kahan"): _kahan,
    ("MatMul positive", "MatMul in 16 lanes"): _interleaved(16),
    ("MatMul positive", "MatMul in three parts of bfloat16"): _three_bfloat16,
    ("MatMul long", "MatMul shuffled"): _shuffled,
    ("MatMul long", "MatMul in 8 lanes"): _interleaved(8),
    ("MatMul short", "MatMul sequential"): _sequential,
    ("MatMul short", "MatMul FMA"): _fma,
    ("MatMul short", "MatMul in three parts of bfloat16"): _three_bfloat16,
    ("MatMul batched", "MatMul FMA"): _fma,
    ("MatMul uneven", "MatMul in reverse"): _reversed,
    ("MatMul uneven", "MatMul FMA"): _fma,
    ("MatMul float16", "MatMul accumulated in float32"): _in_float32,
    ("MatMul float16", "MatMul sequential in float32"): _in_float32_by_parts,
    ("MatMul float16", "MatMul sequential"): _sequential,
    ("MatMul float16", "MatMul split in 4"): _split(4),
    ("MatMul float16", "MatMul pairwise"): _pairwise,
    ("MatMul bfloat16", "MatMul accumulated in float32"): _in_float32,
    ("MatMul bfloat16", "MatMul sequential in float32"): _in_float32_by_parts,
    ("MatMul bfloat16", "MatMul pairwise"): _pairwise,
    ("MatMul bfloat16", "MatMul sequential"): _sequential,
    ("MatMul float8", "MatMul with both scales after the sum"): _scales_after,
    ("MatMul float8", "MatMul of float8 in promoted blocks"): _promoted,
    ("MatMul float8", "MatMul sequential"): _sequential,
    ("MatMul float8", "MatMul accumulated in float64"): in_double,
    ("Gemm", "Gemm scaled first"): _gemm_scaled_first,
    ("Gemm", "Gemm that starts with its bias"): _bias_first,
    ("Gemm transposed", "Gemm that starts with its bias"): _bias_first,
    ("Gemm square", "Gemm that starts with its bias"): _bias_first,
    ("Gemm square", "Gemm by Strassen"): NormWise(algorithm("Gemm", "strassen")),
    ("Gemm square", "Gemm in float64"): in_double,
    ("mlp float16", "MatMul accumulated in float32"): _in_float32,
    ("mlp float16", "MatMul sequential"): _sequential,
}
