"""The main job end to end, on small budgets; times themselves are never asserted."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import deep_bench as db
from deep_bench.errors import FrameworkMissing, InvalidArgument, InvalidInput, UnknownName
from deep_bench.network.result import Result
from deep_bench.network.run import run_sweep
from deep_bench.testing.adapter import X, small_network

QUICK = {"budget": 1.0, "ci_width": 0.5, "progress": False}


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> Result:
    pytest.importorskip("onnxruntime")
    output = tmp_path_factory.mktemp("results")
    return db.run("digits-cnn", on=["reference", "onnxruntime:threads=1"], output=output, **QUICK)


def test_each_is_right_and_timed(result: Result) -> None:
    assert list(result) == ["reference", "onnxruntime:threads=1"]
    for system in result.values():
        assert system.verdict == "right", system.reason
        assert system.significant_bits > 20
        assert system.median > 0
        assert system.numpy_median > 0
        assert system.record.prepare_ns > 0
        assert system.record.first_call_ns > 0
        assert system.record.peak_memory_bytes > 1e6
    assert result.ok


def test_the_twin_is_compared(result: Result) -> None:
    assert result.twins is not None
    assert result.record.systems[-1].twin_of == "onnxruntime:threads=1"
    assert "A/A: onnxruntime:threads=1 against itself" in result.table()


def test_ratios_have_a_base(result: Result) -> None:
    assert result.fastest is result["onnxruntime:threads=1"]
    assert result.ratio("onnxruntime:threads=1").value == 1.0
    assert result.ratio("reference").value > 1.0


def test_the_table_is_recomputed_from_the_record(result: Result) -> None:
    again = Result.load(result.path)
    assert again.table() == result.table()
    assert again.as_json() == result.as_json()


def test_the_record_says_what_was_run(result: Result) -> None:
    record = result.record
    assert record.complete
    assert record.network.sha256 == db.load("digits-cnn").sha256
    assert record.network.sizes == {"batch": 1}
    assert set(record.data.sha256) == {"image"}
    assert record.recipe.options["ci_width"] == 0.5
    assert any("batch=1" in note for note in record.notes)
    assert record.environment.cpu_model


def test_logs_lie_beside_the_record(result: Result) -> None:
    assert {f.stem.split("_")[0] for f in result.path.with_suffix(".logs").iterdir()} >= {"reference", "onnxruntime"}


def test_unknown_systems_are_suggested(result: Result) -> None:
    with pytest.raises(UnknownName, match="did you mean 'reference'"):
        result["referense"]


def test_a_notebook_gets_escaped_html(result: Result) -> None:
    page = result._repr_html_()
    assert "<td>right</td>" in page
    record = result.record.model_copy(deep=True)
    record.network.name = "<script>alert(1)</script>"
    assert "<script>" not in Result(record)._repr_html_()


def test_saving_again(result: Result, tmp_path: Path) -> None:
    fresh = Result(result.record)
    path = fresh.save(tmp_path / "deep" / "er")
    assert Result.load(path).table().splitlines()[:-1] == result.table().splitlines()[:-1]


def test_given_inputs_and_network_objects() -> None:
    found = db.run(small_network(), on=["reference"], inputs={"x": X}, check="off", twin=False, **QUICK)
    assert found["reference"].verdict == "unchecked"
    assert found.record.network.sizes == {"batch": 2}
    assert "unchecked" in found.table()


@pytest.mark.long
def test_several_launches_give_an_interval_over_them() -> None:
    found = db.run(small_network(), on=["reference"], launches=3, check="off", twin=False, **QUICK)
    assert {s.launch for s in found["reference"].record.samples} == {0, 1, 2}
    assert found["reference"].interval is None  # three medians bound nothing at 95 %
    assert "too few samples" in found.table(width=300)
    assert "3 launches" in found.table()


def test_in_process_is_said() -> None:
    found = db.run(small_network(), on=["reference"], in_process=True, twin=False, **QUICK)
    assert found.record.in_process
    assert "one process" in found.table()


def test_a_failing_framework_costs_only_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("onnxruntime")
    import onnx

    proto = small_network().to_proto()
    proto.graph.node[0].op_type, proto.graph.node[1].op_type = "Gemm", "Relu"
    for tensor in proto.graph.initializer:
        tensor.CopyFrom(onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(tensor).astype(np.int64), tensor.name))
    for value in (*proto.graph.input, *proto.graph.output):
        value.type.tensor_type.elem_type = onnx.TensorProto.INT64
    # ONNX Runtime's CPU has no Gemm on 64-bit integers.
    found = db.run(db.Network.from_proto(proto), on=["onnxruntime", "reference"], twin=False, **QUICK)
    assert found["onnxruntime"].verdict == "failed"
    assert "Gemm" in found["onnxruntime"].reason
    assert found["reference"].verdict == "right"
    assert not found.ok
    assert "failed" in found.table()


@pytest.mark.parametrize(
    "options",
    [
        {"ci_width": 0},
        {"ci_width": 1.5},
        {"budget": 0},
        {"budget": float("nan")},
        {"launches": 0},
        {"check": "some"},
        {"seed": -1},
        {"on": ["reference", "reference"]},
        {"on": []},
        {"on": ["reference:threads"]},
        {"on": ["reference:speed=9"]},
    ],
)
def test_bad_options_are_refused(options: dict) -> None:
    with pytest.raises(InvalidArgument):
        db.run("digits-cnn", **{"on": ["reference"], "progress": False, "twin": False, **options})


def test_a_missing_framework_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("deep_bench.registry.find_spec", lambda _: None)
    with pytest.raises(FrameworkMissing, match=r"pip install 'deep-bench\[torch\]'"):
        db.run("digits-cnn", on=["torch"])


@pytest.mark.long
def test_a_sweep_has_a_row_for_each_size(tmp_path: Path) -> None:
    found = run_sweep(small_network(), "batch", (1, 3), on=["reference"], output=tmp_path, twin=False, **QUICK)
    assert [(row[0], row[1], row[2]) for row in found.rows()] == [("reference", "1", "right"), ("reference", "3", "right")]
    assert found.ok
    assert "items a second" in found.table()
    pytest.importorskip("matplotlib")
    assert found.plot.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(("values", "options"), [((), {}), ((1, 1), {}), ((1,), {"inputs": {"x": X}})])
def test_bad_sweeps_are_refused(values: tuple[int, ...], options: dict) -> None:
    with pytest.raises(InvalidArgument):
        run_sweep(small_network(), "batch", values, **options)


def test_a_single_name_is_a_list_of_one() -> None:
    assert list(db.run(small_network(), on="reference", check="off", twin=False, **QUICK)) == ["reference"]


def test_what_is_left_out_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "deep_bench.registry.find_spec", lambda name: None if name in ("torch", "tensorflow", "onnxruntime") else object()
    )
    found = db.run(small_network(), check="off", twin=False, **QUICK)
    assert list(found) == ["reference"]
    assert "not installed: onnxruntime, tensorflow, torch" in found.table()


def reshape_to(shape: str) -> db.Network:
    import onnx

    helper = onnx.helper
    graph = helper.make_graph(
        [helper.make_node("Reshape", ["x", shape], ["y"], name="folding")],
        "reshaping",
        [
            helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [2, 3]),
            helper.make_tensor_value_info(shape, onnx.TensorProto.INT64, [2]),
        ],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, ["a", "b"])],
    )
    return db.Network.from_proto(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10))


def test_inputs_that_do_not_suit_are_said_with_the_node() -> None:
    inputs = {"x": np.zeros((2, 3), np.float32), "shape": np.array([5, 6])}
    with pytest.raises(InvalidInput, match=r"'folding' \(Reshape\)"):
        db.run(reshape_to("shape"), on="reference", inputs=inputs, progress=False)


def test_sizes_beyond_memory_are_refused() -> None:
    with pytest.raises(InvalidInput, match="smaller"):
        db.run(small_network(), on="reference", batch=10**13, progress=False)


@pytest.mark.parametrize(
    ("x", "reason"), [(np.full((2, 3), np.nan, np.float32), "finite"), (np.zeros((0, 3), np.float32), "empty")]
)
def test_outputs_that_tell_nothing_are_not_called_right(x: np.ndarray, reason: str) -> None:
    found = db.run(small_network(), on="reference", inputs={"x": x}, twin=False, **QUICK)
    assert found["reference"].verdict == "no information"
    assert reason in found["reference"].reason


@pytest.mark.long
@pytest.mark.parametrize(("dtype", "bits"), [("bfloat16", 9), ("float16", 12)])
def test_a_variant_of_less_precision_is_called_so(dtype: str, bits: int) -> None:
    pytest.importorskip("torch")
    label = f"torch:dtype={dtype},threads=1"
    found = db.run("digits-cnn", on=label, twin=False, **QUICK)
    assert found[label].verdict == "reduced precision", found[label].reason
    assert found[label].significant_bits == pytest.approx(bits, abs=3)
    assert found[label].max_error > 0


def test_a_narrow_terminal_gets_lines(result: Result) -> None:
    lines = result.table(width=60).splitlines()
    assert "verdict: right" in lines
    assert max(map(len, lines[:12])) <= 60
