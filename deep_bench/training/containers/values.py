"""What containers agree on about arrays: element types, numbers of samples, and how samples become a batch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from deep_bench.errors import DeepBenchError, InvalidArgument, InvalidData, Unsupported
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


def checked(indices: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """The numbers of samples, as int64.

    Raises:
        InvalidArgument: No list of whole numbers from 0 to ``count`` - 1.
    """
    found = np.asarray(indices)
    if found.ndim != 1 or (len(found) and found.dtype.kind not in "iu"):
        shape = list(found.shape)
        raise InvalidArgument(f"sample numbers of shape {shape} and type {found.dtype}", "a list of integers", "write [3]")
    found = found.astype(np.int64, copy=False)
    # As unsigned numbers, negative ones are too large as well: one pass finds both.
    if len(found) and found.view(np.uint64).max() >= count:
        wrong = found[(found < 0) | (found >= count)][0]
        raise InvalidArgument(f"sample {wrong} of a set of {count}", f"numbers from 0 to {count - 1}")
    return found


def fits(spec: TensorSpec, array: np.ndarray) -> bool:
    """Whether an array is one that a spec describes."""
    sizes = zip(spec.shape, array.shape, strict=False)
    return array.dtype == spec.dtype and array.ndim == spec.rank and all(isinstance(d, str) or d == n for d, n in sizes)


def stack(
    specs: Sequence[TensorSpec], samples: Sequence[Mapping[str, Value]], indices: Sequence[int]
) -> dict[str, np.ndarray]:
    """Samples as a batch; what is no array, an image's file, in an array of objects.

    Raises:
        InvalidArgument: Two samples are of different sizes.
    """
    return {spec.name: _stacked(spec, [sample[spec.name] for sample in samples], indices) for spec in specs}


def _stacked(spec: TensorSpec, values: Sequence[Value], indices: Sequence[int]) -> np.ndarray:
    arrays = [value for value in values if isinstance(value, np.ndarray)]
    if len(arrays) < len(values):
        objects = np.empty(len(values), object)
        objects[:] = values
        return objects
    if not arrays:
        return np.empty((0, *(0 if isinstance(d, str) else d for d in spec.shape)), spec.dtype)
    for index, array in zip(indices, arrays, strict=True):
        if array.shape != arrays[0].shape:
            raise InvalidArgument(
                f"{spec.name} of sample {indices[0]} is {list(arrays[0].shape)}, of sample {index} {list(array.shape)}",
                "samples of one size in a batch",
                "put samples of one size together, or read them one by one with sample() and resize them",
            )
    return np.stack(arrays)


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
    what = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return InvalidData(f"{place} is damaged: {what}", expected, "get the data again")
