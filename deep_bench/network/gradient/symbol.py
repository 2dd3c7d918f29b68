"""``Symbol``: a value of a graph that is being written, with the arithmetic of an array."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import onnx_ir as ir

if TYPE_CHECKING:
    from deep_bench.network.gradient.tape import Tape

Operand: TypeAlias = "Symbol | float | Sequence[int] | np.ndarray"


class Symbol:
    """A value on a tape. Arithmetic on it writes ONNX nodes.

    A Python number takes the element type of the symbol beside it.

    Args:
        tape: Where nodes are written.
        value: The value that it stands for.
    """

    __slots__ = ("tape", "value")

    def __init__(self, tape: Tape, value: ir.Value) -> None:
        self.tape, self.value = tape, value

    # What is known of it

    @property
    def dtype(self) -> np.dtype:
        """The element type.

        Raises:
            Unsupported: It is unknown.
        """
        return self.tape.dtype_of(self.value)

    @property
    def rank(self) -> int:
        """The number of dimensions.

        Raises:
            Unsupported: It is unknown.
        """
        return len(self.dims)

    @property
    def dims(self) -> tuple[int | str | None, ...]:
        """The dimensions: a name, or ``None``, for one that only a run tells.

        Raises:
            Unsupported: Not even their number is known.
        """
        return self.tape.dims_of(self.value)

    @property
    def static_shape(self) -> tuple[int, ...] | None:
        """The shape, if all of it is known."""
        dims = self.tape.known_dims(self.value)
        return dims if dims is not None and all(isinstance(d, int) for d in dims) else None  # type: ignore[return-value]

    @property
    def shape(self) -> Symbol:
        """The shape as an int64 tensor: a constant where it is known."""
        dims = self.static_shape
        return self.tape.constant(dims, np.int64) if dims is not None else self.tape.Shape(self)

    @property
    def known(self) -> np.ndarray | None:
        """The contents, if they are known before any run."""
        return self.tape.contents(self.value)

    # Arithmetic

    def __add__(self, other: Operand) -> Symbol:
        return self.tape.Add(self, other)

    def __radd__(self, other: Operand) -> Symbol:
        return self.tape.Add(self._like(other), self)

    def __sub__(self, other: Operand) -> Symbol:
        return self.tape.Sub(self, other)

    def __rsub__(self, other: Operand) -> Symbol:
        return self.tape.Sub(self._like(other), self)

    def __mul__(self, other: Operand) -> Symbol:
        return self.tape.Mul(self, other)

    def __rmul__(self, other: Operand) -> Symbol:
        return self.tape.Mul(self._like(other), self)

    def __truediv__(self, other: Operand) -> Symbol:
        return self.tape.Div(self, other)

    def __rtruediv__(self, other: Operand) -> Symbol:
        return self.tape.Div(self._like(other), self)

    def __pow__(self, other: Operand) -> Symbol:
        return self.tape.Pow(self, other)

    def __matmul__(self, other: Symbol) -> Symbol:
        return self.tape.MatMul(self, other)

    def __neg__(self) -> Symbol:
        return self.tape.Neg(self)

    def __invert__(self) -> Symbol:
        return self.tape.Not(self)

    def __and__(self, other: Symbol) -> Symbol:
        return self.tape.And(self, other)

    def __or__(self, other: Symbol) -> Symbol:
        return self.tape.Or(self, other)

    def __gt__(self, other: Operand) -> Symbol:
        return self.tape.Greater(self, other)

    def __ge__(self, other: Operand) -> Symbol:
        return self.tape.GreaterOrEqual(self, other)

    def __lt__(self, other: Operand) -> Symbol:
        return self.tape.Less(self, other)

    def __le__(self, other: Operand) -> Symbol:
        return self.tape.LessOrEqual(self, other)

    def equals(self, other: Operand) -> Symbol:
        """Where two tensors are equal: booleans."""
        return self.tape.Equal(self, other)

    # Forms

    def cast(self, dtype: np.dtype | type | Symbol) -> Symbol:
        """The same values in another element type, or that of another symbol; itself where it has that already."""
        return self.tape.cast(self, dtype)

    def sum(self, axes: Sequence[int] | Symbol | None = None, *, keepdims: bool = False) -> Symbol:
        """The sum over some axes, or over all; over none for an empty list."""
        return self.tape.reduce("ReduceSum", self, axes, keepdims=keepdims)

    def mean(self, axes: Sequence[int] | Symbol | None = None, *, keepdims: bool = False) -> Symbol:
        """The mean over some axes, or over all."""
        return self.tape.reduce("ReduceMean", self, axes, keepdims=keepdims)

    def reshape(self, shape: Sequence[int] | Symbol) -> Symbol:
        """The same elements in another shape; a dimension of 0 is 0, and one of -1 is what is left."""
        return self.tape.reshape(self, shape)

    def expand(self, shape: Sequence[int] | Symbol) -> Symbol:
        """Repeated along axes of one element to a shape."""
        return self.tape.Expand(self, shape)

    def transpose(self, permutation: Sequence[int]) -> Symbol:
        """Its axes in another order."""
        return self.tape.Transpose(self, perm=list(permutation))

    def unsqueeze(self, *axes: int) -> Symbol:
        """With new axes of one element, at these positions of the result."""
        return self.tape.Unsqueeze(self, list(axes))

    def squeeze(self, *axes: int) -> Symbol:
        """Without these axes, which have one element."""
        return self.tape.Squeeze(self, list(axes))

    def slice(self, axis: int, start: Operand, end: Operand, step: int = 1) -> Symbol:
        """Part of an axis, as in Python."""
        ends = [e if isinstance(e, Symbol) else self.tape.constant([e], np.int64) for e in (start, end)]
        return self.tape.Slice(self, *ends, [axis], [step])

    def _like(self, operand: Any) -> Symbol:
        return operand if isinstance(operand, Symbol) else self.tape.constant(operand, self.dtype)

    def __repr__(self) -> str:
        return f"Symbol({self.value.name!r})"
