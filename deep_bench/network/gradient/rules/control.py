"""Control flow: a graph is computed again and differentiated, in a node of the same kind.

What is inside one graph cannot be used in another. So the graph of a gradient holds a copy of the graph that is
differentiated, and after it the gradients by the rules of its nodes.

Source:
    Griewank and Walther, *Evaluating Derivatives*, 2nd ed., sections 3.2 and 12.1.
"""

from __future__ import annotations

import numpy as np
import onnx

from deep_bench.graph.node import outer_values, subgraphs
from deep_bench.network.gradient.rules._repeated import Repeated, again, refuse_random
from deep_bench.network.gradient.rules._sequences import is_sequence, sum_of
from deep_bench.network.gradient.rules._subgraphs import (
    Scanned,
    element_type,
    inside,
    scan,
    subgraph,
    summed,
    tensor_type,
    zeros,
    zeros_or,
)
from deep_bench.network.gradient.symbol import Symbol

__all__ = ["If", "Loop", "Scan", "SequenceMap"]


def If(at, cond):
    """``dv = if cond: the then branch's gradient of v, else: the other's``, zeros in a branch that does not use ``v``."""
    branches = subgraphs(at.node)
    for branch in branches.values():
        refuse_random(at, branch)
    captured = dict.fromkeys(v for branch in branches.values() for v in outer_values(branch) if at.wants_value(v))
    if not captured:
        return None
    graphs = {
        name: subgraph(at.op, name, [], lambda tape, branch=branch: again(at, tape, branch, [], _given(at), captured))
        for name, branch in branches.items()
    }
    results = at.op.If(cond, outputs=len(captured), **graphs)
    for value, result in zip(captured, results, strict=True):
        at.op.knowledge.state(result.value, at.op.knowledge.type_of(value))
    return dict(zip(captured, results, strict=True))


def _given(at):
    """The gradients of the outputs that have one, by their place."""
    gradients = ((i, at.gradient_or_none(i)) for i in range(len(at.node.outputs)))
    return {i: dy for i, dy in gradients if dy is not None}


def Scan(
    at,
    *inputs,
    num_scan_inputs,
    scan_input_axes=None,
    scan_input_directions=None,
    scan_output_axes=None,
    scan_output_directions=None,
):
    """A ``Scan`` the other way, over the inputs and the states of each step, which the forward ``Scan`` returns too.

    The gradients of the states are its states, as are those of captured values, which grow with each step; those of the
    scan inputs' elements are its scan outputs.
    """
    n_states = len(inputs) - num_scan_inputs
    loop = Repeated(at, n_states)
    requested = [i for i in range(num_scan_inputs) if loop.wants_element(i)]
    if not (loop.states or loop.captured or requested):
        return None
    _check_tensors(at, [Symbol(at.op, v) for v in loop.captured])
    axes = scan_input_axes or (0,) * num_scan_inputs
    backwards = scan_input_directions or (0,) * num_scan_inputs
    output_axes = scan_output_axes or (0,) * len(at.node.outputs)
    output_backwards = scan_output_directions or (0,) * len(at.node.outputs)
    saved = loop.saved(loop.needed())
    scanned = [Scanned(x, backwards=True) for x in saved.values()]
    scanned += [Scanned(x, axis, not end) for x, axis, end in zip(inputs[n_states:], axes, backwards, strict=True)]
    scanned += [Scanned(at.gradient(n_states + k), output_axes[k], not output_backwards[k]) for k in loop.seeded]

    def write(tape, *given):
        states, sums, remainder = _split(given, len(loop.states), len(loop.captured))
        given_now, elements, results = _split(remainder, len(saved), num_scan_inputs)
        stand_ins = _stand_ins(loop, tape, dict(zip(saved, given_now, strict=True)))
        stand_ins.update(zip(loop.body.inputs[n_states:], elements, strict=True))
        gradient_map = loop.back(tape, stand_ins, states, results)
        return [*_next(loop, gradient_map, stand_ins, sums), *(zeros_or(gradient_map, elements[i]) for i in requested)]

    places = [(axes[i], not backwards[i]) for i in requested]
    types = [element_type(at.op.knowledge.type_of(inputs[n_states + i].value), axes[i]) for i in requested]
    last, gradients = scan(at.op, write, _start(at, loop), scanned, places, types)
    return _found(at, loop, last, [(n_states + i, g) for i, g in zip(requested, gradients, strict=True)])


