"""Bytes, what is unknown, and sums over networks."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import deep_bench as db
from deep_bench.network import differentiate
from deep_bench.operators.case import Case
from deep_bench.operators.cost import Cost, KnownSizes, cost, cost_of, cost_of_case, costs_of
from tests.operators.cost.one_node import feeds, one_node


def parsed(text: str) -> db.Network:
    return db.Network.from_proto(onnx.parser.parse_model('<ir_version: 10, opset_import: ["": 21]>\n' + text))


def test_each_input_is_read_once_and_each_output_written_once() -> None:
    assert cost_of(one_node("Gemm", [(3, 4), (4, 5), (5,)])) == Cost(3 * 5 * 8 + 15, 4 * (12 + 20 + 5), 4 * 15)
    assert cost_of(parsed("square (float[10] x) => (float[10] y) { y = Mul(x, x) }")) == Cost(10, 40, 40)
    assert cost_of(one_node("Add", [(3, 1), (4,)])) == Cost(12, 4 * 7, 4 * 12)


def test_element_types_have_their_sizes() -> None:
    half = parsed("half (float16[8, 8] a, float16[8, 8] b) => (float16[8, 8] y) { y = MatMul(a, b) }")
    assert cost_of(half) == Cost(2 * 8**3, 2 * 2 * 64, 2 * 64)


@pytest.mark.parametrize(
    ("operator", "inputs", "read", "written"),
    [
        ("Flatten", [(2, 3, 4)], 0, 0),
        ("Transpose", [(2, 3, 4)], 96, 96),
        ("Gather", [(1000, 8), np.array([1, 2, 3])], 3 * 8 * 4 + 3 * 8, 3 * 8 * 4),
        ("Slice", [(1000, 8), np.array([0]), np.array([2])], 2 * 8 * 4 + 16, 2 * 8 * 4),
        ("Split", [(4, 8)], 128, 128),
    ],
)
def test_moving_data_costs_bytes_only(operator: str, inputs: list, read: int, written: int) -> None:
    options = {"num_outputs": 2} if operator == "Split" else {}
    network = one_node(operator, inputs, 2 if operator == "Split" else 1, **options)
    assert cost_of(network, inputs=feeds(network)) == Cost(0, read, written)


def test_what_is_unknown_is_not_zero() -> None:
    assert cost_of(one_node("RandomUniformLike", [(2, 3)])) is None  # nobody says how numbers are drawn
    assert cost_of(one_node("RoiAlign", [(1, 2, 6, 6), (3, 4), np.array([0, 0, 0])])) is None  # samples by contents
    network = parsed("open (float[n] x) => (float[n] y) { y = Exp(x) }")
    assert cost_of(network) is None
    assert cost_of(network.with_sizes({"n": 5})) == Cost(0, 20, 20, special=5)
    dropout = parsed("drop (float[5] x, bool t) => (float[5] y) <float r = {0.5}> { y = Dropout(x, r, t) }")
    assert cost_of(dropout) is None  # whether it trains is in the contents of an input
    found = cost_of(dropout, inputs={"x": np.ones(5, np.float32), "t": np.array(False)})
    assert found is not None
    assert found.flops == 0
    foreign = onnx.helper.make_node("Mine", ["x"], ["y"], domain="my.domain")
    kind = onnx.helper.make_tensor_value_info("x", 1, [3]), onnx.helper.make_tensor_value_info("y", 1, [3])
    graph = onnx.helper.make_graph([foreign], "g", [kind[0]], [kind[1]])
    opsets = [onnx.helper.make_opsetid("", 21), onnx.helper.make_opsetid("my.domain", 1)]
    assert cost_of(db.Network.from_proto(onnx.helper.make_model(graph, opset_imports=opsets))) is None


def test_shapes_by_inference_and_by_a_run_give_the_same() -> None:
    network = db.load("digits-cnn").with_sizes({"batch": 2})
    inferred, seen = costs_of(network), costs_of(network, inputs={"image": np.zeros((2, 1, 8, 8), np.float32)})
    assert inferred == seen
    assert None not in inferred.values()


def test_lenet_in_all() -> None:
    """Products with sums of LeNet-5 with all maps connected, layer by layer."""
    network = parsed("""
        lenet (float[1,1,32,32] x, float[6,1,5,5] k1, float[16,6,5,5] k2, float[400,120] w1, float[120,84] w2,
               float[84,10] w3) => (float[1,10] y) {
          [a] a = Conv(x, k1)  b = AveragePool<kernel_shape = [2, 2], strides = [2, 2]>(a)
          [c] c = Conv(b, k2)  d = AveragePool<kernel_shape = [2, 2], strides = [2, 2]>(c)
          e = Flatten(d)  [f] f = MatMul(e, w1)  [g] g = MatMul(f, w2)  [y] y = MatMul(g, w3)
        }""")
    found = costs_of(network)
    macs = {"a": 117_600, "c": 240_000, "f": 48_000, "g": 10_080, "y": 840}
    assert {name: found[name].flops for name in macs} == {name: 2 * n for name, n in macs.items()}  # type: ignore[union-attr]


def test_gradients_cost_what_the_derived_network_does() -> None:
    """The gradients of a product of matrices are two products of the same size."""
    network = parsed("""
        product (float[8, 16] x, float[16, 4] w) => (float loss) { y = MatMul(x, w)  loss = ReduceSum<keepdims = 0>(y) }""")
    derived = differentiate(network, "loss", wrt=["x", "w"])
    sizes = KnownSizes(derived)
    products = [cost(node, sizes) for node in derived.nodes if node.op_type in ("MatMul", "Gemm")]
    assert [found.flops for found in products if found is not None] == [2 * 8 * 16 * 4] * 3


def test_cases_cost_what_their_node_does() -> None:
    assert cost_of_case(Case.of("Softmax", (3, 4))) == Cost(36, 48, 48, special=12, comparisons=12)
    assert cost_of_case(Case.of("MatMul", (8, 4), (4, 2), dtype="float64")) == Cost(128, 8 * 40, 8 * 16)
    compress = cost_of_case(Case.of("NonZero", np.array([0.0, 1.0, 2.0], np.float32)))
    assert compress is not None  # how long the result is shows in a run only
    assert (compress.written_bytes, compress.comparisons) == (16, 3)
    assert cost_of_case(Case.of(np.add, (3, 4), (3, 4))) is None
    assert cost_of_case(Case.of("RandomUniform", shape=[3])) is None


def test_a_large_case_is_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Case, *_: object) -> None:
        raise AssertionError("its arrays were drawn")

    monkeypatch.setattr(Case, "arrays", refuse)
    found = cost_of_case(Case.of("Gemm", (50_000, 40_000), (40_000, 30_000)))
    assert found is not None
    assert found.flops == 2 * 50_000 * 40_000 * 30_000


@pytest.mark.parametrize(
    ("suite", "published"),
    [
        ("convnet/resnet50", 4.09e9),  # torchvision's table of models: 4.09 GFLOPS, in products with sums
        ("convnet/mobilenet_v2", 300e6),  # Sandler et al., MobileNetV2, CVPR 2018, table 4: 300M multiply-adds
    ],
)
def test_the_convolutions_of_well_known_networks_cost_what_is_published(suite: str, published: float) -> None:
    products = 0.0
    for case in db.suites[suite]:
        found = cost_of_case(case)
        assert found is not None
        products += case.count * found.flops / 2
    assert products == pytest.approx(published, rel=0.005)
