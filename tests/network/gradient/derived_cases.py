"""Cases made of networks in ONNX's textual form: run on other frameworks, and differentiated twice."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import deep_bench as db
from deep_bench.network import differentiate
from deep_bench.network.gradient import gradient_name
from deep_bench.testing.case import Case
from deep_bench.testing.gradients import LOSS, gradient_outcome, gradient_problem


def case_of(proto: onnx.ModelProto, inputs: dict[str, np.ndarray]) -> Case:
    """A case of a network with the outputs that the reference gives."""
    run = db.frameworks["reference"]().prepare(db.Network.from_proto(proto))
    found = run(inputs)
    return Case("written", "node", proto, [inputs[v.name] for v in proto.graph.input], [*found.values()], 1e-3, 1e-7)


def check_on(framework: str, text: str, /, **inputs: np.ndarray) -> str:
    """The word for the gradients that a framework computes, with the detail where they are not right; skips without it."""
    if framework != "reference":
        pytest.importorskip(framework)
    outcome = gradient_outcome(db.frameworks[framework](), case_of(onnx.parser.parse_model(text), inputs))
    assert outcome is not None
    return f"{outcome.word}: {outcome.detail}" if outcome.detail else outcome.word


def check_twice(text: str, /, **inputs: np.ndarray) -> str:
    """The word for the gradients, on the reference, of a weighted sum of the gradients."""
    problem = gradient_problem(case_of(onnx.parser.parse_model(text), inputs))
    assert problem is not None
    proto = differentiate(problem.network, LOSS, problem.wrt).to_proto()
    names = {gradient_name(LOSS, name): f"slope of {name}" for name in problem.wrt}
    kept = [v for v in proto.graph.output if v.name in names]
    for value in kept:
        value.name = names[value.name]
    names[LOSS] = "first sum"
    for node in proto.graph.node:  # the next loss and its gradients take the names
        node.input[:] = [names.get(name, name) for name in node.input]
        node.output[:] = [names.get(name, name) for name in node.output]
    del proto.graph.output[:]
    proto.graph.output.extend(kept)
    outcome = gradient_outcome(db.frameworks["reference"](), case_of(proto, inputs))
    assert outcome is not None
    return f"{outcome.word}: {outcome.detail}" if outcome.detail else outcome.word
