"""Judging gradients that a framework finds by its own differentiation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import onnx
import pytest

import deep_bench as db
from deep_bench.network import differentiate
from deep_bench.network.gradient.pullback import Pullback

LOSS = "loss"

SATURATED = """<ir_version: 10, opset_import: ["": 22]>
g (float[4,1,2] x, float[1,12,2] w, float[1,12,3] r) => (float loss) {
    y, h, c = LSTM<hidden_size = 3>(x, w, r)
    loss = ReduceSum<keepdims = 0>(h) }"""

LONG = """<ir_version: 10, opset_import: ["": 22]> g (float[20000,2] x, float[2] b) => (float loss) {
    y = Add(x, b) z = Mul(y, y) loss = ReduceSum<keepdims = 0>(z) }"""


class ByRule(Pullback):
    """A framework that differentiates as `differentiate` does, in another form, or wrongly."""

    form: ClassVar[Mapping[str, bool]] = {}
    factor = np.float32(1)

    def gradients(self, adapter: Any, *, cast: bool = False) -> dict[str, np.ndarray]:
        derived = differentiate(self.network, self.loss, self.wrt, **self.form)
        names = [f"d({self.loss})/d({name})" for name in self.wrt]
        found: dict[str, Any] = adapter.prepare(derived.with_outputs(names))(self.inputs)
        return {name: array * array.dtype.type(self.factor) for name, array in found.items()}


class FromRounded(ByRule):
    form: ClassVar[Mapping[str, bool]] = {"rounded_slopes": True}


class Wrong(ByRule):
    factor = np.float32(1.001)


def _saturated() -> tuple[db.Network, dict[str, np.ndarray]]:
    rng = np.random.default_rng(0)
    shapes = {"x": (4, 1, 2), "w": (1, 12, 2), "r": (1, 12, 3)}
    inputs = {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    return db.Network.from_proto(onnx.parser.parse_model(SATURATED)), {**inputs, "w": inputs["w"] * 5}


@pytest.mark.parametrize(("kind", "word"), [(ByRule, "right"), (FromRounded, "right"), (Wrong, "wrong")])
def test_slopes_from_rounded_values_are_no_fault(kind: type[ByRule], word: str) -> None:
    posed = kind(*_saturated(), ["w"], LOSS)
    assert posed.judged(posed.truth(), db.frameworks["reference"]()).word == word


def test_the_slopes_lose_bits_and_the_oracle_does_not() -> None:
    network, inputs = _saturated()
    truth = Pullback(network, inputs, ["w"], LOSS).truth()
    key = "d(loss)/d(w)"
    run = {rounded: differentiate(network, LOSS, ["w"], rounded_slopes=rounded) for rounded in (False, True)}
    off = {}
    for rounded, derived in run.items():
        found = db.frameworks["reference"]().prepare(derived)(inputs)[key]
        off[rounded] = float(np.max(np.abs(found / truth.outputs[key] - 1), where=truth.outputs[key] != 0, initial=0))
    assert off[False] < 2.0**-16 < 16 * off[False] < off[True]


@pytest.mark.parametrize("factor", [1.0, 1.0 + 2.0**-9])
def test_adding_term_by_term_is_no_fault(factor: float) -> None:
    """The gradient of what is broadcast is a sum, here of 20,000 terms of one sign."""
    rng = np.random.default_rng(1)
    inputs = {"x": rng.uniform(1, 2, (20000, 2)).astype(np.float32), "b": np.ones(2, np.float32)}
    network = db.Network.from_proto(onnx.parser.parse_model(LONG))

    class TermByTerm(Pullback):
        def gradients(self, adapter: Any, *, cast: bool = False) -> dict[str, np.ndarray]:
            terms = 2 * (self.inputs["x"] + self.inputs["b"])
            return {"d(loss)/d(b)": np.add.accumulate(terms, axis=0)[-1] * terms.dtype.type(factor)}

    posed = TermByTerm(network, inputs, ["b"], LOSS)
    whole = posed.judged(posed.truth(), db.frameworks["reference"]())
    assert whole.clear is (factor == 1.0), whole
