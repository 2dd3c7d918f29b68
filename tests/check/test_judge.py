"""Whole verdicts: decisions, formats, NaN, what cannot run, and what a record keeps."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
from onnx import parser

import deep_bench as db
from deep_bench.check import InProcessSubject, Verdict, establish, judge
from deep_bench.check.estimate import pooled
from deep_bench.check.replay import expected_of_whole
from deep_bench.check.subject import in_float64
from deep_bench.errors import DeepBenchError, Unsupported
from deep_bench.graph import Network
from deep_bench.reference.network import ReferenceAdapter

Arrays = Mapping[str, np.ndarray]


class Changed(InProcessSubject):
    """The reference with some operators exchanged."""

    def __init__(self, network: Network, inputs: Arrays, patches: Mapping[str, Callable[..., Any]]) -> None:
        super().__init__(ReferenceAdapter(), network, inputs)
        self.network, self.patches = network, patches

    def outputs(self) -> dict[str, np.ndarray]:
        return self.run(self.network, self.inputs)

    def run(self, network: Network, inputs: Arrays) -> dict[str, np.ndarray]:
        def arithmetic(step: Any, function: Any, arrays: Any) -> Any:
            patch = self.patches.get(step.node.op_type)
            return function(*arrays) if patch is None else patch(function, *arrays)

        return self.adapter.prepare(network).evaluate(inputs, arithmetic=arithmetic)


class Refusing(Changed):
    """A system that runs nothing but its own network."""

    def run(self, network: Network, inputs: Arrays) -> dict[str, np.ndarray]:
        if network is not self.network:
            raise Unsupported("a network that is not mine")
        return super().run(network, inputs)


def _network(body: str, signature: str = "(float[16,32] x, float[32,24] w) => (float[16,24] y)") -> Network:
    text = f'<ir_version: 10, opset_import: ["": 21]> g {signature} {{ {body} }}'
    return Network.from_proto(parser.parse_model(text))


def _inputs(seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {"x": rng.standard_normal((16, 32), np.float32), "w": rng.standard_normal((32, 24), np.float32)}


def _judge(network: Network, inputs: Arrays, **patches: Callable[..., Any]) -> Verdict:
    with np.errstate(all="ignore"):
        return judge(establish(network, inputs), Changed(network, inputs, patches))


TWO = "t = MatMul(x, w) y = Tanh(t)"


def test_the_reference_is_right() -> None:
    verdict = _judge(_network(TWO), _inputs())
    assert verdict.word == "right"
    assert verdict.replayed == 2
    assert 22 < verdict.significant_bits < 27
    assert verdict.repeatability.bitwise


def test_a_fault_names_its_node() -> None:
    verdict = _judge(_network(TWO), _inputs(), Tanh=lambda f, t: f(t) * np.float32(1.001))
    assert verdict.word == "wrong"
    assert [n.operator for n in verdict.worst_nodes] == ["Tanh"]
    assert "Tanh" in verdict.reason


def test_a_narrower_format_is_named() -> None:
    def in_half(f: Any, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return f(a.astype(np.float16).astype(a.dtype), b.astype(np.float16).astype(a.dtype))

    verdict = _judge(_network(TWO), _inputs(), MatMul=in_half)
    assert verdict.word == "reduced precision"
    assert "float16" in verdict.reason or "TF32" in verdict.reason


def test_a_result_more_precise_than_its_format_is_right() -> None:
    network = _network(TWO, "(float16[16,32] x, float16[32,24] w) => (float16[16,24] y)")
    inputs = {n: a.astype(np.float16) for n, a in _inputs().items()}
    wide = _judge(network, inputs, MatMul=lambda f, a, b: f(a.astype(np.float32), b.astype(np.float32)).astype(np.float16))
    assert wide.word == "right"
    assert wide.significant_bits > 10


def test_a_nan_where_the_oracle_has_none_is_wrong() -> None:
    verdict = _judge(_network(TWO), _inputs(), Tanh=lambda f, t: np.where(t > 8, np.nan, f(t)).astype(t.dtype))
    assert verdict.word == "wrong"


def test_infinities_of_the_oracle_are_expected() -> None:
    network = _network("e = Exp(x) y = MatMul(e, w)")
    inputs = _inputs()
    inputs["x"][0, 0] = 200
    assert _judge(network, inputs).word == "right"


def test_a_wrong_shape_or_type_is_wrong() -> None:
    assert _judge(_network(TWO), _inputs(), Tanh=lambda f, t: f(t)[:, :-1]).word == "wrong"
    assert _judge(_network(TWO), _inputs(), Tanh=lambda f, t: f(t).astype(np.float64)).word == "wrong"


def test_a_decision_may_flip_within_rounding_and_not_beyond() -> None:
    signature = "(float[16,32] x, float[32,24] w) => (int64[16] best, float[16,24] picked)"
    body = "t = MatMul(x, w) best = ArgMax<axis=1, keepdims=0>(t) "
    body += "one = OneHot<axis=-1>(best, depth, values) picked = Mul(one, t)"
    constants = "depth = Constant<value_int=24>() values = Constant<value_floats=[0.0, 1.0]>()"
    network = _network(f"{constants} {body}", signature)
    inputs = _inputs()
    inputs["w"][:, 1] = inputs["w"][:, 0] = np.abs(inputs["w"][:, 0]) * 4  # ties, up to rounding
    inputs["x"] = np.abs(inputs["x"])
    inputs["w"][0, 1] = np.nextafter(inputs["w"][0, 1], np.float32(9))

    def reversed_sum(f: Any, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        y = f(a[:, ::-1].copy(), b[::-1].copy())
        y[:, 0] = np.nextafter(y[:, 1], np.float32(1e9))  # the other one wins by one unit in the last place
        return y

    flipped = _judge(network, inputs, MatMul=reversed_sum)
    assert flipped.word == "right", flipped.reason
    assert any("decide otherwise" in f for f in flipped.findings)
    beyond = _judge(network, inputs, ArgMax=lambda f, t: (f(t) + 5) % 24)
    assert beyond.word == "wrong"


def test_quantised_results_may_be_off_by_one_step_within_the_margin() -> None:
    signature = "(float[16,32] x) => (uint8[16,32] y)"
    constants = "scale = Constant<value_float=0.1>() zero = Constant<value=uint8 {128}>()"
    network = _network(f"{constants} y = QuantizeLinear(x, scale, zero)", signature)
    x = (np.arange(512, dtype=np.float32).reshape(16, 32) * np.float32(0.05)) - np.float32(10)

    def by_reciprocal(f: Any, a: np.ndarray, s: np.ndarray, z: np.ndarray) -> np.ndarray:
        return np.clip(np.rint(a * (np.float32(1) / s)) + z, 0, 255).astype(np.uint8)

    assert _judge(network, {"x": x}, QuantizeLinear=by_reciprocal).word == "right"
    assert _judge(network, {"x": x}, QuantizeLinear=lambda f, *a: f(*a) + np.uint8(1)).word == "wrong"


def test_where_rounding_drowns_the_result_there_is_no_information() -> None:
    deep = "a = Sub(x, c) b = Add(a, c) y = Sub(b, x)"
    network = _network(deep, "(float[64] x, float[1] c) => (float[64] y)")
    inputs = {"x": np.random.default_rng(0).random(64, np.float32), "c": np.array([3e3], np.float32)}
    verdict = _judge(network, inputs)
    assert verdict.word == "no information"
    assert "right" in verdict.reason


def test_random_operators_cannot_be_told() -> None:
    network = _network("r = RandomNormalLike(x) y = Add(r, x)", "(float[4] x) => (float[4] y)")
    assert _judge(network, {"x": np.ones(4, np.float32)}).word == "cannot tell"


def test_nodes_that_do_not_run_alone_are_counted() -> None:
    network, inputs = _network(TWO), _inputs()
    verdict = judge(establish(network, inputs), Refusing(network, inputs, {}))
    assert (verdict.replayed, verdict.refused) == (0, 2)
    assert verdict.word == "cannot tell"


class Renaming(Changed):
    """A system that appends to the names of what it returns: of every network, or of all but its own."""

    def __init__(self, network: Network, inputs: Arrays, own: bool) -> None:
        super().__init__(network, inputs, {})
        self.own = own

    def run(self, network: Network, inputs: Arrays) -> dict[str, np.ndarray]:
        found = super().run(network, inputs)
        return found if network is self.network and not self.own else {f"{name}_0": y for name, y in found.items()}


@pytest.mark.parametrize(("own", "came", "expected"), [(True, "'y_0'", "'y'"), (False, "'t_0', 'y_0'", "'t', 'y'")])
def test_outputs_under_other_names_are_refused(own: bool, came: str, expected: str) -> None:
    network, inputs = _network(TWO), _inputs()
    with pytest.raises(DeepBenchError) as caught:
        judge(establish(network, inputs), Renaming(network, inputs, own))
    assert caught.value.came == f"the system returned outputs named {came}"
    assert caught.value.expected == f"the network's own names: {expected}"


def test_nodes_in_subgraphs_are_replayed() -> None:
    signature = "(float[4] x, int64 n) => (float[4] y)"
    body = """
    go = Constant<value=bool {1}>()
    y = Loop (n, go, x) <body = step (int64 i, bool c, float[4] v) => (bool d, float[4] u) { d = Identity(c) u = Sin(v) }>
    """
    network, inputs = _network(body, signature), {"x": np.linspace(0, 2, 4, dtype=np.float32), "n": np.array(3)}
    assert _judge(network, inputs).word == "right"
    faulty = _judge(network, inputs, Sin=lambda f, v: f(v) * np.float32(1.01))
    assert faulty.word == "wrong"
    assert any(n.operator == "Sin" for n in faulty.worst_nodes)


def test_a_declared_algorithm_is_judged_norm_wise() -> None:
    network, inputs = _network("y = MatMul(x, w)"), _inputs()
    inputs["x"][::2] *= np.float32(1e-4)

    def less_accurate(f: Any, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        y = f(a, b)
        noise = np.random.default_rng(0).uniform(-1, 1, y.shape) * float(np.abs(y).max()) * 2**-24
        return (y + noise).astype(y.dtype)

    truth, subject = establish(network, inputs), Changed(network, inputs, {"MatMul": less_accurate})
    assert judge(truth, subject).word != "right"
    assert judge(truth, subject, norm_wise=["MatMul"]).word == "right"


def test_a_verdict_is_plain_json() -> None:
    verdict = _judge(_network(TWO), _inputs(), Tanh=lambda f, t: f(t) * np.float32(np.inf))
    facts = json.loads(json.dumps(verdict.as_dict(), allow_nan=False))
    assert facts["word"] == "wrong"
    assert facts["outputs"][0]["name"] == "y"


def test_widening_reaches_weights_constants_and_casts() -> None:
    network = _network("t = MatMul(x, w) h = Cast<to=10>(t) f = Cast<to=1>(h) c = Constant<value_float=0.1>() y = Mul(f, c)")
    wide, inputs = in_float64(network, _inputs())
    y = ReferenceAdapter().prepare(wide)(inputs)["y"]
    expected = inputs["x"] @ inputs["w"] * np.float64(np.float32(0.1))
    assert y.dtype == np.float64
    np.testing.assert_allclose(y, expected, rtol=1e-12)


@pytest.mark.parametrize("effort", ["quick", "full"])
def test_verdicts_do_not_depend_on_effort(effort: Any) -> None:
    network, inputs = _network(TWO), _inputs()
    truth = establish(network, inputs, effort)
    assert len(truth.samples) == {"quick": 4, "full": 16}[effort]
    assert judge(truth, Changed(network, inputs, {})).word == "right"
    assert judge(truth, Changed(network, inputs, {"Tanh": lambda f, t: f(t) + np.float32(1e-4)})).word == "wrong"


class FaultyInFloat32(InProcessSubject):
    """Right in float64, where another kernel runs; its float32 results are changed."""

    def __init__(self, network: Network, inputs: Arrays, change: Callable[[np.ndarray], np.ndarray]) -> None:
        super().__init__(ReferenceAdapter(), network, inputs)
        self.network, self.change = network, change

    def outputs(self) -> dict[str, np.ndarray]:
        return self.run(self.network, self.inputs)

    def run(self, network: Network, inputs: Arrays) -> dict[str, np.ndarray]:
        found = super().run(network, inputs)
        return {n: self.change(y) if y.dtype == np.float32 else y for n, y in found.items()}


@pytest.mark.parametrize(
    "change", [np.zeros_like, lambda y: y[::-1].copy(), lambda y: 2 * y], ids=["zeros", "rows", "twice"]
)
def test_a_fault_of_the_float32_kernel_alone_is_no_lack_of_precision(change: Callable[[np.ndarray], np.ndarray]) -> None:
    network = db.load("digits-cnn")
    inputs = {"image": np.random.default_rng(0).random((4, 1, 8, 8), np.float32)}
    verdict = judge(establish(network, inputs), FaultyInFloat32(network, inputs, change))
    assert verdict.word == "wrong", verdict.reason


@pytest.mark.parametrize(("size", "shared"), [(64, False), (60_000, True)])
def test_a_network_of_one_node_is_estimated_once(size: int, shared: bool) -> None:
    case = db.Case.of("Tanh", (size,))
    network, inputs = case.network(), case.arrays(0)
    truth = establish(network, inputs)
    subject = InProcessSubject(ReferenceAdapter(), network, inputs)
    assert judge(truth, subject).word == "right"
    assert bool(expected_of_whole(truth, subject.upgrades)) == shared  # of few numbers more evaluations are made
    for name, expected in expected_of_whole(truth, subject.upgrades).items():
        own = pooled(truth.outputs[name], [s[name] for s in truth.samples], np.dtype("float32"))
        assert np.array_equal(expected.spread, own.spread)
    wrong = Changed(network, inputs, {"Tanh": lambda f, x: f(x) * np.float32(1.001)})
    verdict = judge(truth, wrong)
    assert (verdict.word, verdict.replayed) == ("wrong", 1)


def test_of_values_that_are_no_numbers_the_first_is_named() -> None:
    case = db.Case.of("Tanh", (2, 3))
    network, inputs = case.network(), case.arrays(0)
    spoil = lambda f, x: np.where(np.arange(3) == 1, np.nan, f(x)).astype(np.float32)  # noqa: E731
    verdict = judge(establish(network, inputs), Changed(network, inputs, {"Tanh": spoil}))
    assert "where the oracle's are not: first [0, 1], which is nan instead of" in verdict.outputs[0].reason
    assert verdict.outputs[0].where == (0, 1)
