"""Networks and operators in several environments, in one run and one table."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

import deep_bench as db
from deep_bench.errors import InvalidArgument, UnknownName, Unsupported
from deep_bench.operators.studies.experiment import study
from deep_bench.records.store import load
from deep_bench.variant import lean_frameworks

HERE = Path(__file__).parent


def twice(operator: str = "Add") -> db.Network:
    """y = x + x, or another operator in its place."""
    value = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [5]) for name in "xy"]
    node = onnx.helper.make_node(operator, ["x", "x"], ["y"], "the node")
    graph = onnx.helper.make_graph([node], "twice", value[:1], value[1:])
    return db.Network.from_proto(
        onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 13)], ir_version=8)
    )


@pytest.fixture
def toys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(HERE)
    monkeypatch.setitem(lean_frameworks._builtin, "doubling", "toy_lean:DOUBLING")
    monkeypatch.setitem(lean_frameworks._builtin, "mistaken", "toy_lean:MISTAKEN")


def test_one_network_in_two_environments(beside: Path, tmp_path: Path) -> None:
    label = f"reference@{beside}"
    found = db.run("digits-cnn", ["reference", label], batch=2, budget=0.5, output=tmp_path, progress=False, check="quick")
    assert [found[name].verdict for name in ("reference", label)] == ["right", "right"]
    assert all(found[name].median for name in found)
    assert label in found.table(width=300)
    record = load(found.path)
    assert record[label].framework == "reference"
    environment = record[label].facts["environment"]
    assert environment["name"] == str(beside)
    assert environment["packages"]["numpy"] == np.__version__
    assert "environment" not in record["reference"].facts


@pytest.mark.long
def test_one_operator_in_two_environments(beside: Path) -> None:
    label = f"reference@{beside}"
    case = db.Case.of("Gemm", (4, 8), (8, 300))
    found = study(["reference", label], case, budget=0.4, twin=False, backward=True, progress=False)
    for name in ("reference", label):
        trial = found[name, case.label]
        assert (trial.verdict, trial.record.gradients.verdict) == ("right", "right"), name
        assert trial.median() and trial.median("forward and backward")  # noqa: PT018 (both or it was not timed)
    assert found.record[label].facts["environment"]["name"] == str(beside)


def test_what_lives_in_this_environment_is_refused_elsewhere(beside: Path) -> None:
    relu = db.operators.wrap(lambda x: np.maximum(x, 0), computes="Relu")
    network = db.load("digits-cnn").replace("Relu", relu)
    found = db.run(network, [f"reference@{beside}"], check="off", budget=0.1, twin=False, progress=False)
    assert "is computed by a kernel of yours" in found[f"reference@{beside}"].reason
    case = db.Case.of(np.add, (3,), (3,))
    trial = study(f"reference@{beside}", case, budget=0.1, twin=False, progress=False)[f"reference@{beside}", case.label]
    assert "computed by a function of this environment" in trial.reason


def test_environments_that_are_not_there_are_told_before_anything_runs(beside: Path, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match=f"did you mean {beside}"):
        db.run("digits-cnn", [f"reference@{beside}x"], output=tmp_path, progress=False)
    with pytest.raises(UnknownName, match="unknown environment 'nothing'"):
        study("reference@nothing", db.Case.of("Add", (3,), (3,)), progress=False)
    assert not list(tmp_path.glob("*.logs/*"))


def test_a_framework_that_is_missing_there_costs_only_itself(bare: Path, beside: Path) -> None:
    labels = [f"reference@{bare}", f"no_such_package.adapter:Adapter@{beside}"]
    with pytest.raises(InvalidArgument, match="there is no module"):
        db.run(twice(), labels, progress=False)
    with pytest.raises(InvalidArgument, match="deep_bench is not installed there"):
        db.run(twice(), labels[:1], progress=False)


@pytest.mark.usefixtures("toys")
def test_a_lean_framework_is_judged_and_timed_beside_others(with_numpy: Path, tmp_path: Path) -> None:
    right, wrong = f"doubling@{with_numpy}", f"doubling@{with_numpy}:factor=3"
    found = db.run(twice(), ["reference", right, wrong], budget=0.4, output=tmp_path, progress=False)
    assert [found[name].verdict for name in found] == ["right", "right", "wrong"]
    assert all(found[name].median for name in found)
    environment = load(found.path)[right].facts["environment"]
    assert "numpy" in environment["packages"]
    assert "onnx" not in environment["packages"]


@pytest.mark.usefixtures("toys")
def test_what_a_lean_framework_cannot_run_is_refused_with_the_node(with_numpy: Path) -> None:
    label = f"doubling@{with_numpy}"
    found = db.run(twice("Mul"), ["reference", label], budget=0.1, twin=False, progress=False)
    assert "node 'the node' (Mul, opset 13) cannot run here: it can only add" in found[label].reason
    assert found["reference"].verdict == "right"


@pytest.mark.usefixtures("toys")
def test_a_rewriting_that_computes_something_else_is_not_trusted(with_numpy: Path) -> None:
    label = f"mistaken@{with_numpy}"
    found = db.run(twice(), ["reference", label], budget=0.1, twin=False, progress=False)
    assert "as it was rewritten for mistaken does not compute the same: wrong" in found[label].reason


@pytest.mark.usefixtures("toys")
def test_lean_frameworks_have_their_own_limits(with_numpy: Path) -> None:
    with pytest.raises(InvalidArgument, match="did you mean 'factor'"):
        db.run(twice(), [f"doubling@{with_numpy}:facto=3"], progress=False)
    with pytest.raises(Unsupported, match="on single operators"):
        study(f"doubling@{with_numpy}", db.Case.of("Add", (3,), (3,)), progress=False)
