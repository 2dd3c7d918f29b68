"""Control flow: a graph is computed again and differentiated, in a node of the same kind.

``Scan`` and ``Loop`` share a body that is called again and again, and what its gradient needs of each call.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping, Sequence

import numpy as np
import onnx
import onnx_ir as ir

from deep_bench.graph.node import operator_facts, outer_values, subgraphs
from deep_bench.network.gradient.rules._subgraphs import (
    Scanned,
    Type,
    element_type,
    inside,
    is_sequence,
    scan,
    stacked_type,
    subgraph,
    sum_of,
    summed,
    tensor_type,
    zeros,
    zeros_or,
)
from deep_bench.network.gradient.tape import Site, Symbol, Tape, copied, inlined

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
        name: subgraph(
            at.op, name, [], lambda tape, branch=branch: again(at, tape, branch, [], _output_gradients(at), captured)
        )
        for name, branch in branches.items()
    }
    results = at.op.If(cond, outputs=len(captured), **graphs)
    for value, result in zip(captured, results, strict=True):
        at.op.knowledge.state(result.value, at.op.knowledge.type_of(value))
    return dict(zip(captured, results, strict=True))


def _output_gradients(at):
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
    return _gradients_by_value(at, loop, last, [(n_states + i, g) for i, g in zip(requested, gradients, strict=True)])


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
    return _gradients_by_value(at, loop, last, [])


def SequenceMap(at, *inputs):
    """A ``SequenceMap`` over the same sequences and the gradients of the results.

    The gradient of what is the same at each position, an input that is a tensor or a captured value, is the sum over all.
    """
    body = subgraphs(at.node)["body"]
    refuse_random(at, body)
    captured = [Symbol(at.op, v) for v in outer_values(body) if at.wants_value(v)]
    requested = [i for i in range(len(inputs)) if at.wants(i)]
    dys = _output_gradients(at)
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


def _gradients_by_value(at, loop, last, extra_pairs):
    """The gradients by value: of the first carried values, of captured ones, and of further inputs by their place."""
    states, sums, _ = _split(last, len(loop.states), len(loop.captured))
    pairs = [(loop.first[i].value, g) for i, g in zip(loop.states, states, strict=True)]
    pairs += zip(loop.captured, sums, strict=True)
    return summed([*pairs, *((at.node.inputs[place], g) for place, g in extra_pairs)])


class Repeated:
    """A ``Scan`` or ``Loop`` on the way back.

    Args:
        at: The node's site.
        n_states: How many values it carries from one call to the next.
        before_in: How many inputs of the node, and of its body, come before these.
        before_out: How many outputs of the body come before these.

    Attributes:
        states: The indices of the carried values that need a gradient.
        captured: The values that the body takes from around it and that need a gradient.
        seeded: The indices of the scan outputs that have a gradient.
    """

    def __init__(self, at: Site, n_states: int, before_in: int = 0, before_out: int = 0) -> None:
        self.at, self.n_states, self._before = at, n_states, before_in
        self.body = subgraphs(at.node)["body"]
        refuse_random(at, self.body)
        self.first = [Symbol(at.op, v) for v in at.node.inputs[before_in : before_in + n_states] if v is not None]
        self.carried = list(self.body.inputs[before_in : before_in + n_states])
        self._elements = list(self.body.inputs[before_in + n_states :])
        results = list(self.body.outputs[before_out:])
        self._next, self._results = results[:n_states], results[n_states:]
        self.captured = [v for v in outer_values(self.body) if at.wants_value(v)]
        self.seeded = [k for k in range(len(self._results)) if at.gradient_or_none(n_states + k) is not None]
        self.states = self._active()

    def wants_element(self, index: int) -> bool:
        """Whether the gradient of a scan input is asked for."""
        return self.at.wants(self._before + self.n_states + index)

    def _active(self) -> list[int]:
        """The carried values that depend on something whose gradient is asked for, at the first call or later."""
        inputs = [e for i, e in enumerate(self._elements) if self.wants_element(i)]
        active = {i for i in range(self.n_states) if self.at.wants(self._before + i)}
        while True:
            targets = [*self.captured, *inputs, *(self.carried[i] for i in active)]
            depending = self.at.backward.depending(self.at.op, tuple(self.body), targets)
            next_active = {i for i, value in enumerate(self._next) if value in depending} | active
            if next_active == active:
                return sorted(active)
            active = next_active

    # What each call was given

    def saved(self, values: Sequence[ir.Value]) -> dict[ir.Value, Symbol]:
        """Let the node also return some inputs of its body, as they were in each call, stacked along the first axis."""
        return {value: self._saved(value) for value in values}

    def needed(self) -> list[ir.Value]:
        """The carried values that the body uses."""
        return [v for v in self.carried if v.uses() or v.is_graph_output()]

    def _saved(self, value: ir.Value) -> Symbol:
        at, tape, node = self.at, self.at.op, self.at.node
        self._check_shape(value)
        saved_value = ir.Value(name=tape.names.fresh(f"{value.name}.kept"), type=value.type, shape=value.shape)
        self.body.append(
            ir.Node("", "Identity", [value], outputs=[saved_value], name=tape.names.fresh(f"{value.name}.keep"))
        )
        value_type = tape.knowledge.type_of(value) or self._first_type(value)
        tape.knowledge.state(saved_value, value_type)
        self.body.outputs.append(saved_value)
        place = self.n_states + len(self._results)
        self._results.append(saved_value)
        self._name_outputs(place)
        for name in ("scan_output_axes", "scan_output_directions"):
            attribute = node.attributes.get(name)
            if attribute is not None:
                node.attributes[name] = ir.AttrInt64s(name, [*attribute.as_ints(), 0])
        output = node.outputs[place]
        tape.knowledge.state(output, stacked_type(value_type))
        return Symbol(at.op, output)

    def _first_type(self, value: ir.Value) -> Type | None:
        tape = self.at.op
        return tape.knowledge.type_of(self.first[self.carried.index(value)].value) if value in self.carried else None

    def _name_outputs(self, place: int) -> None:
        """Give the node all outputs up to one, and names to those that nobody asked for before."""
        node = self.at.node
        node.resize_outputs(place + 1)
        for i, value in enumerate(node.outputs):
            if not value.name:
                value.name = self.at.op.names.fresh(f"{node.name}.output_{i}")

    def _check_shape(self, value: ir.Value) -> None:
        if value not in self.carried:
            return
        index, knowledge = self.carried.index(value), self.at.op.knowledge
        value_type = knowledge.type_of(value) or knowledge.type_of(self.first[index].value)
        if value_type is not None and not value_type.HasField("tensor_type"):
            raise self.at.refusal(f"its body carries {value.name!r}, which is no tensor, from one iteration to the next")
        shapes = [knowledge.dims(v) for v in (self.first[index].value, value, self._next[index])]
        for first, second in itertools.combinations([dims for dims in shapes if dims is not None], 2):
            if len(first) != len(second) or any(
                isinstance(a, int) and isinstance(b, int) and a != b for a, b in zip(first, second, strict=True)
            ):
                raise self.at.refusal(f"the value {value.name!r}, which its body carries, changes its shape")

    def invariant(self, index: int) -> Type | None:
        """What is known of a carried value in every call: the standard's inference gives up the shape for a ``Loop``."""
        knowledge = self.at.op.knowledge
        value_type, after = knowledge.type_of(self.carried[index]), knowledge.dims(self._next[index])
        if value_type is None or not value_type.HasField("tensor_type") or after is None:
            return value_type
        if not value_type.tensor_type.HasField("shape"):
            value_type = knowledge.type_of(self.first[index].value) or value_type
        result_type = Type()
        result_type.CopyFrom(value_type)
        shape = result_type.tensor_type.shape
        if len(shape.dim) != len(after):
            result_type.tensor_type.ClearField("shape")
        for dim, size in zip(shape.dim, after, strict=False):
            if (dim.dim_value if dim.HasField("dim_value") else dim.dim_param) != size:
                dim.Clear()
        return result_type

    # One call back

    def back(
        self, tape: Tape, inputs: Mapping[ir.Value, Symbol], states: Sequence[Symbol], results: Sequence[Symbol]
    ) -> Mapping[ir.Value, Symbol]:
        """Write one call again, and its gradients.

        Args:
            tape: Where.
            inputs: What stands for each input of the body.
            states: The gradients of the carried values it returned, those in ``self.states``.
            results: The gradients of its elements of the scan outputs, those in ``self.seeded``.

        Returns:
            The gradient of each input of the body, and of each captured value, that is asked for.
        """
        copy = copied(self.body, tape)
        outputs = inlined(copy, [inputs[v] for v in self.body.inputs], tape)
        before = len(outputs) - len(self._next) - len(self._results)
        seeds = [(outputs[before + i].value, dy) for i, dy in zip(self.states, states, strict=True)]
        seeds += [(outputs[before + self.n_states + k].value, dy) for k, dy in zip(self.seeded, results, strict=True)]
        requested = [self.carried[i] for i in self.states]
        requested += [e for i, e in enumerate(self._elements) if self.wants_element(i)]
        targets = dict.fromkeys([inputs[v].value for v in requested] + self.captured)
        return self.at.backward.run(tape, tuple(tape.written), summed(seeds), targets)


def refuse_random(at: Site, graph: ir.Graph) -> None:
    """Raise where a graph would draw other numbers when it is computed again."""
    for node in graph.all_nodes():
        training = node.op_type == "Dropout" and len(node.inputs) > 2 and node.inputs[2] is not None
        if training or operator_facts(node).random:
            raise at.refusal(f"its graph draws random numbers ({node.op_type}), and computed again it would draw others")


def again(
    at: Site, tape: Tape, graph: ir.Graph, inputs: Sequence[Symbol], dys: Mapping[int, Symbol], targets: Collection[ir.Value]
) -> list[Symbol]:
    """Write a graph again, and the gradients of ``targets``, zeros for those that it does not use.

    Args:
        at: The node that holds the graph.
        tape: Where they are written.
        graph: The graph.
        inputs: What stands for its inputs.
        dys: The gradients of its outputs, by their place.
        targets: Some of ``inputs``, or values from around the graph.
    """
    outputs = inlined(copied(graph, tape), inputs, tape)
    seeds = summed((outputs[i].value, inside(tape, dy)) for i, dy in dys.items())
    gradients = at.backward.run(tape, tuple(tape.written), seeds, targets)
    return [zeros_or(gradients, Symbol(tape, v)) for v in targets]
