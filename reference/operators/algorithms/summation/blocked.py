"""Sums of sums of blocks."""

from __future__ import annotations

import numpy as np

from deep_bench.reference.operators.algorithms.summation import sequential

BLOCK = 64


def total(rows):
    """A reduction in blocks: each is added one term after the other, and then their sums are.

    A term goes through at most ``BLOCK + n / BLOCK`` additions, instead of ``n``: parallel programs add so, and BLAS does.

    Source:
        Castaldo, Whaley and Chronopoulos, Reducing Floating Point Error in Dot Product Using the Superblock Family of
        Algorithms, 2008.
    """
    starts = range(0, rows.shape[-1], BLOCK)
    parts = [sequential.total(rows[..., start : start + BLOCK]) for start in starts]
    return sequential.total(np.stack(parts, axis=-1) if parts else rows)
