"""Drawing shapes, element types and contents that excite an operator: edges first, then anything."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cache
from typing import Any, TypeVar

import ml_dtypes
import numpy as np
import onnx

from deep_bench.graph import OPSET
from deep_bench.tensor import STRING, is_float, is_integer

T = TypeVar("T")
SIZES = (1, 2, 3, 4, 5, 0)
"""Lengths of an axis; 0 and 1 are where kernels go wrong."""


class Draw(ABC):
    """A source of choices; everything else is made of `integer`.

    Two sources exist: `Seeded`, and in the tests one that a failing case is shrunk with.
    """

    @abstractmethod
    def integer(self, low: int, high: int) -> int:
        """A whole number from ``low`` to ``high``, both included."""

    def pick(self, choices: Sequence[T]) -> T:
        """One of several; the first is the plainest."""
        return choices[self.integer(0, len(choices) - 1)]

    def maybe(self, value: T) -> T | None:
        """``value``, or nothing."""
        return self.pick((value, None))

    def boolean(self) -> int:
        """0 or 1, as ONNX writes a flag."""
        return self.integer(0, 1)

    def shape(self, low: int = 0, high: int = 4, sizes: Sequence[int] = SIZES) -> tuple[int, ...]:
        """The shape of a tensor of ``low`` to ``high`` axes."""
        return tuple(self.pick(sizes) for _ in range(self.integer(low, high)))

    def full_shape(self, low: int = 1, high: int = 4) -> tuple[int, ...]:
        """A shape without axes of length 0."""
        return self.shape(low, high, SIZES[:-1])

    def broadcast(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """A shape that broadcasts to ``shape``: axes are 1 here and there, or missing in front."""
        sizes = tuple(self.pick((size, 1)) for size in shape)
        return sizes[self.integer(0, len(sizes)) :]

    def axis(self, rank: int) -> int:
        """An axis of a tensor, counted from the front or from the back."""
        return self.integer(-rank, rank - 1)

    def axes(self, rank: int) -> tuple[int, ...]:
        """Some distinct axes, each counted from either end, in any order."""
        chosen = [axis for axis in range(rank) if self.boolean()]
        turned = [axis - rank if self.boolean() else axis for axis in chosen]
        return tuple(turned[::-1] if self.boolean() else turned)

    def moderate(self, shape: Sequence[int], dtype: Any = np.float32) -> np.ndarray:
        """A tensor whose sums and products neither overflow nor are NaN."""
        return self.array(shape, dtype, self.pick(styles(np.dtype(dtype))[: 2 if is_float(np.dtype(dtype)) else 1]))

    def array(self, shape: Sequence[int], dtype: Any = np.float32, style: str | None = None) -> np.ndarray:
        """A tensor with contents of a drawn style, laid out plainly or as a view with strides.

        Args:
            shape: Its shape.
            dtype: Its element type.
            style: One of the styles of `contents`; drawn by default.
        """
        dtype = np.dtype(dtype)
        generator = np.random.default_rng(self.integer(0, 2**16))
        tensor = np.asarray(contents(generator, tuple(shape), dtype, style or self.pick(styles(dtype))))
        return _strided(tensor) if tensor.ndim and self.pick((False, False, True)) else tensor


class Seeded(Draw):
    """Choices from a pseudo-random generator.

    Args:
        seed: Numbers that name the sequence of choices.
    """

    def __init__(self, *seed: int) -> None:
        self._generator = np.random.default_rng(seed)

    def integer(self, low: int, high: int) -> int:
        """See `Draw.integer`."""
        return int(self._generator.integers(low, high, endpoint=True))


def styles(dtype: np.dtype) -> tuple[str, ...]:
    """What the contents of an element type may be like, the plainest first."""
    if is_float(dtype):
        return ("normal", "ties", "wide", "special")
    return ("small", "extreme") if is_integer(dtype) else ("any",)


def contents(generator: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype, style: str) -> np.ndarray:
    """Random elements.

    Args:
        generator: The source.
        shape: The shape.
        dtype: The element type.
        style: ``normal``; ``ties``: multiples of one half, so that equals and halves occur; ``wide``: all magnitudes that
            the type has; ``special``: with zeros of both signs, infinities and NaN; ``small`` and ``extreme`` integers.
    """
    if dtype == STRING:
        return _chosen(generator, ("", "a", "B", "ab", "Ab c", "é", "aa", "a b  c"), shape, dtype)
    if dtype == np.bool_:
        return generator.random(shape) < 0.5
    if is_integer(dtype):
        return _integers(generator, shape, dtype, style)
    if np.issubdtype(dtype, np.complexfloating):
        return (generator.standard_normal(shape) + 1j * generator.standard_normal(shape)).astype(dtype)
    return _floats(generator, shape, dtype, style)


def _integers(generator: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype, style: str) -> np.ndarray:
    info = ml_dtypes.iinfo(dtype)
    low, high = int(info.min), int(info.max)
    if style == "extreme":
        return _chosen(generator, (low, high, low + 1, high - 1, 0, 1, high // 2 + 1), shape, dtype)
    return generator.integers(max(low, -5), min(high, 5), shape, endpoint=True).astype(dtype)


def _chosen(generator: np.random.Generator, pool: Sequence[Any], shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    array = np.empty(shape, dtype)
    array.reshape(-1)[:] = [pool[i] for i in generator.integers(0, len(pool), array.size)]
    return array


def _floats(generator: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype, style: str) -> np.ndarray:
    normal = np.asarray(generator.standard_normal(shape))
    if style == "ties":
        return (np.round(normal * 2) / 2).astype(dtype)
    if style == "wide":
        with np.errstate(all="ignore"):
            reach = float(np.log2(float(ml_dtypes.finfo(dtype).max))) * 0.9
            return (np.sign(normal) * np.exp2(generator.uniform(-reach, reach, shape))).astype(dtype)
    if style == "special":
        pool = np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan])
        with np.errstate(all="ignore"):
            return np.where(generator.random(shape) < 0.5, pool[generator.integers(0, 7, shape)], normal).astype(dtype)
    return normal.astype(dtype)


def _strided(array: np.ndarray) -> np.ndarray:
    """The same contents as every other column of a wider array."""
    wide = np.repeat(array, 2, axis=-1)
    return wide[..., ::2]


@cache
def dtypes(operator: str, index: int = 0, domain: str = "") -> tuple[np.dtype, ...]:
    """The element types that an operator's schema allows for a tensor among its inputs, float32 first.

    Args:
        operator: As ONNX spells it.
        index: Which input.
        domain: The operator's.

    Example:
        >>> [str(dtype) for dtype in dtypes("Relu")][:3]
        ['float32', 'bfloat16', 'float16']
    """
    schema = onnx.defs.get_schema(operator, OPSET, domain)
    allowed = schema.inputs[min(index, len(schema.inputs) - 1)].types
    types = [_dtype(t[len("tensor(") : -1]) for t in allowed if t.startswith("tensor(")]
    return tuple(sorted(types, key=lambda d: (d != np.float32, not is_float(d), str(d))))


def _dtype(name: str) -> np.dtype:
    number = onnx.TensorProto.DataType.Value(name.upper())
    return STRING if number == onnx.TensorProto.STRING else np.dtype(onnx.helper.tensor_dtype_to_np_dtype(number))
