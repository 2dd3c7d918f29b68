"""The matrix product with its sums split among workers."""

from __future__ import annotations

import numpy as np

from deep_bench.reference.operators.algorithms.product._forms import zeros

PARTS = 4


def product(a, b):
    """The matrix product as a sum of products of parts: ``C = sum over s of A[:, part s] B[part s, :]``.

    Where a product is too small to give every core of a device a tile of its own, the sums are split among them, and the
    partial results are added in the end.

    Source:
        NVIDIA CUTLASS, Efficient GEMM in CUDA, section Parallelized Reductions.
    """
    y = zeros(a, b)
    for lhs, right in zip(np.array_split(a, PARTS, axis=-1), np.array_split(b, PARTS, axis=-2), strict=True):
        y = y + np.matmul(lhs, right)
    return y
