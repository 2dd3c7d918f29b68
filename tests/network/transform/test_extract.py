"""Parts of networks, and pipelines of parts."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import deep_bench as db
from deep_bench.errors import InvalidArgument, InvalidNetwork
from deep_bench.network.transform import cuts, extract, place_cuts
from deep_bench.operators.cost import costs_of
from tests.network.transform.texts import digits, network, normal, operators, run

DIAMOND = "f (float[4] x, float[4] v) => (float[4] y) { a = Relu(x)  b = Neg(a)  c = Exp(a)  d = Add(b, c)  y = Mul(d, v) }"


def chained(stages: tuple[db.Network, ...], inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    values = dict(inputs)
    for stage in stages:
        values |= run(stage, {s.name: values[s.name] for s in stage.inputs})
    return values


def test_the_part_between() -> None:
    part = extract(network(DIAMOND), ["a"], ["d"])
    assert operators(part) == ["Neg", "Exp", "Add"]
    assert [str(s) for s in (*part.inputs, *part.outputs)] == ["a: float32[4]", "d: float32[4]"]
    a = normal(4)
    assert np.array_equal(run(part, {"a": a})["d"], np.exp(a) - a)


def test_inputs_outputs_and_constants_as_ends() -> None:
    net = network("f (float[4] x) => (float[4] y) { a = Mul(x, w)  y = Add(a, w) }", w=normal(4))
    assert [s.name for s in extract(net, ["x"], ["a", "y"]).outputs] == ["a", "y"]
    part = extract(net, ["x", "w"], ["y"])
    assert (list(part.initializers), [s.name for s in part.inputs]) == ([], ["x", "w"])
    assert operators(extract(net, ["a"], ["y"])) == ["Add"]


def test_an_output_of_the_network_as_input() -> None:
    net = network("f (float[4] x) => (float[4] a, float[4] y) { a = Neg(x)  y = Exp(a) }")
    assert operators(extract(net, ["a"], ["y"])) == ["Exp"]


def test_digits_in_the_middle() -> None:
    net, image = digits()
    whole = db.frameworks["reference"]().prepare(net, outputs=["stem_normed", "features"])(image)
    part = extract(net, ["stem_normed"], ["features"])
    assert np.array_equal(run(part, {"stem_normed": whole["stem_normed"]})["features"], whole["features"])


@pytest.mark.parametrize(
    ("inputs", "outputs", "message"),
    [
        (["a"], ["y"], "needs, besides a, its input 'v'"),
        (["q"], ["y"], "no value 'q'"),
        (["a"], ["x"], "'x' is an input or a constant"),
        (["a"], ["a"], "'a' is an input or a constant"),
        ([], ["y"], "inputs"),
        (["a", "a"], ["y"], "inputs"),
    ],
)
def test_bad_requests(inputs: list[str], outputs: list[str], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        extract(network(DIAMOND), inputs, outputs)


def test_dead_graphs_inside_hold_nothing() -> None:
    text = """f (bool c, float[2] x) => (float[2] y, float[2] z) { k = Neg(x)
        y = If(c) <then_branch = a () => (float[2] p) { p = Add(x, k) }, else_branch = b () => (float[2] q) { q = Exp(k) }>
        z = Relu(x) }"""
    part = extract(network(text), ["x"], ["z"])
    assert operators(part) == ["Relu"]


@pytest.mark.parametrize("costs", ["flops", "parameters", "times"])
@pytest.mark.parametrize("parts", [1, 2, 3, 5])
def test_stages_chain(parts: int, costs: str) -> None:
    net, image = digits()
    given_costs = {n.name: float(i % 3) for i, n in enumerate(net.nodes)} if costs == "times" else costs
    stages = cuts(net, parts, given_costs)
    assert len(stages) == parts
    assert [n.name for s in stages for n in s.nodes] == [n.name for n in net.nodes]
    assert np.array_equal(chained(stages, image)["logits"], run(net, image)["logits"])


def test_values_that_skip_a_stage() -> None:
    net = network(DIAMOND)
    stages = cuts(net, 5, {n.name: 1.0 for n in net.nodes})
    inputs = {"x": normal(4), "v": normal(4, seed=1)}
    assert [s.name for s in stages[-1].inputs] == ["v", "d"]
    assert np.array_equal(chained(stages, inputs)["y"], run(net, inputs)["y"])


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=1, max_size=8), st.data())
@settings(deadline=None, max_examples=150)
def test_the_cuts_are_the_best_of_all(links: list[tuple[int, int]], data: st.DataObject) -> None:
    costs, crossing = [float(c) for c, _ in links], [b for _, b in links]
    parts = data.draw(st.integers(1, len(links)))

    def worth(places: tuple[int, ...]) -> tuple[float, int]:
        bounds = [0, *places, len(costs)]
        return max(sum(costs[a:b]) for a, b in itertools.pairwise(bounds)), sum(crossing[p] for p in places)

    best = min(worth(p) for p in itertools.combinations(range(1, len(costs)), parts - 1))
    assert worth(tuple(place_cuts(costs, crossing, parts))) == best


def test_shapes_of_a_run() -> None:
    net = network(
        "f (float[N] x) => (float[M] y) { n = NonZero(x)  a = Squeeze(n, z)  b = Gather(x, a)  y = Neg(b) }", z=np.array([0])
    )
    x = {"x": np.array([1, 0, 2], np.float32)}
    with pytest.raises(InvalidNetwork, match="fixed shapes"):
        cuts(net, 2)
    assert chained(cuts(net, 2, inputs=x), x)["y"].tolist() == [-1, -2]


def test_stages_are_balanced_by_flops_as_they_are_counted() -> None:
    net, _ = digits()
    counted = {name: float(found.flops) for name, found in costs_of(net).items() if found is not None}
    assert len(counted) == len(net.nodes)
    assert [len(s.nodes) for s in cuts(net, 4)] == [len(s.nodes) for s in cuts(net, 4, counted)]


def test_flops_that_nobody_counted_are_refused() -> None:
    text = """f (float[2] x, bool c) => (float[2] z) { [plain] k = Neg(x)
        [either] y = If(c) <then_branch = a () => (float[2] p) { p = Add(x, k) },
                            else_branch = b () => (float[2] q) { q = Exp(k) }>
        [last] z = Relu(y) }"""
    with pytest.raises(InvalidArgument, match="'either' \\(If\\), whose FLOPs are unknown"):
        cuts(network(text), 2)
    stages = cuts(network(text), 2, {"plain": 1.0, "either": 2.0, "last": 3.0})
    assert [[n.name for n in s.nodes] for s in stages] == [["plain", "either"], ["last"]]


@pytest.mark.parametrize(
    ("parts", "costs", "message"), [(0, "flops", "0 stages"), (23, "flops", "23 stages"), (2, "beauty", "'beauty'")]
)
def test_bad_cuts(parts: int, costs: str, message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        cuts(digits()[0], parts, costs)


def test_costs_of_a_node_that_is_not_there() -> None:
    with pytest.raises(InvalidArgument, match="no node 'none'"):
        cuts(digits()[0], 2, {"none": 1.0})
