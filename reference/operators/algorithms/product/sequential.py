"""The matrix product by three loops."""

from __future__ import annotations

from deep_bench.reference.operators.algorithms.product._forms import zeros


def product(a, b):
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
