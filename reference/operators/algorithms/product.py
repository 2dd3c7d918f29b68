"""Ways to multiply matrices, for ``MatMul`` and ``Gemm``; the reference itself leaves it to NumPy's BLAS."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from deep_bench.errors import InvalidInput
from deep_bench.reference.operators._arguments import in_float32
from deep_bench.reference.operators.algorithms.summation import check_rounds, corrected, two_product, two_sum

Product = Callable[[Any, Any], Any]
"""From ``(…, m, k)`` and ``(…, k, n)`` to ``(…, m, n)``; leading axes broadcast."""


def matmul_by(product: Product) -> Callable[..., Any]:
    """ONNX's ``MatMul`` with another product of matrices."""

    @in_float32
    def MatMul(a, b):
        lhs, right = (a[np.newaxis] if a.ndim == 1 else a), (b[:, np.newaxis] if b.ndim == 1 else b)
        if lhs.shape[-1] != right.shape[-2]:
            raise InvalidInput(f"MatMul of {list(a.shape)} and {list(b.shape)}", "as many columns as rows")
        y = product(lhs, right)
        y = y if b.ndim > 1 else y[..., 0]
        return y if a.ndim > 1 else y[..., 0, :] if b.ndim > 1 else y[..., 0]

    MatMul.__doc__ = product.__doc__
    return MatMul


def gemm_by(product: Product) -> Callable[..., Any]:
    """ONNX's ``Gemm`` with another product of matrices."""
    matmul = matmul_by(product)

    @in_float32
    def Gemm(a, b, c=None, *, alpha=1.0, beta=1.0, transA=0, transB=0):
        y = _scaled(matmul(a.T if transA else a, b.T if transB else b), alpha)
        return y if c is None else y + _scaled(c, beta)

    Gemm.__doc__ = product.__doc__
    return Gemm


def _scaled(x: Any, factor: float) -> Any:
    return x if factor == 1 else (x * factor).astype(x.dtype, copy=False)


def zeros(a: Any, b: Any) -> Any:
    """The product before anything was added."""
    lead = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    return np.zeros_like(a, shape=(*lead, a.shape[-2], b.shape[-1]))


def sequential_product(a, b):
    """The matrix product by three loops: ``C[i, j] = C[i, j] + A[i, p] * B[p, j]``, for ``p`` in order.

    The two inner loops, over ``i`` and ``j``, are NumPy's: one outer product for each ``p``. No order of the three changes
    what is added to an element after what. The error grows with the length ``k`` of the sums: it is at most
    ``k u |A| |B|``, and in the root mean square about ``sqrt(k)`` in place of ``k``.

    Source:
        Golub and Van Loan, Matrix Computations, 4th edition, section 1.1; Higham, Accuracy and Stability of Numerical
        Algorithms, 2nd edition, section 3.5.
    """
    y = zeros(a, b)
    for p in range(a.shape[-1]):
        y = y + a[..., :, p : p + 1] * b[..., p : p + 1, :]
    return y


TILE = 32
"""Rows and columns of a tile: three of them in float32 fill 12 KiB, less than a first-level cache."""


def blocked_product(a, b):
    """The matrix product tile by tile, each of which fits a cache: ``C_ij = C_ij + A_ip B_pj`` for ``p`` in order.

    A sum of ``k`` terms is one of ``k / TILE`` sums of ``TILE`` terms, so that its error grows with ``TILE + k / TILE``.

    Source:
        Goto and van de Geijn, Anatomy of High-Performance Matrix Multiplication, 2008; Higham, Accuracy and
        Stability of Numerical Algorithms, 2nd edition, section 3.1.
    """
    y = zeros(a, b)
    (m, k), n = a.shape[-2:], b.shape[-1]
    for i, j, p in itertools.product(range(0, m, TILE), range(0, n, TILE), range(0, k, TILE)):
        rows, columns, inner = (slice(start, start + TILE) for start in (i, j, p))
        y[..., rows, columns] += np.matmul(a[..., rows, inner], b[..., inner, columns])
    return y


PARTS = 4


def split_k_product(a, b):
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


def compensated_product(a, b):
    """The matrix product with the rounding errors of all its steps added up and given back in the end (Dot2).

    The result is as if computed in twice the precision and then rounded: its error is at most ``u |C| + k^2 u^2 |A| |B|``,
    with ``u`` the unit roundoff and ``k`` the length of the sums.

    Raises:
        Unsupported: Integers, which do not round.

    Source:
        Ogita, Rump and Oishi, Accurate Sum and Dot Product, 2005, algorithm 5.3.
    """
    check_rounds("a matrix product", a, b)
    total, errors = zeros(a, b), zeros(a, b)
    for p in range(a.shape[-1]):
        term, of_product = two_product(a[..., :, p : p + 1], b[..., p : p + 1, :])
        total, of_sum = two_sum(total, term)
        errors = errors + (of_product + of_sum)
    return corrected(total, errors)


LEAF = 32
"""Matrices with a side up to this are multiplied as they are: below, additions cost more than they save."""


def strassen_product(a, b):
    """The matrix product by seven products of half the size instead of eight, recursively: ``O(n^2.81)`` operations.

    Odd sides get a row or column of zeros. Elements are computed from differences of others, so that errors are relative to
    the largest ones: ``|error| <= c(n) u max|A| max|B|``, with a ``c`` that grows as ``n^3.6`` in place of ``n^2``. It is
    knowingly less accurate.

    Source:
        Strassen, Gaussian Elimination is not Optimal, 1969; Higham, Accuracy and Stability of Numerical Algorithms, 2nd
        edition, section 23.2.2.
    """
    (m, k), n = a.shape[-2:], b.shape[-1]
    if min(m, k, n) <= LEAF:
        return np.matmul(a, b)
    (a11, a12, a21, a22), (b11, b12, b21, b22) = _quarters(a), _quarters(b)
    p1 = strassen_product(a11 + a22, b11 + b22)
    p2 = strassen_product(a21 + a22, b11)
    p3 = strassen_product(a11, b12 - b22)
    p4 = strassen_product(a22, b21 - b11)
    p5 = strassen_product(a11 + a12, b22)
    p6 = strassen_product(a21 - a11, b11 + b12)
    p7 = strassen_product(a12 - a22, b21 + b22)
    top = np.concatenate((p1 + p4 - p5 + p7, p3 + p5), axis=-1)
    bottom = np.concatenate((p2 + p4, p1 - p2 + p3 + p6), axis=-1)
    return np.concatenate((top, bottom), axis=-2)[..., :m, :n]


def _quarters(x):
    """The four blocks of a matrix, after it was filled up to even sides."""
    rows, columns = x.shape[-2:]
    x = np.pad(x, [*[(0, 0)] * (x.ndim - 2), (0, rows % 2), (0, columns % 2)])
    i, j = x.shape[-2] // 2, x.shape[-1] // 2
    return x[..., :i, :j], x[..., :i, j:], x[..., i:, :j], x[..., i:, j:]
