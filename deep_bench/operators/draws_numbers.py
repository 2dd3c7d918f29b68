"""Numbers of any size, in six distributions that excite different faults."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from deep_bench.tensor import STRING, is_float, is_integer

_STRINGS = ("", "a", "B", "ab", "Ab c", "é", "aa", "a b  c")
_MOST_BESIDE_ZERO = 512


@dataclass(frozen=True, slots=True)
class Request:
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


def numbers(request: Request) -> np.ndarray:
    """Any elements of the request's type, in its distribution."""
    dtype = request.dtype
    if dtype == STRING:
        return _strings(request)
    if dtype == np.bool_:
        return request.uniform() < 0.5
    if is_integer(dtype):
        return np.asarray(INTEGERS[request.distribution](request)).astype(dtype)
    with np.errstate(all="ignore"):
        if np.issubdtype(dtype, np.complexfloating):
            part = Request(request.rng, request.shape, np.empty(0, dtype).real.dtype, request.distribution, request.limit)
            return (numbers(part) + 1j * numbers(part)).astype(dtype)
        return np.asarray(DISTRIBUTIONS[request.distribution](request)).astype(dtype)


def _strings(request: Request) -> np.ndarray:
    array = np.empty(request.shape, dtype=object)
    array.reshape(-1)[:] = [_STRINGS[i] for i in request.integers(0, len(_STRINGS)).ravel()]
    return array


def _normal(request: Request) -> np.ndarray:
    if request.dtype == np.float64:
        return np.asarray(request.rng.standard_normal(request.shape))
    return _representable(request, np.asarray(request.rng.standard_normal(request.shape, np.float32)))


def _representable(request: Request, array: np.ndarray) -> np.ndarray:
    """Without signs and zeros for the one format that has neither."""
    return np.abs(array) + 2.0**-20 if str(request.dtype) == "float8_e8m0fnu" else array


def _wide(request: Request) -> np.ndarray:
    high = np.log2(largest(request))
    low = np.log2(float(ml_dtypes.finfo(request.dtype).smallest_normal)) / 2
    return request.signs() * np.exp2(request.uniform(min(low, high - 1), high))


def _ties(request: Request) -> np.ndarray:
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


def _tiny(request: Request) -> np.ndarray:
    info = ml_dtypes.finfo(request.dtype)
    low, high = np.log2(float(info.smallest_subnormal)), min(np.log2(float(info.smallest_normal)) + 4, 0.0)
    return request.signs() * np.exp2(request.uniform(low, high))


def _huge(request: Request) -> np.ndarray:
    return request.signs() * largest(request) * request.uniform(0.5, 1.0)


def _special(request: Request) -> np.ndarray:
    pool = np.array([0.0, -0.0, np.inf, -np.inf, np.nan])
    return np.where(request.uniform() < 0.3, request.choice(pool), _normal(request))


def largest(request: Request) -> float:
    """The largest magnitude that is asked for, within the format."""
    info = ml_dtypes.finfo(request.dtype) if is_float(request.dtype) else ml_dtypes.iinfo(request.dtype)
    top = float(info.max)
    if request.limit is not None:
        return min(request.limit, top)
    return float(np.sqrt(top)) if is_float(request.dtype) else top


DISTRIBUTIONS: Mapping[str, Callable[[Request], np.ndarray]] = {
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


def _bounds(request: Request) -> tuple[int, int]:
    """The least and the greatest whole number that is asked for."""
    info = ml_dtypes.iinfo(request.dtype)
    low, high = int(info.min), int(info.max)
    if request.limit is None or request.limit >= high:
        return low, high
    return max(low, -int(request.limit)), int(request.limit)


def _small_integers(low: int, high: int) -> Callable[[Request], np.ndarray]:
    def small(request: Request) -> np.ndarray:
        least, greatest = _bounds(request)
        return request.integers(max(low, least), min(high, greatest) + 1)

    return small


def _wide_integers(request: Request) -> np.ndarray:
    low, high = _bounds(request)
    magnitudes = np.floor(np.exp2(request.uniform(0.0, np.log2(max(high, 1)))))
    return np.clip(request.signs() * magnitudes, max(low, -(2**53)), min(high, 2**53)).astype(np.int64)


def _huge_integers(request: Request) -> np.ndarray:
    low, high = _bounds(request)
    near = request.rng.integers(high // 2, high, request.shape, np.uint64, endpoint=True)
    below = request.rng.integers(low, low // 2, request.shape, np.int64, endpoint=True) if low else None
    return near if below is None else np.where(request.signs() > 0, near.astype(np.int64), below)


def _extreme_integers(request: Request) -> np.ndarray:
    low, high = _bounds(request)
    pool = [low, high, 0, 1, min(low + 1, 0), max(high - 1, 0)]
    return request.choice(np.array(pool, np.uint64 if low >= 0 else np.int64))


INTEGERS: Mapping[str, Callable[[Request], np.ndarray]] = {
    "huge": _huge_integers,
    "normal": _small_integers(-5, 5),
    "special": _extreme_integers,
    "ties": _small_integers(-1, 2),
    "tiny": _small_integers(-1, 1),
    "wide": _wide_integers,
}
"""The same for whole numbers; ``special`` has the ends of the type, ``ties`` few different numbers."""
