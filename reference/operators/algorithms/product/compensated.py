"""The matrix product as if in twice the precision."""

from __future__ import annotations

from deep_bench.reference.operators.algorithms._error_free import check_rounds, corrected, two_product, two_sum
from deep_bench.reference.operators.algorithms.product._forms import zeros


def product(a, b):
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
