"""Sums one term after the other."""

from __future__ import annotations

import numpy as np


def total(rows):
    """A reduction one term after the other: ``s_k = s_(k-1) + x_k``.

    The error is at most ``n u sum of |x|`` for ``n`` terms, and in the root mean square about ``sqrt(n)`` in place of ``n``.
    Where ``s`` is so large that a term is less than half its unit in the last place, the term is lost.

    Source:
        Higham, Accuracy and Stability of Numerical Algorithms, 2nd edition, section 4.2.
    """
    if not rows.shape[-1]:
        return np.zeros_like(rows, shape=rows.shape[:-1])
    return np.add.accumulate(rows, axis=-1, dtype=rows.dtype)[..., -1]
