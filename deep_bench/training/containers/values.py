"""What containers agree on about arrays: element types, numbers of samples, and how samples become a batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np

from deep_bench.errors import DeepBenchError, InvalidData, Unsupported
from deep_bench.tensor import TensorSpec, is_float, is_integer

T = TypeVar("T")

LABEL = "label"
Value = np.ndarray | bytes
"""A field of a sample: its array, or an image's file as it is stored."""


def holds_numbers(dtype: np.dtype) -> bool:
    """Whether containers can hold such elements: numbers of one size on every machine, those of ``ml_dtypes`` included.

    Example:
        >>> holds_numbers(np.dtype("float16")), holds_numbers(np.dtype(object)), holds_numbers(np.dtype("longdouble"))
        (True, False, False)
    """
    if dtype.kind == "b" or is_integer(dtype):
        return True
    return dtype.itemsize <= 8 if is_float(dtype) else dtype.name in ("complex64", "complex128")


def plain(dtype: np.dtype) -> np.dtype:
    """The element type that stands for ``dtype`` in files: little-endian; unsigned integers for those of ``ml_dtypes``.

    Example:
        >>> import ml_dtypes
        >>> print(plain(np.dtype(ml_dtypes.bfloat16)), plain(np.dtype("float32")))
        uint16 float32
    """
    return np.dtype(f"<u{dtype.itemsize}") if dtype.kind == "V" else dtype.newbyteorder("<")


def fits(spec: TensorSpec, array: np.ndarray) -> bool:
    """Whether an array is one that a spec describes."""
    if array.dtype != spec.dtype:
        return False
    if array.shape == spec.shape:  # nearly always, and many times as fast
        return True
    return array.ndim == spec.rank and all(
        isinstance(d, str) or d == n for d, n in zip(spec.shape, array.shape, strict=True)
    )


def stack(values: Sequence[Value], spec: TensorSpec) -> np.ndarray:
    """One field of several samples as a batch: an array of objects, if they differ in size or are images' files."""
    arrays = [value for value in values if isinstance(value, np.ndarray)]
    if not values:
        return np.empty((0, *(0 if isinstance(d, str) else d for d in spec.shape)), spec.dtype)
    if len(arrays) == len(values) and (not spec.open_dimensions or len({array.shape for array in arrays}) == 1):
        return np.stack(arrays)
    objects = np.empty(len(values), object)
    objects[:] = values
    return objects


def refuse(kind: str, spec: TensorSpec, what: str, advice: str = "") -> Unsupported:
    """The error that says what a format cannot hold."""
    return Unsupported(
        f"{spec} cannot be kept in {kind}", what, advice or "choose another kind of container, or change the data"
    )


def parsed(place: object, parse: Callable[[], T], expected: str = "") -> T:
    """What ``parse`` makes of a file's content.

    Args:
        place: The file, and where in it.
        parse: What reads it.
        expected: What it should be.

    Raises:
        InvalidData: It failed; see `damaged`.
    """
    try:
        return parse()
    except DeepBenchError:
        raise
    except Exception as error:
        raise damaged(place, error, expected) from error


def damaged(place: object, error: Exception, expected: str = "") -> InvalidData:
    """The error that names what could not be read.

    A parser that is given damaged bytes may raise anything, whatever its documentation says: all of it means the same here.
    """
    if isinstance(error, FileNotFoundError):
        return InvalidData(f"{place}: there is no such file", expected, "check the path, or get the data again")
    if isinstance(error, OSError) and error.strerror:
        return InvalidData(f"{place} cannot be read: {error.strerror}", expected)
    cause = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return InvalidData(f"{place} is damaged: {cause}", expected, "get the data again")
