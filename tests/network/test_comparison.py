"""Comparing executors: what is right, what is wrong, what differs, and what is said of it."""

from __future__ import annotations

import json
from itertools import combinations
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import helper

import deep_bench as db
from deep_bench.errors import InvalidArgument, UnknownName
from deep_bench.measure.progress import Bars
from deep_bench.network import NetworkComparison, compare
from deep_bench.network import problem as db_problem
from deep_bench.network.differences import norms
from deep_bench.network.run import JudgedNetwork
from deep_bench.study.settings import NetworkSettings
from deep_bench.study.study import RecordFile

RNG = np.random.default_rng(0)
W1, B1 = RNG.standard_normal((12, 16)).astype(np.float32), RNG.standard_normal(16).astype(np.float32)
W2 = RNG.standard_normal((16, 5)).astype(np.float32)
X = {"x": RNG.standard_normal((7, 12)).astype(np.float32)}


def mlp(*, extra: tuple[onnx.NodeProto, ...] = (), outputs: tuple[tuple[str, int], ...] = ()) -> db.Network:
    """``softmax(tanh(x W1 + B1) W2)``, with further nodes and outputs."""
    graph = helper.make_graph(
        [
            helper.make_node("Gemm", ["x", "w1", "b1"], ["hidden"], name="first"),
            helper.make_node("Tanh", ["hidden"], ["active"], name="tanh"),
            helper.make_node("MatMul", ["active", "w2"], ["scores"], name="second"),
            helper.make_node("Softmax", ["scores"], ["p"], name="softmax"),
            *extra,
        ],
        "mlp",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["batch", 12])],
        [
            helper.make_tensor_value_info("p", onnx.TensorProto.FLOAT, ["batch", 5]),
            *(helper.make_tensor_value_info(name, kind, None) for name, kind in outputs),
        ],
        [onnx.numpy_helper.from_array(a, n) for n, a in (("w1", W1), ("b1", B1), ("w2", W2))],
    )
    return db.Network.from_proto(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10))


