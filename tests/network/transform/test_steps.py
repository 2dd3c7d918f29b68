"""Transformations by name, and the command line."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

import deep_bench as db
from deep_bench.cli import main
from deep_bench.errors import InvalidArgument, UnknownName
from deep_bench.network.transform.steps import TransformStep, transformed
from tests.network.transform.texts import digits, network, operators, run

OWN = """
from deep_bench.network.transform import replace

def clip(network, most="6"):
    return replace(network, "Relu", lambda tape, found: tape.Min(tape.Relu(found.inputs[0]), float(most)))

def nothing(network):
    return None
"""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_transformations.py").write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "own_transformations", raising=False)


def deep_bench(*words: str | Path) -> int:
    with pytest.raises(SystemExit) as ended:
        main([str(w) for w in words])
    return ended.value.code


@pytest.mark.parametrize(
    "text",
    [
        "fold",
        "fold:limit=1kB",
        "fuse_batchnorm",
        "batch:2",
        "batch:size=5,image=0",
        "layout:NHWC",
        "layout:NHWC,input=image",
        "precision:float16,keep=Gemm,keep=MaxPool",
        "precision:bfloat16,borders=true",
        "extract:stem_normed..features",
        "extract:..features",
        "extract:stem_normed..",
        "micro_batch:100GiB,on=reference",
    ],
)
def test_every_step_is_right(text: str) -> None:
    net, image = digits()
    step = TransformStep.parse(text)
    assert str(step) == text
    found = step.apply(net).check(image)
    assert found.word == "right", found.reason


def test_open_sizes_are_chosen_for_the_check() -> None:
    net = db.load("digits-cnn")
    for text in ("sizes:batch=2", "batch:2", "fold"):
        assert TransformStep.parse(text).apply(net).check().identical


def test_the_name_tells() -> None:
    net = transformed(digits()[0], [TransformStep.parse("batch:2"), TransformStep.parse("fuse_batchnorm")])
    assert net.name == "digits-cnn after batch:2, fuse_batchnorm"
    assert net.inputs[0].shape[0] == 2
    assert "BatchNormalization" not in operators(net)


@pytest.mark.usefixtures("own")
def test_a_function_of_the_users() -> None:
    net, image = digits()
    after = transformed(net, [TransformStep.parse("own_transformations:clip:most=2")])
    assert operators(after).count("Min") == operators(net).count("Relu")
    assert TransformStep.parse("own_transformations:clip:most=1e9").apply(net).check(image).ok
    assert not TransformStep.parse("own_transformations:clip:most=0.1").apply(net).check(image).ok


@pytest.mark.usefixtures("own")
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("own_transformations:nothing", "returned a NoneType"),
        ("own_transformations:absent", "absent"),
        ("own_transformations:clip:least=3", "options that"),
        ("fold:depth=3", "'depth'"),
        ("fold:limit=much", "'much'"),
        ("batch", "batch with one size"),
        ("batch:2,size=3", "batch with one size"),
        ("extract:stem_normed", "two dots"),
        ("fuse_batchnorm:x", "'x'"),
    ],
)
def test_bad_steps(text: str, message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        TransformStep.parse(text).apply(digits()[0])


def test_an_unknown_step_suggests_one() -> None:
    with pytest.raises(UnknownName, match="did you mean 'precision'"):
        TransformStep.parse("precission:float16").apply(digits()[0])
    with pytest.raises(UnknownName, match="did you mean 'fold'"):
        TransformStep.parse("fodl")


def test_command_writes_and_checks(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    path = tmp_path / "out.onnx"
    flags = ["--sizes", "batch=2", "--fold", "--fuse-batchnorm", "--precision", "float16:keep=Gemm"]
    assert deep_bench("transform", "digits-cnn", *flags, "--check", "--output", path, "--json") == 0
    printed = json.loads(capsys.readouterr().out)
    assert [row["step"] for row in printed["steps"][1:]] == [
        "sizes:batch=2",
        "fold",
        "fuse_batchnorm",
        "precision:float16,keep=Gemm",
    ]
    assert [row["verdict"] for row in printed["steps"][1:]] == ["right"] * 4
    assert printed["written"] == [str(path)]
    found = run(db.load(path), digits(2)[1])["logits"]
    assert np.allclose(found, run(*digits(2))["logits"], rtol=0.05, atol=0.05)


def test_command_keeps_the_order(capsys: pytest.CaptureFixture) -> None:
    flags = ["--transform", "fold", "--layout", "NHWC", "--batch", "2", "--extract", "..features"]
    assert deep_bench("transform", "digits-cnn", *flags, "--check") == 0
    steps = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert steps == ["digits-cnn", "fold", "layout:NHWC", "batch:2", "extract:..features"]


def test_command_cuts(tmp_path: Path) -> None:
    assert deep_bench("transform", "digits-cnn", "--batch", "2", "--cut", "2", "--output", tmp_path / "net.onnx") == 0
    first, second = (db.load(tmp_path / f"net.{k}.onnx") for k in (1, 2))
    _, image = digits(2)
    values = {**image, **run(first, image)}
    logits = run(second, {s.name: values[s.name] for s in second.inputs})["logits"]
    assert np.array_equal(logits, run(*digits(2))["logits"])


@pytest.mark.usefixtures("own")
def test_command_says_what_is_wrong(capsys: pytest.CaptureFixture) -> None:
    assert deep_bench("transform", "digits-cnn", "--transform", "own_transformations:clip:most=0.1", "--check") == 1
    assert "wrong" in capsys.readouterr().out
    assert deep_bench("transform", "digits-cnn", "--fold") == 2
    assert "nothing to do" in capsys.readouterr().err
    assert deep_bench("transform", "digits-cnn", "--cut", "2", "--check") == 2
    assert deep_bench("transform", "digits-cnn", "--extract", "a..b", "--check") == 2
    assert "no value 'a'" in capsys.readouterr().err


def test_before_a_run(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    quick = [
        "--on",
        "reference",
        "--budget",
        "200ms",
        "--ci-width",
        "0.5",
        "--no-twin",
        "--in-process",
        "--output",
        tmp_path,
    ]
    steps = ["--transform", "batch:2", "--transform", "fuse_batchnorm"]
    assert deep_bench("run", "digits-cnn", *quick, *steps, "--json") == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["systems"]["reference"]["verdict"] == "right"
    assert "after_batch_2" in printed["record"]


def test_outputs_that_tell_nothing_fail_the_check(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    body = "f (float[2,3] x) => (float[2,3] y) { a = Abs(x)  b = Sub(m, a)  y = Sqrt(b) }"
    network(body, m=np.float32(-1)).save(tmp_path / "nan.onnx")
    assert deep_bench("transform", tmp_path / "nan.onnx", "--fold", "--check") == 1
    assert "no information, the outputs are without a finite element" in capsys.readouterr().out
    assert deep_bench("transform", tmp_path / "nan.onnx", "--fold", "--check", "--json") == 1
    assert json.loads(capsys.readouterr().out)["steps"][1]["bits"] is None
