"""The matrix product by Strassen's recursion."""

from __future__ import annotations

import numpy as np

LEAF = 32
"""Matrices with a side up to this are multiplied as they are: below, additions cost more than they save."""


def product(a, b):
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
    p1 = product(a11 + a22, b11 + b22)
    p2 = product(a21 + a22, b11)
    p3 = product(a11, b12 - b22)
    p4 = product(a22, b21 - b11)
    p5 = product(a11 + a12, b22)
    p6 = product(a21 - a11, b11 + b12)
    p7 = product(a12 - a22, b21 + b22)
    top = np.concatenate((p1 + p4 - p5 + p7, p3 + p5), axis=-1)
    bottom = np.concatenate((p2 + p4, p1 - p2 + p3 + p6), axis=-1)
    return np.concatenate((top, bottom), axis=-2)[..., :m, :n]


def _quarters(x):
    """The four blocks of a matrix, after it was filled up to even sides."""
    rows, columns = x.shape[-2:]
    x = np.pad(x, [*[(0, 0)] * (x.ndim - 2), (0, rows % 2), (0, columns % 2)])
    i, j = x.shape[-2] // 2, x.shape[-1] // 2
    return x[..., :i, :j], x[..., :i, j:], x[..., i:, :j], x[..., i:, j:]
