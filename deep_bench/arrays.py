"""``ArrayFunctions``: the few functions that an update rule needs of a framework's arrays, and trees of such arrays.

Arithmetic and comparisons are written with Python's operators, between arrays of one element type or with a Python number.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol, TypeAlias, TypeVar

import numpy as np

A = TypeVar("A")
B = TypeVar("B")

Tree: TypeAlias = Mapping[str, Any]
"""Mappings within mappings, with strings as keys and arrays as leaves."""

Path: TypeAlias = tuple[str, ...]
"""The keys that lead to a leaf of a tree."""


class ArrayFunctions(Protocol[A]):
    """The functions. An implementation computes with one framework's arrays, or writes a graph that does."""

    def array(self, x: Any, dtype: np.dtype | type | None = None) -> A:
        """A number, a NumPy array or a native array as a native array; of rank 0 for a number."""

    def cast(self, x: Any, like: A | np.dtype | type) -> Any:
        """``x`` in an element type, or in that of another array; a Python number stays one, as it fits any."""

    def dtype(self, x: A) -> np.dtype:
        """The element type."""

    def shape(self, x: A) -> tuple[int, ...]:
        """The shape."""

    def zeros_like(self, x: A) -> A:
        """Zeros of the shape and element type of ``x``."""

    def sqrt(self, x: A) -> A:
        """The square root of each element."""

    def exp(self, x: A) -> A:
        """The exponential of each element."""

    def cos(self, x: A) -> A:
        """The cosine of each element."""

    def floor(self, x: A) -> A:
        """The largest whole number that is not above, for each element."""

    def abs(self, x: A) -> A:
        """The absolute value of each element."""

    def sign(self, x: A) -> A:
        """-1, 0 or 1 for each element."""

    def power(self, base: float, exponent: A) -> A:
        """A number raised to each element of an integer or float64 array; float64."""

    def maximum(self, x: A, y: A | float) -> A:
        """The larger of two, element by element."""

    def minimum(self, x: A, y: A | float) -> A:
        """The smaller of two, element by element."""

    def where(self, condition: A, x: A, y: A | float) -> A:
        """``x`` where the condition holds, ``y`` elsewhere."""

    def sum(self, x: A, axes: Sequence[int] | None = None, *, keepdims: bool = False) -> A:
        """The sum over some axes, or over all."""

    def mean(self, x: A, axes: Sequence[int] | None = None, *, keepdims: bool = False) -> A:
        """The mean over some axes, or over all."""

    def matmul(self, x: A, y: A) -> A:
        """The product of two matrices."""

    def transpose(self, x: A) -> A:
        """A matrix with its two axes exchanged."""

    def reshape(self, x: A, shape: Sequence[int]) -> A:
        """The same elements, row by row, in another shape."""

    def untracked(self) -> AbstractContextManager[Any]:
        """Where nothing is recorded for a derivative."""

    def host(self, x: A) -> np.ndarray:
        """The contents, to be looked at only: in the array's own memory where NumPy can reach it, else a copy."""

    def adopt(self, array: np.ndarray) -> A:
        """A native array that has a NumPy array's own memory, which is held by it, where the framework can; else a copy."""

    def write(self, x: A, contents: np.ndarray) -> None:
        """Change an array: for rules that work in place (`Optimizer.in_place`), whose arrays stay the same objects.

        Raises:
            Unsupported: Arrays of this framework cannot be changed.
        """


