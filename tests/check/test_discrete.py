"""Quantization to narrow floating point: one step off is right next to the middle of two numbers, and nowhere else."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest

import deep_bench as db
from deep_bench.check import establish, judge
from deep_bench.check.estimate import differing
from deep_bench.graph import Network
from tests.corpus.subjects import refuse_float64

FLOAT8 = np.dtype(ml_dtypes.float8_e4m3fn)
SCALE = np.float32(0.01)
ALONE = """<ir_version: 10, opset_import: ["": 23]> alone (float[n] x) => (float8e4m3fn[n] y)
    <float s = {0.01}, float8e4m3fn z = {0}> { y = QuantizeLinear(x, s, z) }"""
SUMMED = """<ir_version: 10, opset_import: ["": 23]> summed (float[n] x) => (float t)
    <float s = {0.01}, float8e4m3fn z = {0}> {
    q = QuantizeLinear(x, s, z)  d = DequantizeLinear(q, s, z)  t = ReduceSum<keepdims = 0>(d) }"""
Patch = Callable[[np.ndarray], np.ndarray]


def middles() -> np.ndarray:
    """What is divided to the middle of two numbers, or next to it."""
    grid = np.arange(1, 120, dtype=np.uint8).view(FLOAT8).astype(np.float64)
    exact = (grid[:-1] + grid[1:]) / 2 * np.float64(SCALE)
    return np.concatenate([exact.astype(np.float32), np.nextafter(exact.astype(np.float32), np.float32(np.inf))])


def between() -> np.ndarray:
    """What is divided to a third of the way between two numbers, and a NaN."""
    grid = np.arange(8, 120, dtype=np.uint8).view(FLOAT8).astype(np.float64)
    return np.append((grid[:-1] + (grid[1:] - grid[:-1]) / 3) * np.float64(SCALE), np.nan).astype(np.float32)


class Quantizing:
    """The reference with another quotient."""

    upgrades = True

    def __init__(self, network: Network, inputs: Mapping[str, np.ndarray], quotient: Patch) -> None:
        self.network, self.inputs, self.quotient = network, inputs, quotient

    def outputs(self) -> dict[str, np.ndarray]:
        return self.run(self.network, self.inputs)

    def run(self, network: Network, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        refuse_float64(network)
        executor = db.frameworks["reference"]().prepare(network)
        return {n: np.array(y) for n, y in executor.evaluate(inputs, arithmetic=self._arithmetic).items()}

    def _arithmetic(self, step: Any, function: Callable[..., Any], inputs: Any) -> Any:
        return self.quotient(inputs[0]).astype(FLOAT8) if step.node.op_type == "QuantizeLinear" else function(*inputs)


def word(text: str, x: np.ndarray, quotient: Patch) -> str:
    network = Network.from_proto(onnx.parser.parse_model(text)).with_sizes({"n": x.size})
    inputs = {"x": x}
    with np.errstate(invalid="ignore"):
        return judge(establish(network, inputs), Quantizing(network, inputs, quotient)).word


def by_reciprocal(x: np.ndarray) -> np.ndarray:
    return x * (np.float32(1) / SCALE)


@pytest.mark.parametrize("text", [ALONE, SUMMED], ids=["alone", "summed"])
def test_next_to_the_middle_both_numbers_are_right(text: str) -> None:
    assert not np.array_equal(by_reciprocal(middles()).astype(FLOAT8), (middles() / SCALE).astype(FLOAT8))
    assert word(text, middles(), by_reciprocal) == "right"


@pytest.mark.parametrize("quotient", [lambda x: x / SCALE, by_reciprocal], ids=["division", "reciprocal"])
def test_between_the_middles_there_is_one(quotient: Patch) -> None:
    assert word(ALONE, between(), quotient) == "right"


def test_another_scale_is_wrong() -> None:
    x = np.random.default_rng(0).standard_normal(512).astype(np.float32)
    assert word(ALONE, x, lambda x: x / (SCALE * np.float32(1.01))) == "wrong"


def test_one_step_off_is_wrong_where_rounding_leaves_no_choice() -> None:
    def off(x: np.ndarray) -> np.ndarray:
        y = (x / SCALE).astype(FLOAT8)
        bits = y.view(np.uint8).copy()
        bits[3] += 1
        return bits.view(FLOAT8)

    assert word(ALONE, between(), off) == "wrong"


def test_two_steps_off_are_wrong_even_next_to_the_middle() -> None:
    def off(x: np.ndarray) -> np.ndarray:
        bits = (x / SCALE).astype(FLOAT8).view(np.uint8).copy()
        bits[60] += 2
        return bits.view(FLOAT8)

    assert word(ALONE, middles(), off) == "wrong"


def test_nan_is_nan() -> None:
    a, b = np.array([1, np.nan, np.nan], FLOAT8), np.array([1.0, np.nan, 2.0])
    assert differing(a, b).tolist() == [False, False, True]
    assert differing(np.array(["a", "b"], object), np.array(["a", "c"], object)).tolist() == [False, True]
