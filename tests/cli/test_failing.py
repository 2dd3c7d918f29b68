"""Inputs that do not suit a network, and frameworks that fail or crash: one message each, and the others go on."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest

from deep_bench.cli import main
from deep_bench.network import diverge
from deep_bench.network.profile_result import Profile
from deep_bench.testing.adapter import small_network

CRASHING = """
import os, sys
from deep_bench.reference.network import ReferenceAdapter

class Aborting(ReferenceAdapter):
    '''Says why, and ends its process, on a network with a Relu.'''
    name = "aborting"
    def prepare(self, network, **options):
        if any(node.op_type == "Relu" for node in network.nodes):
            print("no Relu today", file=sys.stderr, flush=True)
            os.abort()
        return super().prepare(network, **options)

class Choosy(ReferenceAdapter):
    '''Ends its process on a Relu that no node feeds.'''
    name = "choosy"
    def prepare(self, network, **options):
        if any(node.op_type == "Relu" and node.inputs[0].is_graph_input() for node in network.nodes):
            os.abort()
        return super().prepare(network, **options)
"""


def deep_bench(*words: str | Path) -> int:
    with pytest.raises(SystemExit) as ended:
        main([str(w) for w in words])
    return ended.value.code


@pytest.fixture
def network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "crashing.py").write_text(CRASHING)
    monkeypatch.syspath_prepend(tmp_path)
    return small_network().save(tmp_path / "small.onnx")


@pytest.fixture
def embedding(tmp_path: Path) -> Path:
    """A table of 20 words."""
    helper = onnx.helper
    graph = helper.make_graph(
        [helper.make_node("Gather", ["table", "token"], ["y"], name="embed")],
        "embedding",
        [helper.make_tensor_value_info("token", onnx.TensorProto.INT64, ["n"])],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, ["n", 2])],
        [onnx.numpy_helper.from_array(np.ones((20, 2), np.float32), "table")],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10), tmp_path / "e.onnx")
    np.savez(tmp_path / "bad.npz", token=np.array([3, 99]))
    return tmp_path / "e.onnx"


@pytest.mark.parametrize("verb", ["diverge", "reduce"])
def test_inputs_that_do_not_suit_the_network(
    verb: str, embedding: Path, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    out = ("--output", tmp_path / "out") if verb == "reduce" else ()
    assert deep_bench(verb, embedding, "--on", "reference", "--input", tmp_path / "bad.npz", *out) == 2
    said = capsys.readouterr().err
    assert "the reference cannot run e on these inputs: index 99" in said
    assert "in node 'embed'" in said
    assert "--check off" not in said


def test_a_crash_costs_one_framework(network: Path, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    words = ("--on", "crashing:Aborting", "--on", "reference", "--size", "batch=2", "--json", tmp_path / "d.json")
    assert deep_bench("diverge", network, *words) == 1
    printed = capsys.readouterr().out
    assert "crashing:Aborting: not examined: its process crashed (SIGABRT) during 'prepare'" in printed
    crashed, whole = json.loads((tmp_path / "d.json").read_text())
    assert crashed["error"].endswith("its log ends: no Relu today")
    assert (whole["system"], whole["first"]) == ("reference", None)


def test_a_crash_alone_is_written_too(network: Path, tmp_path: Path) -> None:
    words = ("--on", "crashing:Aborting", "--size", "batch=2", "--json", tmp_path / "d.json")
    assert deep_bench("diverge", network, *words) == 1
    (crashed,) = json.loads((tmp_path / "d.json").read_text())
    assert "SIGABRT" in crashed["error"]


@pytest.mark.long
@pytest.mark.usefixtures("network")
def test_a_node_that_crashes_alone_costs_only_that_node() -> None:
    found = {n.name: n for n in diverge(small_network(), "crashing:Choosy", batch=2, progress=False).nodes}
    assert found["affine"].word == "right"
    assert found["activation"].word == "not replayed"
    assert "SIGABRT" in found["activation"].reason
    assert {n.carried.word for n in found.values()} == {"right"}


def test_reduce_names_a_framework_that_fails(network: Path, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    words = ("--on", "tests.network.misbehaving:Refusing", "--size", "batch=2", "--output", tmp_path / "out")
    assert deep_bench("reduce", network, *words) == 2
    assert "misbehaving:Refusing: it cannot run this network on these inputs: RuntimeError: " in capsys.readouterr().err


def test_a_profile_says_what_the_log_said(network: Path, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    words = ("--on", "crashing:Aborting", "--size", "batch=2", "--repeat", "1", "--json", tmp_path / "p.json")
    assert deep_bench("profile", network, *words) == 1
    error = Profile.load(tmp_path / "p.json")["crashing:Aborting"].error
    assert error == "its process crashed (SIGABRT) during 'prepare'; its log ends: no Relu today"
    assert "log is" not in capsys.readouterr().out
