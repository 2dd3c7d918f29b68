"""Numbers that mean something to an operator: indices, lengths, scales, probabilities, masks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np

from deep_bench.errors import InvalidArgument
from deep_bench.operators.draws_numbers import Request, largest, numbers
from deep_bench.tensor import is_float


def _fractions(request: Request) -> np.ndarray:
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


def between(request: Request, low: float, high: float) -> np.ndarray:
    """Numbers from ``low`` to ``high``, both included."""
    if request.distribution == "tiny" and low <= 0 <= high and is_float(request.dtype):
        return np.clip(numbers(request).astype(np.float64), low, high).astype(request.dtype)
    array = low + (high - low) * _fractions(request)
    if not is_float(request.dtype):
        array = np.round(array)
    cast = array.astype(request.dtype)
    inside = (cast.astype(np.float64) >= low) & (cast.astype(np.float64) <= high)  # a narrow format may round past an end
    return np.where(inside, cast, np.asarray((low + high) / 2).astype(request.dtype))


def positive(request: Request) -> np.ndarray:
    """Numbers above 0; infinity among the special ones."""
    array = np.abs(numbers(request)) if request.dtype.kind != "b" else numbers(request)
    least = ml_dtypes.finfo(request.dtype).smallest_normal if is_float(request.dtype) else 1
    with np.errstate(invalid="ignore"):
        return np.where(array > 0, array, np.asarray(least).astype(request.dtype))


def domain(request: Request, low: float, high: float) -> np.ndarray:
    """Numbers from ``low`` to ``high`` (which may be ``inf``), where a function is real; any among the special ones."""
    if request.distribution == "special":
        return numbers(request)
    if np.isfinite(high):
        return between(request, low, high)
    array = numbers(request).astype(np.float64)
    return (low + np.abs(array)).clip(max=largest(request)).astype(request.dtype)


def nonzero(request: Request) -> np.ndarray:
    """Any number but 0; no NaN."""
    array = numbers(request)
    with np.errstate(invalid="ignore"):
        return np.where((array == 0) | (array != array), np.ones((), request.dtype), array)


def below(request: Request, end: int) -> np.ndarray:
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


def indices(request: Request, end: int) -> np.ndarray:
    """Indices of an axis of ``end`` elements; except in the normal distribution one in two counts from the end."""
    array = below(request, end)
    if request.distribution == "normal":
        return array
    return np.where(request.uniform() < 0.5, array - np.asarray(end, array.dtype), array).astype(request.dtype)


def lengths(request: Request, longest: int) -> np.ndarray:
    """Lengths of sequences, from 1 to ``longest``."""
    return (below(replace(request, dtype=np.dtype(np.int64)), longest) + 1).astype(request.dtype)


def distinct(request: Request, end: int, axis: int) -> np.ndarray:
    """Indices below ``end``, none of them twice along ``axis``."""
    size = request.shape[axis]
    _require(size <= end, f"{size} different indices below {end}", "no more of them than there are elements")
    wide = tuple(end if i == axis % len(request.shape) else d for i, d in enumerate(request.shape))
    order = np.argsort(request.rng.random(wide), axis=axis, kind="stable")
    return np.take(order, np.arange(size), axis=axis).astype(request.dtype)


def distinct_rows(request: Request, *sizes: int) -> np.ndarray:
    """Positions in a tensor of these dimensions, along the last axis; none of them twice."""
    count, places = int(np.prod(request.shape[:-1])), int(np.prod(sizes))
    _require(count <= places, f"{count} different positions in {list(sizes)}", "no more than there are")
    flat = request.rng.choice(places, count, replace=False)
    return np.stack(np.unravel_index(flat, sizes), axis=-1).reshape(request.shape).astype(request.dtype)


def rows(request: Request, *sizes: int) -> np.ndarray:
    """Positions in a tensor of these dimensions, along the last axis; the same one may occur again."""
    column = replace(request, shape=request.shape[:-1])
    return np.stack([indices(column, size) for size in sizes], axis=-1).astype(request.dtype)


def distinct_places(request: Request, end: int) -> np.ndarray:
    """Numbers below ``end``, none of them twice in the whole tensor."""
    count = int(np.prod(request.shape))
    _require(count <= end, f"{count} different numbers below {end}", "no more than there are")
    return request.rng.choice(end, count, replace=False).reshape(request.shape).astype(request.dtype)


def scaled(request: Request, terms: int) -> np.ndarray:
    """Numbers divided by the root of ``terms``, so that their sums with others do not grow with the number of terms."""
    array = numbers(request)
    if request.distribution not in ("normal", "ties", "special"):
        return array
    return (array.astype(np.float64) / np.sqrt(max(terms, 1))).astype(request.dtype)


def mask(request: Request, share: float = 0.5) -> np.ndarray:
    """Ones with the probability ``share``, zeros elsewhere."""
    return (request.uniform() < share).astype(request.dtype)


def attention_mask(request: Request) -> np.ndarray:
    """What a query may look at: truth values, the first of every row true; finite numbers where they are added."""
    if is_float(request.dtype):
        return numbers(request) if request.distribution != "special" else numbers(replace(request, distribution="ties"))
    array = request.uniform() < 0.7
    array[..., :1] = True
    return array.astype(request.dtype)


def sparse(request: Request, share: float) -> np.ndarray:
    """Numbers of which a ``share`` is 0."""
    return np.where(request.uniform() < share, np.zeros((), request.dtype), numbers(request))


def scale(request: Request) -> np.ndarray:
    """Step sizes of a quantisation: powers of 2 between 2^-8 and 1, times up to 2; four times the range where it is wide."""
    reach = {"wide": (-20.0, 4.0), "tiny": (-20.0, -10.0), "huge": (2.0, 6.0)}.get(request.distribution, (-8.0, 1.0))
    exponents = request.uniform(*reach)
    return np.exp2(np.round(exponents) if request.distribution == "ties" else exponents).astype(request.dtype)


def log_probabilities(request: Request, axis: int) -> np.ndarray:
    """Logarithms of probabilities that add up to 1 along ``axis``."""
    plain = replace(request, dtype=np.dtype(np.float64), distribution="normal" if request.distribution != "wide" else "wide")
    scores = numbers(replace(plain, limit=50.0))
    shifted = scores - scores.max(axis=axis, keepdims=True, initial=-np.inf)
    return (shifted - np.log(np.exp(shifted).sum(axis=axis, keepdims=True))).astype(request.dtype)


def boxes(request: Request, height: float, width: float) -> np.ndarray:
    """Boxes within an image along the last axis: two corners of them, the lower numbers first."""
    corners = np.sort(request.uniform().reshape(*request.shape[:-1], 2, 2), axis=-2) * [height, width]
    return corners.reshape(request.shape).astype(request.dtype)


def _require(holds: bool, came: str, expected: str) -> None:
    if not holds:
        raise InvalidArgument(came, expected)


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
