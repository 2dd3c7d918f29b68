"""Stochastic arithmetic: arrays that compute in float64 and carry random errors of a narrower working format.

The model of rounding errors says how large the error of one operation may be in a given format: which functions of NumPy and
SciPy are exact, which round once, which are written in terms of others; and sums and products over many terms (reductions,
matrix products, einsum, transforms).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import ml_dtypes
import numpy as np

from deep_bench.errors import Unsupported
from deep_bench.tensor import is_float, unit_roundoff


class NoRoundingModel(Unsupported, TypeError):
    """A NumPy function whose rounding errors this module does not know."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"numpy function {name!r} was called on values that carry rounding errors",
            "a function whose rounding errors are known",
            "write the reference with other functions, or add its model to deep_bench.check.arithmetic",
        )


Accumulation = Literal["blocked", "sequential"]


@dataclass(eq=False)
class Recall:
    """The amplitudes of errors of sums of products, in the order of one evaluation.

    All evaluations of a network with rounding errors need the same ones up to a few roundings, so the first computes them
    and the others read them. An evaluation that takes another course is noticed by the node or the shape.
    """

    stored: dict[tuple[Any, ...], np.ndarray] = field(default_factory=dict)
    bytes: int = 0
    place: tuple[Any, ...] = ()
    number: int = 0

    def start(self, *place: Any) -> None:
        """Name the node that is evaluated next, and how often it was before."""
        self.place, self.number = place, 0

    def get(self, compute: Callable[[], np.ndarray], shape: tuple[int, ...]) -> np.ndarray:
        """What was computed at this place before, else what ``compute`` gives now."""
        key = (*self.place, self.number, shape)
        self.number += 1
        if key not in self.stored:
            value = compute()
            if self.bytes + value.nbytes > _RECALLED_BYTES:
                return value
            self.stored[key] = value
            self.bytes += value.nbytes
        return self.stored[key]


@dataclass(frozen=True, slots=True, eq=False)
class Rounding:
    """Rounding errors in one format.

    Args:
        format: The working format that the values stand for.
        rng: Where random errors are drawn from; ``None`` draws none, so that arithmetic stays that of float64.
        accumulation: How sums are assumed to be added: in blocks, as optimised kernels do, or term by term.
        scale: How much larger than expected the errors are made: to see which decisions are close.
        recall: What earlier evaluations of the same network found out about sizes of errors.
    """

    format: np.dtype
    rng: np.random.Generator | None = None
    accumulation: Accumulation = "blocked"
    scale: float = 1.0
    recall: Recall | None = None

    @property
    def u(self) -> float:
        """The unit roundoff of the format."""
        return unit_roundoff(self.format)

    def of_result(self, y: np.ndarray) -> np.ndarray:
        """``y`` with the error of one rounding; none where the format holds ``y`` exactly.

        Below the smallest normal number the error may be as large as that number: kernels may flush to zero.
        """
        if self.rng is None or not y.size:
            return y
        if np.iscomplexobj(y):
            return self.of_result(y.real) + 1j * self.of_result(y.imag)
        amplitude = self.u * np.abs(y)
        tiny = float(ml_dtypes.finfo(self.format).smallest_normal)
        return self.disturbed(y, np.where(amplitude < self.u * tiny, tiny, amplitude))

    def of_sum(
        self, y: np.ndarray, squares: np.ndarray | Callable[[], np.ndarray], terms: int, roundings: int = 0
    ) -> np.ndarray:
        r"""``y``, a sum of ``terms`` products, with the error of multiplying and adding in the working format.

        The amplitude is :math:`u \sqrt{(m + \log_2 n) \sum t_i^2 + c y^2}` for blocked and
        :math:`u \sqrt{(m + n / 2) \sum t_i^2 + n y^2 / 3}` for sequential addition, with ``m`` roundings for each of the
        ``n`` terms. Partial sums of terms of random sign grow like the root of their number, those of one sign linearly.

        Args:
            y: The exact sums.
            squares: The sums of the squared terms, in any precision; a function of no arguments is called only where no
                earlier evaluation has done so.
            terms: How many terms each sum has.
            roundings: How many roundings each term itself comes with: one for a product of two factors.
        """
        if self.rng is None or not y.size or (terms <= 1 and not roundings):
            return y

        def amplitude() -> np.ndarray:
            return self._of_terms(y, squares() if callable(squares) else squares, terms, roundings)

        if self.recall is not None and callable(squares):
            return self.disturbed(y, self.recall.get(amplitude, y.shape), summed=True)
        return self.disturbed(y, amplitude(), summed=True)

    def _of_terms(self, y: np.ndarray, squares: np.ndarray, terms: int, roundings: int) -> np.ndarray:
        """The amplitude of the error of a sum."""
        if terms <= 1:
            spread, carry = float(roundings), 0.0
        elif self.accumulation == "blocked":
            spread, carry = roundings + np.log2(terms), _CARRY
        else:
            spread, carry = roundings + terms / 2, max(terms / 3, 1.0)
        amplitude = np.asarray(np.abs(y) ** 2, np.float64)
        amplitude *= carry
        amplitude += spread * squares
        np.sqrt(amplitude, out=amplitude)
        amplitude *= self.u
        return amplitude

    def disturbed(self, y: np.ndarray, amplitude: Any, *, summed: bool = False) -> np.ndarray:
        """``y`` plus random errors of this amplitude, where ``y`` is finite and not exact in the format.

        A sum that the format happens to hold may still have been rounded on the way: only whole numbers count as exact, and
        of these only as many as the format has digits for.
        """
        if self.rng is None or not y.size:
            return y
        if np.iscomplexobj(y):
            parts = (self.disturbed(part, amplitude, summed=summed) for part in (y.real, y.imag))
            return next(parts) + 1j * next(parts)
        noise = np.asarray(self.rng.random(y.shape, dtype=np.float32))
        noise -= np.float32(0.5)
        noise *= np.float32(2.0 * self.scale)
        error = np.asarray(np.multiply(noise, amplitude, dtype=np.float64))
        error[self._is_whole(y) if summed else self._holds(y)] = 0.0
        if not np.isfinite(np.sum(error)):
            error[~(np.isfinite(error) & np.isfinite(y))] = 0.0
        error += y
        return error

    def errors(self, amplitude: np.ndarray) -> np.ndarray:
        """Random errors of this amplitude, finite ones only."""
        if self.rng is None:
            return np.zeros(amplitude.shape)
        noise = 2.0 * self.scale * self.rng.random(amplitude.shape) - self.scale
        return np.asarray(noise * np.where(np.isfinite(amplitude), amplitude, 0.0))

    def _holds(self, y: np.ndarray) -> np.ndarray:
        """Where the format holds ``y`` exactly; of float64, whose roundings cannot be seen here, whole numbers."""
        return self._is_whole(y) if self.format.itemsize >= 8 else np.asarray(y.astype(self.format) == y)

    def _is_whole(self, y: np.ndarray) -> np.ndarray:
        """Where ``y`` is a whole number that the format has digits for: beyond, float64 has no others."""
        return np.asarray((np.rint(y) == y) & (np.abs(y) <= 1 / self.u))


