"""Nodes that a kernel of the user's computes, with its own gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from deep_bench.adapters.lowering import NotNative, Site
from deep_bench.adapters.tensorflow.differentiation import differentiating, undifferentiable
from deep_bench.adapters.tensorflow.fallback import decoded, host_call
from deep_bench.adapters.tensorflow.host_errors import told
from deep_bench.adapters.tensorflow.layout import Value, on_values
from deep_bench.adapters.tensorflow.tracing import described
from deep_bench.operators.placed import THROUGH_NUMPY, Placed

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
        outputs = kernel.forward([None if v is None else v.first for v in values], described)
        return [Value(tf.convert_to_tensor(y)) for y in outputs]

    return forward


def _pull_back_on_tensors(
    kernel: Placed, grads: Sequence[Any], inputs: Sequence[Any], outputs: Sequence[Any], indices: Sequence[int]
) -> list[Any]:
    gradients = kernel.backward(grads, inputs, outputs, described)
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
    gradients = tf.numpy_function(host if tf.executing_eagerly() else told(host), fed, [inputs[i].dtype for i in indices])
    gradients = gradients if isinstance(gradients, list | tuple) else [gradients]
    for gradient, index in zip(gradients, indices, strict=True):
        gradient.set_shape(inputs[index].shape)
    return list(gradients)