def by_hand(wrong: bool = False) -> Any:
    """The same as an ``nn.Module``; a wrong one leaves the bias out."""
    torch = pytest.importorskip("torch")
    torch.set_num_threads(1)

    class Mlp(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = torch.nn.Linear(12, 16)
            self.second = torch.nn.Linear(16, 5, bias=False)
            self.first.load_state_dict({"weight": torch.tensor(W1.T), "bias": torch.tensor(0 * B1 if wrong else B1)})
            self.second.load_state_dict({"weight": torch.tensor(W2.T)})

        def forward(self, x: Any) -> Any:
            return torch.softmax(self.second(torch.tanh(self.first(x))), -1)

    return Mlp()


def in_keras(wrong: bool = False) -> Any:
    """The same as a Keras model; a wrong one has the softmax over the batch."""
    keras = pytest.importorskip("keras")
    taken = keras.Input((12,), name="x")
    hidden = keras.layers.Dense(16, activation="tanh", name="first")(taken)
    scores = keras.layers.Dense(5, use_bias=False, name="second")(hidden)
    model = keras.Model(taken, keras.layers.Softmax(axis=0 if wrong else -1, name="p")(scores))
    model.set_weights([W1, B1, W2])
    return model


def numpy_mlp(inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    scores = np.tanh(inputs["x"] @ W1 + B1) @ W2
    e = np.exp(scores - scores.max(-1, keepdims=True))
    return {"p": e / e.sum(-1, keepdims=True)}


@pytest.fixture(scope="module")
def torches() -> NetworkComparison:
    given = {"ours": by_hand(), "wrong": by_hand(wrong=True), "onnxruntime": "onnxruntime:threads=1", "numpy": numpy_mlp}
    return compare(given, X, network=mlp(), budget=0.3)


def test_a_right_module_is_right_and_a_wrong_one_is_caught(torches: NetworkComparison) -> None:
    assert torches["ours"].word == "right"
    assert torches["ours"].judged == "outputs"
    assert torches["onnxruntime"].word == "right"
    assert torches["onnxruntime"].judged == "outputs and nodes"
    assert torches["numpy"].word == "right"
    assert torches["wrong"].word == "wrong"
    assert "output 'p'" in torches["wrong"].reason
    assert not torches.ok


def test_pairs_are_judged_by_what_rounding_can_do_to_both(torches: NetworkComparison) -> None:
    assert torches.between("onnxruntime", "ours", "p").word in ("rounding", "equal")
    assert torches.between("numpy", "onnxruntime", "p").word in ("rounding", "equal")
    assert torches.between("wrong", "ours", "p").word == "more than rounding"
    assert torches.between("onnxruntime", "wrong", "p").word == "more than rounding"
    assert torches.between("ours", "oracle", "p").word == "rounding"
    assert len(torches.pairs) == 6
    assert len(torches.against_oracle) == 4
    with pytest.raises(InvalidArgument, match=r"(?s)no comparison of 'q' of ours with onnxruntime.*'p' of wrong and ours"):
        torches.between("ours", "onnxruntime", "q")
    with pytest.raises(UnknownName, match="did you mean 'ours'"):
        torches.between("our", "onnxruntime", "p")


def test_a_pair_is_the_same_both_ways_but_for_the_base(torches: NetworkComparison) -> None:
    for one, other in combinations([*torches, "oracle"], 2):
        forth, back = torches.between(one, other, "p"), torches.between(other, one, "p")
        assert (forth.label, forth.base) == (back.base, back.label) == (one, other)
        assert forth.word == back.word
        assert forth.norms is not None
        assert back.norms is not None
        assert (forth.norms.l1, forth.norms.linf) == (back.norms.l1, back.norms.linf)
    a, b = (torches.outputs[label]["p"].astype(np.float64) for label in ("wrong", "ours"))
    for label, base, norm in (("wrong", "ours", b), ("ours", "wrong", a)):
        found = torches.between(label, base, "p").norms
        assert found is not None
        assert found.l1_rel == pytest.approx(np.abs(a - b).sum() / np.abs(norm).sum())
        assert found.max_ulp == pytest.approx((np.abs(a - b) / np.spacing(norm.astype(np.float32))).max())


def test_norms_are_those_of_the_arrays(torches: NetworkComparison) -> None:
    found = torches.between("wrong", "ours", "p").norms
    a, b = (torches.outputs[label]["p"].astype(np.float64) for label in ("wrong", "ours"))
    assert found is not None
    assert found.l1 == pytest.approx(np.abs(a - b).sum())
    assert found.l1_rel == pytest.approx(found.l1 / np.abs(b).sum())
    assert found.l2 == pytest.approx(np.linalg.norm(a - b))
    assert found.l2_rel == pytest.approx(found.l2 / np.linalg.norm(b))
    assert found.linf == pytest.approx(np.abs(a - b).max())
    assert found.linf_rel == pytest.approx(found.linf / b.max())
    ulps = np.abs(a - b) / np.spacing(torches.outputs["ours"]["p"])
    assert found.max_ulp == pytest.approx(ulps.max())


def test_all_that_runs_is_timed_and_said_to_share_a_process(torches: NetworkComparison) -> None:
    assert all(system.median is not None and system.summary.n > 0 for system in torches.values())
    assert any("one process" in note for note in torches.notes)


def test_the_table_and_the_json_say_it(torches: NetworkComparison) -> None:
    table = torches.table()
    assert "more than rounding" in table
    assert "wrong: wrong: output 'p'" in table
    facts = json.loads(json.dumps(torches.as_json(), allow_nan=False))
    assert facts["systems"]["wrong"]["verdict"] == "wrong"
    assert facts["ok"] is False
    assert facts["timed_in_process"] is True
    assert len(facts["pairs"]) == 6


def test_a_picture_shows_where_the_error_sits(torches: NetworkComparison, tmp_path: Any) -> None:
    pytest.importorskip("matplotlib")
    assert torches.plot(tmp_path / "p.png").stat().st_size > 5000
    assert torches.plot(tmp_path / "q.png", "p", base="ours").stat().st_size > 5000
    with pytest.raises(InvalidArgument, match="base='nobody'"):
        torches.plot(tmp_path / "r.png", base="nobody")
    with pytest.raises(InvalidArgument, match="no output 'q'"):
        torches.plot(tmp_path / "r.png", "q")


def test_a_picture_that_cannot_be_written_is_said(torches: NetworkComparison) -> None:
    with pytest.raises(InvalidArgument, match=r"/proc/x\.png cannot be written"):
        torches.plot("/proc/x.png")


def test_a_keras_model_and_a_wrong_one() -> None:
    given = {"keras": in_keras(), "wrong": in_keras(wrong=True), "reference": "reference"}
    found = compare(given, X, network=mlp(), budget=0)
    assert [system.word for system in found.values()] == ["right", "wrong", "right"]
    assert found.between("reference", "keras", "p").word == "rounding"
    assert all(system.median is None for system in found.values())


def test_a_session_and_another_version_of_the_network() -> None:
    ort = pytest.importorskip("onnxruntime")
    session = ort.InferenceSession(mlp().to_proto().SerializeToString())
    later = mlp().upgraded()
    found = compare([mlp(), later, session, ("onnxruntime:threads=1", later)], X, budget=0)
    assert list(found) == ["mlp", "mlp (2)", "InferenceSession", "onnxruntime:threads=1 on mlp"]
    assert {system.word for system in found.values()} == {"right"}
    assert found.ok
    assert found.between("mlp (2)", "mlp", "p").word == "equal"


def test_without_a_network_there_are_plain_norms_and_no_verdict(tmp_path: Any) -> None:
    right = numpy_mlp(X)
    np.savez(tmp_path / "saved.npz", **right)
    found = compare([numpy_mlp, tmp_path / "saved.npz", {"p": right["p"] * np.float32(1.5)}], X, budget=0)
    assert {system.word for system in found.values()} == {"no reference"}
    assert found.between("saved", "numpy_mlp", "p").word == "equal"
    assert found.objections == tuple(
        f"output 'p' of saved outputs and {other} differs, and there is no reference" for other in ("numpy_mlp", "saved")
    )
    assert compare([numpy_mlp, tmp_path / "saved.npz"], X, budget=0).ok
    back = found.between("saved", "saved outputs", "p")
    assert back.norms is not None
    assert back.norms.l2_rel == pytest.approx(1 / 3, rel=1e-6)
    assert back.bits == pytest.approx(np.log2(3), rel=1e-6)
    pair = found.between("saved outputs", "saved", "p")
    assert pair.word == "no reference"
    assert pair.norms is not None
    assert pair.norms.l2_rel == pytest.approx(0.5, rel=1e-6)
    assert pair.bits == pytest.approx(1.0, rel=1e-6)
    assert not found.against_oracle
    assert any(note.startswith("no reference") for note in found.notes)


def test_checking_can_be_switched_off() -> None:
    found = compare([numpy_mlp, numpy_mlp], X, network=mlp(), check="off", budget=0)
    assert list(found) == ["numpy_mlp", "numpy_mlp (2)"]
    assert found["numpy_mlp"].word == "no reference"


def test_other_shapes_types_and_names_are_named() -> None:
    right = numpy_mlp(X)
    given = {
        "right": right,
        "short": {"p": right["p"][:, :4]},
        "double": {"p": right["p"].astype(np.float64)},
        "renamed": {"q": right["p"]},
    }
    found = compare(given, X, network=mlp(), budget=0)
    assert found["short"].word == "wrong"
    assert "float32[7, 4] instead of float32[7, 5]" in found["short"].reason
    assert found["double"].word == "wrong"
    assert "float64[7, 5] instead of float32[7, 5]" in found["double"].reason
    assert found["renamed"].word == "cannot tell"
    assert "'q'" in found["renamed"].reason
    assert found.between("short", "right", "p").norms is None
    assert found.between("right", "short", "p").reason == "is float32[7, 5] instead of float32[7, 4]"
    assert found.between("double", "right", "p").word == found.between("right", "double", "p").word == "more than rounding"
    later = compare({"double": given["double"], "right": right}, X, network=mlp(), budget=0)
    assert later.pairs[0].word == "more than rounding"
    assert not found.ok
    assert "renamed has no output 'p'" in found.objections
    assert "renamed and right have no output in common" in found.objections
    double = found.between("double", "right", "p")
    assert double.norms is not None
    assert double.norms.l1 == 0
    assert not double.alike
    assert any("'p' is missing in renamed" in note for note in found.notes)
    assert any("'q' is in renamed only" in note for note in found.notes)
    assert "short: output 'p' is float32[7, 4] instead of float32[7, 5], unlike right" in found.table()


def test_one_that_fails_is_reported_and_the_others_go_on() -> None:
    def fails(_: Any) -> dict[str, np.ndarray]:
        raise ValueError("no such kernel")

    given = {"fails": fails, "numpy": numpy_mlp, "sequence": lambda _: {"p": [np.zeros(2), np.zeros(3)]}, "odd": lambda _: 3}
    found = compare(given, X, network=mlp(), budget=0)
    assert "'p' is a sequence" in found["sequence"].reason
    assert "a int as outputs" in found["odd"].reason
    assert found["fails"].word == "failed"
    assert found["fails"].reason == "ValueError: no such kernel"
    assert found["numpy"].word == "right"
    assert not found.ok
    assert found.objections == ("fails failed", "sequence failed", "odd failed")
    assert not found.pairs


def test_a_variant_of_another_precision_is_judged_by_its_values() -> None:
    pytest.importorskip("torch")
    found = compare(["torch:dtype=float64", "torch:dtype=bfloat16"], X, network=mlp(), budget=0)
    assert found["torch:dtype=float64"].word == "right"
    assert found["torch:dtype=bfloat16"].word == "reduced precision"


def test_a_decision_within_the_margin_is_no_fault() -> None:
    """One score is within rounding of a half, so that rounding it may go either way; another one is not."""
    rounded = helper.make_node("Round", ["scores"], ["rounded"], name="round")
    whole = helper.make_node("Cast", ["rounded"], ["r"], name="cast", to=onnx.TensorProto.INT64)
    network = mlp(extra=(rounded, whole), outputs=(("r", onnx.TensorProto.INT64),)).copy()
    scores = np.tanh(X["x"].astype(np.float64) @ W1 + B1) @ W2
    half = np.floor(scores[0, 0]) + 0.5
    w2 = W2.astype(np.float64)
    w2[:, 0] *= half / scores[0, 0]
    network.graph.initializers["w2"].const_value = ir.tensor(w2.astype(np.float32), name="w2")
    right = db.frameworks["reference"]().prepare(network)(X)
    flipped, beyond = {**right, "r": right["r"].copy()}, {**right, "r": right["r"].copy()}
    flipped["r"][0, 0] = int(2 * half) - right["r"][0, 0]
    beyond["r"][3, 2] += 1
    found = compare({"right": right, "flipped": flipped, "beyond": beyond}, X, network=network, budget=0)
    assert [system.word for system in found.values()] == ["right", "right", "wrong"]
    assert {found.between(label, "oracle", "r").word for label in ("right", "flipped")} == {"rounding"}
    for one, other, word in (
        ("flipped", "right", "rounding"),
        ("beyond", "right", "more than rounding"),
        ("beyond", "flipped", "more than rounding"),
    ):
        assert found.between(one, other, "r").word == found.between(other, one, "r").word == word
    turned = compare({"beyond": beyond, "flipped": flipped, "right": right}, X, network=network, budget=0)
    assert {pair.word for pair in turned.pairs if pair.output == "r" and pair.base == "beyond"} == {"more than rounding"}


@pytest.mark.parametrize("network", [None, "mlp"])
def test_what_was_not_compared_is_not_ok(network: str | None) -> None:
    """Outputs of other names, without a reference or with one that has neither; and none at all."""
    options: dict[str, Any] = {"network": mlp(), "check": "off"} if network else {}
    p = numpy_mlp(X)["p"]
    found = compare({"a": {"y": p}, "b": {"z": p}}, X, budget=0, **options)
    assert not found.ok
    assert found.objections == ("b and a have no output in common",)
    assert "not ok: b and a have no output in common" in found.table()
    assert json.loads(json.dumps(found.as_json()))["objections"] == ["b and a have no output in common"]
    assert not compare([{}, {}], X, budget=0, **options).ok
    three = compare({"a": {"y": p}, "b": {"y": p}, "c": {"z": p}}, X, budget=0, **options)
    assert three.objections == ("c and a have no output in common", "c and b have no output in common")
    both = compare({"a": {"y": p}, "b": {"y": p, "z": p}}, X, budget=0, **options)
    assert both.ok


def test_what_is_missing_or_could_not_be_decided_is_not_ok() -> None:
    more = mlp(outputs=(("scores", onnx.TensorProto.FLOAT),))
    p = numpy_mlp(X)["p"]
    found = compare({"part": {"p": p}, "reference": "reference"}, X, network=more, budget=0)
    assert found.objections == ("part has no output 'scores'",)
    draws = helper.make_graph(
        [helper.make_node("RandomNormalLike", ["x"], ["y"])],
        "draws",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [3, 2])],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [3, 2])],
    )
    network = db.Network.from_proto(helper.make_model(draws, opset_imports=[helper.make_opsetid("", 21)], ir_version=10))
    undecided = compare(["reference", {"y": np.ones((3, 2), np.float32)}], network=network, budget=0)
    assert undecided.objections == ("nothing could be decided",)


