"""Algorithms of the same operator: each computes what the definition says, or refuses."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper

import deep_bench as db
from deep_bench.check import InProcessSubject, establish, judge
from deep_bench.check.estimate import compare
from deep_bench.check.thresholds import ROUNDING_BITS
from deep_bench.errors import InvalidArgument, UnknownName, Unsupported
from deep_bench.reference.operators import find
from deep_bench.reference.operators.algorithms import algorithms, choose, less_accurate, name_of
from deep_bench.variant import Variant

from .algorithm_accuracy import EXTRA, SHAPES, expected, normal, outputs_of, typed
from .algorithm_cases import CASES, Posed

EVERY = [(operator, name) for operator, known in algorithms.items() for name in known]
DIGITS = {np.dtype(np.float32): 24, np.dtype(np.float64): 53}
SMALL = 2.0
"""How many more bits may seem missing in a result of few elements: the worst of many single rounding errors is seen."""


# Every algorithm against the definition


@pytest.mark.parametrize(("operator", "name"), EVERY)
@settings(max_examples=12, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck), database=None)
@given(data=st.data())
def test_an_algorithm_computes_what_the_definition_says(operator: str, name: str, data: Any) -> None:
    posed: Posed = data.draw(CASES[operator])
    dtype = data.draw(st.sampled_from([np.float32, np.float64]))
    inputs = typed(posed.inputs, dtype)
    kept = [None if x is None else x.copy() for x in inputs]
    if name.startswith("winograd") and (gap := _gap(posed)):
        with pytest.raises(Unsupported, match=gap):
            algorithms[operator][name](*inputs, **posed.attributes)
        return
    found = outputs_of(algorithms[operator][name], inputs, posed.attributes)
    estimates = expected(operator, inputs, posed.attributes, dtype)
    assert len(found) >= len(estimates) - (operator == "Attention")  # the scores are nobody's output
    for actual, estimate in zip(found, estimates, strict=False):
        assert actual.shape == estimate.value.shape
        assert actual.dtype in (dtype, np.float32)  # statistics are in the type that `stash_type` names
        if actual.dtype != dtype or not actual.size:
            continue
        allowed = estimate.norm_wise() if name in less_accurate.get(operator, ()) else estimate
        agreement = compare(actual, allowed)
        assert agreement.misplaced == 0
        assert agreement.bits > DIGITS[np.dtype(dtype)] - ROUNDING_BITS - SMALL
    for before, after in zip(kept, inputs, strict=True):
        np.testing.assert_array_equal(before, after)


def _gap(posed: Posed) -> str:
    """What tiles cannot have, as the message names it: windows apart from each other, or windows with gaps."""
    outputs = find("", "Conv")(*posed.inputs, **posed.attributes).shape[2:]
    kernel, strides, dilations = posed.inputs[1].shape[2:], posed.attributes["strides"], posed.attributes["dilations"]
    if any(s > 1 and o > 1 for s, o in zip(strides, outputs, strict=True)):
        return "strides"
    return "dilations" if any(d > 1 and k > 1 for d, k in zip(dilations, kernel, strict=True)) else ""


@pytest.mark.parametrize(("operator", "name"), EVERY)
def test_an_algorithm_has_the_whole_signature_of_its_operator(operator: str, name: str) -> None:
    definition = inspect.signature(find("", operator)).parameters
    assert inspect.signature(algorithms[operator][name]).parameters == definition
    assert "Source:" in (algorithms[operator][name].__doc__ or "")


@pytest.mark.parametrize("operator", algorithms)
def test_one_of_the_algorithms_is_the_reference_s_own(operator: str) -> None:
    assert name_of(operator, find("", operator)) in algorithms[operator]


@pytest.mark.parametrize(("operator", "name"), EVERY)
def test_narrow_formats_are_rounded_once_at_the_end(operator: str, name: str) -> None:
    inputs = typed([normal(*shape) for shape in SHAPES[operator]], np.float16)
    inputs = [*inputs, *EXTRA.get(operator, ())]
    narrow = outputs_of(algorithms[operator][name], inputs, {})[0]
    wide = outputs_of(algorithms[operator][name], typed(inputs, np.float32), {})[0]
    np.testing.assert_array_equal(narrow, wide.astype(np.float16))


# The checker's verdict, through the option of the reference


def one_node(operator: str, inputs: Sequence[np.ndarray], **attributes: Any) -> tuple[db.Network, dict[str, np.ndarray]]:
    names = [f"x{number}" for number in range(len(inputs))]
    values = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
        for name, x in zip(names, inputs, strict=True)
    ]
    result = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph(
        [helper.make_node(operator, names, ["y"], name="node", **attributes)], "case", values, [result]
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=10)
    return db.Network.from_proto(onnx.shape_inference.infer_shapes(model)), dict(zip(names, inputs, strict=True))


@pytest.mark.parametrize(("operator", "name"), EVERY)
def test_the_checker_finds_every_algorithm_right(operator: str, name: str) -> None:
    inputs = [*typed([normal(*shape) for shape in SHAPES[operator]], np.float32), *EXTRA.get(operator, ())]
    stated = {"hidden_size": 4} if operator == "LSTM" else {}
    network, feeds = one_node(operator, inputs, **stated)
    subject = InProcessSubject(Variant.parse(f"reference:algorithms={operator}/{name}").create(), network, feeds)
    known = less_accurate.get(operator, frozenset())
    verdict = judge(establish(network, feeds), subject, norm_wise=[operator] if name in known else [])
    assert verdict.word == "right", verdict.reason


# What an algorithm cannot do


@pytest.mark.parametrize("name", ["winograd_2", "winograd_4"])
def test_winograd_says_what_it_cannot_do(name: str) -> None:
    conv, x = algorithms["Conv"][name], np.ones((1, 1, 30, 30), np.float32)
    with pytest.raises(Unsupported, match=r"strides \[2, 1\]\nExpected: strides of 1"):
        conv(x, np.ones((1, 1, 3, 3), np.float32), strides=(2, 1))
    with pytest.raises(Unsupported, match=r"dilations \[1, 3\]\nExpected: dilations of 1"):
        conv(x, np.ones((1, 1, 3, 3), np.float32), dilations=(1, 3))
    with pytest.raises(Unsupported, match=r"F\(\d, 11\)\nExpected: windows of at most"):
        conv(x, np.ones((1, 1, 11, 1), np.float32))


@pytest.mark.parametrize(("operator", "arguments"), [("MatMul", ((2, 2), (2, 2))), ("ReduceSum", ((2, 2),))])
def test_integers_are_not_compensated(operator: str, arguments: Sequence[tuple[int, ...]]) -> None:
    with pytest.raises(Unsupported, match="int32, compensated\nExpected: a floating-point type"):
        algorithms[operator]["compensated"](*(np.ones(shape, np.int32) for shape in arguments))


# The option of the reference


def test_the_reference_runs_a_network_with_chosen_algorithms() -> None:
    network, image = db.load("digits-cnn"), {"image": normal(2, 1, 8, 8).astype(np.float32)}
    plain = db.frameworks["reference"]().prepare(network)(image)["logits"]
    adapter = Variant.parse("reference:algorithms=Conv/fft+Gemm/strassen").create()
    assert adapter.describe()["algorithms"] == "Conv/fft+Gemm/strassen"
    executor = adapter.prepare(network)
    other = executor(image)["logits"]
    assert not np.array_equal(plain, other)
    np.testing.assert_allclose(plain, other, rtol=1e-3, atol=1e-5)
    chosen = executor.algorithms(image)
    assert (chosen["stem"], chosen["head"]) == (("fft",), ("strassen",))
    assert chosen["stem_relu"] == "the reference has one algorithm for it"
    assert executor.watch(lambda *_: None).algorithms(image) == chosen
    assert db.frameworks["reference"]().prepare(network).algorithms(image)["stem"] == ("im2col",)
    assert "algorithms" not in db.frameworks["reference"]().describe()


def test_gradients_are_computed_with_the_chosen_algorithms() -> None:
    network = db.load("digits-cnn").with_loss("SoftmaxCrossEntropyLoss", output="logits", target="label")
    feeds = {"image": normal(2, 1, 8, 8).astype(np.float32), "label": np.array([1, 7])}
    found = [
        db.frameworks["reference"](**options).prepare(network, mode="train").gradients(feeds, "loss")[1]["stem.weight"]
        for options in ({}, {"algorithms": {"Conv": "fft"}})
    ]
    assert not np.array_equal(*found)
    np.testing.assert_allclose(*found, rtol=1e-3, atol=1e-5)


def test_what_an_algorithm_cannot_do_names_the_node() -> None:
    executor = db.frameworks["reference"](algorithms="Conv/winograd_2").prepare(db.load("digits-cnn"))
    with pytest.raises(Unsupported, match=r"strides \[2, 2\]") as caught:
        executor({"image": np.zeros((1, 1, 8, 8), np.float32)})
    assert caught.value.__notes__ == ["in node 'strided' (Conv)"]


def test_unknown_names_suggest_the_nearest() -> None:
    with pytest.raises(UnknownName, match="did you mean 'Conv'"):
        choose("Cnv/direct")
    with pytest.raises(UnknownName, match="did you mean 'winograd_4'"):
        choose({"Conv": "winograd4"})
    with pytest.raises(InvalidArgument, match="operator/algorithm"):
        choose("Conv")
    with pytest.raises(InvalidArgument, match="each operator once"):
        choose("Conv/fft+Conv/direct")
