"""A plan run on traced or eager values: the one place that walks the steps.

Native code is told whether gradients are taken, and may give formulas of its own for them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np
import tensorflow as tf

from deep_bench.adapters.lowering import NotNative, Plan, Site, Slot, Step
from deep_bench.adapters.tensorflow.layout import StoredValue, Value, apply
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


class LateRefusal(Exception):
    """Native code that could not be traced, which only the trace could tell.

    Args:
        site: The node's name.
        operator: Its operator.
        reason: Why.
    """

    def __init__(self, site: str, operator: str, reason: str) -> None:
        super().__init__(site, operator, reason)
        self.site, self.operator, self.reason = site, operator, reason


class NeedsValue(Exception):
    """Raised while a graph is traced, where TensorFlow can go on only with the contents of a tensor.

    The network then runs without a graph.
    """


class NeedsType(NeedsValue):
    """Raised while a graph is traced, where only a run tells the element type of a node's result: the first run tells it."""


def contents(tensor: Any, what: str) -> Any:
    """The contents of a tensor as a NumPy array, where they are known now: in any eager call, and in a trace for constants.

    Raises:
        NeedsValue: They are not.
    """
    constant = tf.get_static_value(tensor)
    if constant is None:
        raise NeedsValue(f"{what} is known only in the run")
    return np.asarray(constant)


class GraphRunner:
    """A plan made callable on values.

    Args:
        plan: What to run.
        assignable: Whether the plan's parameters may be assigned between calls.
    """

    def __init__(self, plan: Plan, *, assignable: bool = False) -> None:
        self.plan = plan
        self.stored: Mapping[str, StoredValue] = {
            name: StoredValue(name, array, variable=assignable and name in plan.parameters)
            for name, array in plan.constants.items()
        }

    def __call__(self, inputs: Sequence[Value], captured: Sequence[Value] = ()) -> list[Value]:
        """Run every step on values; in a ``tf.function`` this is the trace."""
        by_name: dict[str, Value] = dict(self.stored)
        by_name.update(zip(self.plan.captures, captured, strict=True))
        by_name.update(zip((slot.name for slot in self.plan.inputs), inputs, strict=True))
        for step in self.plan.steps:
            self._run(step, by_name)
        return [by_name[name] for name in self.plan.outputs]

    def _run(self, step: Step, by_name: dict[str, Value]) -> None:
        site = step.site
        values = [None if slot is None else by_name[slot.name] for slot in site.inputs]
        if differentiating():
            values = [None if value is None else _cut_if_empty(value) for value in values]
        try:
            with scope_of(site):
                results = apply(step.function, [*values, *(by_name[name] for name in step.captures)])
        except NotNative as refusal:
            raise LateRefusal(site.name, site.operator, str(refusal)) from refusal
        for slot, value in zip(site.outputs, results, strict=len(site.outputs) == len(results)):
            if slot is not None:
                by_name[slot.name] = refined(value, slot)


def _cut_if_empty(value: Value) -> Value:
    """A value without the gradient that nothing flows through, where it has no elements: some of TensorFlow's fail there."""
    if value.dtype is None or value.shape is None or 0 not in value.shape:
        return value
    return Value(tf.stop_gradient(value.first))


def refined(value: Value, slot: Slot) -> Value:
    """The value with its rank and dimensions stated, where TensorFlow lost them and the network knows them."""
    tensor: Any = value.tensor
    if slot.shape is not None and not value.last_made and tf.is_tensor(tensor) and tensor.shape.rank is None:
        tensor.set_shape(slot.shape)
    return value


def as_value(array: Any) -> Value:
    """A native tensor in ONNX's layout, a list of them, or ``None`` for an empty optional value, as a value."""
    return Value(tuple(map(as_value, array)) if isinstance(array, list | tuple) else array)


def as_arrays(value: Value) -> Any:
    """The inverse of `as_value`; the tensors are new ones in a trace, so that no output is another name of an input."""
    if isinstance(value.tensor, tuple):
        return [as_arrays(item) for item in value.tensor]
    return None if value.is_empty else tf.identity(value.first)
