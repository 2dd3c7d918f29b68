"""How numbers and ranks depend on how many ranks there are: the forms that a pattern may have."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from math import isqrt
from typing import TypeAlias

Value: TypeAlias = Callable[[int], float]
Who: TypeAlias = Callable[[int, int, int], tuple[int, ...]]
"""Number of ranks, rank, number of the step to ranks."""

_ROUNDED = 8
"""Bytes by which a part may differ from the exact one, as parts are whole elements; but by no more than"""
_OF_IT = 0.01


@dataclass(frozen=True)
class Form:
    """A number as a function of the number of ranks.

    Args:
        name: In words, with ``p`` for the number of ranks.
        value: The function.
    """

    name: str
    value: Value

    def at(self, ranks: int) -> int:
        """The number, for so many ranks."""
        return round(self.value(ranks))


def logarithm(p: int) -> int:
    r""":math:`\lceil \log_2 p \rceil`."""
    return (p - 1).bit_length()


def fitted(points: Mapping[int, int]) -> Form | None:
    """The first form, from the simplest to the richest, that has all the points; ``None`` where none has.

    Args:
        points: Number of ranks to number.

    Example:
        >>> fitted({2: 8, 3: 16, 4: 24}).name, fitted({2: 60, 3: 40, 4: 30}).name, fitted({2: 1, 3: 5, 4: 2})
        ('8 (p - 1)', '120 / p', None)
    """
    (p, first), *_ = points.items()
    candidates = [
        Form(f"{first}", lambda _: first),
        Form(f"{first / p:g} p", lambda r: first / p * r),
        Form(f"{first / (p - 1):g} (p - 1)", lambda r: first / (p - 1) * (r - 1)),
        Form(f"{first * p:g} / p", lambda r: first * p / r),
    ]
    if logarithm(p):
        candidates.append(Form(f"{first / logarithm(p):g} ceil(log2 p)", lambda r: first / logarithm(p) * logarithm(r)))
    if len(points) > 2:  # a line goes through any two points
        (q, second) = list(points.items())[-1]
        slope = (second - first) / (q - p)
        start = first - slope * p
        candidates.append(Form(f"{start:g} + {slope:g} p", lambda r: start + slope * r))
    return next((form for form in candidates if not differing(form, points)), None)


def differing(form: Form, points: Mapping[int, int]) -> list[int]:
    """The numbers of ranks at which a form does not have the point."""
    parts = form.name.endswith("/ p")
    return [
        p
        for p, value in points.items()
        if abs(form.value(p) - value) > (min(_ROUNDED, _OF_IT * value) if parts else 1e-9 * max(value, 1))
    ]


def _offsets(p: int) -> list[int]:
    """How much further the ranks of an exponential graph are, each once, the nearest first."""
    return sorted({2**k % p for k in range(logarithm(p))} - {0})


def _torus(p: int, rank: int) -> tuple[int, ...]:
    rows = next(rows for rows in range(isqrt(p), 0, -1) if p % rows == 0)
    columns = p // rows
    row, column = divmod(rank, columns)
    beside = [row * columns + (column + by) % columns for by in (-1, 1)]
    beside += [(row + by) % rows * columns + column for by in (-1, 1)]
    return tuple(sorted(set(beside) - {rank}))


def _beside(*by: int) -> Who:
    return lambda p, r, _: tuple(sorted({(r + offset) % p for offset in by} - {r}))


def _exponential(sign: int) -> Who:
    return lambda p, r, _: tuple(sorted({(r + sign * by) % p for by in _offsets(p)} - {r}))


def _in_turn(offsets: Callable[[int], list[int]], sign: int) -> Who:
    def peers(p: int, r: int, step: int) -> tuple[int, ...]:
        shifts = offsets(p)
        return ((r + sign * shifts[step % len(shifts)]) % p,) if shifts else ()

    return peers


def _of_ring(p: int) -> list[int]:
    return sorted({1 % p, (p - 1) % p} - {0})


def _of_all(p: int) -> list[int]:
    return list(range(1, p))


PEERS: Mapping[str, Who] = {
    "none": lambda _p, _r, _t: (),
    "rank 0": lambda _p, _r, _t: (0,),
    "all others": lambda p, r, _t: tuple(other for other in range(p) if other != r),
    "the next on a ring": _beside(1),
    "the one before on a ring": _beside(-1),
    "both beside on a ring": _beside(-1, 1),
    "those 1, 2, 4 … further": _exponential(1),
    "those 1, 2, 4 … before": _exponential(-1),
    "the four beside on a torus": lambda p, r, _t: _torus(p, r),
    "one of those 1, 2, 4 … further, in turn": _in_turn(_offsets, 1),
    "one of those 1, 2, 4 … before, in turn": _in_turn(_offsets, -1),
    "one of both on a ring, in turn": _in_turn(_of_ring, 1),
    "one of both on a ring, in turn, that sends here": _in_turn(_of_ring, -1),
    "one of all, in turn": _in_turn(_of_all, 1),
    "one of all, in turn, that sends here": _in_turn(_of_all, -1),
}
"""Name to the ranks that one talks to."""


@cache
def _all(p: int) -> tuple[int, ...]:
    return tuple(range(p))


def _runs(k: int) -> Who:
    return lambda p, r, _: tuple(range(r // k * k, min(r // k * k + k, p)))


def _strides(k: int) -> Who:
    return lambda p, r, _: tuple(range(r % k, p, k))


def groups(largest: int) -> dict[str, Who]:
    """Name to the ranks that call something together, for groups of up to so many ranks that follow each other."""
    by_name: dict[str, Who] = {"all ranks": lambda p, _r, _t: _all(p)}
    for k in range(2, largest + 1):
        by_name[f"runs of {k} ranks"] = _runs(k)
        by_name[f"every rank number {k}"] = _strides(k)
    return by_name


def roles(largest: int) -> dict[str, Callable[[int], int]]:
    """Name to the role of a rank, 0 or 1."""
    by_name: dict[str, Callable[[int], int]] = {"all ranks alike": lambda _: 0}
    by_name["rank 0, and the others"] = lambda r: int(r > 0)
    for k in range(2, largest + 1):
        by_name[f"every rank number {k}, and the others"] = _every(k)
    return by_name


def _every(k: int) -> Callable[[int], int]:
    return lambda r: int(r % k > 0)
