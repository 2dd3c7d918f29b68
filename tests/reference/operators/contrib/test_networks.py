"""Networks that mix ONNX Runtime's own operators with the standard's, in every framework."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

import deep_bench as db
from deep_bench.errors import UnsupportedOperator

RNG = np.random.default_rng(11)
Arrays = dict[str, np.ndarray]


def random(*shape: int) -> np.ndarray:
    return (RNG.standard_normal(shape) * 0.3).astype(np.float32)


def eight_bits(*shape: int) -> np.ndarray:
    return RNG.integers(0, 256, shape).astype(np.uint8)


def contrib(op_type: str, inputs: list[str], outputs: list[str], **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(op_type, inputs, outputs, name=f"{op_type}:{outputs[0]}", domain="com.microsoft", **attributes)


def standard(op_type: str, inputs: list[str], outputs: list[str], **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(op_type, inputs, outputs, name=f"{op_type}:{outputs[0]}", **attributes)


def model(
    nodes: list[onnx.NodeProto], inputs: Arrays, outputs: dict[str, tuple[type, int]], values: dict[str, Any]
) -> onnx.ModelProto:
    """A network with the first axis of each input open, and all axes of the outputs."""

    def value(name: str, dtype: Any, shape: list[Any]) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), shape)

    graph = helper.make_graph(
        nodes,
        "mixed",
        [value(n, x.dtype, [f"{n}0", *x.shape[1:]]) for n, x in inputs.items()],
        [value(n, dtype, [f"{n}{i}" for i in range(rank)]) for n, (dtype, rank) in outputs.items()],
        [onnx.numpy_helper.from_array(np.asarray(v), n) for n, v in values.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18), helper.make_opsetid("com.microsoft", 1)])


def images() -> tuple[onnx.ModelProto, Arrays]:
    """Convolutions and pools, with an operator of unknown shape before each kind of node that asks for a rank."""
    nodes = [
        contrib("FusedConv", ["x", "w"], ["a"], activation="Relu"),
        standard("Conv", ["a", "v"], ["b"], pads=[1, 1, 1, 1]),
        standard("BatchNormalization", ["b", "s", "s", "s", "s"], ["c"]),
        standard("MaxPool", ["c"], ["d"], kernel_shape=[2, 2]),
        contrib("QuickGelu", ["d"], ["e"]),
        standard("Concat", ["e", "d"], ["f"], axis=1),
        standard("Transpose", ["f"], ["g"], perm=[0, 2, 3, 1]),
        contrib("FastGelu", ["g"], ["h"]),
        standard("Softmax", ["h"], ["i"], axis=-1),
        contrib("GatherND", ["i", "rows"], ["k"]),
        standard("GlobalAveragePool", ["k"], ["j"]),
        standard("Flatten", ["j"], ["y"]),
        contrib("Unique", ["repeated"], ["different", "index", "counts"]),
        standard("ReduceSum", ["counts"], ["z"], keepdims=0),
    ]
    inputs = {"x": random(2, 2, 8, 8), "repeated": np.array([2, 1, 2, 5], np.float32)}
    values = {"w": random(4, 2, 3, 3), "v": random(4, 4, 3, 3), "s": np.abs(random(4)) + 1, "rows": np.array([[1], [0]])}
    return model(nodes, inputs, {"y": (np.float32, 2), "z": (np.int64, 0)}, values), inputs


def integers() -> tuple[onnx.ModelProto, Arrays]:
    """What a quantizer makes: element types differ from node to node, and those after them must be right."""
    nodes = [
        standard("QuantizeLinear", ["x", "s1", "zero"], ["a"]),
        standard("QLinearConv", ["a", "s1", "zero", "w", "s2", "zero", "s3", "zero"], ["b"]),
        contrib("QLinearAdd", ["b", "s3", "zero", "b", "s3", "zero", "s4", "zero"], ["c"]),
        contrib("QLinearLeakyRelu", ["c", "s4", "zero", "s4", "zero"], ["d"]),
        standard("MaxPool", ["d"], ["e"], kernel_shape=[2, 2]),
        contrib("QLinearGlobalAveragePool", ["e", "s4", "zero", "s4", "zero"], ["f"]),
        standard("DequantizeLinear", ["f", "s4", "zero"], ["g"]),
        standard("Flatten", ["g"], ["h"]),
        contrib("DynamicQuantizeMatMul", ["h", "v", "s2", "zero"], ["y"]),
    ]
    inputs = {"x": random(2, 2, 8, 8)}
    scales = {f"s{i}": np.array(s, np.float32) for i, s in enumerate((0.02, 0.01, 0.03, 0.05), 1)}
    values = {**scales, "zero": np.array(128, np.uint8), "w": eight_bits(4, 2, 3, 3), "v": eight_bits(4, 5)}
    return model(nodes, inputs, {"y": (np.float32, 2)}, values), inputs


def language() -> tuple[onnx.ModelProto, Arrays]:
    """A layer of a language model, with results that nobody uses."""
    nodes = [
        standard("Gather", ["words", "ids"], ["e"]),
        standard("SimplifiedLayerNormalization", ["e", "g"], ["n"]),
        contrib("MatMulNBits", ["n", "m", "s"], ["q"], K=32, N=32, bits=4, block_size=16),
        contrib("RotaryEmbedding", ["q", "first", "cos", "sin"], ["r"]),
        contrib("MultiHeadAttention", ["r", "n", "n", "", "lengths"], ["a", "k", "v"], num_heads=4, unidirectional=1),
        contrib("SkipSimplifiedLayerNormalization", ["a", "e", "g"], ["o", "", "", "sum"]),
        standard("Add", ["o", "sum"], ["y"]),
        standard("ArgMax", ["y"], ["best"], axis=-1, keepdims=0),
        standard("Shape", ["k"], ["sizes"]),
    ]
    inputs = {"ids": RNG.integers(0, 10, (2, 5)), "lengths": np.array([3, 5], np.int32)}
    values = {"words": random(10, 32) * 3, "g": random(32) + 1, "m": eight_bits(32, 2, 8), "s": np.abs(random(32, 2))}
    values |= {"first": np.array([0]), "cos": random(16, 4), "sin": random(16, 4)}
    outputs = {"y": (np.float32, 3), "best": (np.int64, 2), "sizes": (np.int64, 1)}
    return model(nodes, inputs, outputs, values), inputs


def transformer() -> tuple[onnx.ModelProto, Arrays]:
    """A patch embedding and a layer of an encoder."""
    nodes = [
        contrib("FusedConv", ["x", "w"], ["a"], activation="Relu", strides=[2, 2]),
        standard("Reshape", ["a", "shape"], ["b"]),
        contrib("SkipLayerNormalization", ["b", "skip", "g", "h"], ["c", "", "", "sum"]),
        contrib("Attention", ["c", "m", "n"], ["d"], num_heads=2),
        standard("Add", ["d", "sum"], ["e"]),
        contrib("FusedMatMul", ["e", "p"], ["f"], alpha=0.5),
        contrib("BiasGelu", ["f", "o"], ["i"]),
        standard("ReduceMean", ["i", "axes"], ["y"], keepdims=0),
    ]
    inputs = {"x": random(2, 3, 8, 8)}
    values = {"w": random(8, 3, 2, 2), "skip": random(1, 16, 8), "g": random(8), "h": random(8), "m": random(8, 24)}
    values |= {"n": random(24), "p": random(8, 5), "o": random(5), "shape": np.array([-1, 16, 8]), "axes": np.array([1])}
    return model(nodes, inputs, {"y": (np.float32, 2)}, values), inputs


@pytest.mark.parametrize("framework", ["reference", "torch", "tensorflow"])
@pytest.mark.parametrize("build", [images, integers, language, transformer])
def test_mixed_networks_agree_with_the_runtime(
    tmp_path: Path, framework: str, build: Callable[[], tuple[onnx.ModelProto, Arrays]]
) -> None:
    pytest.importorskip({"reference": "numpy"}.get(framework, framework))
    proto, inputs = build()
    proto.ir_version = 9
    onnx.save(proto, tmp_path / "mixed.onnx")
    network = db.load(tmp_path / "mixed.onnx")
    results = []
    for name in ("onnxruntime", framework):
        adapter = db.frameworks[name]()
        outputs = adapter.prepare(network).forward({n: adapter.from_numpy(x) for n, x in inputs.items()})
        results.append({n: adapter.to_numpy(y) for n, y in outputs.items()})
    expected, found = results
    assert found.keys() == expected.keys()
    for name, y in expected.items():
        assert found[name].dtype == y.dtype
        np.testing.assert_allclose(found[name], y, rtol=1e-4, atol=1e-5)


def test_an_operator_without_a_reference_is_refused_by_name(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    node = contrib("NoSuchOperator", ["x"], ["y"])
    onnx.save(model([node], {"x": random(2)}, {"y": (np.float32, 1)}, {}), tmp_path / "unknown.onnx")
    with pytest.raises(UnsupportedOperator, match=r"NoSuchOperator:y.*com.microsoft:NoSuchOperator"):
        db.frameworks["torch"]().prepare(db.load(tmp_path / "unknown.onnx"))