NAN = np.float32("nan")


def with_nan(where: Any) -> dict[str, np.ndarray]:
    p = numpy_mlp(X)["p"].copy()
    p[where] = NAN
    return {"p": p}


@pytest.mark.parametrize("network", [None, "mlp"])
def test_nan_in_one_of_two_is_a_difference(network: str | None) -> None:
    options: dict[str, Any] = {"network": mlp()} if network else {}
    given = {"right": numpy_mlp(X), "one": with_nan((2, 3)), "all": with_nan(...)}
    found = compare(given, X, budget=0, **options)
    assert not found.ok
    for label, base, count in (("one", "right", 1), ("all", "right", 35), ("all", "one", 34)):
        for pair in (found.between(label, base, "p"), found.between(base, label, "p")):
            assert pair.word == ("more than rounding" if network else "no reference")
            assert pair.norms is not None
            assert (pair.norms.mismatches, pair.norms.size) == (count, 35)
            assert pair.norms.not_finite == max(count, 35 if label == "all" else 1)
            assert pair.bits == 0
            assert np.isnan(pair.norms.l1) == (label == "all")
    assert "35 of the 35 elements of output 'p' of all are NaN or infinite" in found.notes
    assert not network or (found["one"].word, found["one"].bits, found["all"].bits) == ("wrong", 0, 0)
    table = found.table(200)
    assert "35 of 35" in table
    assert "nan" not in table.replace("which is nan instead of", ""), "no figure is NaN"
    json.dumps(found.as_json(), allow_nan=False)


