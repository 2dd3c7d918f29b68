"""The reference's NumPy functions as nodes of a TensorFlow graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from deep_bench.adapters.lowering import Site
from deep_bench.adapters.tensorflow.differentiation import undifferentiable
from deep_bench.adapters.tensorflow.graph import NeedsType, NeedsValue, as_arrays
from deep_bench.adapters.tensorflow.host_errors import told
from deep_bench.adapters.tensorflow.layout import Value, on_values
from deep_bench.adapters.tensorflow.operators._common import tf_dtype
from deep_bench.adapters.tensorflow.tracing import flattened
from deep_bench.framework import map_arrays

REASON = "it is computed by the reference, through which TensorFlow takes no gradients"


def fallback(site: Site, function: Callable[..., Any]) -> Callable[..., Any]:
    """A reference function as native code, whose results refuse to be differentiated; see `host_call`.

    Args:
        site: The node.
        function: Takes and gives NumPy arrays.

    Raises:
        NotNative: TensorFlow cannot hold a result.
    """
    call = host_call(site, function)

    @on_values
    def marked(*values: Value | None) -> tuple[Value, ...]:
        return tuple(_marked(site, value, values) for value in call(*values))

    return marked


def host_call(site: Site, function: Callable[..., Any]) -> Callable[..., tuple[Value, ...]]:
    """A function of NumPy arrays as native code: a host function in a graph, which must know the types of its results.

    Where shape inference does not tell those (operators outside the default domain), the first run does, without a graph;
    where a value is a sequence, no run has a graph.

    Args:
        site: The node.
        function: Takes and gives NumPy arrays.

    Raises:
        NotNative: TensorFlow cannot hold a result.
    """
    dtypes = [None if slot is not None and slot.dtype is None else _dtype(slot) for slot in site.outputs]
    shapes = [None if slot is None else slot.shape for slot in site.outputs]

    def call(*values: Value | None) -> tuple[Value, ...]:
        if tf.executing_eagerly():
            results = function(*(None if v is None else _host(v) for v in values))
            native_results = tuple(_native(r) for r in _as_tuple(results)[: len(dtypes)])
            dtypes[:] = [
                dtype or (None if v.dtype is None else v.tensor.dtype)
                for dtype, v in zip(dtypes, native_results, strict=True)
            ]
            return native_results
        fed = [i for i, v in enumerate(values) if v is not None and site.constant(i) is None]
        if any(values[i].dtype is None for i in fed):  # type: ignore[union-attr]
            raise NeedsValue(f"node {site.name!r} ({site.operator}) is given a sequence and computed outside TensorFlow")
        if None in dtypes:
            raise NeedsType(f"the type of what node {site.name!r} ({site.operator}) returns is known only in the run")
        host = told(_on_host(site, function, fed))
        results = tf.numpy_function(host, [values[i].first for i in fed], dtypes)  # type: ignore[union-attr]
        for tensor, shape in zip(results, shapes, strict=True):
            tensor.set_shape(shape)
        return tuple(map(Value, results))

    return call


def _marked(site: Site, value: Value, inputs: Sequence[Value | None]) -> Value:
    """A result that refuses to be differentiated, as TensorFlow does not see how it was computed."""
    if isinstance(value.tensor, tuple):
        return Value(tuple(_marked(site, item, inputs) for item in value.tensor))
    if value.is_empty:
        return value
    return Value(undifferentiable(site, REASON, value.tensor, list(flattened(map(as_arrays, filter(None, inputs))))))


def _dtype(slot: Any) -> tf.DType:
    return tf.int8 if slot is None else tf_dtype(slot.dtype)


def _on_host(site: Site, function: Callable[..., Any], fed: Sequence[int]) -> Callable[..., list[np.ndarray]]:
    constants = [None if slot is None else slot.constant for slot in site.inputs]

    def host(*arrays: Any) -> list[np.ndarray]:
        full = list(constants)
        for index, array in zip(fed, arrays, strict=True):
            full[index] = decoded(array)
        results = zip(_as_tuple(function(*full)), site.outputs, strict=False)
        return [np.zeros((), np.int8) if r is None or slot is None else encoded(r) for r, slot in results]

    return host


def _as_tuple(results: Any) -> tuple[Any, ...]:
    return results if isinstance(results, tuple) else (results,)


def _host(value: Value) -> Any:
    """An eager value in NumPy."""
    if isinstance(value.tensor, tuple):
        return [_host(item) for item in value.tensor]
    return None if value.is_empty else decoded(value.first.numpy())


def _native(result: Any) -> Value:
    """What the reference gives as an eager value."""
    if isinstance(result, list):
        return Value(tuple(map(_native, result)))
    return Value(map_arrays(lambda array: tf.constant(encoded(array)), result))


def decoded(array: Any) -> np.ndarray:
    """TensorFlow's bytes as strings; other arrays as they are."""
    array = np.asarray(array, object) if isinstance(array, bytes) else np.asarray(array)
    if array.dtype != object:
        return array
    flat = np.empty(array.size, object)
    flat[:] = [s.decode() if isinstance(s, bytes) else s for s in array.reshape(-1)]
    return flat.reshape(array.shape)


def encoded(array: Any) -> np.ndarray:
    """Strings as TensorFlow's bytes; other arrays as they are."""
    array = np.asarray(array)
    if array.dtype != object and array.dtype.kind not in "UT":
        return array
    flat = np.empty(array.size, object)
    flat[:] = [str(s).encode() for s in array.reshape(-1)]
    return flat.reshape(array.shape)
