"""One input of a case: a constant, or a tensor that is drawn anew for each seed; and values that cases are made of.

These are immutable and comparable by content.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import ml_dtypes
import numpy as np

from deep_bench.errors import InvalidArgument
from deep_bench.tensor import STRING, TensorSpec, text

Draw = str | Callable[[np.random.Generator, TensorSpec], np.ndarray]
"""A name from `deep_bench.operators.draws.DRAWS`, with numbers after colons where it takes some (``"below:50257"``), or a
function of a generator and the description of the tensor."""


@dataclass(frozen=True, eq=False)
class Argument:
    """An input of an operator.

    Args:
        spec: Its name, shape and element type; all dimensions fixed. A case gives it the name that its operator has for it.
        value: Its value, if it is a constant: an initializer of the network, such as the shape of a Reshape.
        draw: How it is drawn otherwise.

    Raises:
        InvalidArgument: An open dimension, a sequence, or a value of another shape or element type than ``spec`` says.

    Example:
        >>> Argument(TensorSpec("indices", (4,), np.dtype("int64")), draw="below:100").is_constant
        False
        >>> print(Argument.constant(np.array([2, 3])))
        int64[2] = [2 3]
    """

    spec: TensorSpec
    value: np.ndarray | None = None
    draw: Draw = "normal"

    def __post_init__(self) -> None:
        if not self.spec.is_tensor or self.spec.open_dimensions:
            raise InvalidArgument(f"an argument {self.spec}", "a tensor whose dimensions are all numbers")
        if self.value is None:
            return
        value = frozen_array(self.value)
        if value.shape != self.spec.shape or value.dtype != self.spec.dtype:
            raise InvalidArgument(f"a value of {value.dtype}{list(value.shape)} for {self.spec}", "one that it describes")
        object.__setattr__(self, "value", value)

    @classmethod
    def constant(cls, value: Any, name: str = "") -> Argument:
        """An argument with a fixed value.

        Args:
            value: Anything that NumPy makes an array of.
            name: The argument's name.
        """
        array = frozen_array(np.asarray(value))
        return cls(TensorSpec(name, array.shape, array.dtype), array)

    @property
    def is_constant(self) -> bool:
        """Whether its value is fixed."""
        return self.value is not None

    @property
    def shape(self) -> tuple[int, ...]:
        """Its dimensions."""
        return tuple(int(d) for d in self.spec.shape)

    @property
    def dtype(self) -> np.dtype:
        """Its element type."""
        return self.spec.dtype

    def named(self, name: str) -> Argument:
        """The same under another name."""
        return self if name == self.spec.name else replace(self, spec=replace(self.spec, name=name))

    @property
    def content(self) -> tuple[Any, ...]:
        """Something hashable that is equal for arguments of the same contents, whatever their names."""
        return (self.shape, str(self.dtype), None if self.value is None else content(self.value), self.draw)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Argument) and (self.spec, self.content) == (other.spec, other.content)

    def __hash__(self) -> int:
        return hash((self.spec.name, self.content))

    def __str__(self) -> str:
        name = f"{self.spec.name}: " if self.spec.name else ""
        kind = f"{'string' if self.dtype == object else self.dtype}{list(self.shape)}"
        if self.value is None:
            return f"{name}{kind}"
        shown = np.array2string(self.value, threshold=8, edgeitems=2, separator=" ")
        return f"{name}{kind} = {shown}"


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
