"""Sums in a tree."""

from __future__ import annotations

import numpy as np


def total(rows):
    """A reduction in a tree: neighbours are added, then neighbouring sums, until one is left.

    Every term goes through about ``log2 n`` additions, so that the error is at most ``log2(n) u sum of |x|``.

    Source:
        Higham, The Accuracy of Floating Point Summation, 1993.
    """
    if not rows.shape[-1]:
        return np.zeros_like(rows, shape=rows.shape[:-1])
    while (n := rows.shape[-1]) > 1:
        pairs = rows[..., 0 : n - 1 : 2] + rows[..., 1:n:2]
        rows = np.concatenate((pairs, rows[..., n - 1 :]), axis=-1) if n % 2 else pairs
    return rows[..., 0]
