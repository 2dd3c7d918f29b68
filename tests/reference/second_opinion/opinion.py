"""Asking ``onnx.reference``, and comparing what it says with the reference."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import onnx
from onnx.reference import ReferenceEvaluator

import deep_bench as db
from deep_bench.testing import Case, run_case, standard_cases
from deep_bench.testing.case import amended
from deep_bench.testing.random import is_random

from .networks import OneNode, networks


def questions() -> Iterator[Case]:
    """Every network that both are asked about; the expected outputs are not used."""
    yield from (case for case in standard_cases("node") if not is_random(case))
    yield from (_case(network) for network in networks())


def _case(network: OneNode) -> Case:
    return Case(network.name, "one node", network.proto, network.feeds, (), rtol=1e-3, atol=1e-6)


def difference(case: Case) -> str:
    """How the reference differs from ``onnx.reference``, in a few words; empty if it does not."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # infinities and NaN are results like any other
        try:
            said = answers(case.proto, case.inputs)
        except Exception as error:
            return f"it fails: {type(error).__name__}"
        # under another name, since outputs that are amended in the standard's case are not what is asked here
        asked = replace(case, name=f"{case.name}, as onnx.reference has it", outputs=said, atol=amended(case).atol)
        outcome = run_case(db.frameworks["reference"](), asked)
    return "" if outcome.word == "passed" else f"{outcome.word}: {outcome.detail}"


def answers(proto: onnx.ModelProto, inputs: Sequence[Any]) -> tuple[Any, ...]:
    """What ``onnx.reference`` gives."""
    initializers = {t.name for t in proto.graph.initializer}
    names = [v.name for v in proto.graph.input if v.name not in initializers]
    return tuple(ReferenceEvaluator(proto).run(None, dict(zip(names, inputs, strict=False))))
