"""If and Loop over sequences, which TensorFlow's own control flow does not carry: decided while they are traced."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from deep_bench.adapters.lowering import NotNative, Plan, Site
from deep_bench.adapters.tensorflow.graph import GraphRunner, contents
from deep_bench.adapters.tensorflow.layout import Value, on_values


def holds_containers(plan: Plan) -> bool:
    """Whether a graph takes or gives a sequence or an optional value (or what might be one)."""
    slots = {slot.name: slot for slot in plan.inputs} | {
        s.name: s for step in plan.steps for s in step.site.outputs if s is not None
    }
    untyped = [slot for slot in plan.inputs if slot.dtype is None]
    return bool(untyped) or any(name in slots and slots[name].dtype is None for name in plan.outputs)


def captured_by(plan: Plan, names: Sequence[str], values: Sequence[Value]) -> list[Value]:
    """The values that a plan captures, out of those that a node of several graphs captures."""
    by_name = dict(zip(names, values, strict=True))
    return [by_name[name] for name in plan.captures]


def decided(branches: Sequence[Plan], names: Sequence[str]) -> Callable[..., Any]:
    """The one of two graphs that a condition chooses."""
    runners = [GraphRunner(plan) for plan in branches]

    @on_values
    def run(condition: Value, *captured: Value) -> tuple[Value, ...]:
        runner = runners[0 if contents(condition.first, "which branch is taken").item() else 1]
        return tuple(runner([], captured_by(runner.plan, names, captured)))

    return run


def unrolled(site: Site) -> Callable[..., Any]:
    """A loop whose iterations are traced one after the other."""
    body: Plan = site.attributes["body"]
    runner, carried = GraphRunner(body), len(body.inputs) - 2

    @on_values
    def run(limit: Value | None, start: Value | None, *values: Value) -> tuple[Value, ...]:
        state, outer = list(values[:carried]), values[len(values) - len(body.captures) :]
        trips = None if limit is None else int(contents(limit.first, "the number of iterations").reshape(()))
        going = start is None or bool(contents(start.first, "whether a loop begins").item())
        collected: list[list[Value]] = []
        while going and (trips is None or len(collected) < trips):
            iteration = (np.asarray(len(collected), np.int64), np.asarray(going))
            count = [_shaped(v, slot) for v, slot in zip(iteration, body.inputs, strict=False)]
            again, *results = runner([*count, *state], outer)
            state = results[:carried]
            collected.append(results[carried:])
            # Without a first condition the loop is a counted one, and the body's condition is ignored.
            going = start is None or bool(contents(again.first, "whether a loop goes on").item())
        return (*state, *_stacked(site, collected, carried))

    return run


def _shaped(number: np.ndarray, slot: Any) -> Value:
    """The trip number or condition in the shape that the body declares."""
    return Value(tf.constant(number.reshape(1) if slot.shape == (1,) else number))


def _stacked(site: Site, collected: Sequence[Sequence[Value]], carried: int) -> list[Value]:
    if collected:
        return [Value(tf.stack([item.first for item in items])) for items in zip(*collected, strict=True)]
    empty = []
    for slot in site.outputs[carried:]:
        if slot is not None and (slot.dtype is None or slot.shape is None):
            raise NotNative("what a loop without iterations collects is not known")
        shape = [] if slot is None or slot.shape is None else [d or 0 for d in slot.shape[1:]]
        empty.append(Value(tf.zeros([0, *shape], tf.int8 if slot is None else tf.as_dtype(slot.dtype))))
    return empty
