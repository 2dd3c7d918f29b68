"""The rounding errors of an operator can be drawn inside of it: its function computes with what such arrays intercept."""

from __future__ import annotations

import numpy as np
import pytest

from deep_bench.check.arithmetic import Rounding, as_plain, disturb
from deep_bench.graph import Network
from deep_bench.reference.network import ReferenceAdapter
from deep_bench.testing import Case, standard_cases

UNSUITED = {"BitCast", "Dropout", "RandomNormalLike", "RandomUniformLike"}  # bits and draws have no rounding errors


def suited(case: Case) -> bool:
    if len(case.operators) != 1 or case.operators[0] in UNSUITED or any(o.version < 7 for o in case.proto.opset_import):
        return False
    values = (*case.proto.graph.input, *case.proto.graph.output)
    return case.proto.graph.node[0].domain == "" and all(v.type.HasField("tensor_type") for v in values)


ONE_CASE_EACH = list({case.operators[0]: case for case in standard_cases("node") if suited(case)}.values())


def is_float32(x: object) -> bool:
    return isinstance(x, np.ndarray) and x.dtype == np.float32


@pytest.mark.parametrize("case", ONE_CASE_EACH, ids=lambda case: case.operators[0])
def test_rounding_errors_can_be_drawn_inside_of(case: Case) -> None:
    rounding = Rounding(np.dtype(np.float32), np.random.default_rng(0))

    def disturbed(step, function, inputs):
        exact = function(*inputs)
        if step.bodies or not any(map(is_float32, inputs)):
            return exact
        noisy = function(*(disturb(x, rounding) if is_float32(x) else x for x in inputs))
        for a, b in zip(*(y if isinstance(y, tuple) else (y,) for y in (noisy, exact)), strict=True):
            if is_float32(b):
                np.testing.assert_allclose(as_plain(a), b, rtol=1e-4, atol=1e-4)
        return exact

    executor = ReferenceAdapter().prepare(Network.from_proto(case.proto))
    executor.evaluate(dict(zip((s.name for s in executor.inputs), case.inputs, strict=True)), arithmetic=disturbed)
