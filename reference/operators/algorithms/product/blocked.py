"""The matrix product in tiles."""

from __future__ import annotations

import itertools

import numpy as np

from deep_bench.reference.operators.algorithms.product._forms import zeros

TILE = 32
"""Rows and columns of a tile: three of them in float32 fill 12 KiB, less than a first-level cache."""


def product(a, b):
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
