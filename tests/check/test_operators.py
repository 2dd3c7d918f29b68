"""Every reference operator goes through stochastic arithmetic: none is refused, and no inexact result passes undisturbed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from deep_bench.check.oracle import WideArithmetic, formats_of
from deep_bench.errors import DeepBenchError
from deep_bench.graph import Network
from deep_bench.graph.node import operator_facts
from deep_bench.reference.network import ReferenceAdapter
from deep_bench.testing import Case, standard_cases

_PER_OPERATOR = 3


def _cases() -> Iterator[Any]:
    """A few of the standard's cases for each operator, those of the default domain that are fed with tensors."""
    seen: Counter[str] = Counter()
    for case in standard_cases():
        node = case.proto.graph.node[-1]
        tensors = all(isinstance(x, np.ndarray | np.generic) for x in case.inputs)
        if not tensors or "_expanded" in case.name or node.domain not in ("", "ai.onnx"):
            continue
        seen[node.op_type] += 1
        if seen[node.op_type] <= _PER_OPERATOR:
            yield pytest.param(case, id=case.name)


@pytest.mark.parametrize("case", list(_cases()))
def test_operator_is_covered(case: Case) -> None:
    try:
        network = Network.from_proto(case.proto)
        reference = ReferenceAdapter().prepare(network)
    except DeepBenchError as error:
        pytest.skip(str(error))
    if any(operator_facts(node).random for node in network.all_nodes()):
        pytest.skip("it draws random numbers")
    inputs = {spec.name: np.asarray(x) for spec, x in zip(reference.inputs, case.inputs, strict=True)}
    formats = formats_of(reference, inputs)
    oracle = reference.evaluate(inputs, arithmetic=WideArithmetic(formats))
    sample = reference.evaluate(inputs, arithmetic=WideArithmetic(formats, rng=np.random.default_rng(0)))
    for name, y in oracle.items():
        form = formats.get(name)
        if not isinstance(y, np.ndarray) or y.dtype != np.float64 or form not in (np.float32, np.float16):
            continue
        rounds = np.isfinite(y) & (y.astype(form) != y)
        assert sample[name].shape == y.shape
        assert not rounds.any() or (sample[name] != y)[rounds].mean() > 0.5, "an inexact result carries no rounding error"
