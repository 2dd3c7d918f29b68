"""Settling what the replay of one node leaves open."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest

import deep_bench as db
from deep_bench.check import establish, judge
from deep_bench.check.estimate import Agreement, opinion_of
from tests.corpus.subjects import refuse_float64

MATMUL = """<ir_version: 10, opset_import: ["": 22]> g (bfloat16[48,256] a, bfloat16[256,32] b) => (bfloat16[48,32] y) {
    y = MatMul(a, b) }"""


class TermByTerm:
    """A matrix product in bfloat16 that adds term by term, perhaps without some terms of the last rows."""

    upgrades = True

    def __init__(self, inputs: Mapping[str, np.ndarray], *, lost: int = 0, ladder: bool = True) -> None:
        self.inputs, self.lost, self.ladder = inputs, lost, ladder

    def outputs(self) -> dict[str, np.ndarray]:
        return self._product(self.inputs, "y")

    def run(self, network: db.Network, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        if not self.ladder:
            refuse_float64(network)
        return self._product(inputs, network.outputs[0].name)

    def _product(self, inputs: Mapping[str, Any], name: str) -> dict[str, np.ndarray]:
        a, b = inputs.values()
        terms = a.shape[1]
        y = np.zeros((a.shape[0], b.shape[1]), a.dtype)
        for k in range(terms):
            rows = slice(0, -3 if k >= terms - self.lost else None)
            y[rows] = y[rows] + a[rows, k : k + 1] * b[k]
        return {name: y}


def _word(**options: Any) -> str:
    rng = np.random.default_rng(0)
    inputs = {n: rng.standard_normal(s).astype(ml_dtypes.bfloat16) for n, s in (("a", (48, 256)), ("b", (256, 32)))}
    network = db.Network.from_proto(onnx.parser.parse_model(MATMUL))
    return judge(establish(network, inputs), TermByTerm(inputs, **options)).word


@pytest.mark.parametrize("ladder", [True, False])
def test_adding_term_by_term_is_right(ladder: bool) -> None:
    assert _word(ladder=ladder) == "right"


def test_lost_terms_do_not_hide_behind_adding_term_by_term() -> None:
    assert _word(lost=8) == "wrong"


@pytest.mark.parametrize(
    ("precision", "bits", "level"), [(24, 18.0, "grey"), (24, 16.0, "beyond"), (8, 5.0, "grey"), (8, 2.0, "beyond")]
)
def test_grey_zone_is_at_most_half_of_the_format(precision: int, bits: float, level: str) -> None:
    agreement = Agreement(bits, bits, 1.0, (0,), 0.0, 0.0, 0, 0.0, 0.0, 0.0, 0.0, 0.0)
    assert opinion_of(agreement, precision).level == level
