"""Stochastic arithmetic: arrays that compute in float64 and carry random errors of a narrower working format.

NumPy hands every function that meets a `Disturbed` array over to this module. Copies, comparisons and the like pass
through; elementwise arithmetic and sums get errors after the model of `Rounding`; a function without a model is refused,
so that nothing is taken for exact by accident. Composite operators (LSTM, Softmax, …) need no entry: their reference is
written with these functions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from deep_bench.check import contraction
from deep_bench.check.models import COMPOSITE_FUNCTIONS, EXACT_FUNCTIONS, EXACT_UFUNCS, ROUNDED_UFUNCS
from deep_bench.check.rounding import Rounding
from deep_bench.errors import Unsupported
from deep_bench.tensor import is_float


class NoRoundingModel(Unsupported, TypeError):
    """A NumPy function whose rounding errors this module does not know."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"numpy function {name!r} was called on values that carry rounding errors",
            "a function whose rounding errors are known",
            "write the reference with other functions, or add its model to deep_bench.check.models",
        )


class Disturbed(np.ndarray):
    """A float64 array whose values stand for a working format, and whose arithmetic makes that format's errors.

    Example:
        >>> rounding = Rounding(np.dtype("float32"), np.random.default_rng(0))
        >>> x = disturb(np.array([0.1, 0.2]), rounding)
        >>> 0 < float(abs(np.asarray(x * x) - [0.01, 0.04]).max()) <= 2**-24 * 0.05
        True
    """

    rounding: Rounding

    def __array_finalize__(self, obj: Any) -> None:
        if (rounding := getattr(obj, "rounding", None)) is not None:
            self.rounding = rounding

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, out: Any = None, **kwargs: Any) -> Any:
        rounding = _rounding_of((*inputs, *(out or ())))
        if method == "at":
            return _at(ufunc, rounding, *inputs)
        plain = tuple(as_plain(x) for x in inputs)
        if "where" in kwargs:
            kwargs["where"] = as_plain(kwargs["where"])
        result = _apply(ufunc, method, rounding, plain, kwargs)
        if out is not None:
            return _store(result, out)
        return as_disturbed(result, rounding)

    def __array_function__(self, func: Callable[..., Any], types: Any, args: Any, kwargs: Any) -> Any:
        name = f"{func.__module__}.{func.__name__}".removeprefix("numpy.")
        if name in COMPOSITE_FUNCTIONS:
            return super().__array_function__(func, types, args, kwargs)
        rounding = _rounding_of((args, kwargs))
        if name in contraction.FUNCTIONS:
            result = contraction.FUNCTIONS[name](rounding, *as_plain(args), **as_plain(kwargs))
            return as_disturbed(result, rounding)
        if name in EXACT_FUNCTIONS:
            out = kwargs.get("out")
            result = func(*as_plain(args), **as_plain(kwargs))
            return as_disturbed(result, rounding) if out is None else out
        raise NoRoundingModel(name)

    def astype(self, dtype: Any, *args: Any, **kwargs: Any) -> Any:
        """Another element type; floating-point types only change in name, since the payload stays float64."""
        kind = np.dtype(dtype)
        if np.issubdtype(kind, np.complexfloating):
            return as_disturbed(as_plain(self).astype(np.complex128), self.rounding)
        if is_float(kind):
            return self.copy() if kwargs.get("copy", True) else self
        return as_plain(self).astype(dtype, *args, **kwargs)

    def dot(self, other: Any, out: Any = None) -> Any:
        """As ``numpy.dot``, whose method form NumPy does not hand over."""
        return np.dot(self, other, out=out)

    def trace(self, *args: Any, **kwargs: Any) -> Any:
        """As ``numpy.trace``, whose method form NumPy does not hand over."""
        return np.trace(self, *args, **kwargs)


