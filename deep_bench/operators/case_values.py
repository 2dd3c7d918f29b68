"""Values that a case is made of, immutable and comparable by content."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import ml_dtypes
import numpy as np

from deep_bench.errors import InvalidArgument
from deep_bench.tensor import STRING, text


class Attributes(Mapping[str, Any]):
    """An operator's attributes, in the order in which they were given: they cannot be changed, and compare by content.

    Lists become tuples, arrays become copies that cannot be written to.

    Args:
        values: Name to value.

    Example:
        >>> given = Attributes({"axes": [0, 1], "alpha": 2.0})
        >>> given["axes"], given == Attributes({"alpha": 2.0, "axes": (0, 1)})
        ((0, 1), True)
    """

    __slots__ = ("_values",)

    def __init__(self, values: Mapping[str, Any] = {}) -> None:
        self._values = {name: _frozen(value) for name, value in values.items()}

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Mapping) and content(self) == content(Attributes(other))

    def __hash__(self) -> int:
        return hash(content(self))

    def __repr__(self) -> str:
        return f"Attributes({self._values})"


def _frozen(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return frozen_array(value)
    return tuple(map(_frozen, value)) if isinstance(value, list | tuple) else value


def frozen_array(array: np.ndarray) -> np.ndarray:
    """A copy that cannot be written to; strings as ``str`` in an object array."""
    copy = np.array(text(np.asarray(array)))
    copy.flags.writeable = False
    return copy


def content(value: Any) -> Any:
    """Something hashable that is equal for equal contents, and tells ``1``, ``1.0`` and ``True`` apart."""
    if isinstance(value, np.ndarray):
        elements = tuple(value.ravel().tolist()) if value.dtype == STRING else value.tobytes()
        return ("array", str(value.dtype), value.shape, elements)
    if isinstance(value, Mapping):
        return ("mapping", tuple(sorted((name, content(v)) for name, v in value.items())))
    if isinstance(value, list | tuple):
        return ("tuple", tuple(map(content, value)))
    return (type(value).__name__, value)


def element_type(name: str | np.dtype | type) -> np.dtype:
    """A NumPy element type, those of ``ml_dtypes`` and ``"string"`` included.

    Raises:
        InvalidArgument: There is no such type.

    Example:
        >>> element_type("bfloat16"), element_type("string")
        (dtype(bfloat16), dtype('O'))
    """
    if name == "string":
        return STRING
    try:
        return np.dtype(getattr(ml_dtypes, name, name) if isinstance(name, str) else name)
    except TypeError as error:
        raise InvalidArgument(
            f"element type {name!r}", "a name such as float32, bfloat16, float8_e4m3fn, int64, bool or string"
        ) from error
