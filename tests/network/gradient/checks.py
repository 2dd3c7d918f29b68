"""Checks that the tests of all families of gradient rules share."""

from __future__ import annotations

from functools import cache

import numpy as np
import onnx

import deep_bench as db
from deep_bench.network import differentiate
from deep_bench.network.gradient import gradient_name
from deep_bench.testing.case import Case, standard_cases
from deep_bench.testing.generated import generated_cases
from deep_bench.testing.gradients import LOSS, GradientOutcome, gradient_outcome, gradient_problem, judge_gradients


@cache
def _all_cases() -> tuple[Case, ...]:
    return (*standard_cases("node"), *generated_cases())


@cache
def cases_of(operator: str) -> tuple[Case, ...]:
    """The standard's and the generated cases whose outermost graph contains an operator."""
    return tuple(c for c in _all_cases() if operator in c.operators)


def outcomes(operator: str) -> list[GradientOutcome]:
    """How the gradients of all cases of an operator come out on the reference."""
    adapter = db.frameworks["reference"]()
    found = (gradient_outcome(adapter, case) for case in cases_of(operator))
    return [outcome for outcome in found if outcome is not None]


def alone(operator: str) -> list[GradientOutcome]:
    """How the gradients of the cases come out that have an operator and no other."""
    adapter = db.frameworks["reference"]()
    found = (gradient_outcome(adapter, case) for case in cases_of(operator) if case.operators == (operator,))
    return [outcome for outcome in found if outcome is not None]


def check(text: str, /, *, precise: bool = True, **inputs: np.ndarray) -> str:
    """The word that `judge_gradients` has for a network in ONNX's textual form, differentiated and run on the reference.

    The detail is part of it where it is ``wrong``.
    """
    return _checked(onnx.parser.parse_model(text), inputs, precise=precise)


def twice(text: str, /, **inputs: np.ndarray) -> str:
    """As `check`, for a network whose gradients are outputs too: their gradients are checked.

    Args:
        text: The network; its last output is the loss.
        **inputs: What is differentiated with respect to is in float64.
    """
    proto = onnx.parser.parse_model(text)
    wrt = [n for n, a in inputs.items() if a.dtype == np.float64]
    derived = differentiate(db.Network.from_proto(proto), proto.graph.output[-1].name, wrt)
    return _checked(derived.to_proto(), inputs, precise=True)


def _checked(proto: onnx.ModelProto, inputs: dict[str, np.ndarray], *, precise: bool) -> str:
    run = db.frameworks["reference"]().prepare(db.Network.from_proto(proto))
    outputs = [run(inputs)[value.name] for value in proto.graph.output]
    case = Case("written", "node", proto, [inputs[v.name] for v in proto.graph.input], outputs, 1e-3, 1e-7)
    problem = gradient_problem(case)
    assert problem is not None
    derived = db.frameworks["reference"]().prepare(differentiate(problem.network, LOSS, problem.wrt))
    found = derived(inputs)
    gradients = {name: found[gradient_name(LOSS, name)] for name in problem.wrt}
    word, detail = judge_gradients(problem, gradients, precise=precise)
    return f"{word}: {detail}" if detail else word
