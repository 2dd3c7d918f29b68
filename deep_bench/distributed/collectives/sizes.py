"""The sizes of messages that a user asks for."""

from __future__ import annotations

import re
from itertools import takewhile

import numpy as np

from deep_bench.errors import InvalidArgument

DEEPBENCH = "deepbench/allreduce"

_UNITS = {"": 1, "k": 2**10, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30}
_FORMS = f"8:4Mi (powers of two from … to), 8,1Ki,3000 (a list), or {DEEPBENCH}"


def sizes_of(text: str, dtype: np.dtype) -> tuple[int, ...]:
    """Numbers of bytes, ascending.

    Args:
        text: ``8:4Mi`` for the powers of two between, ends included; a list; or ``deepbench/allreduce``, whose numbers are
            of elements.
        dtype: Of the elements, of which each size is a whole number.

    Raises:
        InvalidArgument: It says something else, or a size is no whole number of elements.

    Example:
        >>> sizes_of("8:64", np.dtype("float32")), sizes_of("12,1Ki", np.dtype("float32"))
        ((8, 16, 32, 64), (12, 1024))
        >>> sizes_of("deepbench/allreduce", np.dtype("float32"))[:2]
        (400000, 12390400)

    Source:
        Baidu DeepBench, ``code/kernels/all_reduce_problems.h`` (Apache 2.0).
    """
    byte_counts = sorted(set(_bytes(text.strip(), dtype)))
    odd = [size for size in byte_counts if size % dtype.itemsize]
    if odd:
        raise InvalidArgument(
            f"{odd[0]} bytes of {dtype}", f"multiples of {dtype.itemsize}", "begin higher, or name another element type"
        )
    return tuple(byte_counts)


def _bytes(text: str, dtype: np.dtype) -> list[int]:
    if text == DEEPBENCH:
        from deep_bench.operators.suites.deepbench import all_reduce_sizes

        return [elements * dtype.itemsize for elements in all_reduce_sizes()]
    if ":" not in text:
        return [_number(part, text) for part in text.split(",")]
    low, high = (_number(part, text) for part in text.split(":", 1))
    powers = takewhile(lambda size: size <= high, (2**i for i in range(64)))
    between = [size for size in powers if size >= low]
    if not between:
        raise InvalidArgument(f"sizes {text!r}: there is no power of two between", _FORMS)
    return between


def _number(text: str, whole: str) -> int:
    match = re.fullmatch(r"\s*(\d+)\s*(k|Ki|Mi|Gi)?B?\s*", text)
    number = int(match[1]) * _UNITS[match[2] or ""] if match else 0
    if not 0 < number <= 2**40:
        raise InvalidArgument(f"sizes {whole!r}", _FORMS)
    return number
