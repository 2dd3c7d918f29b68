"""Ways to compute a convolution: by the definition, through Fourier transforms, and in Winograd's tiles.

By matrix products of windows laid out in columns (im2col) is how the reference itself does it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from deep_bench.errors import Unsupported
from deep_bench.reference.operators._arguments import box, in_float32, padded, windows
from deep_bench.reference.operators.convolution import with_bias

Correlate = Callable[..., Any]
"""From the padded input ``(N, C, …)``, weights ``(M, C / group, …)``, the windows and the number of groups to the result."""


def conv_by(correlate: Correlate, **options: Any) -> Callable[..., Any]:
    """ONNX's ``Conv``, all of its signature, with another way to correlate, which gets ``options`` too."""

    @in_float32
    def Conv(x, w, b=None, *, auto_pad="NOTSET", dilations=None, group=1, kernel_shape=None, pads=None, strides=None):
        at = windows(x.shape[2:], w.shape[2:], auto_pad=auto_pad, pads=pads, strides=strides, dilations=dilations)
        return with_bias(correlate(at.pad(x, 0), w, at, group, **options), b)

    Conv.__doc__ = correlate.__doc__
    return Conv


def by_group(x: Any, w: Any, group: int) -> tuple[Any, Any]:
    """``x`` as ``(N, group, C / group, …)``, and ``w`` as ``(group, M / group, C / group, …)``."""
    n, c, m = x.shape[0], x.shape[1], w.shape[0]
    return x.reshape(n, group, c // group, *x.shape[2:]), w.reshape(group, m // group, *w.shape[1:])


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


def direct_correlate(x, w, at, group):
    """A convolution by its definition: for each output, channel by channel and tap by tap.

    ``y[n, m, o] = sum over c, then over k, of w[m, c, k] * x[n, c, o * stride + k * dilation]``. All outputs take the same
    step at once; each is a sum in this order, with one rounding for each product and one for each addition.

    Source:
        ONNX Conv, opset 22.
    """
    x, w = by_group(x, w, group)
    n, _, channels = x.shape[:3]
    y = np.zeros_like(x, shape=(n, group, w.shape[1], *at.outputs))
    weights = w.reshape(*w.shape[:3], -1, *(1,) * len(at.outputs))
    for c in range(channels):
        for k, tap in enumerate(at.taps(x)):
            y = y + weights[:, :, c, k] * tap[:, :, c, np.newaxis]
    return y.reshape(n, group * w.shape[1], *at.outputs)


direct_conv = conv_by(direct_correlate)


def fft_correlate(x, w, at, group):
    """A convolution as a product of spectra, ``F(y) = sum over c of F(x) * conj(F(w))``, with ``F`` the Fourier transform.

    The transforms are as long as the padded input, so that no window wraps around its end. Dilated weights have zeros
    between them; with a stride all outputs are computed and most left out. Errors are relative to the largest elements, not
    to each element's own terms, and an infinity or a NaN spreads over its whole image.

    Source:
        Mathieu, Henaff and LeCun, Fast Training of Convolutional Networks through FFTs, 2014.
    """
    n, m = x.shape[0], w.shape[0]
    x, w = by_group(x, w, group)
    if not n * m * np.prod(at.outputs) or not x.size:
        return np.zeros_like(x, shape=(n, m, *at.outputs))
    sizes, axes = x.shape[3:], tuple(range(-len(at.kernel), 0))
    spread = np.zeros_like(w, shape=(*w.shape[:3], *sizes))
    spread[_every_nth(at.dilations, at.kernel)] = w
    spectra = np.fft.rfftn(x, axes=axes), np.conj(np.fft.rfftn(spread, axes=axes))
    products = np.einsum("ngc...,gmc...->ngm...", *spectra)
    y = np.fft.irfftn(products, s=sizes, axes=axes).reshape(n, m, *sizes)
    return np.ascontiguousarray(y[_every_nth(at.strides, at.outputs)])


def _every_nth(steps: Sequence[int], counts: Sequence[int]) -> tuple[Any, ...]:
    """The index of elements that lie so far apart along the last axes, and of so many of them."""
    return (..., *(slice(0, count * step, step) for step, count in zip(steps, counts, strict=True)))


fft_conv = conv_by(fft_correlate)


def winograd_correlate(x, w, at, group, *, tile):
    """A convolution by minimal filtering, ``F(tile x tile, r x r)`` for windows of ``r x r``.

    Of each tile of ``tile + r - 1`` inputs along every axis come ``tile`` outputs:
    ``Y = A^T [sum over c of (G w G^T) * (B^T x B)] A``, in two dimensions. The matrices are those of `cook_toom`. For three
    taps, two outputs take 4 products instead of 6, and four take 6 instead of 12; the larger tile has larger numbers in
    its matrices, and loses more bits. Errors are relative to the largest elements of a tile: it is knowingly less accurate.

    Raises:
        Unsupported: Strides or dilations, which tiles cannot have; or windows that are too long for the points there are.

    Source:
        Lavin and Gray, Fast Algorithms for Convolutional Neural Networks, 2016, section 4; Barabasz et al., Error
        Analysis and Improving the Accuracy of Winograd Convolution for Deep Neural Networks, 2020, for the errors.
    """
    _check(at, tile)
    n, m = x.shape[0], w.shape[0]
    sizes = [1 if k == 1 else tile for k in at.kernel]  # along an axis with a single tap there is nothing to save
    counts = [-(-o // size) for o, size in zip(at.outputs, sizes, strict=True)]
    missing = [c * size - o for c, size, o in zip(counts, sizes, at.outputs, strict=True)]
    x, w = by_group(padded(x, [0] * len(missing), missing, 0), w, group)
    for axis, (size, taps) in enumerate(zip(sizes, at.kernel, strict=True)):
        _, g, bt = (matrix.astype(x.dtype) for matrix in cook_toom(size, taps))
        x = _tiles(x, 3 + axis, size, size + taps - 1, counts[axis])
        x = _along(bt, x, -1)
        w = _along(g, w, 3 + axis)
    y = _products(x, w, len(sizes))
    for axis, (size, taps) in enumerate(zip(sizes, at.kernel, strict=True)):
        y = _along(cook_toom(size, taps)[0].astype(x.dtype), y, axis - len(sizes))
    pairs = [a for axis in range(len(sizes)) for a in (3 + axis, 3 + len(sizes) + axis)]
    whole = [c * size for c, size in zip(counts, sizes, strict=True)]
    y = np.transpose(y, (0, 1, 2, *pairs)).reshape(n, m, *whole)
    return np.ascontiguousarray(y[box([0] * len(sizes), at.outputs)])


def _check(at, tile):
    axes = zip(at.strides, at.dilations, at.outputs, strict=True)
    if any(s > 1 and o > 1 for s, _, o in axes):
        raise Unsupported(
            f"Conv by Winograd with strides {list(at.strides)}", "strides of 1: a tile's windows lie side by side"
        )
    if any(d > 1 and k > 1 for d, k in zip(at.dilations, at.kernel, strict=True)):
        raise Unsupported(
            f"Conv by Winograd with dilations {list(at.dilations)}", "dilations of 1: its windows have no gaps"
        )
    longest = max(at.kernel, default=1)
    if tile + longest - 1 > 8:
        raise Unsupported(f"Conv by Winograd, F({tile}, {longest})", f"windows of at most {9 - tile} elements along an axis")


def _tiles(x: Any, axis: int, step: int, length: int, count: int) -> Any:
    """Overlapping tiles along an axis: their elements become the last axis, their number takes the place of the axis."""
    starts = np.arange(count)[:, np.newaxis] * step + np.arange(length)
    return np.moveaxis(np.take(x, starts, axis=axis), axis + 1, -1)


def _along(matrix: Any, x: Any, axis: int) -> Any:
    """``matrix`` times the vectors that lie along an axis."""
    return np.moveaxis(np.matmul(np.moveaxis(x, axis, -1), matrix.T), -1, axis)


def _products(x: Any, w: Any, rank: int) -> Any:
    """The sum over channels of ``x (N, group, C, *tiles, *points)`` times ``w (group, M, C, *points)``."""
    n, group, channels = x.shape[:3]
    tiles, points = x.shape[3 : 3 + rank], x.shape[3 + rank :]
    count = int(np.prod(points))
    columns = np.moveaxis(x.reshape(n, group, channels, int(np.prod(tiles)), count), -1, 2)
    weights = np.moveaxis(w.reshape(*w.shape[:3], count), -1, 1)
    y = np.moveaxis(np.matmul(weights, columns), 2, -1)
    return y.reshape(n, group, w.shape[1], *tiles, *points)


winograd_2 = conv_by(winograd_correlate, tile=2)
"""``F(2x2, 3x3)``, and its like in other dimensions."""


winograd_4 = conv_by(winograd_correlate, tile=4)
"""``F(4x4, 3x3)``, and its like in other dimensions."""
