"""Arrays of which everyone knows what comes of them, and how results are compared with that."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import reduce
from typing import Any, get_args

import ml_dtypes
import numpy as np

from deep_bench.distributed.communicators.communicator import Communicator, Reduction
from deep_bench.errors import DeepBenchError

DTYPES = tuple(
    np.dtype(kind)
    for kind in (
        *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
        *("float16", ml_dtypes.bfloat16, "float32", "float64", "complex64", "complex128"),
    )
)
REDUCTIONS: tuple[Reduction, ...] = get_args(Reduction)
_FUNCTIONS = {"sum": np.add, "prod": np.multiply, "min": np.minimum, "max": np.maximum}


def values(rank: int, shape: int | tuple[int, ...], dtype: Any = np.float32, salt: int = 0) -> np.ndarray:
    """Ones and twos, different on each rank: their sums and products are exact in every type, in whatever order."""
    i = np.arange(int(np.prod(shape)))
    number = (i * (2 * rank + 3) + rank * rank + salt * (i + 1)) % 7 % 2 + 1
    if np.dtype(dtype) == np.bool_:
        return (number > 1).reshape(shape)
    if np.dtype(dtype).kind == "c":
        return (number + 1j * np.roll(number, 1)).astype(dtype).reshape(shape)
    return number.astype(dtype).reshape(shape)


def extremes(dtype: Any) -> np.ndarray:
    """The numbers of a type that a detour through another one loses: the largest and smallest, odd ones, signs, NaNs."""
    dtype = np.dtype(dtype)
    if dtype == np.bool_:
        return np.array([True, False])
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        return np.array([info.min, info.min + 1, info.max, info.max - 1, info.max // 3, 1, 0], dtype)
    if dtype.kind == "c":
        parts = extremes(np.float32 if dtype == np.complex64 else np.float64)
        return np.stack([parts, parts[::-1]], axis=1).reshape(-1).view(dtype)
    bits = ml_dtypes.finfo(dtype)
    # two that hold something: hardware may quieten other ones
    whole = np.dtype(f"uint{8 * dtype.itemsize}")
    ones = (1 << (8 * dtype.itemsize - 1)) - (1 << (bits.nmant - 1))
    nans = np.array([ones | 1, ones | 3 | 1 << (8 * dtype.itemsize - 1)], whole).view(dtype)
    some = [
        bits.max,
        bits.min,
        bits.tiny,
        -bits.tiny,
        bits.smallest_subnormal,
        1 + bits.eps,
        1 / 3,
        -0.0,
        0,
        np.inf,
        -np.inf,
    ]
    return np.concatenate([np.array(some).astype(dtype), nans])


def same_numbers(found: np.ndarray, expected: np.ndarray, what: str) -> None:
    """Fail unless two arrays have the same bits, but for those of NaNs."""
    none = np.isnan(expected)
    _check_form(found, expected, what)
    assert np.isnan(found[none]).all(), f"{what}: {found[none]!r} instead of NaNs"
    same_bits(found[~none], expected[~none], what)


def same_bits(found: np.ndarray, expected: np.ndarray, what: str) -> None:
    """Fail unless two arrays have the same bits."""
    _check_form(found, expected, what)
    rows = [np.ascontiguousarray(x).reshape(-1).view(np.uint8) for x in (found, expected)]
    if np.array_equal(rows[0], rows[1]):
        return
    off = np.any(np.not_equal(*(row.reshape(expected.size, -1) for row in rows)), axis=1)
    first = int(np.flatnonzero(off)[0])
    came, expected_value = (x.reshape(-1)[first] for x in (found, expected))
    raise AssertionError(f"{what}: element {first} is {came!r} instead of {expected_value!r}, or has other bits")


def reduced(comm: Communicator, shape: int | tuple[int, ...], dtype: Any = np.float32, op: str = "sum") -> np.ndarray:
    """What a reduction of all ranks' `values` gives."""
    return reduce(_FUNCTIONS[op], [values(rank, shape, dtype) for rank in range(comm.size)]).astype(dtype)


def check_same(found: np.ndarray | None, expected: np.ndarray, what: str) -> None:
    """Fail unless two arrays have the same type, shape and contents."""
    _check_form(found, expected, what)
    np.testing.assert_array_equal(found, expected, what)


def _check_form(array: Any, expected: np.ndarray, label: str) -> None:
    assert isinstance(array, np.ndarray), f"{label}: {type(array).__name__} instead of an array"
    assert array.dtype == expected.dtype, f"{label}: {array.dtype} instead of {expected.dtype}"
    assert array.shape == expected.shape, f"{label}: shape {array.shape} instead of {expected.shape}"


@contextmanager
def later(faults: list[AssertionError]) -> Iterator[None]:
    """Keep a fault that is found amid messages until all are through."""
    try:
        yield
    except AssertionError as fault:
        faults.append(fault)


def spread(x: np.ndarray) -> np.ndarray:
    """The same contents, each second element of a longer array."""
    wide = np.zeros((*x.shape[:-1], x.shape[-1] * 2), x.dtype)
    wide[..., ::2] = x
    return wide[..., ::2]


def refused(call: Callable[[], Any], what: str) -> None:
    """Fail unless a call is refused by one of deep_bench's errors."""
    try:
        call()
    except DeepBenchError:
        return
    raise AssertionError(f"{what} is not refused")


@contextmanager
def cut(comm: Communicator, largest: int) -> Iterator[None]:
    """Let so few elements into a message, which stands for arrays that are too long for one."""
    before = comm.largest
    comm.largest = largest
    try:
        yield
    finally:
        comm.largest = before


def neighbours(comm: Communicator) -> tuple[int, int]:
    """The next rank and the one before, in a ring."""
    return (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
