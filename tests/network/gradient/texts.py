"""Gradients, and gradients of gradients, of networks in ONNX's textual form."""

from __future__ import annotations

import numpy as np
import onnx

import deep_bench as db
from deep_bench.network import differentiate
from deep_bench.network.gradient import gradient_name
from deep_bench.tensor import is_float
from deep_bench.testing.case import Case
from deep_bench.testing.gradients import LOSS, gradient_problem, judge_gradients


def gradients_of(text: str, /, *, straight_through: bool = False, **inputs: np.ndarray) -> dict[str, np.ndarray]:
    """The gradients of the value ``loss`` with respect to all floating-point inputs, on the reference."""
    network = db.Network.from_proto(onnx.parser.parse_model(text))
    wrt = [name for name, array in inputs.items() if is_float(array.dtype)]
    derived = differentiate(network, "loss", wrt, straight_through=straight_through)
    found = db.frameworks["reference"]().prepare(derived)(inputs)
    return {name: np.asarray(found[gradient_name("loss", name)]) for name in wrt}


def check_second(text: str, /, **inputs: np.ndarray) -> str:
    """The word for the second derivatives of a network in ONNX's textual form, in float64, on the reference."""
    first = gradient_problem(_case(onnx.parser.parse_model(text), inputs))
    assert first is not None
    proto = differentiate(first.network, LOSS, first.wrt).to_proto()
    kept = [o for o in proto.graph.output if o.name in {gradient_name(LOSS, name) for name in first.wrt}]
    del proto.graph.output[:]
    proto.graph.output.extend(kept)
    second = gradient_problem(_renamed(_case(proto, inputs)))
    assert second is not None
    derived = db.frameworks["reference"]().prepare(differentiate(second.network, LOSS, second.wrt))
    found = derived(inputs)
    word, detail = judge_gradients(second, {n: found[gradient_name(LOSS, n)] for n in second.wrt}, precise=True)
    return f"{word}: {detail}" if detail else word


def _case(proto: onnx.ModelProto, inputs: dict[str, np.ndarray]) -> Case:
    run = db.frameworks["reference"]().prepare(db.Network.from_proto(proto))
    outputs = [run(inputs)[value.name] for value in proto.graph.output]
    return Case("written", "node", proto, [inputs[v.name] for v in proto.graph.input], outputs, 1e-3, 1e-7)


def _renamed(case: Case) -> Case:
    """The same with other names for the first loss and its gradients: the second loss needs the first one's."""
    names = {LOSS: "first loss"} | {v.name: f"first {i}" for i, v in enumerate(case.proto.graph.output)}
    for node in case.proto.graph.node:
        for field in (node.input, node.output):
            field[:] = [names.get(name, name) for name in field]
    for value in (*case.proto.graph.output, *case.proto.graph.value_info):
        value.name = names.get(value.name, value.name)
    return case