def disturb(x: np.ndarray, rounding: Rounding) -> Disturbed:
    """``x`` in float64, as an array that makes the errors of ``rounding``; no copy of a float64 array."""
    wide = np.complex128 if np.iscomplexobj(x) else np.float64
    y = np.asarray(x).astype(wide, copy=False).view(Disturbed)
    y.rounding = rounding
    return y


def as_plain(x: Any) -> Any:
    """``x`` with every `Disturbed` array in it replaced by its payload; ``x`` may be nested."""
    if isinstance(x, Disturbed):
        return x.view(np.ndarray)
    if isinstance(x, tuple | list):
        return type(x)(map(as_plain, x)) if type(x) in (tuple, list) else x
    if isinstance(x, dict):
        return {k: as_plain(v) for k, v in x.items()}
    return x


def as_disturbed(x: Any, rounding: Rounding) -> Any:
    """``x`` with every floating-point array in it made `Disturbed`; integers, booleans and objects stay plain."""
    if isinstance(x, np.ndarray | np.generic):
        return disturb(np.asarray(x), rounding) if np.issubdtype(x.dtype, np.inexact) else x
    if isinstance(x, tuple | list):
        items = [as_disturbed(y, rounding) for y in x]
        return type(x)(*items) if hasattr(x, "_fields") else type(x)(items)
    return x


def _rounding_of(values: Any) -> Rounding:
    rounding = _find(values)
    if rounding is None:
        raise NoRoundingModel("a function of arrays whose rounding is not set")
    return rounding


def _find(values: Any) -> Rounding | None:
    if isinstance(values, Disturbed):
        return getattr(values, "rounding", None)
    if isinstance(values, dict):
        values = values.values()
    elif not isinstance(values, tuple | list):
        return None
    return next((r for r in map(_find, values) if r is not None), None)


def _apply(ufunc: np.ufunc, method: str, rounding: Rounding, inputs: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    name = ufunc.__name__
    if name in contraction.PRODUCTS and method == "__call__":
        return contraction.matmul(rounding, ufunc, *inputs, **kwargs)
    if name in EXACT_UFUNCS:
        return getattr(ufunc, method)(*inputs, **kwargs)
    if method in ("__call__", "outer") and name in ROUNDED_UFUNCS:
        result = getattr(ufunc, method)(*inputs, **kwargs)
        parts = result if isinstance(result, tuple) else (result,)
        rounded = tuple(_rounded(y, rounding) for y in parts)
        return rounded if isinstance(result, tuple) else rounded[0]
    if (name, method) in contraction.REDUCTIONS:
        return contraction.REDUCTIONS[name, method](rounding, *inputs, **kwargs)
    raise NoRoundingModel(name if method == "__call__" else f"{name}.{method}")


def _rounded(y: Any, rounding: Rounding) -> Any:
    y = np.asarray(y)
    return rounding.of_result(y) if np.issubdtype(y.dtype, np.inexact) else y


def _store(result: Any, out: tuple[Any, ...]) -> Any:
    parts = result if isinstance(result, tuple) else (result,)
    for target, value in zip(out, parts, strict=True):
        if target is not None:
            as_plain(target)[...] = value
    return out[0] if len(out) == 1 else out


def _at(ufunc: np.ufunc, rounding: Rounding, target: Any, index: Any, *operands: Any) -> None:
    """Scatter in place: what was added or multiplied into an element comes with the errors of a short sum or product."""
    name, y, values = ufunc.__name__, as_plain(target), as_plain(operands)
    index = as_plain(index)
    if name in EXACT_UFUNCS:
        ufunc.at(y, index, *values)
        return
    if name not in ("add", "subtract", "multiply"):
        raise NoRoundingModel(f"{name}.at")
    touched = np.zeros(y.shape, bool)
    touched[index] = True
    squares = y * y
    ufunc.at(y, index, *values)
    if name == "multiply":
        y[touched] = rounding.of_sum(y[touched], y[touched] ** 2, 1, 4)
        return
    np.add.at(squares, index, values[0] * values[0])
    y[touched] = rounding.of_sum(y[touched], squares[touched], 4)
