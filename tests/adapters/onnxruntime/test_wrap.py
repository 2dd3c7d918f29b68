"""Sessions that somebody else made, as executors."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper

import deep_bench as db
from deep_bench.adapters.onnxruntime import wrap
from deep_bench.errors import InvalidArgument, Unsupported


def session_of(graph: onnx.GraphProto) -> ort.InferenceSession:
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    return ort.InferenceSession(model.SerializeToString())


@pytest.fixture(scope="module")
def digits() -> ort.InferenceSession:
    return ort.InferenceSession(db.load("digits-cnn").to_proto().SerializeToString())


IMAGE = np.random.default_rng(0).random((3, 1, 8, 8), np.float32)


def test_it_gives_what_the_session_gives(digits: ort.InferenceSession) -> None:
    executor = wrap(digits)
    assert [str(spec) for spec in executor.inputs] == ["image: float32[batch, 1, 8, 8]"]
    assert np.array_equal(executor({"image": IMAGE})["logits"], digits.run(None, {"image": IMAGE})[0])
    call = executor.bind({"image": executor.device.from_numpy(IMAGE)})
    assert np.array_equal(executor.device.to_numpy(call()["logits"]), digits.run(None, {"image": IMAGE})[0])


def test_outputs_of_forward_stay_valid(digits: ort.InferenceSession) -> None:
    executor = wrap(digits)
    first = executor.forward({"image": executor.device.from_numpy(IMAGE)})["logits"]
    before = executor.device.to_numpy(first)
    executor.forward({"image": executor.device.from_numpy(2 * IMAGE)})
    assert np.array_equal(executor.device.to_numpy(first), before)


def test_inputs_and_outputs_can_be_renamed(digits: ort.InferenceSession) -> None:
    executor = wrap(digits, ["picture"], ["scores"])
    assert np.array_equal(executor({"picture": IMAGE})["scores"], digits.run(None, {"image": IMAGE})[0])


def test_strings_and_sequences_go_through_run() -> None:
    graph = helper.make_graph(
        [
            helper.make_node("SplitToSequence", ["x"], ["parts"], name="split", axis=0),
            helper.make_node("Identity", ["s"], ["t"]),
        ],
        "g",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, None]),
            helper.make_tensor_value_info("s", TensorProto.STRING, [1]),
        ],
        [
            helper.make_tensor_sequence_value_info("parts", TensorProto.FLOAT, None),
            helper.make_tensor_value_info("t", TensorProto.STRING, [1]),
        ],
    )
    executor = wrap(session_of(graph))
    assert str(executor.inputs[0]) == "x: float32[2, x.1]"
    found = executor({"x": np.eye(2, dtype=np.float32), "s": np.array(["a"], object)})
    assert [part.tolist() for part in found["parts"]] == [[[1, 0]], [[0, 1]]]
    assert found["t"].tolist() == ["a"]


def test_element_types_keep_their_meaning() -> None:
    kinds = (TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.INT8, TensorProto.BOOL)
    graph = helper.make_graph(
        [helper.make_node("Identity", [f"x{k}"], [f"y{k}"]) for k in kinds],
        "g",
        [helper.make_tensor_value_info(f"x{k}", k, [1]) for k in kinds],
        [helper.make_tensor_value_info(f"y{k}", k, [1]) for k in kinds],
    )
    executor = wrap(session_of(graph))
    assert [spec.dtype.name for spec in executor.inputs] == ["float64", "float16", "int8", "bool"]
    fed = {spec.name: np.ones(1, spec.dtype) for spec in executor.inputs}
    assert all(a.dtype == b.dtype and a == b for a, b in zip(executor(fed).values(), fed.values(), strict=True))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((["a", "b"],), "2 inputs"),
        ((None, ["a", "b"]), "2 names of outputs"),
        ((None, ["y", "y"]), "2 outputs of the session"),
    ],
)
def test_names_in_another_number_are_refused(digits: ort.InferenceSession, arguments: Any, message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        wrap(digits, *arguments)


def test_what_a_session_cannot_do_is_refused(digits: ort.InferenceSession) -> None:
    with pytest.raises(InvalidArgument, match="a str to wrap"):
        wrap("digits-cnn")  # type: ignore[arg-type]
    with pytest.raises(Unsupported, match="gradients"):
        wrap(digits).gradients({}, "logits")
