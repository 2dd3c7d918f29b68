"""Ways to add up, for the reductions that are sums; the reference itself leaves it to NumPy.

The rounding errors of sums and products are floating-point numbers themselves, and found without any error.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from deep_bench.errors import Unsupported
from deep_bench.reference.operators._arguments import in_float32, reduced_axes
from deep_bench.tensor import is_float


def two_sum(a: Any, b: Any) -> tuple[Any, Any]:
    """``s`` and ``e`` with ``s`` the rounded sum and ``s + e`` the exact one.

    Source:
        Knuth, The Art of Computer Programming, volume 2, section 4.2.2, theorem B.
    """
    s = a + b
    part = s - a
    return s, (a - (s - part)) + (b - part)


def two_product(a: Any, b: Any) -> tuple[Any, Any]:
    """``p`` and ``e`` with ``p`` the rounded product and ``p + e`` the exact one, but for over- and underflow.

    Source:
        Dekker, A floating-point technique for extending the available precision, 1971.
    """
    p = a * b
    (ah, al), (bh, bl) = _halves(a), _halves(b)
    return p, al * bl - (((p - ah * bh) - al * bh) - ah * bl)


def _halves(a: Any) -> tuple[Any, Any]:
    """``a`` as the sum of two numbers of half its digits (Veltkamp)."""
    digits = np.finfo(a.dtype).nmant + 1
    scaled = a * a.dtype.type(2 ** ((digits + 1) // 2) + 1)
    high = scaled - (scaled - a)
    return high, a - high


def corrected(total: Any, errors: Any) -> Any:
    """``total + errors``; where the errors overflowed on the way, ``total`` itself."""
    return np.where(np.isfinite(errors), total + errors, total)


def check_rounds(operator: str, *arrays: Any) -> None:
    """Refuse element types that are added without rounding: there is nothing to compensate.

    Raises:
        Unsupported: Integers.
    """
    for array in arrays:
        if not is_float(array.dtype):
            raise Unsupported(f"{operator} of {array.dtype}, compensated", "a floating-point type: integers do not round")


Total = Callable[[Any], Any]
"""The sum over the last axis, in the element type of its argument."""


def reductions_by(total: Total) -> Mapping[str, Callable[..., Any]]:
    """ONNX's reductions that are sums, by name, with another way to add up."""
    forms: Mapping[str, tuple[Callable[[Any], Any], Callable[[Any, int], Any]]] = {
        "ReduceL1": (np.absolute, _as_it_is),
        "ReduceL2": (np.square, _root),
        "ReduceMean": (_as_it_is, _over_count),
        "ReduceSum": (_as_it_is, _as_it_is),
        "ReduceSumSquare": (np.square, _as_it_is),
    }
    return {name: _reduction(total, name, before, after) for name, (before, after) in forms.items()}


def _reduction(total: Total, name: str, before: Callable[..., Any], after: Callable[..., Any]) -> Callable[..., Any]:
    @in_float32
    def reduce(x, axes=None, *, keepdims=1, noop_with_empty_axes=0):
        over = reduced_axes(x, axes, noop_with_empty_axes)
        remaining_axes = [axis for axis in range(x.ndim) if axis not in over]
        count = math.prod(x.shape[axis] for axis in over)
        rows = np.transpose(before(x), (*remaining_axes, *over)).reshape(*(x.shape[axis] for axis in remaining_axes), count)
        y = after(total(rows), count).astype(x.dtype, copy=False)
        return y.reshape([1 if axis in over else n for axis, n in enumerate(x.shape)]) if keepdims else y

    reduce.__name__, reduce.__doc__ = name, total.__doc__
    return reduce


def _as_it_is(x: Any, *_: Any) -> Any:
    return x


def _root(y: Any, _: int) -> Any:
    return np.sqrt(y)


def _over_count(y: Any, count: int) -> Any:
    return y / count


def sequential_total(rows):
    """A reduction one term after the other: ``s_k = s_(k-1) + x_k``.

    The error is at most ``n u sum of |x|`` for ``n`` terms, and in the root mean square about ``sqrt(n)`` in place of ``n``.
    Where ``s`` is so large that a term is less than half its unit in the last place, the term is lost.

    Source:
        Higham, Accuracy and Stability of Numerical Algorithms, 2nd edition, section 4.2.
    """
    if not rows.shape[-1]:
        return np.zeros_like(rows, shape=rows.shape[:-1])
    return np.add.accumulate(rows, axis=-1, dtype=rows.dtype)[..., -1]


BLOCK = 64


def blocked_total(rows):
    """A reduction in blocks: each is added one term after the other, and then their sums are.

    A term goes through at most ``BLOCK + n / BLOCK`` additions, instead of ``n``: parallel programs add so, and BLAS does.

    Source:
        Castaldo, Whaley and Chronopoulos, Reducing Floating Point Error in Dot Product Using the Superblock Family of
        Algorithms, 2008.
    """
    starts = range(0, rows.shape[-1], BLOCK)
    parts = [sequential_total(rows[..., start : start + BLOCK]) for start in starts]
    return sequential_total(np.stack(parts, axis=-1) if parts else rows)


def pairwise_total(rows):
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


def compensated_total(rows):
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
