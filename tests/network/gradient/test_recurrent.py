"""Gradients of recurrent layers."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import deep_bench as db
from deep_bench.errors import UnsupportedOperator
from deep_bench.network import differentiate
from deep_bench.network.gradient.rules import recurrent
from tests.network.gradient.checks import check, outcomes
from tests.network.gradient.derived_cases import check_on, check_twice

GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
OPERATORS = sorted(GATES)
HIDDEN, INPUTS = 2, 2


def layer(
    operator: str,
    *,
    steps: int = 3,
    batch: int = 2,
    directions: int = 1,
    lengths: tuple[int, ...] = (),
    attributes: str = "",
    symbolic: bool = False,
    dtype: str = "double",
) -> tuple[str, dict[str, np.ndarray]]:
    """A network of one layer with all its inputs and outputs, and values for them."""
    gates = GATES[operator] * HIDDEN
    state = (directions, batch, HIDDEN)
    shapes = {
        "x": (steps, batch, INPUTS),
        "w": (directions, gates, INPUTS),
        "r": (directions, gates, HIDDEN),
        "b": (directions, 2 * gates),
        "h": state,
    }
    if operator == "LSTM":
        shapes |= {"c": state, "p": (directions, 3 * HIDDEN)}
    rng = np.random.default_rng(steps)
    inputs = {n: rng.normal(size=s).astype("f4" if dtype == "float" else "f8") for n, s in shapes.items()}
    if lengths:
        inputs["lengths"] = np.array(lengths, np.int32)
    sizes = {n: [*map(str, s)] for n, s in shapes.items()}
    if symbolic:
        sizes["x"][:2], sizes["h"][1] = ['"time"', '"batch"'], '"batch"'
    declared = [f"{dtype}[{','.join(sizes[n])}] {n}" for n in shapes] + ["int32[2] lengths"] * bool(lengths)
    names = ["x", "w", "r", "b", "lengths" if lengths else "", *[n for n in ("h", "c", "p") if n in shapes]]
    made = ["y", "yh", *(["yc"] if operator == "LSTM" else [])]
    stated = f"hidden_size = {HIDDEN}{', ' + attributes if attributes else ''}"
    text = f"""<ir_version: 10, opset_import: ["": 22]> g ({", ".join(declared)})
        => ({", ".join(f"{dtype}[{'a,b,c,d' if n == 'y' else 'a,b,d'}] {n}" for n in made)}) {{
        {", ".join(made)} = {operator}<{stated}>({", ".join(names)}) }}"""
    return text, inputs


VARIANTS = {
    "plain": {},
    "reverse": {"attributes": 'direction = "reverse"'},
    "both directions": {"attributes": 'direction = "bidirectional"', "directions": 2},
    "lengths": {"lengths": (3, 1)},
    "no element": {"lengths": (0, 2)},
    "lengths in reverse": {"lengths": (1, 2), "attributes": 'direction = "reverse"'},
    "lengths both ways": {"lengths": (2, 1), "attributes": 'direction = "bidirectional"', "directions": 2},
    "clip": {"attributes": "clip = 0.5"},
    "one step": {"steps": 1},
    "one sequence": {"batch": 1},
    "symbolic": {"symbolic": True},
    "symbolic lengths in reverse": {"symbolic": True, "lengths": (1, 2), "attributes": 'direction = "reverse"'},
}
ONLY = {
    "GRU": {"linear before reset": {"attributes": "linear_before_reset = 1", "lengths": (2, 3)}},
    "LSTM": {"coupled gates": {"attributes": "input_forget = 1", "lengths": (2, 3)}},
    "RNN": {},
}
ALL = [(o, name, v) for o in OPERATORS for name, v in (VARIANTS | ONLY[o]).items()]


@pytest.mark.long
@pytest.mark.parametrize(("operator", "name", "variant"), ALL, ids=[f"{o}-{name}" for o, name, _ in ALL])
def test_variants(operator, name, variant):
    text, inputs = layer(operator, **variant)
    assert check(text, **inputs) in ("right", "kink")


@pytest.mark.parametrize("operator", OPERATORS)
def test_a_scan_where_there_are_many_steps(operator, monkeypatch):
    monkeypatch.setattr(recurrent, "UNROLLED", 1)
    for variant in ({}, {"lengths": (1, 2), "attributes": 'direction = "reverse"'}):
        text, inputs = layer(operator, **variant)
        assert check(text, **inputs) == "right"


@pytest.mark.long
@pytest.mark.parametrize(("operator", "unrolled"), [("RNN", 16), ("GRU", 1), ("LSTM", 1), ("LSTM", 16)])
def test_is_differentiated_again(operator, unrolled, monkeypatch):
    monkeypatch.setattr(recurrent, "UNROLLED", unrolled)
    text, inputs = layer(operator, steps=2, lengths=(2, 1))
    assert check_twice(text, **inputs) == "right"


@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.parametrize("name", ["plain", "lengths both ways", "clip", "symbolic lengths in reverse"])
def test_runs_on_onnxruntime(operator, name):
    if (operator, name) == ("LSTM", "clip"):
        pytest.skip("its own results differ from the standard's there")
    text, inputs = layer(operator, dtype="float", **VARIANTS[name])
    assert check_on("onnxruntime", text, **inputs) == "right"


@settings(max_examples=5, deadline=None)
@given(
    operator=st.sampled_from(OPERATORS),
    steps=st.integers(1, 4),
    directions=st.integers(1, 2),
    lengths=st.tuples(st.integers(0, 4), st.integers(0, 4)) | st.just(()),
)
def test_any_shape(operator, steps, directions, lengths):
    attributes = 'direction = "bidirectional"' if directions == 2 else ""
    lengths = tuple(min(length, steps) for length in lengths)
    text, inputs = layer(operator, steps=steps, directions=directions, lengths=lengths, attributes=attributes)
    assert check(text, **inputs) == "right"


ACTIVATIONS = [
    ("Affine", "activation_alpha = [0.5], activation_beta = [0.1]"),
    ("Elu", "activation_alpha = [0.7]"),
    ("HardSigmoid", "activation_alpha = [0.3], activation_beta = [0.4]"),
    ("LeakyRelu", "activation_alpha = [0.1]"),
    ("Relu", ""),
    ("ScaledTanh", "activation_alpha = [1.2], activation_beta = [0.8]"),
    ("Sigmoid", ""),
    ("Softplus", ""),
    ("Softsign", ""),
    ("Tanh", ""),
    ("ThresholdedRelu", "activation_alpha = [0.2]"),
]


@pytest.mark.long
@pytest.mark.parametrize(("name", "parameters"), ACTIVATIONS)
@pytest.mark.parametrize("clip", ["", "clip = 1.0"])
def test_activations(name, parameters, clip):
    text, inputs = layer("RNN", attributes=", ".join(filter(None, [f'activations = ["{name}"]', parameters, clip])))
    assert check(text, **inputs) == "right"


def with_sum(text: str, output: str) -> db.Network:
    """The network with the sum of one of its outputs as its loss."""
    proto = onnx.parser.parse_model(text)
    proto.graph.node.append(onnx.helper.make_node("ReduceSum", [output], ["loss"], keepdims=0))
    proto.graph.output.append(onnx.helper.make_tensor_value_info("loss", onnx.TensorProto.DOUBLE, []))
    return db.Network.from_proto(proto)


def test_an_unknown_activation_is_refused():
    text, _ = layer("RNN", attributes='activations = ["Sine"]')
    with pytest.raises(UnsupportedOperator, match="Sine"):
        differentiate(with_sum(text, "y"), wrt=["x"])


def test_what_lies_beyond_a_sequence_may_be_no_number():
    text, inputs = layer("LSTM", lengths=(3, 1))
    inputs["x"][1:, 1] = np.nan
    names = ["x", "w", "r", "h", "c", "p"]
    found = db.frameworks["reference"]().prepare(differentiate(with_sum(text, "yh"), wrt=names))(inputs)
    assert all(np.isfinite(found[f"d(loss)/d({name})"]).all() for name in names)
    assert not found["d(loss)/d(x)"][1:, 1].any()


@pytest.mark.parametrize("operator", OPERATORS)
def test_only_the_last_state_is_used(operator):
    text = f"""<ir_version: 10, opset_import: ["": 22]>
        g (double[3,2,2] x, double[1,{GATES[operator] * 2},2] w, double[1,{GATES[operator] * 2},2] r)
        => (double[1,2,2] yh) {{
        , yh = {operator}<hidden_size = 2>(x, w, r) }}"""
    _, inputs = layer(operator)
    assert check(text, **{name: inputs[name] for name in "xwr"}) == "right"


@pytest.mark.long
@pytest.mark.parametrize("operator", OPERATORS)
def test_cases(operator):
    found = outcomes(operator)
    assert found
    assert all(o.word in ("right", "kink") for o in found), [o for o in found if o.word not in ("right", "kink")]