class NumpyFunctions:
    """The functions for NumPy's arrays.

    Example:
        >>> xp = NumpyFunctions()
        >>> xp.sqrt(xp.array(np.float32([4, 9]))), xp.power(0.5, xp.array(3))
        (array([2., 3.], dtype=float32), array(0.125))
        >>> xp.cast(0.1, np.float32), xp.cast(xp.array(0.5), np.float32).dtype
        (0.1, dtype('float32'))
    """

    def array(self, x: Any, dtype: np.dtype | type | None = None) -> np.ndarray:
        return np.asarray(x, dtype)

    def cast(self, x: Any, like: Any) -> Any:
        return x if is_number(x) else np.asarray(x).astype(element_type(like, self.dtype), copy=False)

    def dtype(self, x: np.ndarray) -> np.dtype:
        return x.dtype

    def shape(self, x: np.ndarray) -> tuple[int, ...]:
        return x.shape

    def zeros_like(self, x: np.ndarray) -> np.ndarray:
        return np.zeros_like(x)

    def sqrt(self, x: np.ndarray) -> np.ndarray:
        return np.sqrt(x)

    def exp(self, x: np.ndarray) -> np.ndarray:
        return np.exp(x)

    def cos(self, x: np.ndarray) -> np.ndarray:
        return np.cos(x)

    def floor(self, x: np.ndarray) -> np.ndarray:
        return np.floor(x)

    def abs(self, x: np.ndarray) -> np.ndarray:
        return np.abs(x)

    def sign(self, x: np.ndarray) -> np.ndarray:
        return np.sign(x)

    def power(self, base: float, exponent: np.ndarray) -> np.ndarray:
        return np.asarray(np.float64(base) ** np.asarray(exponent))

    def maximum(self, x: np.ndarray, y: Any) -> np.ndarray:
        return np.maximum(x, y)

    def minimum(self, x: np.ndarray, y: Any) -> np.ndarray:
        return np.minimum(x, y)

    def where(self, condition: np.ndarray, x: np.ndarray, y: Any) -> np.ndarray:
        return np.where(condition, x, y)

    def sum(self, x: np.ndarray, axes: Sequence[int] | None = None, *, keepdims: bool = False) -> np.ndarray:
        return np.asarray(np.sum(x, axis=None if axes is None else tuple(axes), keepdims=keepdims))

    def mean(self, x: np.ndarray, axes: Sequence[int] | None = None, *, keepdims: bool = False) -> np.ndarray:
        return np.asarray(np.mean(x, axis=None if axes is None else tuple(axes), keepdims=keepdims))

    def matmul(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return np.matmul(x, y)

    def transpose(self, x: np.ndarray) -> np.ndarray:
        return x.T

    def reshape(self, x: np.ndarray, shape: Sequence[int]) -> np.ndarray:
        return np.reshape(x, tuple(shape))

    def untracked(self) -> AbstractContextManager[Any]:
        return nullcontext()

    def host(self, x: np.ndarray) -> np.ndarray:
        return x

    def adopt(self, array: np.ndarray) -> np.ndarray:
        return array

    def write(self, x: np.ndarray, contents: np.ndarray) -> None:
        np.copyto(x, contents)


NUMPY = NumpyFunctions()
"""The functions for NumPy's arrays."""


def digest(array: np.ndarray) -> str:
    """The SHA-256 of an array's element type, shape and elements.

    Example:
        >>> digest(np.zeros(2)) == digest(np.zeros((2, 1))), digest(np.zeros(2))[:12]
        (False, 'ffbb9f4267a7')
    """
    content = repr(array.tolist()).encode() if array.dtype == object else array.tobytes()
    return hashlib.sha256(f"{array.dtype.name} {array.shape} ".encode() + content).hexdigest()


def is_number(x: Any) -> bool:
    """Whether this is a Python number, which takes the element type of an array beside it; NumPy's scalars do not."""
    return type(x) in (int, float)


def element_type(like: Any, dtype_of: Callable[[Any], np.dtype]) -> np.dtype:
    """The element type that is stated, or that of the array which is given instead."""
    return np.dtype(like) if isinstance(like, np.dtype | type) else dtype_of(like)


def leaves(tree: Tree) -> dict[Path, Any]:
    """The arrays of a tree by the keys that lead to them.

    Example:
        >>> leaves({"steps": 3, "mean": {"w": 1, "b": 2}})
        {('steps',): 3, ('mean', 'w'): 1, ('mean', 'b'): 2}
    """
    by_path: dict[Path, Any] = {}
    for key, value in tree.items():
        if isinstance(value, Mapping):
            by_path |= {(key, *path): leaf for path, leaf in leaves(value).items()}
        else:
            by_path[(key,)] = value
    return by_path


def grown(found: Mapping[Path, Any]) -> dict[str, Any]:
    """The tree that has these leaves.

    Example:
        >>> grown({("steps",): 3, ("mean", "w"): 1})
        {'steps': 3, 'mean': {'w': 1}}
    """
    tree: dict[str, Any] = {}
    for path, leaf in found.items():
        branch = tree
        for key in path[:-1]:
            branch = branch.setdefault(key, {})
        branch[path[-1]] = leaf
    return tree


def mapped(function: Callable[..., Any], tree: Tree, *others: Tree) -> dict[str, Any]:
    """A tree of what a function makes of each leaf, and of those in the same place of other trees.

    Example:
        >>> mapped(lambda x, y: x + y, {"a": {"b": 1}}, {"a": {"b": 2}})
        {'a': {'b': 3}}
    """
    return {
        key: mapped(function, value, *(peer[key] for peer in others))
        if isinstance(value, Mapping)
        else function(value, *(peer[key] for peer in others))
        for key, value in tree.items()
    }


def equal_arrays(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether two arrays have the same shape, type and bits."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    return np.array_equal(a, b) if a.dtype == object else a.tobytes() == b.tobytes()
