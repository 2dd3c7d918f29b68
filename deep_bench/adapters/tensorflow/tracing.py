"""Traces: Python functions of nested tensors as flat TensorFlow graphs, and the calls of these.

Of an error in Python code that a graph calls, TensorFlow keeps the text only; deep_bench keeps the error itself.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from deep_bench.errors import DeepBenchError, Unsupported
from deep_bench.framework import map_arrays
from deep_bench.tensor import TensorSpec

_MOST = 16
"""So many errors are kept at most: of several at once TensorFlow tells one."""


_MARK = "deep_bench host error"
_raised: dict[int, DeepBenchError] = {}
_numbers = itertools.count()


class HostError(Exception):
    """What a graph is told in the place of an error: its number."""


def keeping_errors(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function as a graph may call it: its errors are kept for `as_raised`."""

    def call(*arrays: Any) -> Any:
        try:
            return function(*arrays)
        except DeepBenchError as error:
            number = next(_numbers)
            _raised[number] = error
            for old in list(_raised)[:-_MOST]:
                _raised.pop(old, None)
            raise HostError(f"{_MARK} {number}.") from error

    return call


def as_raised(call: Callable[..., Any], *arguments: Any) -> Any:
    """The result of a graph, whose Python functions fail with their own errors."""
    try:
        return call(*arguments)
    except (HostError, tf.errors.OpError) as failure:
        match = re.search(f"{_MARK} (\\d+)\\.", str(failure))
        error = None if match is None else _raised.pop(int(match[1]), None)
        if error is None:
            raise
        raise error from error.__cause__


@dataclass
class Traced:
    """A function traced for inputs of one structure.

    Args:
        concrete: The concrete function.
        layout: How its flat results are arranged.
        plain: Whether each of them is an output of its own.
        jit: Whether XLA compiles it.
        compiled: Whether it has done so.
    """

    concrete: Any
    layout: Sequence[Any]
    plain: bool
    jit: bool = False
    compiled: bool = False

    def bind(self, arguments: Sequence[Any]) -> Callable[[], Sequence[Any]]:
        """A call without arguments: the results, arranged as the traced function returned them."""
        # The flat call skips the matching of a Python signature, which costs more than a small network.
        call = self.concrete.inference_fn.call_flat
        flat = (*flattened(arguments), *self.concrete.captured_inputs)
        if self.jit and not self.compiled:
            # XLA compiles at the first call, and may refuse only then
            try:
                call(*flat)
            except tf.errors.OpError as error:
                reason = str(error).splitlines()[0]
                raise Unsupported(f"XLA cannot compile this network: {reason}", advice="leave out jit='xla'") from error
            self.compiled = True
        if self.plain:
            return lambda: as_raised(call, *flat)
        return lambda: packed(self.layout, as_raised(call, *flat) or ())


def describe_tensor(value: Any) -> tuple[Sequence[int], np.dtype] | None:
    """The shape and element type of a tensor; see `deep_bench.framework.Describe`."""
    if not tf.is_tensor(value):
        return None
    return tuple(value.shape), np.dtype(value.dtype.as_numpy_dtype)


def trace(function: Callable[[list[Any]], list[Any]], signatures: Sequence[Any], *, jit: bool) -> Traced:
    """Trace a function of nested tensors.

    Args:
        function: Takes one value for each of ``signatures``; returns tensors, lists of them, or ``None``.
        signatures: A `tf.TensorSpec`, a list of them, or ``None``, for each value.
        jit: Whether XLA compiles the graph.
    """
    layout: list[Any] = []

    def flat(*tensors: Any) -> list[Any]:
        results = function(packed(signatures, tensors))
        layout[:] = results
        return list(flattened(results))

    whole = tf.function(flat, input_signature=list(flattened(signatures)), jit_compile=jit or None, autograph=False)
    concrete = whole.get_concrete_function()
    plain = not any(r is None or isinstance(r, list) for r in layout)
    return Traced(concrete, [map_arrays(lambda _: ..., r) for r in layout], plain, jit)


def flattened(values: Any) -> Iterator[Any]:
    """The tensors in nested lists, in order.

    Example:
        >>> list(flattened([1, [2, 3], None, []]))
        [1, 2, 3]
    """
    for value in values:
        if isinstance(value, list | tuple):
            yield from flattened(value)
        elif value is not None:
            yield value


def packed(layout: Sequence[Any], tensors: Sequence[Any]) -> list[Any]:
    """Tensors arranged as ``layout`` is; the inverse of `flattened`.

    Example:
        >>> packed([0, [0, 0], None, []], [1, 2, 3])
        [1, [2, 3], None, []]
    """
    remaining = iter(tensors)
    return [map_arrays(lambda _: next(remaining), place) for place in layout]


def structure(value: Any) -> Any:
    """The signature of each tensor in a sequence or an optional value: its element type and its rank."""
    return map_arrays(lambda tensor: tf.TensorSpec([None] * tensor.shape.rank, tensor.dtype), value)


def signature(spec: TensorSpec) -> tf.TensorSpec:
    """What TensorFlow is told of an input."""
    try:
        dtype = tf.string if spec.dtype == object else tf.as_dtype(spec.dtype)
    except TypeError as error:
        raise Unsupported(f"input {spec.name!r} is {spec.dtype}", "an element type that TensorFlow has") from error
    return tf.TensorSpec([d if isinstance(d, int) else None for d in spec.shape], dtype)
