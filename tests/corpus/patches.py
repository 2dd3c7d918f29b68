"""What faults and correct variants are put together from: changes of an operator's inputs, attributes and results."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from .subjects import Patch


@dataclass(frozen=True, slots=True)
class NormWise:
    """A correct variant that declares to be accurate relative to the largest elements only."""

    patch: Patch


def attributes(**changes: Any) -> Patch:
    """The operator with other attributes."""
    return lambda f, x, a: f(*x, **{**a, **changes})


def on_inputs(change: Callable[[list[Any]], list[Any]]) -> Patch:
    """The operator on other inputs."""
    return lambda f, x, a: f(*change(x), **a)


def on_input(position: int, change: Callable[[Any], Any]) -> Patch:
    """The operator with one input changed."""
    return on_inputs(lambda x: [change(v) if k == position else v for k, v in enumerate(x)])


def after(change: Callable[[Any], Any], output: int = 0) -> Patch:
    """The operator with one of its results changed."""

    def patch(f: Any, x: Any, a: Any) -> Any:
        y = f(*x, **a)
        return tuple(change(v) if k == output else v for k, v in enumerate(y)) if isinstance(y, tuple) else change(y)

    return patch


def without(*positions: int) -> Patch:
    """The operator without some of its inputs."""
    return on_inputs(lambda x: [None if k in positions else v for k, v in enumerate(x)])


def scaled(position: int, factor: float) -> Patch:
    """The operator with one input multiplied."""
    return on_input(position, lambda v: v * v.dtype.type(factor))


def rounded_factors(to: Callable[[np.ndarray], np.ndarray]) -> Patch:
    """The operator with its first two inputs rounded."""
    return lambda f, x, a: f(to(x[0]), to(x[1]), *x[2:], **a)


def rounded_inputs(to: Callable[[np.ndarray], np.ndarray]) -> Patch:
    """The operator with all floating-point inputs rounded."""
    return on_inputs(lambda x: [to(v) if v is not None and v.dtype.kind == "f" else v for v in x])


def in_double(f: Any, x: Any, a: Any) -> Any:
    """The operator in float64."""
    return f(*(v.astype(np.float64) if v is not None and v.dtype.kind == "f" else v for v in x), **a)


def tf32(x: np.ndarray) -> np.ndarray:
    """Rounded to the 11 bits of TF32."""
    if x.dtype != np.float32:
        return x
    bits = x.view(np.uint32)
    return ((bits + np.uint32(0xFFF) + ((bits >> np.uint32(13)) & np.uint32(1))) & np.uint32(0xFFFFE000)).view(np.float32)


def bfloat16(x: np.ndarray) -> np.ndarray:
    """Rounded to bfloat16."""
    return x.astype(ml_dtypes.bfloat16).astype(x.dtype) if x.dtype == np.float32 else x


def float16(x: np.ndarray) -> np.ndarray:
    """Rounded to float16."""
    return x.astype(np.float16).astype(x.dtype) if x.dtype == np.float32 else x


def float8(x: np.ndarray) -> np.ndarray:
    """Rounded to float8 after its largest element was scaled to the largest number there is."""
    if x.dtype != np.float32:
        return x
    scale = np.float32(np.max(np.abs(x)) / 448)
    return (x / scale).astype(ml_dtypes.float8_e4m3fn).astype(np.float32) * scale


def element(value: float) -> Callable[[Any], Any]:
    """One element in the middle set to a value."""

    def change(y: Any) -> Any:
        y = np.array(y)
        y.reshape(-1)[y.size // 2 + 1] = value
        return y

    return change


def times(factor: float) -> Callable[[Any], Any]:
    """Multiplied."""
    return lambda y: y * y.dtype.type(factor)


def swapped(axis: int) -> Callable[[Any], Any]:
    """Two neighbours along an axis swapped."""

    def change(y: Any) -> Any:
        order = np.arange(y.shape[axis])
        order[[1, 2]] = order[[2, 1]]
        return np.take(y, order, axis=axis)

    return change


def gates(order: list[int]) -> Patch:
    """A recurrent layer whose weights are read as if its gates came in another order."""

    def change(x: list[Any]) -> list[Any]:
        size = x[2].shape[-1]
        rows = np.concatenate([np.arange(g * size, (g + 1) * size) for g in order])
        biases = np.concatenate([rows, rows + len(order) * size])
        return [x[0], x[1][:, rows], x[2][:, rows], x[3][:, biases], *x[4:]]

    return on_inputs(change)


def batch_folded(f: Any, x: Any, a: Any) -> Any:
    """Batch normalisation as one multiplication and one addition."""
    scale = x[1] / np.sqrt(x[4] + x[0].dtype.type(a["epsilon"]))
    each = (-1, 1, 1)
    return x[0] * scale.reshape(each) + (x[2] - x[3] * scale).reshape(each)


def gelu_tanh(f: Any, x: Any, a: Any) -> Any:
    """The approximation of Gelu."""
    return f(x[0], approximate="tanh")


def algorithm(operator: str, name: str) -> Patch:
    """One of the readable algorithms of an operator."""
    from deep_bench.reference.operators.algorithms import algorithms

    chosen = algorithms[operator][name]
    return lambda f, x, a: chosen(*x, **a)