def test_nan_in_the_same_places_agrees_and_is_counted() -> None:
    found = compare({"a": with_nan((2, 3)), "b": with_nan((2, 3)), "c": with_nan((2, 3))}, X, budget=0)
    assert found.ok
    pair = found.pairs[0]
    assert (pair.word, pair.reason) == ("equal", "1 of 35 elements are NaN or infinite, and the same in both")
    assert pair.norms is not None
    assert (pair.norms.mismatches, pair.norms.not_finite, pair.norms.l1) == (0, 1, 0)
    nothing = compare([with_nan(...), with_nan(...)], X, budget=0)
    assert nothing.objections == ("nothing could be decided",)
    every = nothing.pairs[0]
    assert every.norms is not None
    assert every.bits is None
    assert np.isnan(every.norms.linf_rel)
    assert every.norms.not_finite == 35


@pytest.mark.parametrize(
    ("x", "nothing"), [(X["x"] * NAN, "without a finite element"), (X["x"][:0], "empty")], ids=["nan", "empty"]
)
def test_where_everything_tells_nothing_nobody_is_right(x: np.ndarray, nothing: str) -> None:
    given = {"framework": "reference", "saved": {"p": np.full((len(x), 5), NAN)}, "function": numpy_mlp}
    found = compare(given, {"x": x}, network=mlp(), budget=0)
    assert {system.word for system in found.values()} == {"no information"}
    for label in ("saved", "function"):
        assert found[label].reason == f"the outputs are {nothing}, so there is nothing to compare"
    assert found.objections == ("nothing could be decided",)
    json.dumps(found.as_json(), allow_nan=False)


