"""Reductions that need every bit of their element type, and what they do at its ends.

Each is done in all of the ways in which a communicator offers one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import ml_dtypes
import numpy as np

from deep_bench.distributed.communicators.communicator import Communicator, Reduction
from deep_bench.testing.communicator_checks.values import DTYPES, same_bits, same_numbers


@dataclass(frozen=True)
class ReductionResult:
    """What came of an operation, beside what had to.

    Args:
        what: The operation.
        found: On this rank.
        expected: On this rank.
    """

    what: str
    found: np.ndarray
    expected: np.ndarray


def every_way(
    comm: Communicator, ranks: Sequence[np.ndarray], expected: np.ndarray, op: Reduction = "sum"
) -> list[ReductionResult]:
    """One array of each rank, reduced by every operation that reduces.

    Args:
        comm: The ranks.
        ranks: Of each rank, flat.
        expected: What comes of them.
        op: The reduction.
    """
    x, n = ranks[comm.rank], expected.size
    rows = np.stack([np.roll(x, rank) for rank in range(comm.size)])  # each rank gets another row
    row = np.roll(expected, comm.rank)
    root = n % comm.size
    begun, out = np.zeros(n, x.dtype), np.zeros(n, x.dtype)
    comm.iallreduce(x, begun, op).wait()
    comm.reduce_scatter(rows, op=op, out=out)
    results = [
        ReductionResult("allreduce", comm.allreduce(x, op), expected),
        ReductionResult("iallreduce", begun, expected),
        ReductionResult("reduce_scatter", out, row),
        ReductionResult("reduce_scatter with equal counts", comm.reduce_scatter(rows.reshape(-1), [n] * comm.size, op), row),
    ]
    rooted = comm.reduce(x, op, root)
    if comm.rank == root and rooted is not None:
        results.append(ReductionResult("reduce", rooted, expected))
    return results


_N = 12
_REAL = tuple(dtype for dtype in DTYPES if dtype.kind not in "bc")
_FLOATS = tuple(dtype for dtype in _REAL if dtype.kind not in "iu")


def sums_every_bit(comm: Communicator) -> None:
    """Sums whose exact value takes all bits of the type, and is reached in whatever order; in every kind of reduction."""
    outcomes = [(_parts(comm, dtype), dtype) for dtype in DTYPES if dtype != np.bool_]
    for results, dtype in outcomes:
        for result in results:
            same_bits(result.found, result.expected, f"{result.what}, a sum of {dtype} that takes all of its bits")


def picks_and_multiplies_every_bit(comm: Communicator) -> None:
    """Smallest, largest and product of numbers that differ in their last bit."""
    outcomes = []
    for dtype in _REAL:
        near, largest = _near(dtype)
        i = np.arange(_N)
        picked = [near[(i + rank) % len(near)] for rank in range(comm.size)]
        ones = np.ones(_N, dtype)
        factors = [np.where(i % comm.size == rank, largest, ones).astype(dtype) for rank in range(comm.size)]
        outcomes += [
            ("min", dtype, every_way(comm, picked, np.min(picked, axis=0).astype(dtype), "min")),
            ("max", dtype, every_way(comm, picked, np.max(picked, axis=0).astype(dtype), "max")),
            ("prod", dtype, every_way(comm, factors, np.full(_N, largest, dtype), "prod")),
        ]
    for op, dtype, results in outcomes:
        for result in results:
            same_bits(result.found, result.expected, f"{result.what}, {op} of {dtype}")


def rounds_to_nearest(comm: Communicator) -> None:
    """Two ranks' numbers whose sum lies between two numbers of the type; the other ranks have zeros.

    Source: IEEE 754-2019, section 4.3.1 (to nearest, ties to even).
    """
    outcomes = []
    for dtype in _FLOATS:
        eps = float(ml_dtypes.finfo(dtype).eps)
        pairs = [(1, 0.75 * eps), (1, 0.25 * eps), (1, 0.5 * eps), (1 + eps, 0.5 * eps), (1 + eps, 0.75 * eps)]
        rounded = [1 + eps, 1, 1, 1 + 2 * eps, 1 + 2 * eps]
        both_signs = np.array([*pairs, *(-np.array(pairs))])
        expected = np.array([*rounded, *(-np.array(rounded))]).astype(dtype)
        ranks = [np.zeros(len(expected), dtype) for _ in range(comm.size)]
        for number, (large, small) in enumerate(both_signs.astype(dtype)):
            ranks[number % comm.size][number] += large
            ranks[(number + 1) % comm.size][number] += small
        outcomes.append((every_way(comm, ranks, expected), dtype))
    for results, dtype in outcomes:
        for result in results:
            same_bits(result.found, result.expected, f"{result.what}, a sum of {dtype} that is rounded")


def keeps_what_is_not_finite(comm: Communicator) -> None:
    """Sums with infinities, NaNs, numbers that are too large together, and with the smallest there are."""
    outcomes = []
    for dtype in _FLOATS:
        facts = ml_dtypes.finfo(dtype)
        least, most, infinite, nan = float(facts.smallest_subnormal), float(facts.max), float("inf"), float("nan")
        alone = [nan, infinite, -infinite, least, -least, 3 * least, 0.0]
        pairs = [*((x, 0.0) for x in alone), (nan, 1), (infinite, -infinite), (infinite, 1), (least, least), (most, 1e-30)]
        pairs += [(1, nan), (-infinite, -infinite), (4 * least, -least), (float(facts.tiny), -least), (most, most)]
        summands = np.array(pairs).astype(dtype)
        ranks = [np.zeros(len(pairs), dtype) for _ in range(comm.size)]
        with np.errstate(all="ignore"):
            for number, (first, second) in enumerate(summands):
                ranks[number % comm.size][number] += first
                ranks[(number + 1) % comm.size][number] += second
            expected = summands[:, 0] + summands[:, 1]
            outcomes.append((every_way(comm, ranks, expected), dtype))
    for results, dtype in outcomes:
        for result in results:
            same_numbers(result.found, result.expected, f"{result.what}, sum of {dtype}")


def agrees_bit_by_bit(comm: Communicator) -> None:
    """All ranks get the same bits of a sum that is rounded, however it is rounded."""
    outcomes = []
    for dtype in _FLOATS:
        for n in (3, 5000):
            drawn = np.random.default_rng([comm.rank, n])
            x = (drawn.standard_normal(n) * 2.0 ** drawn.integers(-6, 6, n)).astype(dtype)
            total, begun = comm.allreduce(x), np.zeros(n, dtype)
            comm.iallreduce(x, begun).wait()
            outcomes.append((dtype, [comm.allgather(total), comm.allgather(begun)], [total, begun]))
    for dtype, gathered, local_results in outcomes:
        for operation, rows, mine in zip(("allreduce", "iallreduce"), gathered, local_results, strict=True):
            for rank, row in enumerate(rows):
                same_bits(row, mine, f"{operation} of {dtype}, on rank {rank} beside rank {comm.rank}")


def _parts(comm: Communicator, dtype: np.dtype) -> list[ReductionResult]:
    """Numbers of each rank, any of whose partial sums is a number of the type, and the sum, with all of its bits."""
    if dtype.kind == "c":
        part = np.dtype(f"float{dtype.itemsize * 4}")
        real, turned = _split(comm.size, part), [-x[::-1] for x in _split(comm.size, part)]
        ranks = [(x + 1j * y).astype(dtype) for x, y in zip(real, turned, strict=True)]
        whole = _wholes(part)
        return every_way(comm, ranks, (whole - 1j * whole[::-1]).astype(dtype))
    return every_way(comm, _split(comm.size, dtype), _wholes(dtype))


def _wholes(dtype: np.dtype) -> np.ndarray:
    """The largest whole numbers of which the type has all, some of them negative."""
    bits = np.iinfo(dtype).bits - (dtype.kind == "i") if dtype.kind in "iu" else ml_dtypes.finfo(dtype).nmant + 1
    signs = (1,) if dtype.kind == "u" else (1, -1)
    return _whole([signs[i % len(signs)] * (2**bits - 1 - i) for i in range(_N)], dtype)


def _split(size: int, dtype: np.dtype) -> list[np.ndarray]:
    """Each of `_wholes` as a sum of whole numbers of its sign, one for each rank."""
    wholes = [int(x) for x in _wholes(dtype)]
    rows = []
    for rank in range(size):
        shares = [abs(x) // size + (abs(x) % size if (i + rank) % size == 0 else 0) for i, x in enumerate(wholes)]
        rows.append(_whole([-n if x < 0 else n for n, x in zip(shares, wholes, strict=True)], dtype))
    return rows


def _whole(numbers: Sequence[int], dtype: np.dtype) -> np.ndarray:
    return np.array(numbers, dtype if dtype.kind in "iu" else np.float64).astype(dtype)


def _near(dtype: np.dtype) -> tuple[np.ndarray, np.ndarray]:
    """Numbers that a shorter type takes for the same; and one that fills the type, for products."""
    if dtype.kind in "iu":
        top, low = np.iinfo(dtype).max, np.iinfo(dtype).min
        return np.array([top, top - 1, low + 1, low, top // 3], dtype), np.array(top // 3, dtype)
    eps = float(ml_dtypes.finfo(dtype).eps)
    return np.array([1 + eps, 1, -1 - eps, -1, 1 + 2 * eps]).astype(dtype), np.array(2 - eps).astype(dtype)
