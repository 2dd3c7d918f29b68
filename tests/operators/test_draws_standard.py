"""Every operator of the ONNX standard, on the shapes of the standard's own test cases, takes what is drawn for it."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import deep_bench as db
from deep_bench.graph import Network, attributes
from deep_bench.graph.node import is_standard, subgraphs
from deep_bench.operators.argument import Argument
from deep_bench.operators.case import Case
from deep_bench.operators.case_schema import input_names, row_of
from deep_bench.operators.draws import DISTRIBUTIONS, draw_of
from deep_bench.tensor import STRING, TensorSpec, is_float
from deep_bench.testing.case import Case as StandardCase
from deep_bench.testing.case import standard_cases

EACH = 2
"""Cases of each operator."""

OVERFLOWS = {
    "Attention": "raw scores are asked for, and are minus infinity where masked",
    "BitCast": "any bits may become a number",
    "Reciprocal": "of the smallest numbers",
}
"""Operators whose results need not be finite, and why."""


def chosen() -> dict[str, list[StandardCase]]:
    """Some of the standard's cases, by operator: those of one node without graphs and sequences."""
    found = defaultdict(list)
    for case in standard_cases("node"):
        (name, *more) = case.operators
        if "expanded" not in case.name and not more and len(found[name]) < EACH:
            found[name].append(case)
    return found


STANDARD = chosen()


def spec_or_constant(operator: str, name: str, array: np.ndarray) -> Argument:
    if name in row_of(operator).constants:
        return Argument.constant(array, name)
    return Argument(TensorSpec(name, array.shape, STRING if array.dtype.kind in "OUST" else array.dtype))


def as_case(standard: StandardCase) -> Case | None:
    """The case with new contents for its inputs; ``None`` for what cases are not made for."""
    network = Network.from_proto(standard.proto).upgraded()
    node = network.nodes[0]
    values: dict[str, Any] = dict(zip([s.name for s in network.inputs], standard.inputs, strict=False))
    values |= dict(network.initializers)
    given = [None if v is None else values[str(v.name)] for v in node.inputs]
    kinds = [s.is_tensor for s in (*network.inputs, *network.outputs)]
    if len(network.nodes) != 1 or subgraphs(node) or not all(kinds):
        return None
    operator = node.op_type if is_standard(node) else f"{node.domain}::{node.op_type}"
    names = input_names(operator, len(given))
    arguments = tuple(
        None if a is None else spec_or_constant(operator, n, np.asarray(a)) for n, a in zip(names, given, strict=True)
    )
    asked = max(i + 1 for i, v in enumerate(node.outputs) if v.name)
    case = Case(operator, arguments, attributes(node), outputs=asked)
    drawn = (
        a if a is None or a.value is not None else replace(a, draw=draw_of(case, i)) for i, a in enumerate(case.arguments)
    )
    return replace(case, arguments=tuple(drawn))


@pytest.mark.parametrize("operator", sorted(STANDARD))
def test_the_operator_takes_what_is_drawn(operator: str) -> None:
    cases = [case for case in map(as_case, STANDARD[operator]) if case is not None]
    if not cases:
        pytest.skip(f"the standard's cases of {operator} hold graphs or sequences")
    for case in cases:
        executor = db.frameworks["reference"]().prepare(case.network())
        empty = any(0 in a.shape for a in case.arguments if a is not None)
        for distribution in DISTRIBUTIONS:
            with np.errstate(all="ignore"):
                found = executor(case.arrays(1, distribution)).values()
            for spec, array in zip(case.results, found, strict=True):
                fixed = tuple(d if isinstance(d, int) else n for d, n in zip(spec.shape, array.shape, strict=True))
                assert fixed == array.shape
                assert spec.dtype == array.dtype or spec.dtype == STRING
                if distribution in ("normal", "huge", "wide", "tiny") and is_float(array.dtype) and not empty:
                    assert operator in OVERFLOWS or np.isfinite(array).all(), distribution


def test_most_operators_are_there() -> None:
    assert len(STANDARD) > 190
