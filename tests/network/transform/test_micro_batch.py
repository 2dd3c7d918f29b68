"""Pieces of batches: the plan is optimal, and the network computes the same."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deep_bench.errors import InvalidArgument, Unsupported
from deep_bench.network.transform import Cost, check, measure_pieces, micro_batch, plan_pieces
from tests.network.transform.texts import digits, network, normal, operators

COSTS = st.dictionaries(
    st.integers(1, 9), st.builds(Cost, st.integers(1, 40).map(float), st.integers(1, 20)), min_size=1, max_size=5
)


def by_force(costs: dict[int, Cost], batch: int, memory: int) -> float:
    """The least time over all multisets of pieces within the bound."""
    usable = [s for s, c in costs.items() if c.nbytes <= memory]
    ways = (p for n in range(1, batch + 1) for p in itertools.combinations_with_replacement(usable, n) if sum(p) == batch)
    return min((sum(costs[s].seconds for s in p) for p in ways), default=float("inf"))


@given(COSTS, st.integers(1, 9), st.integers(1, 20))
@settings(deadline=None, max_examples=150)
def test_the_plan_is_the_best_of_all(costs: dict[int, Cost], batch: int, memory: int) -> None:
    least = by_force(costs, batch, memory)
    if least == float("inf"):
        with pytest.raises(InvalidArgument):
            plan_pieces(costs, batch, memory)
        return
    pieces = plan_pieces(costs, batch, memory)
    assert sum(pieces) == batch
    assert all(costs[s].nbytes <= memory for s in pieces)
    assert sum(costs[s].seconds for s in pieces) == least


def test_digits_under_a_bound() -> None:
    net, image = digits(8)
    convs = [n.name for n in net.nodes if n.op_type == "Conv"]
    table = {name: {s: Cost(s + 1.0, s * 100) for s in (1, 2, 3, 8)} for name in convs}
    split = micro_batch(net, 300, table)
    assert operators(split).count("Conv") == 3 * len(convs)
    assert [v.name for v in split.graph.outputs] == ["logits"]
    assert {v.name for n in net.nodes for v in n.outputs} <= {v.name for n in split.nodes for v in n.outputs}
    assert check(net, split, image).ok
    assert operators(micro_batch(net, 800, table)) == operators(net)


def test_unequal_pieces() -> None:
    net = network("f (float[5,3,8] x) => (float y) { y = Conv(x, w) }", w=normal(2, 3, 3))
    split = micro_batch(net, 20, {net.nodes[0].name: {2: Cost(1.0, 20), 1: Cost(1.0, 10)}})
    assert operators(split) == ["Split", "Conv", "Conv", "Conv", "Concat"]
    assert split.initializers["y.pieces"].tolist() == [2, 2, 1]
    assert check(net, split, {"x": normal(5, 3, 8)}).ok


def test_measured_on_a_framework() -> None:
    net, image = digits(4)
    table = measure_pieces(net, [net.nodes[0].name, net.nodes[1].name], on="reference", calls=2)
    assert [list(costs) for costs in table.values()] == [[1, 2, 4], [1, 2, 4]]
    assert all(c.seconds > 0 for costs in table.values() for c in costs.values())
    sizes = [c.nbytes for c in table[net.nodes[0].name].values()]
    assert sizes == [sizes[0] * k for k in (1, 2, 4)]
    split = micro_batch(net, 10 * sizes[0], on="reference")
    assert check(net, split, image).ok


def test_memory_counts_the_columns_of_a_convolution() -> None:
    net = network("f (float[2,3,8] x) => (float y) { y = Conv(x, w) }", w=normal(5, 3, 3))
    costs = measure_pieces(net, [net.nodes[0].name], on="reference", sizes=[1], calls=1)[net.nodes[0].name]
    assert costs[1].nbytes == 4 * (3 * 8 + 5 * 6 + 3 * 3 * 6)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("f (float[4,3] x) => (float[4,3] y) { y = Softmax<axis = 0>(x) }", "cannot be split"),
        ("f (float[3,4] x) => (float[4,2] y) { y = Gemm<transA = 1>(x, w) }", "cannot be split"),
        ("f (float[4,3] x) => (float[4,2] y) { y = Gemm(x, w, b) }", "cannot be split"),
        ("f (float[4,3] x, float[3,2] u) => (float[4,2] y) { y = Gemm(x, u) }", "cannot be split"),
    ],
)
def test_what_mixes_samples(text: str, message: str) -> None:
    net = network(text, w=normal(3, 2), b=normal(4, 2))
    with pytest.raises(Unsupported, match=message):
        micro_batch(net, 10, {net.nodes[0].name: {1: Cost(1.0, 1)}})


def test_bad_requests() -> None:
    net, _ = digits(4)
    name = net.nodes[0].name
    with pytest.raises(InvalidArgument, match="memory bound of 5 bytes"):
        micro_batch(net, 5, {name: {1: Cost(1.0, 10)}})
    with pytest.raises(InvalidArgument, match="add up"):
        micro_batch(net, 50, {name: {3: Cost(1.0, 10)}})
    with pytest.raises(InvalidArgument, match="no node 'none'"):
        micro_batch(net, 50, {"none": {1: Cost(1.0, 10)}})
    with pytest.raises(InvalidArgument, match="no convolution"):
        micro_batch(network("f (float[4] x) => (float[4] y) { y = Relu(x) }"), 50)
    assert np.isfinite(plan_pieces({1: Cost(1.0, 1)}, 3, 1)).all()
