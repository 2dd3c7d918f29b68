"""The layout is carried through the whole graph: transposes at its borders only."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from deep_bench.graph import Network
from deep_bench.reference.network import ReferenceAdapter

helper = onnx.helper
RNG = np.random.default_rng(0)


def weights(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def network(nodes, shape, initializers, outputs=("y",)) -> Network:
    graph = helper.make_graph(
        nodes,
        "cnn",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info(o, onnx.TensorProto.FLOAT, None) for o in outputs],
        [onnx.numpy_helper.from_array(a, n) for n, a in initializers.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    return Network.from_proto(onnx.shape_inference.infer_shapes(model))


def check(adapter, net: Network, shape, transposes: int) -> None:
    executor = adapter.prepare(net)
    x = RNG.standard_normal(shape).astype(np.float32)
    want = ReferenceAdapter().prepare(net)({"x": x})
    for name, got in executor({"x": x}).items():
        np.testing.assert_allclose(got, want[name], rtol=1e-4, atol=1e-5)
    operations = [o.type for o in executor.graph.get_operations()]
    assert operations.count("Transpose") == transposes


node = helper.make_node
STEM = [
    node("Conv", ["x", "w1"], ["c1"], pads=[1, 1, 1, 1]),
    node("BatchNormalization", ["c1", "scale", "shift", "mean", "variance"], ["n1"]),
    node("HardSwish", ["n1"], ["r1"]),
]
STEM_WEIGHTS = {
    "w1": weights(6, 3, 3, 3),
    "scale": weights(6),
    "shift": weights(6),
    "mean": weights(6),
    "variance": np.abs(weights(6)) + 1,
}


def test_a_network_of_convolutions_has_transposes_at_its_borders_only(adapter):
    nodes = [
        *STEM,
        node("MaxPool", ["r1"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
        node("Conv", ["p", "w2", "b2"], ["c2"], group=6, pads=[1, 1, 1, 1]),
        node("PRelu", ["c2", "slope"], ["r2"]),
        node("GlobalAveragePool", ["r2"], ["g"]),
        node("Sigmoid", ["g"], ["s"]),
        node("Mul", ["r2", "s"], ["m"]),
        node("Resize", ["m", "", "scales"], ["u"], mode="linear"),
        node("Concat", ["u", "r1"], ["k"], axis=1),
        node("Slice", ["k", "from", "to", "axes"], ["l"]),
        node("Split", ["l"], ["h1", "h2"], axis=1, num_outputs=2),
        node("Max", ["h1", "h2"], ["h"]),
        node("ConvTranspose", ["h", "w3"], ["t"], strides=[2, 2]),
        node("Pad", ["t", "pads"], ["q"], mode="reflect"),
        node("ReduceMean", ["q", "channels"], ["v"]),
        node("Softmax", ["q"], ["f"], axis=1),
        node("Sub", ["f", "v"], ["d"]),
        node("InstanceNormalization", ["d", "scale5", "scale5"], ["i"]),
        node("LRN", ["i"], ["y"], size=3),
    ]
    more = {
        "w2": weights(6, 1, 3, 3),
        "b2": weights(6),
        "slope": weights(6, 1, 1),
        "scales": np.array([1, 1, 2, 2], np.float32),
        "from": np.array([0, 2], np.int64),
        "to": np.array([12, 100], np.int64),
        "axes": np.array([1, 2], np.int64),
        "w3": weights(6, 5, 2, 2),
        "pads": np.array([0, 0, 1, 0, 0, 0, 0, 2], np.int64),
        "channels": np.array([1], np.int64),
        "scale5": weights(5),
    }
    check(adapter, network(nodes, ["n", 3, 8, 8], STEM_WEIGHTS | more), (2, 3, 8, 8), transposes=2)


def test_a_classifier_ends_without_a_transpose(adapter):
    nodes = [
        *STEM,
        node("ReduceMean", ["r1", "plane"], ["g"], keepdims=0),
        node("Gemm", ["g", "w4"], ["y"]),
    ]
    more = {"plane": np.array([2, 3], np.int64), "w4": weights(6, 4)}
    check(adapter, network(nodes, ["n", 3, 8, 8], STEM_WEIGHTS | more), (2, 3, 8, 8), transposes=1)


def test_transposes_of_the_network_merge_with_the_layout(adapter):
    nodes = [*STEM, node("Transpose", ["r1"], ["y"], perm=[0, 2, 3, 1])]
    check(adapter, network(nodes, ["n", 3, 8, 8], STEM_WEIGHTS), (2, 3, 8, 8), transposes=1)


def test_a_picture_with_one_channel_is_only_reshaped(adapter):
    nodes = [node("Conv", ["x", "w"], ["y"])]
    check(adapter, network(nodes, ["n", 1, 8, 8], {"w": weights(1, 1, 3, 3)}), (2, 1, 8, 8), transposes=0)


def test_shapes_and_constants_of_lower_rank(adapter):
    nodes = [
        *STEM,
        node("Add", ["r1", "row"], ["a"]),
        node("Where", ["mask", "a", "plane"], ["b"]),
        node("Shape", ["b"], ["s"]),
        node("Cast", ["s"], ["y"], to=1),
        node("Squeeze", ["b", "first"], ["z"]),
    ]
    more = {
        "row": weights(8),
        "plane": weights(8, 8),
        "mask": weights(6, 1, 8) > 0,
        "first": np.array([0], np.int64),
    }
    check(adapter, network(nodes, [1, 3, 8, "w"], STEM_WEIGHTS | more, ("y", "z")), (1, 3, 8, 8), transposes=2)


@pytest.mark.parametrize("rank", [3, 5])
def test_other_ranks(adapter, rank):
    ones = [1] * (rank - 2)
    nodes = [
        node("Conv", ["x", "w"], ["c"]),
        node("ReduceMax", ["c", "axes"], ["r"], keepdims=0),
        node("Softmax", ["c"], ["s"], axis=-1),
        node("AveragePool", ["s"], ["y"], kernel_shape=[2, *ones[1:]]),
    ]
    more = {"w": weights(4, 2, *(3 for _ in ones)), "axes": np.array([2], np.int64)}
    shape = (2, 2, *(6 for _ in ones))
    check(adapter, network(nodes, list(shape), more, ("y", "r")), shape, transposes=2 if rank == 3 else 3)
