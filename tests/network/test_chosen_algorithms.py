"""Which algorithm a framework chose for each node, where it says so."""

from __future__ import annotations

import platform

import numpy as np
import onnx
import pytest

import deep_bench as db
from deep_bench.errors import InvalidArgument, UnknownName

INTEL = pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="oneDNN's kernels are those of x86 here")
OWNER = {"torch": "torch", "tensorflow": "TensorFlow"}


def network() -> db.Network:
    """A convolution large enough for a library, a product, and nodes that no library has."""
    helper, floats = onnx.helper, onnx.TensorProto.FLOAT
    rng = np.random.default_rng(0)
    weights = {
        "kernels": rng.standard_normal((32, 16, 3, 3), np.float32),
        "matrix": rng.standard_normal((32, 64), np.float32),
        "half": np.array(0.5, np.float32),
    }
    nodes = [
        helper.make_node("Conv", ["x", "kernels"], ["a"], name="convolution", pads=[1, 1, 1, 1]),
        helper.make_node("Floor", ["a"], ["b"], name="steps"),
        helper.make_node("GlobalAveragePool", ["b"], ["c"], name="average"),
        helper.make_node("Flatten", ["c"], ["d"], name="flat"),
        helper.make_node("MatMul", ["d", "matrix"], ["e"], name="product"),
        helper.make_node("Neg", ["half"], ["minus"], name="known"),
        helper.make_node("Mul", ["e", "minus"], ["y"], name="scaled"),
    ]
    graph = helper.make_graph(
        nodes,
        "chosen",
        [helper.make_tensor_value_info("x", floats, (16, 16, 24, 24))],
        [helper.make_tensor_value_info("y", floats, (16, 64))],
        [onnx.numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    return db.Network.from_proto(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10))


@pytest.mark.long
@INTEL
@pytest.mark.parametrize("system", ["torch:threads=2", "tensorflow:threads=1"])
def test_libraries_tell_of_the_node_that_they_work_for(system: str) -> None:
    framework = system.partition(":")[0]
    if db.frameworks.missing(framework):
        pytest.skip(f"{framework} is not installed")
    found = db.network.chosen_algorithms(network(), system)
    assert list(found) == ["convolution", "steps", "average", "flat", "product", "known", "scaled"]
    assert any(f.startswith(("oneDNN convolution ", "oneMKL SGEMM")) for f in found["convolution"])
    assert any(
        f.startswith(("oneDNN matmul ", "oneDNN gemm_api", "oneDNN inner_product", "oneMKL ")) for f in found["product"]
    )
    assert not any("convolution" in f for f in found["product"])
    for node in ("steps", "flat"):
        assert found[node] == f"a kernel of {OWNER[framework]}'s own, which does not say its algorithm"
    assert found["known"] == "it is not run: known beforehand, unused, or another name of a value"


@pytest.mark.long
@pytest.mark.parametrize(
    ("system", "reason"),
    [
        ("onnxruntime", "OnnxRuntimeExecutor does not tell which algorithms its kernels use"),
        ("torch:compile=eager", "torch.compile made one piece of the network, in which nodes cannot be told apart"),
    ],
)
def test_where_nobody_tells_every_node_has_the_reason(system: str, reason: str) -> None:
    if db.frameworks.missing(system.partition(":")[0]):
        pytest.skip(f"{system} is not installed")
    found = db.network.chosen_algorithms(network(), system)
    assert found == dict.fromkeys((str(node.name) for node in network().nodes), reason)


def test_the_reference_tells_its_own() -> None:
    found = db.network.chosen_algorithms(network(), "reference:algorithms=MatMul/split_k")
    assert (found["convolution"], found["product"]) == (("im2col",), ("split_k",))
    assert found["steps"] == "the reference has one algorithm for it"


@pytest.mark.gpu
def test_cuda_kernels_are_named() -> None:
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("there is no CUDA device here")
    found = db.network.chosen_algorithms(network(), "torch:device=cuda")
    assert isinstance(found["convolution"], tuple)
    assert found["convolution"]


def test_wrong_names_are_refused() -> None:
    with pytest.raises(UnknownName, match="did you mean 'torch'"):
        db.network.chosen_algorithms("digits-cnn", "troch")
    with pytest.raises(UnknownName, match="did you mean 'winograd_2'"):
        db.network.chosen_algorithms("digits-cnn", "reference:algorithms=Conv/winograd2", batch=1)
    with pytest.raises(InvalidArgument, match="no option"):
        db.network.chosen_algorithms("digits-cnn", "reference:algorithm=Conv/fft", batch=1)
