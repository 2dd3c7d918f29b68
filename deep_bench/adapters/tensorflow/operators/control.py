"""If, Loop and Scan as TensorFlow's own control flow.

It does not carry sequences: If and Loop over these are decided while they are traced.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from deep_bench.adapters.lowering import NotNative, Plan, Site
from deep_bench.adapters.tensorflow.graph import GraphRunner, contents
from deep_bench.adapters.tensorflow.layout import Value, on_values
from deep_bench.adapters.tensorflow.operators._site import tf_dtype

__all__ = ["If", "Loop", "Scan"]


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


def decided_branch(branches: Sequence[Plan], names: Sequence[str]) -> Callable[..., Any]:
    """The one of two graphs that a condition chooses."""
    runners = [GraphRunner(plan) for plan in branches]

    @on_values
    def run(condition: Value, *captured: Value) -> tuple[Value, ...]:
        runner = runners[0 if contents(condition.first, "which branch is taken").item() else 1]
        return tuple(runner([], captured_by(runner.plan, names, captured)))

    return run


def unrolled_loop(site: Site) -> Callable[..., Any]:
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


def _captures(plan: Plan, names: Sequence[str], values: Sequence[Value]) -> list[Value]:
    return [value.fresh() for value in captured_by(plan, names, values)]


def _union(*plans: Plan) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for plan in plans for name in plan.captures))


def If(site: Site) -> Callable[..., Any]:
    """One of two graphs, as a condition says."""
    branches = (site.attributes["then_branch"], site.attributes["else_branch"])
    names = _union(*branches)
    if any(map(holds_containers, branches)):
        return decided_branch(branches, names)
    runners = [GraphRunner(plan) for plan in branches]

    @on_values
    def run(condition: Value, *captured: Value) -> tuple[Value, ...]:
        chosen = tf.reshape(condition.first, [])
        possible = [_Branch(runner, _captures(runner.plan, names, list(captured))) for runner in runners]
        try:
            results = tf.cond(chosen, *possible)
        except (ValueError, tf.errors.InvalidArgumentError):
            # Where shapes are fixed, a branch that they do not fit cannot even be traced; it is never taken.
            fitting = [branch for branch in possible if branch.error is None]
            if tf.executing_eagerly() or len(fitting) != 1:
                raise
            results = _only_branch(fitting[0], chosen if fitting[0] is possible[0] else tf.logical_not(chosen))
        return tuple(Value(t) for t in results)

    return run


class _Branch:
    """One of the graphs of an ``If``; remembers why it could not be traced."""

    def __init__(self, runner: GraphRunner, captured: list[Value]) -> None:
        self.runner, self.captured = runner, captured
        self.error: Exception | None = None

    def __call__(self) -> list[Any]:
        try:
            return [tf.identity(v.first) for v in self.runner([], [c.fresh() for c in self.captured])]
        except Exception as error:
            self.error = error
            raise


def _only_branch(branch: _Branch, condition: Any) -> list[Any]:
    """The results of the only branch that fits the shapes; an error at run time if the other one should be taken."""
    message = "the branch that this condition chooses does not fit the sizes that the network was prepared for"
    with tf.control_dependencies([tf.raw_ops.Assert(condition=condition, data=[tf.constant(message)])]):
        return branch()


def _unknown(shape: Sequence[int | None] | None) -> tf.TensorShape:
    return tf.TensorShape(None if shape is None else list(shape))


def _shape_invariants(slots: Sequence[Any], values: Sequence[Any]) -> list[tf.TensorShape]:
    """Shape invariants: what the body's input is declared to be, where the first value agrees, else only its rank."""
    shapes = []
    for slot, value in zip(slots, values, strict=True):
        declared = _unknown(slot.shape)
        shapes.append(declared if declared.is_compatible_with(value.shape) else tf.TensorShape(None))
    return shapes


def Loop(site: Site) -> Callable[..., Any]:
    """A graph repeated while its condition holds and the trip count is not reached; scan outputs are stacked."""
    body: Plan = site.attributes["body"]
    if holds_containers(body):
        return unrolled_loop(site)
    runner, carried = GraphRunner(body), len(body.inputs) - 2
    produced = len(body.outputs) - 1 - carried
    dtypes = [tf_dtype(_output_dtype(site, body, i)) for i in range(1 + carried, len(body.outputs))]
    shapes = [_item_shape(site, i) for i in range(carried, carried + produced)]

    @on_values
    def run(limit: Value | None, start: Value | None, *rest: Value) -> Any:
        state = [tf.convert_to_tensor(v.first) for v in rest[:carried]]
        outer = _captures(body, body.captures, _pick(site, body, rest[carried:]))
        trips = None if limit is None else tf.cast(tf.reshape(limit.first, []), tf.int64)
        go = tf.constant(True) if start is None else tf.reshape(start.first, [])
        stacks = [
            tf.TensorArray(d, 0, dynamic_size=True, infer_shape=False, element_shape=s)
            for d, s in zip(dtypes, shapes, strict=True)
        ]

        def goes_on(i: Any, going: Any, *_: Any) -> Any:
            return going if trips is None else tf.logical_and(going, i < trips)

        def step(i: Any, going: Any, values: list[Any], outputs: list[Any]) -> Any:
            inputs = [Value(_like(t, slot)) for t, slot in zip((i, going, *values), body.inputs, strict=True)]
            results = [v.first for v in runner(inputs, [v.fresh() for v in outer])]
            arrays = [o.write(tf.cast(i, tf.int32), r) for o, r in zip(outputs, results[1 + carried :], strict=True)]
            # Without a first condition the loop is a counted one, and the body's condition is ignored.
            again = going if start is None else tf.reshape(results[0], [])
            return i + 1, again, results[1 : 1 + carried], arrays

        invariants = (
            tf.TensorShape([]),
            tf.TensorShape([]),
            _shape_invariants(body.inputs[2:], state),
            [tf.TensorShape(None)] * produced,
        )
        zero = tf.constant(0, tf.int64)
        _, _, final, outputs = tf.while_loop(goes_on, step, (zero, go, state, stacks), shape_invariants=invariants)
        return tuple(Value(t) for t in [*final, *(o.stack() for o in outputs)])

    return run


