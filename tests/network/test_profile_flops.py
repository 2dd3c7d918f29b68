"""What the nodes of a profile ask for, by their definitions: as costs are counted, and told of rows and in the table."""

from __future__ import annotations

from typing import Any

import onnx
import pytest

import deep_bench as db
from deep_bench.network.profile_result import Piece, Profile, SystemProfile
from deep_bench.network.profiling import liveness
from deep_bench.operators.cost import Work, costs_of


def parsed(text: str) -> db.Network:
    return db.Network.from_proto(onnx.parser.parse_model('<ir_version: 10, opset_import: ["": 21]>\n' + text))


def profiled(network: db.Network, loss: str | None = None) -> Profile:
    return db.network.profile(network, ["reference"], loss=loss, repeat=1, in_process=True, progress=False)


def changed(profile: Profile, **fields: Any) -> Profile:
    return Profile(**{**{name: getattr(profile, name) for name in Profile.model_fields}, **fields})


@pytest.fixture(scope="module")
def digits() -> Profile:
    return db.network.profile("digits-cnn", ["reference"], batch=2, repeat=1, in_process=True, progress=False)


def test_every_node_asks_for_what_its_operator_costs(digits: Profile) -> None:
    expected = costs_of(db.load("digits-cnn").with_sizes({"batch": 2}))
    assert {node.name for node in digits.nodes} == set(expected)
    for node in digits.nodes:
        found = expected[node.name]
        assert found is not None
        assert node.work == Work(found.flops, found.special, found.comparisons)
        assert node.bytes == found.read_bytes + found.written_bytes
        assert node.backward is None


def test_functions_and_comparisons_are_told_apart(digits: Profile) -> None:
    relu = next(row for row in digits.rows if row.label == "stem_relu")
    assert relu.work == Work(comparisons=2 * 16 * 8 * 8)
    # a square root for each of 160 channels; in each of two images 5,376 elements of Relu, and 512 windows of 4
    assert "apart from these are 160 elementary functions and 14.8 k comparisons" in digits.table()


def test_nodes_that_run_as_one_ask_for_the_sum(digits: Profile) -> None:
    piece = Piece(nodes=["stem", "stem_norm", "stem_relu"], ns=[1000], what="fused")
    fused = SystemProfile(label="other", framework="other", pieces=[piece], observed_ns=[2000], plain_ns=[2000])
    both = changed(digits, systems=[*digits.systems, fused])
    row = both.rows[0]
    assert row.nodes == ("stem", "stem_norm", "stem_relu")
    facts = {node.name: node for node in digits.nodes}
    assert row.work == sum((facts[name].work or Work() for name in row.nodes), Work())
    assert row.bytes == sum(facts[name].bytes or 0 for name in row.nodes)
    without = [node.model_copy(update={"work": None}) if node.name == "stem_relu" else node for node in both.nodes]
    assert changed(both, nodes=without).rows[0].work is None


def test_gradients_ask_for_what_derives_them() -> None:
    weights = ", ".join(["0.5"] * 64)
    network = parsed(f"""products (float[8, 16] x) => (float loss)
        <float[16, 4] v = {{{weights}}}, float[4, 16] w = {{{weights}}}>
        {{ [first] y = MatMul(x, v)  [bend] z = Relu(y)  [second] u = MatMul(z, w)
          [total] loss = ReduceSum<keepdims = 0>(u) }}""")
    facts = {node.name: node for node in profiled(network, "loss").nodes}
    product = 2 * 8 * 16 * 4
    assert facts["first"].work == facts["first"].backward == Work(product)
    assert facts["second"].work == Work(product)
    assert facts["second"].backward == Work(2 * product)  # of its input as well as of its parameter
    assert facts["bend"].work == Work(comparisons=8 * 4)
    assert facts["bend"].backward is not None
    assert facts["bend"].backward.special == 0


def test_what_nobody_counted_has_no_number() -> None:
    network = parsed("""branch (float[4] x, bool c) => (float[4] y) {
        [one] a = Exp(x)
        [either] y = If (c) <then_branch = yes () => (float[4] p) { p = Neg(a) },
                             else_branch = no () => (float[4] q) { q = Abs(a) }> }""")
    one, either = profiled(network).nodes
    assert (one.work, either.work) == (Work(special=4), None)
    assert either.bytes == 2 * 16 + 1  # what its graphs read from outside counts


def test_values_live_from_the_node_that_makes_them_to_the_last_that_reads_them() -> None:
    network = parsed("""
        chain (float[10] x) => (float[10] y, float[10] early) <float[10] w = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10}> {
          [one] early = Neg(x)  [two] a = Mul(early, w)  [three] b = Abs(a)  [four] c = Add(a, b)  [five] y = Exp(c)
        }""")
    found = liveness(network)
    assert (found.peak, found.at) == (4 * 40, "four")  # early, a, b and c; then a and b are gone
    assert found.all_activations == 5 * 40
    assert (found.parameters, found.inputs, found.unknown) == (40, 40, 0)
