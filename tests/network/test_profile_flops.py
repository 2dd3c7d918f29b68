"""Operations by formula, against numbers worked out by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

import deep_bench as db
from deep_bench.network.profiling.flops import flops
from deep_bench.network.profiling.memory import liveness
from deep_bench.network.profiling.shapes import StaticShapes, traffic

Shapes = list[tuple[int, ...] | None]


def one_node(
    operator: str, shapes: Shapes, outputs: int = 1, constants: dict[int, Any] | None = None, **attributes: Any
) -> Any:
    """A node with float inputs of these shapes, and the shapes of its network; a constant where one is given."""
    helper, constants = onnx.helper, constants or {}
    names = ["" if shape is None else f"x{i}" for i, shape in enumerate(shapes)]
    node = helper.make_node(operator, names, [f"y{i}" for i in range(outputs)], name="node", **attributes)
    fed = [
        helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape)
        for i, (name, shape) in enumerate(zip(names, shapes, strict=True))
        if name and i not in constants
    ]
    stored = [onnx.numpy_helper.from_array(np.asarray(a), f"x{i}") for i, a in constants.items()]
    results = [onnx.ValueInfoProto(name=f"y{i}") for i in range(outputs)]
    model = helper.make_model(
        helper.make_graph([node], "one", fed, results, stored), opset_imports=[helper.make_opsetid("", 24)], ir_version=10
    )
    network = db.Network.from_proto(model)
    return network.nodes[0], StaticShapes(network)


@pytest.mark.parametrize(
    ("operator", "shapes", "attributes", "expected"),
    [
        # [2, 3, 4] x [4, 5]: 2 * 3 * 5 results of 4 products and 4 sums
        ("MatMul", [(2, 3, 4), (4, 5)], {}, 2 * 3 * 5 * 8),
        ("MatMul", [(4,), (4,)], {}, 8),
        ("Gemm", [(3, 4), (4, 5), (5,)], {}, 3 * 5 * 8 + 15),
        ("Gemm", [(4, 3), (5, 4)], {"transA": 1, "transB": 1, "alpha": 2.0}, 3 * 5 * 8 + 15),
        ("Einsum", [(2, 3, 4), (2, 4, 5)], {"equation": "bij,bjk->bik"}, 2 * 3 * 4 * 5 * 2),
        ("Einsum", [(3,), (4,)], {"equation": "i,j->ij"}, 12),
        # 6 maps of 8 x 8, each result of 3 channels x 5 x 5
        ("Conv", [(1, 3, 12, 12), (6, 3, 5, 5)], {}, 6 * 8 * 8 * 2 * 75),
        ("Conv", [(1, 3, 12, 12), (6, 3, 5, 5), (6,)], {}, 6 * 8 * 8 * 151),
        ("Conv", [(2, 4, 6), (4, 1, 3)], {"group": 4, "pads": [1, 1]}, 2 * 4 * 6 * 2 * 3),
        # every input element is multiplied with 6 maps x 3 x 3
        ("ConvTranspose", [(1, 4, 5, 5), (4, 6, 3, 3)], {}, 4 * 25 * 2 * 54),
        ("MaxPool", [(1, 2, 8, 8)], {"kernel_shape": [2, 2], "strides": [2, 2]}, 2 * 16 * 4),
        ("AveragePool", [(1, 2, 8, 8)], {"kernel_shape": [2, 2], "strides": [2, 2]}, 2 * 16 * 5),
        ("GlobalAveragePool", [(1, 2, 8, 8)], {}, 2 * 64 + 2),
        ("Add", [(3, 1), (1, 4)], {}, 12),
        ("Relu", [(3, 4)], {}, 12),
        ("Sum", [(3, 4), (3, 4), (3, 4)], {}, 24),
        ("Mean", [(3, 4), (3, 4)], {}, 24),
        ("Sigmoid", [(5,)], {}, 20),
        ("Softmax", [(2, 10)], {}, 100),
        ("ReduceSum", [(2, 10)], {}, 20),
        ("ReduceMean", [(2, 10)], {}, 21),
        ("Transpose", [(2, 10)], {}, 0),
        ("BatchNormalization", [(2, 3, 4, 4), (3,), (3,), (3,), (3,)], {}, 4 * 96 + 6),
        ("LayerNormalization", [(2, 8), (8,), (8,)], {}, 7 * 16),
        ("LayerNormalization", [(2, 8), (8,)], {}, 6 * 16),
        ("RMSNormalization", [(2, 8), (8,)], {}, 64),
        ("LRN", [(1, 4, 2, 2)], {"size": 3}, 16 * 7),
        # 2 heads, 3 queries, 5 keys of 4, values of 6: scores 2 * 4, values 2 * 6, scale 1 and Softmax 5 for each score
        ("Attention", [(1, 2, 3, 4), (1, 2, 5, 4), (1, 2, 5, 6)], {}, 30 * (8 + 12 + 6)),
        ("Attention", [(1, 3, 8), (1, 5, 8), (1, 5, 12)], {"q_num_heads": 2, "kv_num_heads": 2}, 30 * (8 + 12 + 6)),
        # 7 steps of a batch of 2: 5 features to 3 states
        ("RNN", [(7, 2, 5), (1, 3, 5), (1, 3, 3)], {"hidden_size": 3}, 7 * 2 * 3 * (2 * 8 + 2)),
        ("LSTM", [(7, 2, 5), (1, 12, 5), (1, 12, 3), (1, 24)], {"hidden_size": 3}, 7 * 2 * 3 * (8 * 8 + 22 + 8)),
        ("GRU", [(7, 2, 5), (2, 9, 5), (2, 9, 3)], {"hidden_size": 3, "direction": "bidirectional"}, 2 * 42 * (6 * 8 + 17)),
    ],
)
def test_by_hand(operator: str, shapes: Shapes, attributes: dict[str, Any], expected: int) -> None:
    node, known = one_node(operator, shapes, **attributes)
    assert flops(node, known) == expected


def test_resize_interpolates_along_what_changes() -> None:
    node, known = one_node("Resize", [(1, 1, 4, 4), None, None, None], mode="linear", constants={3: np.array([1, 1, 8, 4])})
    assert flops(node, known) is None  # an omitted input has no constant: the size is unknown
    proto = onnx.parser.parse_model("""<ir_version: 10, opset_import: ["": 21]>
        resized (float[1,1,4,4] x) => (float[1,1,8,4] y) <int64[4] s = {1, 1, 8, 4}> {
          y = Resize<mode = "linear">(x, , , s) }""")
    network = db.Network.from_proto(proto)
    assert flops(network.nodes[0], StaticShapes(network)) == 32 * 2 * 2


def test_what_has_no_formula_or_no_shape_has_no_number() -> None:
    node, known = one_node("Hardmax", [(2, 3)])
    assert flops(node, known) is None
    node, known = one_node("NonZero", [(2, 3)])
    assert flops(node, known) is None
    assert traffic(node, known) is None


def test_a_known_network_in_all() -> None:
    """LeNet-5, every map connected: products with sums, layer by layer."""
    proto = onnx.parser.parse_model("""<ir_version: 10, opset_import: ["": 21]>
        lenet (float[1,1,32,32] x, float[6,1,5,5] k1, float[16,6,5,5] k2, float[400,120] w1, float[120,84] w2,
               float[84,10] w3) => (float[1,10] y) {
          a = Conv(x, k1)  b = AveragePool<kernel_shape = [2, 2], strides = [2, 2]>(a)
          c = Conv(b, k2)  d = AveragePool<kernel_shape = [2, 2], strides = [2, 2]>(c)
          e = Flatten(d)  f = MatMul(e, w1)  g = MatMul(f, w2)  y = MatMul(g, w3)
        }""")
    network = db.Network.from_proto(proto)
    shapes = StaticShapes(network)
    found = {str(n.outputs[0].name): flops(n, shapes) for n in network.nodes}
    macs = {"a": 117_600, "c": 240_000, "f": 48_000, "g": 10_080, "y": 840}
    assert {name: count for name, count in found.items() if name in macs} == {n: 2 * m for n, m in macs.items()}
    assert found["b"] == 6 * 14 * 14 * 5


def test_bytes_of_views_parts_and_repeated_inputs() -> None:
    node, known = one_node("Flatten", [(2, 3, 4)])
    assert traffic(node, known) == 0
    node, known = one_node("Gather", [(1000, 8), (3,)], constants={1: np.array([1, 2, 3])})
    assert traffic(node, known) == 2 * 3 * 8 * 4 + 3 * 8
    network = db.Network.from_proto(
        onnx.parser.parse_model("""<ir_version: 10, opset_import: ["": 21]>
        square (float[10] x) => (float[10] y) { y = Mul(x, x) }""")
    )
    assert traffic(network.nodes[0], StaticShapes(network)) == 80


def test_values_live_from_the_node_that_makes_them_to_the_last_that_reads_them() -> None:
    network = db.Network.from_proto(
        onnx.parser.parse_model("""<ir_version: 10, opset_import: ["": 21]>
        chain (float[10] x) => (float[10] y, float[10] early) <float[10] w = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10}> {
          [one] early = Neg(x)  [two] a = Mul(early, w)  [three] b = Abs(a)  [four] c = Add(a, b)  [five] y = Exp(c)
        }""")
    )
    found = liveness(network)
    assert (found.peak, found.at) == (4 * 40, "four")  # early, a, b and c; then a and b are gone
    assert found.all_activations == 5 * 40
    assert (found.parameters, found.inputs, found.unknown) == (40, 40, 0)