class DisturbedArray(np.ndarray):
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
            parts = result if isinstance(result, tuple) else (result,)
            for target, value in zip(out, parts, strict=True):
                if target is not None:
                    as_plain(target)[...] = value
            return out[0] if len(out) == 1 else out
        return as_disturbed(result, rounding)

    def __array_function__(self, func: Callable[..., Any], types: Any, args: Any, kwargs: Any) -> Any:
        name = f"{func.__module__}.{func.__name__}".removeprefix("numpy.")
        if name in COMPOSITE_FUNCTIONS:
            return super().__array_function__(func, types, args, kwargs)
        rounding = _rounding_of((args, kwargs))
        if name in FUNCTIONS:
            result = FUNCTIONS[name](rounding, *as_plain(args), **as_plain(kwargs))
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


def disturb(x: np.ndarray, rounding: Rounding) -> DisturbedArray:
    """``x`` in float64, as an array that makes the errors of ``rounding``; no copy of a float64 array."""
    wide = np.complex128 if np.iscomplexobj(x) else np.float64
    y = np.asarray(x).astype(wide, copy=False).view(DisturbedArray)
    y.rounding = rounding
    return y


def as_plain(x: Any) -> Any:
    """``x`` with every `Disturbed` array in it replaced by its payload; ``x`` may be nested."""
    if isinstance(x, DisturbedArray):
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
    if isinstance(values, DisturbedArray):
        return getattr(values, "rounding", None)
    if isinstance(values, dict):
        values = values.values()
    elif not isinstance(values, tuple | list):
        return None
    return next((r for r in map(_find, values) if r is not None), None)


