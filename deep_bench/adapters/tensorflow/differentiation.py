"""What native code needs to know of gradients: whether they are taken, and formulas of its own for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import tensorflow as tf

from deep_bench.adapters.lowering import Site
from deep_bench.errors import UnsupportedOperator

_nodes: ContextVar[list[Site] | None] = ContextVar("_nodes", default=None)
"""The nodes run so far, while a network runs (or is traced) in order to be differentiated."""


def differentiating() -> bool:
    """Whether what runs now is to be differentiated; what only helps gradients is left out otherwise."""
    return _nodes.get() is not None


@contextmanager
def differentiation() -> Iterator[list[Site]]:
    """Within this, native code prepares for gradients; the nodes that run are listed."""
    nodes: list[Site] = []
    token = _nodes.set(nodes)
    try:
        yield nodes
    finally:
        _nodes.reset(token)


@contextmanager
def scope_of(site: Site) -> Iterator[None]:
    """Within this, TensorFlow's operations are named after a node, so that an error tells which one it was."""
    nodes = _nodes.get()
    if nodes is None:
        yield
        return
    nodes.append(site)
    with tf.name_scope(f"node{len(nodes) - 1}"):
        yield


def with_gradient(function: Callable[..., Any], gradient: Callable[..., Any]) -> Callable[..., Any]:
    """A function of tensors with its own gradient, where TensorFlow has none, or one that is not a number or slow.

    Args:
        function: Takes tensors, returns one.
        gradient: Takes the result's gradient, the result and the tensors; returns the gradient of each tensor, or ``None``.
    """

    def run(*tensors: Any) -> Any:
        if not differentiating():
            return function(*tensors)

        @tf.custom_gradient
        def whole(*inner: Any) -> Any:
            y = function(*inner)
            return y, lambda dy: gradient(dy, y, *inner)

        return whole(*map(tf.convert_to_tensor, tensors))

    return run


def undifferentiable(site: Site, reason: str, value: Any, inputs: Sequence[Any]) -> Any:
    """A floating-point result that depends on inputs in a way that TensorFlow cannot see: a missing gradient is no zero.

    Args:
        site: The node.
        reason: Why it has no gradient.
        value: The result.
        inputs: The tensors that it depends on.

    Returns:
        The same value, which raises `UnsupportedOperator` if a gradient is taken through it.
    """
    if not differentiating() or not value.dtype.is_floating:
        return value

    @tf.custom_gradient
    def mark(result: Any, *_: Any) -> Any:
        def refuse(*_: Any) -> Any:
            raise UnsupportedOperator(site.name, site.operator, site.opset, reason)

        return tf.identity(result), refuse

    return mark(value, *(t for t in inputs if t.dtype.is_floating))
