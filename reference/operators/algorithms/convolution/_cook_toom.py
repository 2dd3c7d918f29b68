"""The matrices of minimal filtering, derived from the points where polynomials are evaluated."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from deep_bench.errors import Unsupported

POINTS = (0, 1, -1, 2, -2, Fraction(1, 2), Fraction(-1, 2))
"""Where polynomials are evaluated, besides infinity: as many as a tile needs, in this order. Larger ones lose more bits."""

Matrix = list[list[Fraction]]


def cook_toom(outputs: int, taps: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The matrices ``A^T``, ``G`` and ``B^T`` of ``F(outputs, taps)``: ``y = A^T ((G w) * (B^T x))`` is a correlation.

    The product of two polynomials, of ``outputs`` and of ``taps`` coefficients, has ``n = outputs + taps - 1`` of them. It
    follows from its values at ``n`` points, which are products of values (Toom, Cook): ``C ((E w) * (E' s))``, where ``E``
    and ``E'`` evaluate and ``C`` interpolates. The transpose of this map, for a fixed ``w``, is a correlation:
    ``E'^T ((E w) * (C^T x))``. With ``M(t) = product of (t - p)`` over the points, the column of ``C`` for ``p`` has the
    coefficients of ``M(t) / (t - p)`` over its value at ``p``; that divisor is moved to ``G``. At infinity the value of a
    polynomial is its leading coefficient.

    Args:
        outputs: How many elements of the result a tile gives.
        taps: The length of the filter.

    Returns:
        float64 arrays of shapes ``(outputs, n)``, ``(n, taps)`` and ``(n, n)``; the fractions in them are exact until here.

    Raises:
        Unsupported: More points than `POINTS` has.

    Example:
        >>> at, g, bt = cook_toom(2, 3)
        >>> bt.astype(int).tolist()
        [[-1, 0, 1, 0], [0, 1, 1, 0], [0, -1, 1, 0], [0, -1, 0, 1]]
        >>> w, x = np.array([1.0, 10.0, 100.0]), np.array([1.0, 2.0, 3.0, 4.0])
        >>> (at @ ((g @ w) * (bt @ x))).tolist(), np.correlate(x, w).tolist()
        ([321.0, 432.0], [321.0, 432.0])

    Source:
        Lavin and Gray, Fast Algorithms for Convolutional Neural Networks, 2016, section 4; Winograd, Arithmetic Complexity
        of Computations, 1980; Blahut, Fast Algorithms for Signal Processing, 2010, chapter 5.
    """
    n = outputs + taps - 1
    if n - 1 > len(POINTS):
        raise Unsupported(f"a tile of {n} elements, {outputs} outputs of {taps} taps", f"at most {len(POINTS) + 1} elements")
    points = [Fraction(p) for p in POINTS[: n - 1]]
    basis = [_with_roots([p for p in points if p != point]) for point in points]
    scales = [_value(coefficients, p) for coefficients, p in zip(basis, points, strict=True)]
    at = [[*(p**row for p in points), Fraction(row == outputs - 1)] for row in range(outputs)]
    g = [[p**k / scale for k in range(taps)] for p, scale in zip(points, scales, strict=True)]
    g.append([Fraction(k == taps - 1) for k in range(taps)])
    bt = [[*coefficients, Fraction(0)] for coefficients in basis] + [_with_roots(points)]
    return _floats(at), _floats(g), _floats(bt)


def _with_roots(roots: Sequence[Fraction]) -> list[Fraction]:
    """The coefficients of the polynomial with these roots, the constant one first."""
    coefficients = [Fraction(1)]
    for root in roots:
        shifted, scaled = [Fraction(0), *coefficients], [*(root * c for c in coefficients), Fraction(0)]
        coefficients = [a - b for a, b in zip(shifted, scaled, strict=True)]
    return coefficients


def _value(coefficients: Sequence[Fraction], point: Fraction) -> Fraction:
    return sum((c * point**k for k, c in enumerate(coefficients)), Fraction(0))


def _floats(matrix: Matrix) -> np.ndarray:
    return np.array([[float(element) for element in row] for row in matrix])