def _apply(ufunc: np.ufunc, method: str, rounding: Rounding, inputs: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    name = ufunc.__name__
    if name in PRODUCTS and method == "__call__":
        return matmul(rounding, ufunc, *inputs, **kwargs)
    if name in EXACT_UFUNCS:
        return getattr(ufunc, method)(*inputs, **kwargs)
    if method in ("__call__", "outer") and name in ROUNDED_UFUNCS:
        result = getattr(ufunc, method)(*inputs, **kwargs)
        parts = result if isinstance(result, tuple) else (result,)
        rounded = tuple(_rounded(y, rounding) for y in parts)
        return rounded if isinstance(result, tuple) else rounded[0]
    if (name, method) in REDUCTIONS:
        return REDUCTIONS[name, method](rounding, *inputs, **kwargs)
    raise NoRoundingModel(name if method == "__call__" else f"{name}.{method}")


def _rounded(y: Any, rounding: Rounding) -> Any:
    y = np.asarray(y)
    return rounding.of_result(y) if np.issubdtype(y.dtype, np.inexact) else y


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


EXACT_UFUNCS = frozenset(
    """
    equal not_equal less less_equal greater greater_equal
    logical_and logical_or logical_xor logical_not bitwise_and bitwise_or bitwise_xor invert left_shift right_shift
    maximum minimum fmax fmin clip negative positive absolute fabs sign signbit copysign conjugate
    floor ceil trunc rint isnan isinf isfinite heaviside fmod modf frexp ldexp floor_divide gcd lcm bitwise_count
    """.split()  # noqa: SIM905 (reads better than a list of strings)
)
"""Ufuncs whose result the working format holds whenever it holds the operands, and decisions."""


ROUNDED_UFUNCS = frozenset(
    """
    add subtract multiply divide reciprocal square sqrt cbrt hypot power float_power remainder divmod
    exp exp2 expm1 log log2 log10 log1p logaddexp logaddexp2
    sin cos tan arcsin arccos arctan arctan2 sinh cosh tanh arcsinh arccosh arctanh deg2rad rad2deg degrees radians
    erf erfc erfinv ndtr expit log_expit logit gamma gammaln digamma xlogy xlog1py log_ndtr
    """.split()  # noqa: SIM905 (reads better than a list of strings)
)
"""Ufuncs with one rounding: kernels give these within a unit or two in the last place."""


EXACT_FUNCTIONS = frozenset(
    """
    reshape ravel transpose swapaxes moveaxis rollaxis roll flip flipud fliplr rot90 squeeze expand_dims broadcast_to
    broadcast_arrays atleast_1d atleast_2d atleast_3d copy copyto matrix_transpose permute_dims array_split
    concatenate stack vstack hstack dstack column_stack block split vsplit hsplit dsplit tile repeat pad append insert delete
    resize take take_along_axis put_along_axis put putmask place choose select compress extract where nonzero argwhere
    flatnonzero count_nonzero diagonal diag diagflat tril triu tril_indices_from triu_indices_from
    fill_diagonal ix_ meshgrid unstack zeros_like ones_like empty_like full_like array_equal
    array_equiv shape ndim size iscomplexobj isrealobj
    amax amin max min argmax argmin nanmax nanmin nanargmax nanargmin sort argsort partition argpartition lexsort unique
    unique_values unique_counts unique_inverse unique_all searchsorted digitize bincount isin in1d
    any all clip fix round around rint real imag nan_to_num isclose allclose isposinf isneginf result_type can_cast
    min_scalar_type common_type may_share_memory shares_memory array_str array_repr array2string apply_along_axis
    apply_over_axes ndindex histogram_bin_edges packbits unpackbits sign
    lib.stride_tricks.sliding_window_view lib._stride_tricks_impl.sliding_window_view
    fft.fftshift fft.ifftshift fft.fftfreq
    """.split()  # noqa: SIM905 (reads better than a list of strings)
)
"""Functions that copy, select or decide; names relative to ``numpy``."""


COMPOSITE_FUNCTIONS = frozenset({"mean", "var", "std", "diff", "ptp"})
"""Functions that NumPy writes in Python with others that are handed over in turn."""


_CARRY = 4.0
"""The weight of the squared result in the error of a blocked sum, in squared roundings of the result.

A pairwise sum of terms of one sign has 2; kernels that add long chains inside a block have more. With 4, the products of
OpenBLAS, oneDNN and ONNX Runtime come out flat over lengths from 16 to 2,048 (``docs/checking.md`` has the figures).
"""


_RECALLED_BYTES = 2**30


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
        # The largest error that adding these very numbers makes in the working format, in one chain or in several.
        # Numbers that are nearly constant are rounded the same way at every step, so that errors grow linearly: no
        # model of random errors foresees that.
        axes = range(x.ndim) if axis is None else np.atleast_1d(axis) % x.ndim
        remaining = [a for a in range(x.ndim) if a not in axes]
        terms = x.transpose(*remaining, *axes).reshape(*(x.shape[a] for a in remaining), -1)
        exact, narrow = terms.sum(axis=-1), terms.astype(rounding.format)
        worst = np.zeros(exact.shape)
        for lanes in _LANES:
            chains = [np.add.accumulate(narrow[..., k::lanes], axis=-1)[..., -1] for k in range(min(lanes, terms.shape[-1]))]
            worst = np.maximum(worst, np.abs(np.sum(chains, axis=0, dtype=np.float64) - exact))
        return rounded + rounding.errors(worst.reshape(y.shape))
    return rounded


_LANES = (1, 4, 8, 16)


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
