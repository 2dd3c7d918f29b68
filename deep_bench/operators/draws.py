"""Contents for the inputs of a case, pure in a generator: each draw knows what its numbers mean to the operator.

Numbers of any size come in six distributions that excite different faults. Others mean something to an operator: indices,
lengths, scales, probabilities, masks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np

from deep_bench.errors import InvalidArgument, UnknownName
from deep_bench.operators.argument import Argument, Draw
from deep_bench.operators.case_schema import row_of
from deep_bench.tensor import STRING, is_float, is_integer

if TYPE_CHECKING:
    from deep_bench.operators.case import Case

__all__ = ["DISTRIBUTIONS", "DRAWS", "check_draw", "draw", "draw_of", "limit_of"]


def draw(
    argument: Argument, rng: np.random.Generator, distribution: str = "normal", limit: float | None = None
) -> np.ndarray:
    """Random contents for an argument.

    Args:
        argument: Its shape, element type and draw.
        rng: The generator.
        distribution: One of `DISTRIBUTIONS`; a function that draws is called as it is.
        limit: The largest magnitude, if the distribution is ``huge``, ``wide`` or ``special``.

    Raises:
        UnknownName: No such distribution or draw.
        InvalidArgument: A draw with numbers that do not fit it, or a function that gives another shape or element type.

    Example:
        >>> from deep_bench.tensor import TensorSpec
        >>> indices = Argument(TensorSpec("indices", (5,), np.dtype("int64")), draw="below:3")
        >>> bool(set(draw(indices, np.random.default_rng(0)).tolist()) <= {0, 1, 2})
        True
    """
    if distribution not in DISTRIBUTIONS:
        raise UnknownName("distribution", distribution, DISTRIBUTIONS)
    if callable(argument.draw):
        return _checked(argument, np.asarray(argument.draw(rng, argument.spec)))
    check_draw(argument.draw)
    name, *written = argument.draw.split(":")
    request = DrawRequest(rng, argument.shape, argument.dtype, distribution, limit)
    try:
        array = DRAWS[name](request, *map(_number, written))
    except (MemoryError, ValueError, OverflowError) as error:  # NumPy says in any of these that an array is too large
        raise InvalidArgument(f"{argument} drawn as {argument.draw!r}: {error}", "a draw that fits the shape") from error
    return np.ascontiguousarray(np.asarray(array, argument.dtype)).reshape(argument.shape)


def draw_of(case: Case, index: int) -> Draw:
    """The draw that the operator of a case has for one of its inputs.

    Example:
        >>> from deep_bench.operators.case import Case
        >>> draw_of(Case.of("Gather", (100, 8), (4,)), 1)
        'indices:100'
    """
    argument = case.arguments[index]
    if argument is None:
        return "normal"
    draws = row_of(case.operator).draws
    rule = draws(case, index) if callable(draws) else draws.get(argument.spec.name, "normal")
    return rule(case) if callable(rule) else rule


def limit_of(case: Case, index: int) -> float | None:
    """The largest magnitude for the elements of one input, such that results are finite and yet near overflow.

    ``None`` where all of the type may be used.

    Example:
        >>> from deep_bench.operators.case import Case
        >>> from math import sqrt, isclose
        >>> isclose(limit_of(Case.of("Gemm", (2, 15), (15, 2), dtype="float16"), 0), sqrt(65504 / 64))
        True
        >>> limit_of(Case.of("Exp", (2,), dtype="float16"), 0) < 11
        True
    """
    argument, facts = case.arguments[index], row_of(case.operator)
    if argument is None or not (is_float(argument.dtype) or is_integer(argument.dtype)) or argument.dtype == object:
        return None
    if facts.accumulates_wide and argument.dtype.itemsize <= 2:
        return None
    return facts.growth(case).limit(_top(case, argument.dtype))


def _top(case: Case, dtype: np.dtype) -> float:
    """The largest number of the narrowest floating-point type that is read or written; of its own type for an integer."""
    if not is_float(dtype):
        return float(ml_dtypes.iinfo(dtype).max)
    input_dtypes = [a.dtype for a in case.arguments if a is not None and is_float(a.dtype)]
    return min(float(ml_dtypes.finfo(t).max) for t in [*input_dtypes, *(r.dtype for r in case.results if is_float(r.dtype))])


def check_draw(written: str) -> None:
    """Refuse a draw that does not exist, or that has something else than numbers after its name.

    Raises:
        UnknownName: No such draw.
        InvalidArgument: Not a number.
    """
    name, *numbers = written.split(":")
    if name not in DRAWS:
        raise UnknownName("draw", name, DRAWS)
    for number in numbers:
        try:
            float(number)
        except ValueError as error:
            raise InvalidArgument(f"the draw {written!r}", "a name, followed by numbers after colons") from error


def _number(written: str) -> float | int:
    return float(written) if any(c in written for c in ".einf") else int(written)


def _checked(argument: Argument, array: np.ndarray) -> np.ndarray:
    if array.shape != argument.shape or array.dtype != argument.dtype:
        raise InvalidArgument(f"a draw gave {array.dtype}{list(array.shape)}", str(argument))
    return array


def _fractions(request: DrawRequest) -> np.ndarray:
    """Numbers from 0 to 1, gathered where the distribution says: at coarse steps, or near one of the ends."""
    uniform = request.uniform()
    if request.distribution == "wide":
        near = np.exp2(-20 * request.uniform())
        return np.where(uniform < 0.5, near, 1 - near)
    if request.distribution == "ties":
        return np.round(uniform * 8) / 8
    if request.distribution == "special":
        return np.where(request.uniform() < 0.5, np.round(uniform), uniform)
    if request.distribution == "tiny":
        return np.exp2(-30 * request.uniform(0.5, 1.0))
    return 1 - 0.01 * uniform if request.distribution == "huge" else uniform


def between(request: DrawRequest, low: float, high: float) -> np.ndarray:
    """Numbers from ``low`` to ``high``, both included."""
    if request.distribution == "tiny" and low <= 0 <= high and is_float(request.dtype):
        return np.clip(numbers(request).astype(np.float64), low, high).astype(request.dtype)
    array = low + (high - low) * _fractions(request)
    if not is_float(request.dtype):
        array = np.round(array)
    cast = array.astype(request.dtype)
    inside = (cast.astype(np.float64) >= low) & (cast.astype(np.float64) <= high)  # a narrow format may round past an end
    return np.where(inside, cast, np.asarray((low + high) / 2).astype(request.dtype))


def positive(request: DrawRequest) -> np.ndarray:
    """Numbers above 0; infinity among the special ones."""
    array = np.abs(numbers(request)) if request.dtype.kind != "b" else numbers(request)
    least = ml_dtypes.finfo(request.dtype).smallest_normal if is_float(request.dtype) else 1
    with np.errstate(invalid="ignore"):
        return np.where(array > 0, array, np.asarray(least).astype(request.dtype))


def domain(request: DrawRequest, low: float, high: float) -> np.ndarray:
    """Numbers from ``low`` to ``high`` (which may be ``inf``), where a function is real; any among the special ones."""
    if request.distribution == "special":
        return numbers(request)
    if np.isfinite(high):
        return between(request, low, high)
    array = numbers(request).astype(np.float64)
    return (low + np.abs(array)).clip(max=largest(request)).astype(request.dtype)


def nonzero(request: DrawRequest) -> np.ndarray:
    """Any number but 0; no NaN."""
    array = numbers(request)
    with np.errstate(invalid="ignore"):
        return np.where((array == 0) | (array != array), np.ones((), request.dtype), array)


def below(request: DrawRequest, end: int) -> np.ndarray:
    """Whole numbers from 0 to ``end - 1``: the first or the last ones where the distribution is tiny or huge."""
    if not request.shape or 0 not in request.shape:
        _require(end > 0, f"indices below {end}", "an axis of at least one element to index")
    end = max(end, 1)
    if request.distribution == "wide":
        array = np.floor(np.exp2(request.uniform(0.0, np.log2(end + 1)))) - 1
    elif request.distribution == "special":
        array = request.choice([0, end - 1])
    else:
        low = max(0, end - 2) if request.distribution == "huge" else 0
        high = min(end, {"tiny": 2, "ties": 3}.get(request.distribution, end))
        array = request.integers(low, high)
    return np.clip(array, 0, end - 1).astype(request.dtype)


def indices(request: DrawRequest, end: int) -> np.ndarray:
    """Indices of an axis of ``end`` elements; except in the normal distribution one in two counts from the end."""
    array = below(request, end)
    if request.distribution == "normal":
        return array
    return np.where(request.uniform() < 0.5, array - np.asarray(end, array.dtype), array).astype(request.dtype)


def lengths(request: DrawRequest, longest: int) -> np.ndarray:
    """Lengths of sequences, from 1 to ``longest``."""
    return (below(replace(request, dtype=np.dtype(np.int64)), longest) + 1).astype(request.dtype)


def distinct(request: DrawRequest, end: int, axis: int) -> np.ndarray:
    """Indices below ``end``, none of them twice along ``axis``."""
    size = request.shape[axis]
    _require(size <= end, f"{size} different indices below {end}", "no more of them than there are elements")
    wide = tuple(end if i == axis % len(request.shape) else d for i, d in enumerate(request.shape))
    order = np.argsort(request.rng.random(wide), axis=axis, kind="stable")
    return np.take(order, np.arange(size), axis=axis).astype(request.dtype)


def distinct_rows(request: DrawRequest, *sizes: int) -> np.ndarray:
    """Positions in a tensor of these dimensions, along the last axis; none of them twice."""
    count, places = int(np.prod(request.shape[:-1])), int(np.prod(sizes))
    _require(count <= places, f"{count} different positions in {list(sizes)}", "no more than there are")
    flat = request.rng.choice(places, count, replace=False)
    return np.stack(np.unravel_index(flat, sizes), axis=-1).reshape(request.shape).astype(request.dtype)


def rows(request: DrawRequest, *sizes: int) -> np.ndarray:
    """Positions in a tensor of these dimensions, along the last axis; the same one may occur again."""
    column = replace(request, shape=request.shape[:-1])
    return np.stack([indices(column, size) for size in sizes], axis=-1).astype(request.dtype)


def distinct_places(request: DrawRequest, end: int) -> np.ndarray:
    """Numbers below ``end``, none of them twice in the whole tensor."""
    count = int(np.prod(request.shape))
    _require(count <= end, f"{count} different numbers below {end}", "no more than there are")
    return request.rng.choice(end, count, replace=False).reshape(request.shape).astype(request.dtype)


def scaled(request: DrawRequest, terms: int) -> np.ndarray:
    """Numbers divided by the root of ``terms``, so that their sums with others do not grow with the number of terms."""
    array = numbers(request)
    if request.distribution not in ("normal", "ties", "special"):
        return array
    return (array.astype(np.float64) / np.sqrt(max(terms, 1))).astype(request.dtype)


def mask(request: DrawRequest, share: float = 0.5) -> np.ndarray:
    """Ones with the probability ``share``, zeros elsewhere."""
    return (request.uniform() < share).astype(request.dtype)


def attention_mask(request: DrawRequest) -> np.ndarray:
    """What a query may look at: truth values, the first of every row true; finite numbers where they are added."""
    if is_float(request.dtype):
        return numbers(request) if request.distribution != "special" else numbers(replace(request, distribution="ties"))
    array = request.uniform() < 0.7
    array[..., :1] = True
    return array.astype(request.dtype)


def sparse(request: DrawRequest, share: float) -> np.ndarray:
    """Numbers of which a ``share`` is 0."""
    return np.where(request.uniform() < share, np.zeros((), request.dtype), numbers(request))


def scale(request: DrawRequest) -> np.ndarray:
    """Step sizes of a quantisation: powers of 2 between 2^-8 and 1, times up to 2; four times the range where it is wide."""
    reach = {"wide": (-20.0, 4.0), "tiny": (-20.0, -10.0), "huge": (2.0, 6.0)}.get(request.distribution, (-8.0, 1.0))
    exponents = request.uniform(*reach)
    return np.exp2(np.round(exponents) if request.distribution == "ties" else exponents).astype(request.dtype)


def log_probabilities(request: DrawRequest, axis: int) -> np.ndarray:
    """Logarithms of probabilities that add up to 1 along ``axis``."""
    plain = replace(request, dtype=np.dtype(np.float64), distribution="normal" if request.distribution != "wide" else "wide")
    scores = numbers(replace(plain, limit=50.0))
    shifted = scores - scores.max(axis=axis, keepdims=True, initial=-np.inf)
    return (shifted - np.log(np.exp(shifted).sum(axis=axis, keepdims=True))).astype(request.dtype)


def boxes(request: DrawRequest, height: float, width: float) -> np.ndarray:
    """Boxes within an image along the last axis: two corners of them, the lower numbers first."""
    corners = np.sort(request.uniform().reshape(*request.shape[:-1], 2, 2), axis=-2) * [height, width]
    return corners.reshape(request.shape).astype(request.dtype)


def _require(holds: bool, came: str, expected: str) -> None:
    if not holds:
        raise InvalidArgument(came, expected)


def numbers(request: DrawRequest) -> np.ndarray:
    """Any elements of the request's type, in its distribution."""
    dtype = request.dtype
    if dtype == STRING:
        array = np.empty(request.shape, dtype=object)
        array.reshape(-1)[:] = [_STRINGS[i] for i in request.integers(0, len(_STRINGS)).ravel()]
        return array
    if dtype == np.bool_:
        return request.uniform() < 0.5
    if is_integer(dtype):
        return np.asarray(INTEGERS[request.distribution](request)).astype(dtype)
    with np.errstate(all="ignore"):
        if np.issubdtype(dtype, np.complexfloating):
            part = DrawRequest(
                request.rng, request.shape, np.empty(0, dtype).real.dtype, request.distribution, request.limit
            )
            return (numbers(part) + 1j * numbers(part)).astype(dtype)
        return np.asarray(DISTRIBUTIONS[request.distribution](request)).astype(dtype)