def Loop(at, trip_count, cond, *initial):
    """A ``Loop`` over the iterations that ran, from the last to the first.

    The forward ``Loop`` also returns what it carried into each iteration. The condition counts as constant.
    """
    loop = Repeated(at, len(initial), 2, 1)
    if not (loop.states or loop.captured):
        return None
    number, going = loop.body.inputs[:2]
    saved = loop.saved([number, *loop.needed()])
    count = at.op.Size(saved[number])
    results = [at.gradient(len(initial) + k) for k in loop.seeded]

    def write(tape, i, cond, *given):
        states, sums, _ = _split(given, len(loop.states), len(loop.captured))
        place = inside(tape, count) - 1 - i
        stand_ins = _stand_ins(loop, tape, {v: tape.Gather(x, place, axis=0) for v, x in saved.items()})
        stand_ins[going] = tape.constant(True, bool)
        gradient_map = loop.back(tape, stand_ins, states, [tape.Gather(dy, place, axis=0) for dy in results])
        return [cond, *_next(loop, gradient_map, stand_ins, sums)]

    start = _start(at, loop)
    types = [loop.invariant(i) for i in loop.states] + [at.op.knowledge.type_of(v) for v in loop.captured]
    types = [t or at.op.knowledge.type_of(s.value) for t, s in zip(types, start, strict=True)]
    counters = [tensor_type(np.int64, 0), tensor_type(bool, 0)]
    body = subgraph(at.op, "Loop", [*counters, *types], write, [counters[1], *types])
    last = at.op.Loop(count, None, *start, outputs=len(start), body=body)
    for result, value_type in zip(last, types, strict=True):
        at.op.knowledge.state(result.value, value_type)
    return _found(at, loop, last, [])


def SequenceMap(at, *inputs):
    """A ``SequenceMap`` over the same sequences and the gradients of the results.

    The gradient of what is the same at each position, an input that is a tensor or a captured value, is the sum over all.
    """
    body = subgraphs(at.node)["body"]
    refuse_random(at, body)
    captured = [Symbol(at.op, v) for v in outer_values(body) if at.wants_value(v)]
    requested = [i for i in range(len(inputs)) if at.wants(i)]
    dys = _given(at)
    _check_tensors(at, captured)
    if not (captured or requested):
        return None

    def write(tape, *given):
        stand_ins, gradient_map = given[: len(inputs)], dict(zip(dys, given[len(inputs) :], strict=True))
        targets = [stand_ins[i].value for i in requested] + [x.value for x in captured]
        return again(at, tape, body, stand_ins, gradient_map, targets)

    graph = subgraph(at.op, "SequenceMap", [_item_type(x) for x in (*inputs, *dys.values())], write)
    targets = [inputs[i] for i in requested] + captured
    results = at.op.SequenceMap(*inputs, *dys.values(), outputs=len(targets), body=graph)
    for result, x in zip(results, targets, strict=True):
        at.op.knowledge.state(result.value, _sequence_type(x))
    return summed((x.value, g if is_sequence(x) else _total(g, x)) for g, x in zip(results, targets, strict=True))


def _check_tensors(at, captured):
    if any(map(is_sequence, captured)):
        raise at.refusal("its body takes a sequence from around it")


def _item_type(x):
    value_type = x.tape.knowledge.type_of(x.value)
    return value_type.sequence_type.elem_type if is_sequence(x) else value_type


def _sequence_type(x):
    if is_sequence(x):
        return x.tape.knowledge.type_of(x.value)
    item = onnx.helper.make_tensor_type_proto(onnx.helper.np_dtype_to_tensor_dtype(x.dtype), None)
    return onnx.helper.make_sequence_type_proto(item)


def _total(gradients, x):
    """The sum of a sequence's tensors, each of the shape of ``x``; of none, zeros."""
    op = x.tape
    return op.ConcatFromSequence(op.SequenceInsert(gradients, op.zeros_like(x)), axis=0, new_axis=1).sum([0])


def _split(values, first, second):
    return values[:first], values[first : first + second], values[first + second :]


def _stand_ins(loop, tape, stand_ins):
    """What stands for the carried values in one step: those of ``known``, and anything for what the body does not use."""
    return {v: stand_ins.get(v, inside(tape, x)) for v, x in zip(loop.carried, loop.first, strict=True)} | stand_ins


def _start(at, loop):
    """The first states of the way back: the gradients of the last carried values, and sums without terms."""
    return [*(at.gradient(i) for i in loop.states), *(zeros(Symbol(at.op, v)) for v in loop.captured)]


def _next(loop, gradient_map, stand_ins, sums):
    states = [zeros_or(gradient_map, stand_ins[loop.carried[i]]) for i in loop.states]
    added = [(s, gradient_map.get(v)) for v, s in zip(loop.captured, sums, strict=True)]
    return [*states, *(s if gradient is None else sum_of(s, gradient) for s, gradient in added)]


def _found(at, loop, last, extra_pairs):
    """The gradients by value: of the first carried values, of captured ones, and of further inputs by their place."""
    states, sums, _ = _split(last, len(loop.states), len(loop.captured))
    pairs = [(loop.first[i].value, g) for i, g in zip(loop.states, states, strict=True)]
    pairs += zip(loop.captured, sums, strict=True)
    return summed([*pairs, *((at.node.inputs[place], g) for place, g in extra_pairs)])
