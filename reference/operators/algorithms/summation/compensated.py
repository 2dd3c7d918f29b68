"""Sums as if in twice the precision."""

from __future__ import annotations

import numpy as np

from deep_bench.reference.operators.algorithms._error_free import check_rounds, corrected, two_sum


def total(rows):
    """A reduction one term after the other, with the rounding error of every addition added up and given back in the end.

    The result is as if computed in twice the precision and then rounded: its error is at most
    ``u |sum of x| + n^2 u^2 sum of |x|``, with ``u`` the unit roundoff. Kahan's summation feeds the error back at once.

    Raises:
        Unsupported: Integers, which do not round.

    Source:
        Ogita, Rump and Oishi, Accurate Sum and Dot Product, 2005, algorithm 4.4; Neumaier, 1974; Kahan, Further Remarks on
        Reducing Truncation Errors, 1965.
    """
    check_rounds("a reduction", rows)
    result = np.zeros_like(rows, shape=rows.shape[:-1])
    errors = np.zeros_like(result)
    for k in range(rows.shape[-1]):
        result, error = two_sum(result, rows[..., k])
        errors = errors + error
    return corrected(result, errors)