DRAWS: Mapping[str, Callable[..., Any]] = {
    "attention_mask": attention_mask,
    "below": below,
    "between": between,
    "boxes": boxes,
    "distinct": distinct,
    "distinct_places": distinct_places,
    "distinct_rows": distinct_rows,
    "domain": domain,
    "indices": indices,
    "lengths": lengths,
    "log_probabilities": log_probabilities,
    "mask": mask,
    "nonzero": nonzero,
    "normal": numbers,
    "positive": positive,
    "rows": rows,
    "scale": scale,
    "scaled": scaled,
    "sparse": sparse,
}
"""Name of a draw to its function; what stands after colons in a draw (``"between:0:1"``) follows the request."""


_STRINGS = ("", "a", "B", "ab", "Ab c", "é", "aa", "a b  c")
_MOST_BESIDE_ZERO = 512


@dataclass(frozen=True, slots=True)
class DrawRequest:
    """What is to be drawn.

    Args:
        rng: The generator.
        shape: The tensor's dimensions.
        dtype: Its element type.
        distribution: One of `DISTRIBUTIONS`.
        limit: The largest magnitude; by default that whose square is just finite.
    """

    rng: np.random.Generator
    shape: tuple[int, ...]
    dtype: np.dtype
    distribution: str = "normal"
    limit: float | None = None

    def uniform(self, low: float = 0.0, high: float = 1.0) -> np.ndarray:
        """Numbers from ``low`` to ``high`` in float64."""
        return np.asarray(self.rng.uniform(low, high, self.shape))

    def integers(self, low: int, high: int) -> np.ndarray:
        """Whole numbers from ``low`` to ``high``, the latter excluded, in int64."""
        return np.asarray(self.rng.integers(low, high, self.shape))

    def choice(self, pool: Sequence[Any] | np.ndarray) -> np.ndarray:
        """Elements of a pool, in its element type."""
        return np.asarray(np.asarray(pool)[self.integers(0, len(pool))])

    def signs(self) -> np.ndarray:
        """1 and -1; 1 only for unsigned types."""
        unsigned = self.dtype.kind in "u" or str(self.dtype) in ("uint4", "uint2", "float8_e8m0fnu")
        return np.ones(self.shape) if unsigned else self.choice([1.0, -1.0])


