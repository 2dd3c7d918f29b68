"""Shrinking what is wrong, crashes or is slow to the smallest network that shows it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import deep_bench as db
from deep_bench.errors import InvalidArgument
from deep_bench.graph import Network
from deep_bench.network import Crashes, Reduced, Slower, Wrong
from deep_bench.network.candidate import minimise

from .planted import FAULTS, Faulty, inputs, large_network, wrong_epsilon, wrong_when_fused

SCRIPT = "import runpy, sys; runpy.run_path(sys.argv[1]); assert not any(m.startswith('deep_bench') for m in sys.modules)"


def computing(reduced: Reduced) -> list[str]:
    return [str(n.name) for n in reduced.network.nodes if n.op_type != "Constant"]


def reproduced(folder: Path) -> str:
    """What the script prints, in a process without deep_bench."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    command = [sys.executable, "-c", SCRIPT, str(folder / "reproduce.py")]
    found = subprocess.run(command, capture_output=True, text=True, cwd=folder, env=environment, check=False)
    assert found.returncode == 0, found.stderr
    return found.stdout


@pytest.mark.parametrize("fault", [next(iter(FAULTS)), *(pytest.param(f, marks=pytest.mark.long) for f in list(FAULTS)[1:])])
def test_a_fault_in_one_of_300_nodes_is_reduced(fault: str, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    node, change = FAULTS[fault]
    wrong = Wrong(Faulty("torch", node, change))
    found = db.network.reduce(large_network(), inputs(), wrong)
    assert computing(found) == [node]
    assert found.finished
    assert found.before == 300
    assert sum(a.size for a in (*found.inputs.values(), *found.network.initializers.values())) < 40
    folder = found.save(tmp_path / "reduced")
    assert {f.name for f in folder.iterdir()} == {"model.onnx", "inputs.npz", "expected.npz", "actual.npz", "reproduce.py"}
    with np.load(folder / "inputs.npz") as saved:
        assert wrong(db.load(folder / "model.onnx"), dict(saved))
    assert f"output {node}.out" in reproduced(folder)


def test_what_is_wrong_only_together_is_reduced_to_both() -> None:
    found = db.network.reduce(large_network(5), inputs(), Wrong(Faulty("reference", "softmax2", wrong_when_fused)))
    assert computing(found) == ["matmul2", "softmax2"]


def test_the_script_for_onnxruntime_runs_it(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    network = large_network(1)
    expected = db.frameworks["reference"]().prepare(network)(inputs())
    reduced = Reduced(network, inputs(), expected, Wrong("onnxruntime:optimize=basic,threads=1"), 6, (), 0, True, False)
    folder = reduced.save(tmp_path)
    text = (folder / "reproduce.py").read_text()
    assert "ORT_ENABLE_BASIC" in text
    assert "intra_op_num_threads = 1" in text
    assert "bn0.out = BatchNormalization(conv0.out, scale0, shift0, mean0, var0)" in text
    assert "largest difference:" in reproduced(folder)


def has(*operators: str) -> object:
    def holds(network: Network, arrays: Mapping[str, np.ndarray]) -> bool:
        db.frameworks["reference"]().prepare(network)(arrays)  # every candidate must be a network that runs
        return {*operators} <= {n.op_type for n in network.nodes}

    return holds


def test_dimensions_attributes_and_values_are_simplified() -> None:
    found = db.network.reduce(large_network(2), inputs(), has("Conv"))
    assert len(computing(found)) == 1
    assert all(array.size == 1 for array in (*found.inputs.values(), *found.network.initializers.values()))
    assert not found.network.nodes[0].attributes
    assert all(not array.any() for array in (*found.inputs.values(), *found.network.initializers.values()))
    assert [spec.shape for spec in found.network.outputs] == [(1, 1, 1, 1)]
    assert not found.notes


def test_fed_values_are_the_oracles() -> None:
    network = large_network(2)
    seen = {}

    def holds(candidate: Network, arrays: Mapping[str, np.ndarray]) -> bool:
        seen.update({name: array for name, array in arrays.items() if name == "relu1.out" and array.shape[1] == 4})
        return any(n.name == "add1" for n in candidate.nodes)

    found = db.network.reduce(network, inputs(), holds)
    assert computing(found) == ["add1"]
    right = db.frameworks["reference"]().prepare(network, outputs=["relu1.out"])(inputs())["relu1.out"]
    assert np.allclose(seen["relu1.out"], right, rtol=1e-4, atol=1e-6) or seen["relu1.out"].size < right.size


def test_nodes_between_two_that_matter_are_bypassed() -> None:
    def connected(network: Network, arrays: Mapping[str, np.ndarray]) -> bool:
        """Whether the first Conv still reaches the Softmax."""
        reached: set[str] = set()
        for node in network.nodes:
            if node.name == "conv0" or any(v is not None and v.name in reached for v in node.inputs):
                reached |= {str(v.name) for v in node.outputs}
        return "softmax0.out" in reached

    found = db.network.reduce(large_network(1), inputs(), connected)
    assert computing(found) == ["conv0", "softmax0"]


def test_control_flow_that_uses_values_around_it() -> None:
    proto = onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["" : 21]> branches (float[3] x, bool c) => (float[3] z) '
        "{ h = Exp(x)  k = Sin(h)  y = If(c) "
        "<then_branch = t () => (float[3] a) { a = Add(h, k) }, else_branch = e () => (float[3] b) { b = Mul(h, k) }>  "
        "z = Neg(y) }"
    )
    feeds = {"x": np.ones(3, np.float32), "c": np.array(True)}
    found = db.network.reduce(Network.from_proto(proto), feeds, has("If"))
    assert [n.op_type for n in found.network.nodes] == ["If"]
    assert {"h", "k"} <= set(found.inputs)
    without = db.network.reduce(Network.from_proto(proto), feeds, has("Neg"))
    assert [n.op_type for n in without.network.nodes] == ["Neg"]


def test_gradients_by_the_frameworks_own_differentiation(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    wrong = Wrong(Faulty("torch", "bn1", wrong_epsilon), gradients=True)
    found = db.network.reduce(large_network(3), inputs(), wrong)
    assert computing(found) == ["bn1"]
    folder = found.save(tmp_path)
    assert "d(weighted sum)/d(" in reproduced(folder)


@pytest.mark.long
def test_a_crash_is_reduced_to_the_nodes_that_cause_it(tmp_path: Path) -> None:
    proto = onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["" : 21]> four (float[1] x) => (float[1] y) '
        "{ a = Exp(x)  b = Relu(a)  c = Add(b, x)  y = Neg(c) }"
    )
    with Crashes("tests.network.misbehaving:Aborting") as crashes:
        found = db.network.reduce(Network.from_proto(proto), {"x": np.ones(1, np.float32)}, crashes)
        assert sorted(n.op_type for n in found.network.nodes) == ["Add", "Relu"]
        assert found.crashed >= 1
        folder = found.save(tmp_path)
    assert "status 3" in (folder / "reproduce.py").read_text()
    assert "Relu" in reproduced(folder)


@pytest.mark.long
def test_slowness_is_reduced_to_the_node_that_causes_it() -> None:
    with Slower("tests.network.misbehaving:Sleeping", "reference", 4) as slower:
        found = db.network.reduce(large_network(1), inputs(), slower)
    assert [n.op_type for n in found.network.nodes] == ["Softmax"]


def test_what_was_found_is_kept_when_the_user_or_the_time_ends_the_search() -> None:
    calls = 0

    def interrupted(network: Network, arrays: Mapping[str, np.ndarray]) -> bool:
        nonlocal calls
        calls += 1
        if calls == 4:
            raise KeyboardInterrupt
        return any(n.name == "conv0" for n in network.nodes)

    found = db.network.reduce(large_network(4), inputs(), interrupted)
    assert found.interrupted
    assert not found.finished
    assert "conv0" in computing(found)
    assert len(computing(found)) < 24
    spent = db.network.reduce(large_network(1), inputs(), has("Conv"), budget=0.0)
    assert (spent.finished, spent.interrupted, len(computing(spent))) == (False, False, 6)


def test_a_predicate_that_fails_on_candidates_is_reported() -> None:
    def fails(network: Network, arrays: Mapping[str, np.ndarray]) -> bool:
        if len(network.nodes) == 3:
            raise ValueError("three nodes")
        return any(n.op_type == "Add" for n in network.nodes)

    found = db.network.reduce(large_network(1), inputs(), fails)
    assert any("ValueError: three nodes" in note for note in found.notes)


def test_a_network_without_an_oracle_is_reduced_as_far_as_that_goes() -> None:
    proto = onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["" : 21, "mine" : 1]> odd (float[3] x) => (float[3] y, float[3] z) '
        "{ h = mine.Odd(x)  y = Exp(h)  z = Sin(x) }"
    )

    def odd(network: Network, arrays: Mapping[str, np.ndarray]) -> bool:
        return any(n.domain == "mine" for n in network.nodes)

    found = db.network.reduce(Network.from_proto(proto), {"x": np.ones(3, np.float32)}, odd)
    assert [n.op_type for n in found.network.nodes] == ["Odd", "Exp"]
    assert not found.expected
    assert any("no reference" in note for note in found.notes)


def test_a_network_that_does_not_show_it_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="does not show it: results of reference"):
        db.network.reduce(large_network(1), inputs(), Wrong("reference"))


@given(st.sets(st.integers(0, 60), min_size=1, max_size=6), st.integers(61, 90))
@settings(max_examples=50, deadline=None)
def test_delta_debugging_finds_exactly_what_is_needed(needed: set[int], count: int) -> None:
    assert minimise(range(count), lambda part: needed <= set(part)) == sorted(needed)