def test_a_number_where_nan_is_expected_is_wrong() -> None:
    given = {"framework": "reference", "saved": {"p": np.zeros((7, 5), np.float32)}}
    found = compare(given, {"x": X["x"] * NAN}, network=mlp(), budget=0)
    assert found["saved"].word == "wrong"


def test_infinities_of_one_sign_agree() -> None:
    inf = np.inf
    found = norms(np.array([inf, -inf, 1.0, inf, np.nan]), np.array([inf, inf, 1.5, np.nan, np.nan]))
    assert (found.mismatches, found.not_finite, found.size, found.l1, found.bits) == (2, 4, 5, 0.5, 0.0)
    assert norms(np.zeros((0, 3)), np.zeros((0, 3))).bits == inf


def test_integers_are_counted() -> None:
    found = norms(np.array([1, 2, 5]), np.array([1, 2, 4]))
    assert (found.mismatches, found.linf, found.max_ulp) == (1, 1.0, 0.0)
    assert norms(np.array(["a"], object), np.array(["b"], object)).mismatches == 1
    assert norms(np.array([True]), np.array([False])).bits == 0.0
    assert norms(np.array([np.nan, 1.0]), np.array([1.0, 1.0])).mismatches == 1


@pytest.mark.parametrize(
    ("given", "options", "message"),
    [
        (["reference"], {}, "1 thing to compare"),
        ("reference", {}, "1 thing to compare"),
        (["reference", 3], {"network": "digits-cnn"}, "a int to compare"),
        (["reference", "onnxruntime"], {"inputs": {"x": np.zeros(1)}}, "without a network"),
        ([{}, {}], {}, "no inputs, and no network"),
        ([{}, {}], {"labels": ["a", "a"], "inputs": {}}, "labels a, a"),
        ([{}, {}], {"labels": ["a", "oracle"], "inputs": {}}, "label 'oracle'"),
        ({"a": {}, "b": {}}, {"labels": ["a", "b"]}, "labels beside a mapping"),
    ],
)
def test_what_cannot_be_compared_is_refused(given: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        compare(given, options.pop("inputs", None), budget=0, **options)


def test_outputs_of_other_names_after_timing_are_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    import deep_bench.network.run as module

    class Verdict:
        repeatability = {"bitwise": True}  # noqa: RUF012
        findings: list[str] = []  # noqa: RUF012

    class Subject:
        def __init__(self, *_: Any) -> None: ...

        def outputs(self) -> dict[str, np.ndarray]:
            return {"other": np.zeros(1)}

    monkeypatch.setattr(module, "fleet_subject", Subject)
    problem = db_problem.make_problem("digits-cnn", batch=1)
    judged = JudgedNetwork(problem, NetworkSettings(), RecordFile(None, None), Bars(False))  # type: ignore[arg-type]
    judged._outputs = {"a": {"y": np.zeros(1)}}
    entries = {"a": type("System", (), {"verdict": Verdict})}
    judged.judge_again(type("Heat", (), {"runners": {"a": None}}), entries, 0)  # type: ignore[arg-type]
    assert Verdict.findings == ["outputs other, y differ after timing from those that were judged"]


def test_a_function_that_writes_into_its_inputs_harms_nobody() -> None:
    network = db.load("digits-cnn")
    image = np.random.default_rng(0).random((1, 1, 8, 8), np.float32)
    before = image.copy()

    def writes(inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        inputs["image"] += 1
        return {"logits": np.zeros((1, 10), np.float32)}

    found = db.network.compare({"o": "onnxruntime", "f": writes}, {"image": image}, network=network, budget=0.1)
    np.testing.assert_array_equal(image, before)
    assert {system.label: system.word for system in found.systems} == {"o": "right", "f": "wrong"}
