"""What TensorFlow's adapter does beyond the checks that every adapter is put through."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import onnx
import pytest

import deep_bench as db
from deep_bench.check.subject import in_float64
from deep_bench.errors import InvalidArgument, Unsupported, UnsupportedOperator
from deep_bench.graph import Network
from deep_bench.reference.network import ReferenceAdapter
from deep_bench.testing.adapter import AFFINE, X, Y, small_network

tf = pytest.importorskip("tensorflow")

from deep_bench.adapters.tensorflow import TensorFlowAdapter  # noqa: E402 (after the skip)

IMAGES = np.random.default_rng(0).random((3, 1, 8, 8), dtype=np.float32)


@pytest.fixture(scope="module")
def digits() -> Network:
    return db.load("digits-cnn")


@pytest.fixture(scope="module")
def logits(digits):
    return ReferenceAdapter().prepare(digits)({"image": IMAGES})["logits"]


@pytest.mark.parametrize("options", [{}, {"eager": True}, {"jit": "xla"}, {"device": "cpu"}], ids=str)
def test_variants_agree_with_the_reference(digits, logits, options):
    executor = TensorFlowAdapter(**options).prepare(digits)
    np.testing.assert_allclose(executor({"image": IMAGES})["logits"], logits, rtol=1e-4, atol=1e-5)


def test_float64_gives_more_digits(digits):
    network, inputs = in_float64(digits, {"image": IMAGES})
    exact = ReferenceAdapter().prepare(network)(inputs)["logits"]
    wide = TensorFlowAdapter(dtype="float64").prepare(digits)({"image": IMAGES})["logits"]
    assert wide.dtype == np.float64
    np.testing.assert_allclose(wide, exact, rtol=1e-11, atol=1e-12)


def test_parameters_are_assigned_in_every_form(adapter, digits, logits):
    executor = adapter.prepare(digits, mode="train")
    assert set(executor.parameters) == set(digits.parameters)
    for name, array in digits.parameters.items():
        np.testing.assert_array_equal(adapter.to_numpy(executor.parameters[name]), array)
    bound = executor.bind({"image": adapter.from_numpy(IMAGES)})
    changed = {name: (0.5 * array).astype(array.dtype) for name, array in digits.parameters.items()}
    for name, array in changed.items():
        executor.parameters[name] = adapter.from_numpy(array)
        np.testing.assert_array_equal(adapter.to_numpy(executor.parameters[name]), array)
    assert not np.allclose(adapter.to_numpy(bound()["logits"]), logits)
    for name, array in digits.parameters.items():
        executor.parameters[name] = adapter.from_numpy(array)
    np.testing.assert_allclose(adapter.to_numpy(bound()["logits"]), logits, rtol=1e-4, atol=1e-5)


def test_a_parameter_used_twice_is_changed_in_both_places(adapter):
    helper = onnx.helper
    w = np.random.default_rng(1).standard_normal((2, 2, 1, 1)).astype(np.float32)
    graph = helper.make_graph(
        [helper.make_node("Conv", ["x", "w"], ["c"]), helper.make_node("Add", ["c", "w"], ["y"])],
        "twice",
        [helper.make_tensor_value_info("x", 1, [2, 2, 3, 3])],
        [helper.make_tensor_value_info("y", 1, None)],
        [onnx.numpy_helper.from_array(w, "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    executor = adapter.prepare(Network.from_proto(model), mode="train")
    x = np.random.default_rng(2).standard_normal((2, 2, 3, 3)).astype(np.float32)
    for factor in (1, 3):
        executor.parameters["w"] = adapter.from_numpy(factor * w)
        want = np.einsum("oi,bihw->bohw", factor * w[:, :, 0, 0], x) + factor * w
        np.testing.assert_allclose(executor({"x": x})["y"], want, rtol=1e-5, atol=1e-6)


def test_parameters_keep_their_shape_and_names(adapter):
    executor = adapter.prepare(small_network(), mode="train")
    with pytest.raises(InvalidArgument, match="there is no parameter 'v'"):
        executor.parameters["v"] = adapter.from_numpy(X)
    with pytest.raises(InvalidArgument, match="float32\\[2, 3\\]"):
        executor.parameters["w"] = adapter.from_numpy(X)
    with pytest.raises(InvalidArgument, match="cannot be removed"):
        del executor.parameters["w"]


def test_one_call_runs_one_function(adapter):
    executor = adapter.prepare(small_network(), outputs=["y", "h"])
    found = executor.bind({"x": adapter.from_numpy(X)})()
    np.testing.assert_allclose(adapter.to_numpy(found["h"]), AFFINE, rtol=1e-6)
    np.testing.assert_allclose(adapter.to_numpy(found["y"]), Y, rtol=1e-6)
    assert "PyFunc" not in {o.type for o in executor.graph.get_operations()}


def test_an_eager_executor_has_no_graph():
    executor = TensorFlowAdapter(eager=True).prepare(small_network())
    with pytest.raises(InvalidArgument, match="no graph"):
        _ = executor.graph


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"jit": "llvm"}, "jit='llvm'"),
        ({"jit": "xla", "eager": True}, "one of the two"),
        ({"dtype": "int8"}, "dtype='int8'"),
        ({"device": "tpu"}, "device='tpu'"),
        ({"threads": 0}, "threads=0"),
    ],
)
def test_options_that_are_refused(options, message):
    with pytest.raises(InvalidArgument, match=message):
        TensorFlowAdapter(**options)


def test_threads_are_set_before_tensorflow_starts():
    tf.constant(1) + tf.constant(1)
    with pytest.raises(InvalidArgument, match="after TensorFlow has started"):
        TensorFlowAdapter(threads=(tf.config.threading.get_intra_op_parallelism_threads() or 1) + 1)


def test_a_missing_device_is_refused():
    number = len(tf.config.list_physical_devices("GPU"))
    with pytest.raises(Unsupported, match=f"{number} devices"):
        TensorFlowAdapter(device=f"gpu:{number}")


def test_description(adapter):
    facts = adapter.describe()
    assert facts["version"] == tf.__version__
    assert "TF32 off" in facts["precision"]
    assert facts["oneDNN"] in ("on", "off")
    assert not tf.config.experimental.tensor_float_32_execution_enabled()


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "int4", "uint4", "int2"])
def test_narrow_types_survive_the_round_trip(adapter, dtype):
    array = np.array([[0, 1, 1, 0]]).astype(getattr(ml_dtypes, dtype))
    back = adapter.to_numpy(adapter.from_numpy(array))
    assert back.dtype == array.dtype
    np.testing.assert_array_equal(back.astype(np.float32), array.astype(np.float32))


def test_strings_survive_the_round_trip(adapter):
    array = np.array([["", "böse"], ["x y", "z"]], object)
    assert adapter.to_numpy(adapter.from_numpy(array)).tolist() == array.tolist()


def test_types_that_tensorflow_lacks_are_refused(adapter):
    with pytest.raises(Unsupported, match="float8_e8m0fnu"):
        adapter.from_numpy(np.ones(2, ml_dtypes.float8_e8m0fnu))


def strings() -> Network:
    helper = onnx.helper
    graph = helper.make_graph(
        [helper.make_node("StringSplit", ["x"], ["y", "n"], name="split")],
        "strings",
        [helper.make_tensor_value_info("x", onnx.TensorProto.STRING, [2])],
        [helper.make_tensor_value_info("y", onnx.TensorProto.STRING, None)],
    )
    return Network.from_proto(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10))


def test_what_the_reference_computes_is_counted(adapter):
    executor = adapter.prepare(strings())
    assert list(executor.forms.fallback) == ["split"]
    assert executor({"x": np.array(["ä b", "c"], object)})["y"].tolist() == [["ä", "b"], ["c", ""]]
    assert executor.untraced is None


def test_xla_has_no_fallback():
    with pytest.raises(UnsupportedOperator, match="split"):
        TensorFlowAdapter(jit="xla").prepare(strings())
