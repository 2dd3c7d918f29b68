"""One input of a case: a constant, or a tensor that is drawn anew for each seed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from deep_bench.errors import InvalidArgument
from deep_bench.operators.case_values import content, frozen_array
from deep_bench.tensor import TensorSpec

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