def _like(tensor: Any, slot: Any) -> Any:
    """The trip number or condition in the shape that the body declares."""
    return tf.reshape(tensor, [1]) if slot.shape == (1,) and tensor.shape.rank == 0 else tensor


def _pick(site: Site, body: Plan, values: Sequence[Value]) -> Sequence[Value]:
    """The captured values, which follow the inputs."""
    del site
    return values[len(values) - len(body.captures) :] if body.captures else []


def _output_dtype(site: Site, body: Plan, index: int) -> Any:
    name = body.outputs[index]
    for step in body.steps:
        for slot in step.site.outputs:
            if slot is not None and slot.name == name and slot.dtype is not None:
                return slot.dtype
    for slot in body.inputs:
        if slot.name == name:
            return slot.dtype
    if name in body.constants:
        return body.constants[name].dtype
    outer = site.outputs[index - 1] if site.operator == "Loop" else site.outputs[index]
    return None if outer is None else outer.dtype


def _item_shape(site: Site, index: int) -> tf.TensorShape:
    slot = site.outputs[index] if index < len(site.outputs) else None
    return tf.TensorShape(None) if slot is None or slot.shape is None else tf.TensorShape(list(slot.shape[1:]))


def Scan(site: Site) -> Callable[..., Any]:
    """A graph run over the slices of its inputs, carrying a state; its outputs are stacked."""
    body: Plan = site.attributes["body"]
    if holds_containers(body):
        raise NotNative("TensorFlow has no sequences in its control flow")
    runner, scanned = GraphRunner(body), site.attributes["num_scan_inputs"]
    carried = len(body.inputs) - scanned
    produced = len(body.outputs) - carried
    in_axes = site.attribute("scan_input_axes") or (0,) * scanned
    out_axes = site.attribute("scan_output_axes") or (0,) * produced
    in_back = site.attribute("scan_input_directions") or (0,) * scanned
    out_back = site.attribute("scan_output_directions") or (0,) * produced
    dtypes = [tf_dtype(_output_dtype(site, body, i)) for i in range(carried, len(body.outputs))]

    @on_values
    def run(*values: Value) -> Any:
        state = [v.first for v in values[:carried]]
        sources = [_move_axis(v.first, a, 0) for v, a in zip(values[carried : carried + scanned], in_axes, strict=True)]
        outer = _captures(body, body.captures, _pick(site, body, values))
        count = tf.shape(sources[0])[0]
        stacks = [tf.TensorArray(d, count, infer_shape=False, element_shape=tf.TensorShape(None)) for d in dtypes]

        def step(i: Any, now: list[Any], outputs: list[Any]) -> Any:
            parts = [s[count - 1 - i] if back else s[i] for s, back in zip(sources, in_back, strict=True)]
            results = [v.first for v in runner([Value(t) for t in (*now, *parts)], [v.fresh() for v in outer])]
            arrays = [
                o.write(count - 1 - i if back else i, r)
                for o, back, r in zip(outputs, out_back, results[carried:], strict=True)
            ]
            return i + 1, results[:carried], arrays

        invariants = (tf.TensorShape([]), _shape_invariants(body.inputs[:carried], state), [tf.TensorShape(None)] * produced)
        start = (tf.constant(0), state, stacks)
        _, final, outputs = tf.while_loop(lambda i, *_: i < count, step, start, shape_invariants=invariants)
        items = [_output_rank(body, i) for i in range(carried, len(body.outputs))]
        return tuple(Value(t) for t in [*final, *(_out(o, a, r) for o, a, r in zip(outputs, out_axes, items, strict=True))])

    return run


def _output_rank(body: Plan, index: int) -> int | None:
    name = body.outputs[index]
    slots = [*body.inputs, *(s for step in body.steps for s in step.site.outputs if s is not None)]
    return next((slot.rank for slot in slots if slot.name == name), None)


def _out(stack: Any, axis: int, rank: int | None) -> Any:
    tensor = stack.stack()
    if axis == 0:
        return tensor
    if rank is None:
        raise NotNative("the rank of a scan output is not known when the network is prepared")
    tensor.set_shape([None] * (rank + 1))
    return _move_axis(tensor, 0, axis)


def _move_axis(tensor: Any, source: int, target: int) -> Any:
    rank = tensor.shape.rank
    source, target = source % rank, target % rank
    if source == target:
        return tensor
    order = [a for a in range(rank) if a != source]
    order.insert(target, source)
    return tf.transpose(tensor, order)
