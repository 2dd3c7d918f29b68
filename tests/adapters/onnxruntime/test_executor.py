"""What ONNX Runtime's executor does beyond the checks that every adapter is put through."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from deep_bench.check import InProcessSubject, establish, judge
from deep_bench.errors import InvalidArgument, Unsupported, UnsupportedOperator
from deep_bench.graph import Network
from deep_bench.testing.adapter import X, Y, small_network

ort = pytest.importorskip("onnxruntime")

from deep_bench.adapters.onnxruntime import OnnxRuntimeAdapter  # noqa: E402 (after the skip)
from deep_bench.adapters.onnxruntime.executor import OnnxRuntimeExecutor  # noqa: E402


def network_of(operator: str, inputs: dict[str, np.ndarray], output: int, **attributes) -> Network:
    helper = onnx.helper
    code = helper.np_dtype_to_tensor_dtype
    string = {np.dtype(object): onnx.TensorProto.STRING}
    graph = helper.make_graph(
        [helper.make_node(operator, list(inputs), ["y"], name="only", **attributes)],
        "single",
        [helper.make_tensor_value_info(n, string.get(a.dtype) or code(a.dtype), a.shape) for n, a in inputs.items()],
        [helper.make_tensor_value_info("y", output, None)],
    )
    return Network.from_proto(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9))


def test_strings_go_in_and_out() -> None:
    words = np.array(["a", "bc"], dtype=object)
    network = network_of("StringConcat", {"a": words, "b": words}, onnx.TensorProto.STRING)
    found = OnnxRuntimeAdapter().prepare(network)({"a": words, "b": words})
    assert found["y"].tolist() == ["aa", "bcbc"]


def test_bfloat16_survives() -> None:
    import ml_dtypes

    x = np.array([1.5, -2.0], dtype=ml_dtypes.bfloat16)
    network = network_of("Cast", {"x": x}, onnx.TensorProto.FLOAT, to=onnx.TensorProto.FLOAT)
    assert OnnxRuntimeAdapter().prepare(network)({"x": x})["y"].tolist() == [1.5, -2.0]


@pytest.mark.parametrize("route", ["_prebound", "_allocating"])
def test_both_routes_of_bind_agree(route: str) -> None:
    adapter = OnnxRuntimeAdapter(threads=1)
    executor = adapter.prepare(small_network())
    call = getattr(executor, route)({"x": adapter.from_numpy(X)})
    for _ in range(2):
        np.testing.assert_allclose(adapter.to_numpy(call()["y"]), Y, rtol=1e-6)


@pytest.mark.parametrize("optimize", ["off", "basic", "extended", "all"])
def test_optimisation_levels(optimize: str) -> None:
    executor = OnnxRuntimeAdapter(optimize=optimize).prepare(small_network())
    np.testing.assert_allclose(executor({"x": X})["y"], Y, rtol=1e-6)


def test_parameters_are_constants_in_inference() -> None:
    executor = OnnxRuntimeAdapter().prepare(small_network())
    assert isinstance(executor, OnnxRuntimeExecutor)
    assert executor.device.to_numpy(executor.parameters["w"]).shape == (3, 2)
    with pytest.raises(Unsupported, match="mode='train'"):
        executor.parameters["w"] = executor.parameters["w"]
    with pytest.raises(InvalidArgument, match="no parameter"):
        executor.parameters["v"] = executor.parameters["w"]


@pytest.mark.parametrize("options", [{"threads": 0}, {"optimize": "some"}, {"device": "abacus"}])
def test_wrong_options_are_refused(options: dict) -> None:
    with pytest.raises(InvalidArgument):
        OnnxRuntimeAdapter(**options)


@pytest.mark.skipif("CUDAExecutionProvider" in ort.get_available_providers(), reason="this build has CUDA")
def test_a_missing_provider_is_said() -> None:
    with pytest.raises(Unsupported, match="onnxruntime-gpu"):
        OnnxRuntimeAdapter(device="cuda")


def test_what_it_lacks_is_refused_with_the_node() -> None:
    x = np.ones((2, 3, 4, 4), np.float64)
    w = np.ones((2, 3, 1, 1), np.float64)
    network = network_of("Conv", {"x": x, "w": w}, onnx.TensorProto.DOUBLE)
    with pytest.raises(UnsupportedOperator, match="only") as caught:
        OnnxRuntimeAdapter().prepare(network)
    assert caught.value.operator == "Conv"


def test_empty_names_at_the_end_are_taken_off() -> None:
    x = np.array([1, -1], np.float32)
    network = network_of("LayerNormalization", {"x": x, "s": x}, onnx.TensorProto.FLOAT)
    proto = network.to_proto()
    proto.graph.node[0].input.append("")  # ends the process if ONNX Runtime sees it
    found = OnnxRuntimeAdapter().prepare(Network.from_proto(proto))({"x": x, "s": np.ones(2, np.float32)})
    np.testing.assert_allclose(found["y"], x, rtol=1e-4)


def test_what_cannot_be_handed_over_is_refused() -> None:
    words = np.array(["1"], dtype=object)
    network = network_of("Cast", {"x": words}, onnx.TensorProto.BFLOAT16, to=onnx.TensorProto.BFLOAT16)
    with pytest.raises(Unsupported, match="beside a string"):
        OnnxRuntimeAdapter().prepare(network)


OLD = """<ir_version: 3, opset_import: ["": 6]> old (float[2,3] x, float[3] b) => (float[2,3] y, bool[2,3] z) {
    [sum] s = Add <broadcast = 1, axis = 1> (x, b)
    [squeeze] t = Unsqueeze <axes = [0]> (s)
    [back] y = Squeeze <axes = [0]> (t)
    [less] z = Less (s, x)
}"""


def test_a_network_from_before_the_kernels_is_upgraded() -> None:
    network = Network.from_proto(onnx.parser.parse_model(OLD))
    inputs = {"x": np.ones((2, 3), np.float32), "b": np.array([-1, 0, 1], np.float32)}
    adapter = OnnxRuntimeAdapter(threads=1)
    executor = adapter.prepare(network)
    assert executor.output_names == ("y", "z")
    assert executor.forms.native == ("sum", "squeeze", "back", "less")
    found = executor(inputs)
    assert found["y"].tolist() == [[0, 1, 2]] * 2
    assert found["z"].tolist() == [[True, False, False]] * 2
    assert adapter.prepare(network, outputs=["s"])(inputs)["s"].tolist() == [[0, 1, 2]] * 2


def test_nodes_of_an_old_network_are_replayed() -> None:
    network = Network.from_proto(onnx.parser.parse_model(OLD))
    inputs = {"x": np.ones((2, 3), np.float32), "b": np.array([-1, 0, 1], np.float32)}
    verdict = judge(establish(network, inputs), InProcessSubject(OnnxRuntimeAdapter(threads=1), network, inputs))
    assert verdict.word == "right"
    assert "all 4 nodes replayed" in verdict.reason


@pytest.mark.gpu
@pytest.mark.skipif("CUDAExecutionProvider" not in ort.get_available_providers(), reason="no CUDA execution provider")
@pytest.mark.parametrize("device", ["cuda", "tensorrt"])
def test_on_a_gpu(device: str) -> None:
    executor = OnnxRuntimeAdapter(device=device).prepare(small_network())
    np.testing.assert_allclose(executor({"x": X})["y"], Y, rtol=1e-6)
