"""Rounding errors of sums and products over many terms: reductions, matrix products, einsum, transforms."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from deep_bench.check.rounding import Rounding

PRODUCTS = frozenset({"matmul", "vecdot", "matvec", "vecmat"})
"""The ufuncs that are sums of products."""


def matmul(rounding: Rounding, function: Callable[..., Any], a: Any, b: Any, **kwargs: Any) -> np.ndarray:
    """``matmul`` and its relatives for vectors, with the errors of their sums of products."""
    y = np.asarray(function(a, b, **kwargs))
    if rounding.rng is None:
        return y
    a, b = np.asarray(a), np.asarray(b)
    name = function.__name__
    left_axis = -1
    right = -1 if b.ndim == 1 or name in ("vecdot", "matvec") else -2

    def squares() -> np.ndarray:
        # A scale for each row keeps rows of tiny numbers from vanishing in float32.
        (a2, rows), (b2, columns) = _scaled_squares(a, left_axis), _scaled_squares(b, right)
        return np.asarray(function(a2, b2, **kwargs)) * np.asarray(function(rows, columns, **kwargs))

    return rounding.of_sum(y, squares, a.shape[left_axis], roundings=1)


def _scaled_squares(x: np.ndarray, axis: int) -> tuple[np.ndarray, np.ndarray]:
    """``x**2`` in float32 over its largest one along ``axis``, and that largest one: sizes matter here, not digits."""
    x = np.abs(x)
    largest = np.max(x, axis=axis, keepdims=True, initial=0.0)
    largest = np.where(np.isfinite(largest) & (largest > 0), largest, 1.0)
    scaled = np.empty(x.shape, np.float32)
    np.multiply(x, 1.0 / largest, out=scaled, casting="unsafe")
    return np.square(scaled, out=scaled), largest * largest


def bilinear(rounding: Rounding, function: Callable[..., Any], a: Any, b: Any, *args: Any, **kwargs: Any) -> np.ndarray:
    """A function that is linear in both of its arguments, with the errors of its sums of products."""
    y = np.asarray(function(a, b, *args, **kwargs))
    if rounding.rng is None:
        return y
    squares = np.asarray(function(_squares(a), _squares(b), *args, **kwargs))
    terms = round(math.sqrt(np.size(a) * np.size(b) / max(y.size, 1)))
    return rounding.of_sum(y, squares, max(terms, 1), roundings=1)


def _squares(x: Any) -> np.ndarray:
    return np.square(np.abs(np.asarray(x, np.complex128 if np.iscomplexobj(x) else np.float64)))


def einsum(rounding: Rounding, subscripts: Any, *operands: Any, **kwargs: Any) -> np.ndarray:
    """``numpy.einsum``: sums over the subscripts that the result lacks."""
    y = np.asarray(np.einsum(subscripts, *operands, **kwargs))
    if rounding.rng is None:
        return y

    def squares() -> np.ndarray:
        return np.asarray(np.einsum(subscripts, *map(_squares, operands), **kwargs))

    return rounding.of_sum(y, squares, _summed(subscripts, operands), roundings=len(operands) - 1)


def _summed(subscripts: str, operands: tuple[Any, ...]) -> int:
    left_side, _, right = subscripts.replace(" ", "").partition("->")
    sizes: dict[str, int] = {}
    for labels, x in zip(left_side.split(","), operands, strict=True):
        before, dots, after = labels.partition("...")
        shape = np.shape(x)
        sizes.update(zip(before, shape, strict=False))
        if dots and after:
            sizes.update(zip(after, shape[-len(after) :], strict=True))
    if "->" not in subscripts:
        joined = left_side.replace(",", "").replace(".", "")
        right = "".join(c for c in joined if joined.count(c) == 1)
    return math.prod(size for label, size in sizes.items() if label not in right)


def tensordot(rounding: Rounding, a: Any, b: Any, axes: Any = 2) -> np.ndarray:
    """``numpy.tensordot``."""
    y = np.asarray(np.tensordot(a, b, axes))
    if rounding.rng is None:
        return y
    if isinstance(axes, int):
        summed = np.shape(b)[:axes]
    else:
        summed = tuple(np.shape(a)[i] for i in np.atleast_1d(axes[0]))
    return rounding.of_sum(y, lambda: np.tensordot(_squares(a), _squares(b), axes), math.prod(summed), roundings=1)


def _product(function: Callable[..., Any]) -> Callable[..., np.ndarray]:
    def disturbed(rounding: Rounding, a: Any, b: Any, *args: Any, **kwargs: Any) -> np.ndarray:
        kwargs.pop("out", None)
        return bilinear(rounding, function, a, b, *args, **kwargs)

    return disturbed


def add_reduce(rounding: Rounding, x: Any, axis: Any = 0, dtype: Any = None, **kwargs: Any) -> np.ndarray:
    """A sum along axes."""
    x = np.asarray(x)
    kwargs = {k: v for k, v in kwargs.items() if k != "out" and v is not np._NoValue}
    if not np.issubdtype(x.dtype, np.inexact):
        return np.add.reduce(x, axis=axis, dtype=dtype, **kwargs)
    y = np.asarray(np.add.reduce(x, axis=axis, **kwargs))
    if rounding.rng is None or not x.size:
        return y
    squares = np.add.reduce(np.abs(x) ** 2, axis=axis, **{k: v for k, v in kwargs.items() if k != "initial"})
    rounded = rounding.of_sum(y, squares, x.size // max(y.size, 1))
    if rounding.accumulation == "sequential" and kwargs.keys() <= {"keepdims"}:
        return rounded + rounding.errors(_chain_errors(x, axis, rounding.format).reshape(y.shape))
    return rounded


_LANES = (1, 4, 8, 16)


def _chain_errors(x: np.ndarray, axis: Any, form: np.dtype) -> np.ndarray:
    """The largest error that adding these very numbers makes in the working format, in one chain or in several.

    Numbers that are nearly constant are rounded the same way at every step, so that errors grow linearly: no model of
    random errors foresees that.
    """
    axes = range(x.ndim) if axis is None else np.atleast_1d(axis) % x.ndim
    remaining = [a for a in range(x.ndim) if a not in axes]
    terms = x.transpose(*remaining, *axes).reshape(*(x.shape[a] for a in remaining), -1)
    exact, narrow = terms.sum(axis=-1), terms.astype(form)
    worst = np.zeros(exact.shape)
    for lanes in _LANES:
        chains = [np.add.accumulate(narrow[..., k::lanes], axis=-1)[..., -1] for k in range(min(lanes, terms.shape[-1]))]
        worst = np.maximum(worst, np.abs(np.sum(chains, axis=0, dtype=np.float64) - exact))
    return worst


def add_accumulate(rounding: Rounding, x: Any, axis: int = 0, dtype: Any = None, out: Any = None) -> np.ndarray:  # noqa: ARG001
    """Running sums: the errors of each step stay in all later ones."""
    x = np.asarray(x)
    y = np.add.accumulate(x, axis=axis, dtype=dtype)
    if rounding.rng is None or not x.size or not np.issubdtype(y.dtype, np.inexact):
        return y
    return y + np.add.accumulate(rounding.of_result(y) - y, axis=axis)


def multiply_reduce(rounding: Rounding, x: Any, axis: Any = 0, dtype: Any = None, **kwargs: Any) -> np.ndarray:
    """A product along axes: one rounding for each factor but the first."""
    x = np.asarray(x)
    kwargs = {k: v for k, v in kwargs.items() if k != "out" and v is not np._NoValue}
    y = np.asarray(np.multiply.reduce(x, axis=axis, dtype=dtype, **kwargs))
    if not np.issubdtype(y.dtype, np.inexact):
        return y
    factors = x.size // max(y.size, 1)
    return rounding.of_sum(y, np.abs(y) ** 2, 1, roundings=max(factors - 1, 0))


def multiply_accumulate(rounding: Rounding, x: Any, axis: int = 0, dtype: Any = None, out: Any = None) -> np.ndarray:  # noqa: ARG001
    """Running products: each step multiplies in one more rounding."""
    x = np.asarray(x)
    y = np.multiply.accumulate(x, axis=axis, dtype=dtype)
    if not np.issubdtype(y.dtype, np.inexact):
        return y
    steps = np.multiply.accumulate(rounding.of_result(np.full_like(y, 1 / 3)) * 3, axis=axis)
    return y * steps


def _sum(rounding: Rounding, a: Any, axis: Any = None, dtype: Any = None, **kwargs: Any) -> np.ndarray:
    return add_reduce(rounding, a, axis, dtype, **kwargs)


def _prod(rounding: Rounding, a: Any, axis: Any = None, dtype: Any = None, **kwargs: Any) -> np.ndarray:
    return multiply_reduce(rounding, a, axis, dtype, **kwargs)


def _cumsum(rounding: Rounding, a: Any, axis: Any = None, dtype: Any = None, **_: Any) -> np.ndarray:
    return add_accumulate(rounding, np.ravel(a) if axis is None else a, 0 if axis is None else axis, dtype)


def _cumprod(rounding: Rounding, a: Any, axis: Any = None, dtype: Any = None, **_: Any) -> np.ndarray:
    return multiply_accumulate(rounding, np.ravel(a) if axis is None else a, 0 if axis is None else axis, dtype)


def _trace(rounding: Rounding, a: Any, *args: Any, **kwargs: Any) -> np.ndarray:
    return add_reduce(rounding, np.diagonal(a, *args, **kwargs), axis=-1)


def _transform(function: Callable[..., Any]) -> Callable[..., np.ndarray]:
    """A discrete Fourier transform: each of its log2(n) levels rounds every value, and spreads errors evenly."""

    def disturbed(rounding: Rounding, a: Any, n: Any = None, axis: int = -1, **kwargs: Any) -> np.ndarray:
        y = np.asarray(function(a, n, axis, **kwargs))
        if rounding.rng is None or not y.size:
            return y
        size = np.sqrt(np.mean(np.abs(y) ** 2, axis=axis, keepdims=True))
        return rounding.disturbed(y, rounding.u * math.sqrt(1 + math.log2(max(y.shape[axis], 2))) * size)

    return disturbed


def _backward_stable(function: Callable[..., Any]) -> Callable[..., np.ndarray]:
    """A factorisation of square matrices: the exact result of a matrix whose entries were rounded once for each row."""

    def disturbed(rounding: Rounding, a: Any, *args: Any, **kwargs: Any) -> np.ndarray:
        a = np.asarray(a, np.float64)
        spread = math.sqrt(max(a.shape[-1], 1)) * rounding.u * np.abs(a)
        return rounding.of_result(np.asarray(function(rounding.disturbed(a, spread), *args, **kwargs)))

    return disturbed


FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "einsum": einsum,
    "tensordot": tensordot,
    "dot": _product(np.dot),
    "inner": _product(np.inner),
    "outer": _product(np.outer),
    "vdot": _product(np.vdot),
    "kron": _product(np.kron),
    "convolve": _product(np.convolve),
    "correlate": _product(np.correlate),
    "linalg.matmul": lambda rounding, a, b: matmul(rounding, np.matmul, a, b),
    "sum": _sum,
    "nansum": lambda rounding, a, *args, **kwargs: _sum(rounding, np.nan_to_num(a), *args, **kwargs),
    "prod": _prod,
    "cumsum": _cumsum,
    "cumprod": _cumprod,
    "trace": _trace,
    **{f"fft.{f.__name__}": _transform(f) for f in (np.fft.fft, np.fft.ifft, np.fft.rfft, np.fft.irfft)},
    "linalg.det": _backward_stable(np.linalg.det),
    "linalg.inv": _backward_stable(np.linalg.inv),
}
"""The functions handled here, by name relative to ``numpy``."""

REDUCTIONS: Mapping[tuple[str, str], Callable[..., Any]] = {
    ("add", "reduce"): add_reduce,
    ("add", "accumulate"): add_accumulate,
    ("multiply", "reduce"): multiply_reduce,
    ("multiply", "accumulate"): multiply_accumulate,
}
"""The methods of ufuncs handled here."""
