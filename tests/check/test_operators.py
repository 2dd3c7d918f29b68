"""Every reference operator goes through stochastic arithmetic: none is refused, and no inexact result passes undisturbed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx
import pytest
from onnx.backend.test.loader import load_model_tests

from deep_bench.check.isolate import draws_at_random
from deep_bench.check.oracle import WideArithmetic
from deep_bench.check.truth import formats_of
from deep_bench.errors import DeepBenchError
from deep_bench.graph import Network
from deep_bench.reference.network import ReferenceAdapter

_PER_OPERATOR = 3


def _cases() -> Iterator[Any]:
    """A few of the standard's cases for each operator, those of the default domain that are fed with tensors."""
    seen: Counter[str] = Counter()
    for case in load_model_tests(kind="node"):
        if case.model is None or "_expanded" in case.name or not case.data_sets:
            continue
        operator = case.model.graph.node[-1].op_type
        arrays = [a for a in case.data_sets[0][0] if isinstance(a, np.ndarray | np.generic)]
        if len(arrays) != len(case.model.graph.input) or case.model.graph.node[-1].domain not in ("", "ai.onnx"):
            continue
        seen[operator] += 1
        if seen[operator] <= _PER_OPERATOR:
            yield pytest.param(case.model, arrays, id=case.name)


@pytest.mark.parametrize(("model", "arrays"), list(_cases()))
def test_operator_is_covered(model: onnx.ModelProto, arrays: list[np.ndarray]) -> None:
    try:
        network = Network.from_proto(model)
        reference = ReferenceAdapter().prepare(network)
    except DeepBenchError as error:
        pytest.skip(str(error))
    if any(draws_at_random(node) for node in network.all_nodes()):
        pytest.skip("it draws random numbers")
    inputs = {v.name: np.asarray(a) for v, a in zip(model.graph.input, arrays, strict=True)}
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
