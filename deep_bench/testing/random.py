"""Operators that draw random numbers: which cases they are in, and whether the draws are of the right distribution."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import onnx

from deep_bench.testing.case import Case

RANDOM_OPERATORS = frozenset(
    {"Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"}
)
"""Operators of the default domain whose every result is drawn; Dropout draws in training mode only."""


def is_random(case: Case) -> bool:
    """Whether a case's expected outputs are draws of a generator that the standard does not name.

    These are the six cases of Bernoulli, which state no usable seed, and the four of Dropout in training mode with a ratio,
    whose outputs are those of ``numpy.random.RandomState``. A system that gives other draws is not wrong, so that such a
    case can pass, but not fail; the distribution is what `RANDOM_CHECKS` test.

    Args:
        case: A case of the standard, as is or frozen.

    Example:
        >>> from deep_bench.testing import standard_cases
        >>> [c.name for c in standard_cases("node") if is_random(c)][:2]
        ['test_bernoulli', 'test_bernoulli_expanded']
    """
    graph = case.proto.graph
    fed = dict(zip((v.name for v in graph.input), case.inputs, strict=False))
    known = fed | {t.name: onnx.numpy_helper.to_array(t) for t in graph.initializer}
    return any(node.op_type in RANDOM_OPERATORS or _drops(node, known) for node in _nodes(graph))


def _nodes(graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                yield from _nodes(attribute.g)


def _drops(node: onnx.NodeProto, known: Mapping[str, Any]) -> bool:
    """Whether a node is a Dropout that trains, with a ratio other than 0; what is not known may be so."""
    if node.op_type != "Dropout" or len(node.input) < 3 or not node.input[2]:
        return False
    training, ratio = known.get(node.input[2], True), known.get(node.input[1], 0.5)
    return bool(np.all(training)) and bool(np.all(ratio))
