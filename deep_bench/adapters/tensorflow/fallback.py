"""Nodes that TensorFlow does not compute: the reference's NumPy functions in its graph, and kernels of the user's.

A kernel has its own gradients.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from deep_bench.adapters.lowering import NotNative, Site
from deep_bench.adapters.tensorflow.graph import NeedsType, NeedsValue, as_arrays, differentiating, undifferentiable
from deep_bench.adapters.tensorflow.layout import Value, on_values
from deep_bench.adapters.tensorflow.operators._site import tf_dtype
from deep_bench.adapters.tensorflow.tracing import describe_tensor, flattened, keeping_errors
from deep_bench.framework import THROUGH_NUMPY, map_arrays
from deep_bench.operators.placed import Placed

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
        return tuple(_refusing_gradients(site, value, values) for value in call(*values))

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
        host = keeping_errors(_on_host(site, function, fed))
        results = tf.numpy_function(host, [values[i].first for i in fed], dtypes)  # type: ignore[union-attr]
        for tensor, shape in zip(results, shapes, strict=True):
            tensor.set_shape(shape)
        return tuple(map(Value, results))

    return call


def _refusing_gradients(site: Site, value: Value, inputs: Sequence[Value | None]) -> Value:
    """A result that refuses to be differentiated, as TensorFlow does not see how it was computed."""
    if isinstance(value.tensor, tuple):
        return Value(tuple(_refusing_gradients(site, item, inputs) for item in value.tensor))
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


ON_TENSORS = "a kernel of the user's, on TensorFlow's own tensors"

Code = Callable[..., Any]


def kernel_code(site: Site, kernel: Placed, *, direct: bool, jit: bool) -> tuple[Code, str]:
    """Native code that calls a kernel.

    Args:
        site: The node.
        kernel: Its kernel.
        direct: Whether the kernel takes tensors that live where the network runs: its operations become part of the graph.
            Else the graph calls back into Python, where it is given NumPy arrays.
        jit: Whether XLA compiles the graph, which calls no Python.

    Returns:
        Code on values, whose gradient is the kernel's ``backward``, or refused where it has none; and how the node is run.

    Raises:
        NotNative: XLA is to compile a kernel that goes through NumPy.
    """
    kernel.dtypes = [None if slot is None else slot.dtype for slot in site.outputs]
    if jit and not direct:
        raise NotNative(f"XLA compiles no calls of Python, as {kernel.kernel.name} would be: leave out jit='xla'")
    forward = _on_tensors(kernel) if direct else host_call(site, kernel.forward_numpy)
    backward = _pull_back_on_tensors if direct else _pull_back_through_numpy

    @on_values
    def run(*values: Value | None) -> tuple[Value, ...]:
        floats = [i for i, v in enumerate(values) if v is not None and v.first.dtype.is_floating]
        if not differentiating() or not floats:
            return tuple(forward(*values))
        tensors = [values[i].first for i in floats]  # type: ignore[union-attr]
        if not kernel.kernel.differentiates:
            reason = f"the kernel {kernel.kernel.name} has no backward: override it, or run network.without_kernels()"
            outputs = forward(*values)
            return tuple(Value(undifferentiable(site, reason, v.first, tensors)) for v in outputs)

        @tf.custom_gradient
        def whole(*inner: Any) -> Any:
            arguments = list(values)
            for index, tensor in zip(floats, inner, strict=True):
                arguments[index] = Value(tensor)
            results = [v.first for v in forward(*arguments)]

            def pull(*grads: Any, variables: Sequence[Any] | None = None) -> Any:
                inputs = [None if v is None else v.first for v in arguments]
                gradients = backward(kernel, grads, inputs, results, floats)
                return gradients if variables is None else (gradients, [None] * len(variables))

            return (results[0] if len(results) == 1 else tuple(results)), pull

        results = whole(*tensors)
        return tuple(map(Value, results if isinstance(results, list | tuple) else (results,)))

    return run, ON_TENSORS if direct else THROUGH_NUMPY


def _on_tensors(kernel: Placed) -> Code:
    def forward(*values: Value | None) -> list[Value]:
        outputs = kernel.forward([None if v is None else v.first for v in values], describe_tensor)
        return [Value(tf.convert_to_tensor(y)) for y in outputs]

    return forward


def _pull_back_on_tensors(
    kernel: Placed, grads: Sequence[Any], inputs: Sequence[Any], outputs: Sequence[Any], indices: Sequence[int]
) -> list[Any]:
    gradients = kernel.backward(grads, inputs, outputs, describe_tensor)
    return [gradients[i] for i in indices]


def _pull_back_through_numpy(
    kernel: Placed, grads: Sequence[Any], inputs: Sequence[Any], outputs: Sequence[Any], indices: Sequence[int]
) -> list[Any]:
    """The gradients by a call of Python; zeros where the kernel says that there is none."""
    groups = (grads, inputs, outputs)
    places = [(g, i) for g, group in enumerate(groups) for i, x in enumerate(group) if x is not None]

    def host(*arrays: Any) -> list[np.ndarray]:
        full: list[list[Any]] = [[None] * len(group) for group in groups]
        for (group, index), array in zip(places, arrays, strict=True):
            full[group][index] = decoded(array)
        with np.errstate(all="ignore"):
            slopes = kernel.backward_numpy(*full)
        return [np.zeros_like(full[1][i]) if slopes[i] is None else slopes[i] for i in indices]

    fed = [groups[group][index] for group, index in places]
    gradients = tf.numpy_function(
        host if tf.executing_eagerly() else keeping_errors(host), fed, [inputs[i].dtype for i in indices]
    )
    gradients = gradients if isinstance(gradients, list | tuple) else [gradients]
    for gradient, index in zip(gradients, indices, strict=True):
        gradient.set_shape(inputs[index].shape)
    return list(gradients)