def _normal(request: DrawRequest) -> np.ndarray:
    if request.dtype == np.float64:
        return np.asarray(request.rng.standard_normal(request.shape))
    return _representable(request, np.asarray(request.rng.standard_normal(request.shape, np.float32)))


def _representable(request: DrawRequest, array: np.ndarray) -> np.ndarray:
    """Without signs and zeros for the one format that has neither."""
    return np.abs(array) + 2.0**-20 if str(request.dtype) == "float8_e8m0fnu" else array


def _wide(request: DrawRequest) -> np.ndarray:
    high = np.log2(largest(request))
    low = np.log2(float(ml_dtypes.finfo(request.dtype).smallest_normal)) / 2
    return request.signs() * np.exp2(request.uniform(min(low, high - 1), high))


def _ties(request: DrawRequest) -> np.ndarray:
    """Multiples of one half, so that equals and halves occur; one in two is moved to the next number of the format.

    Zeros are moved in so many places only: their neighbours are subnormal, and a product of large matrices that holds many
    of these takes a hundred times as long.
    """
    exact = np.asarray(_representable(request, np.round(_normal(request) * 2) / 2)).astype(request.dtype)
    towards = (request.signs() * largest(request)).astype(request.dtype)
    moved = request.uniform() < 0.5
    zeros = np.flatnonzero(moved & (exact == 0))
    retained = zeros[:: -(-zeros.size // _MOST_BESIDE_ZERO) or 1]
    moved.reshape(-1)[np.setdiff1d(zeros, retained, assume_unique=True)] = False
    return np.where(moved, np.nextafter(exact, towards), exact)


def _tiny(request: DrawRequest) -> np.ndarray:
    info = ml_dtypes.finfo(request.dtype)
    low, high = np.log2(float(info.smallest_subnormal)), min(np.log2(float(info.smallest_normal)) + 4, 0.0)
    return request.signs() * np.exp2(request.uniform(low, high))


def _huge(request: DrawRequest) -> np.ndarray:
    return request.signs() * largest(request) * request.uniform(0.5, 1.0)


def _special(request: DrawRequest) -> np.ndarray:
    pool = np.array([0.0, -0.0, np.inf, -np.inf, np.nan])
    return np.where(request.uniform() < 0.3, request.choice(pool), _normal(request))


def largest(request: DrawRequest) -> float:
    """The largest magnitude that is asked for, within the format."""
    info = ml_dtypes.finfo(request.dtype) if is_float(request.dtype) else ml_dtypes.iinfo(request.dtype)
    top = float(info.max)
    if request.limit is not None:
        return min(request.limit, top)
    return float(np.sqrt(top)) if is_float(request.dtype) else top


DISTRIBUTIONS: Mapping[str, Callable[[DrawRequest], np.ndarray]] = {
    "huge": _huge,
    "normal": _normal,
    "special": _special,
    "ties": _ties,
    "tiny": _tiny,
    "wide": _wide,
}
"""Distribution to a function that makes floating-point numbers in it.

``normal``: standard normal. ``wide``: every order of magnitude alike, within what keeps the result finite. ``ties``:
multiples of one half, and numbers next to them. ``tiny``: about the smallest normal number, subnormal ones included.
``huge``: near the largest with which the operator's result is finite. ``special``: with zeros of both signs, infinities and
NaN.
"""


def _bounds(request: DrawRequest) -> tuple[int, int]:
    """The least and the greatest whole number that is asked for."""
    info = ml_dtypes.iinfo(request.dtype)
    low, high = int(info.min), int(info.max)
    if request.limit is None or request.limit >= high:
        return low, high
    return max(low, -int(request.limit)), int(request.limit)


def _small_integers(low: int, high: int) -> Callable[[DrawRequest], np.ndarray]:
    def small(request: DrawRequest) -> np.ndarray:
        least, greatest = _bounds(request)
        return request.integers(max(low, least), min(high, greatest) + 1)

    return small


def _wide_integers(request: DrawRequest) -> np.ndarray:
    low, high = _bounds(request)
    magnitudes = np.floor(np.exp2(request.uniform(0.0, np.log2(max(high, 1)))))
    return np.clip(request.signs() * magnitudes, max(low, -(2**53)), min(high, 2**53)).astype(np.int64)


def _huge_integers(request: DrawRequest) -> np.ndarray:
    low, high = _bounds(request)
    near = request.rng.integers(high // 2, high, request.shape, np.uint64, endpoint=True)
    below = request.rng.integers(low, low // 2, request.shape, np.int64, endpoint=True) if low else None
    return near if below is None else np.where(request.signs() > 0, near.astype(np.int64), below)


def _extreme_integers(request: DrawRequest) -> np.ndarray:
    low, high = _bounds(request)
    pool = [low, high, 0, 1, min(low + 1, 0), max(high - 1, 0)]
    return request.choice(np.array(pool, np.uint64 if low >= 0 else np.int64))


INTEGERS: Mapping[str, Callable[[DrawRequest], np.ndarray]] = {
    "huge": _huge_integers,
    "normal": _small_integers(-5, 5),
    "special": _extreme_integers,
    "ties": _small_integers(-1, 2),
    "tiny": _small_integers(-1, 1),
    "wide": _wide_integers,
}
"""The same for whole numbers; ``special`` has the ends of the type, ``ties`` few different numbers."""
