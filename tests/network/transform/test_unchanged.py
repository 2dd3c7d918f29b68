"""A transformation that leaves a network as it was says so."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import deep_bench as db
from deep_bench.cli import main
from deep_bench.network.transform import precision
from deep_bench.network.transform.steps import STEPS, TransformStep, difference
from tests.network.transform.texts import network

PLAIN = "f (float[4,2] x) => (float[4,2] y) { y = Relu(x) }"
NOTHING = {
    "batch": "batch:4",
    "extract": "extract:x..y",
    "fold": "fold",
    "fuse_batchnorm": "fuse_batchnorm",
    "precision": "precision:float16,keep=Relu",
    "sizes": "sizes",
}


def test_every_transformation_is_here() -> None:
    assert {*NOTHING, "layout", "micro_batch"} == set(STEPS)


@pytest.mark.parametrize("name", NOTHING)
def test_it_says_so(name: str) -> None:
    assert TransformStep.parse(NOTHING[name]).apply(network(PLAIN)).unchanged == "changed nothing"


def test_those_that_always_change_or_refuse() -> None:
    for text in ("layout:NHWC", "micro_batch:1GiB,on=reference"):
        with pytest.raises(db.errors.InvalidArgument):
            TransformStep.parse(text).apply(network(PLAIN))
    images = network("f (float[2,1,3,3] x) => (float[2,1,3,3] y) <float[1,1,1,1] w = {2}> { y = Conv(x, w) }")
    assert TransformStep.parse("micro_batch:1GiB,on=reference").apply(images).unchanged == "changed nothing"
    assert TransformStep.parse("layout:NHWC").apply(images).unchanged == ""


@pytest.mark.parametrize("text", ["batch:2", "precision:float16", "sizes:n=3"])
def test_a_change_is_one(text: str) -> None:
    net = network(PLAIN.replace("4,2", "n,2") if "sizes" in text else PLAIN)
    assert TransformStep.parse(text).apply(net).unchanged == ""


def test_what_counts_as_the_same() -> None:
    net = network("f (float[2] x) => (float[2] y) <float[2] w = {1, 2}> { y = Mul(x, w) }")
    other = network("f (float[2] x) => (float[2] y) <float[2] w = {1, 3}> { y = Mul(x, w) }")
    operator = network("f (float[2] x) => (float[2] y) <float[2] w = {1, 2}> { y = Add(x, w) }")
    assert difference(net, net.copy()) == "changed nothing"
    assert difference(net, other) == difference(net, operator) == ""


def test_another_opset_is_not_much_of_a_change() -> None:
    old = network(PLAIN)
    newer = old.upgraded(old.opset + 1)
    assert difference(old, newer) == f"changed nothing but the opset, from {old.opset} to {newer.opset}"


def test_the_command_line_says_so(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    file = network(PLAIN).save(tmp_path / "net.onnx")
    for words in (["--fold", "--check"], ["--fold", "--output", str(tmp_path / "same.onnx")]):
        with pytest.raises(SystemExit) as ended:
            main(["transform", str(file), *words])
        assert ended.value.code == 0
        assert "; changed nothing" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main(["transform", str(file), "--fold", "--precision", "float16", "--check", "--json"])
    steps = json.loads(capsys.readouterr().out)["steps"]
    assert [step.get("unchanged") for step in steps] == [None, "changed nothing", ""]
    quick = ["--budget", "100ms", "--ci-width", "0.5", "--no-twin", "--in-process", "--output", str(tmp_path / "out")]
    with pytest.raises(SystemExit):
        main(["run", str(file), "--on", "reference", "--transform", "fold", *quick])
    assert "the transformation fold changed nothing" in capsys.readouterr().err


@pytest.mark.parametrize("to", ["float16", "bfloat16"])
@pytest.mark.parametrize("keep", [(), ("Relu",), ("MatMul",)])
@pytest.mark.parametrize("borders", [False, True])
def test_float64_is_narrowed_too(to: str, keep: tuple[str, ...], borders: bool) -> None:
    net = network(
        "f (double[3,2] x) => (double[3,2] y) <double[2,2] w = {0.1, 0.7, -0.3, 1.9}> { a = MatMul(x, w)  y = Relu(a) }"
    )
    low = precision(net, to, keep=keep, borders=borders)
    held = {array.dtype.name for array in low.initializers.values()}
    assert held == ({"float64"} if keep == ("MatMul",) else {to})
    wanted = to if borders else "float64"
    assert {spec.dtype.name for spec in (*low.inputs, *low.outputs)} == {wanted}
    assert sum(node.op_type == "Cast" for node in low.nodes) > 0 or (borders and not keep)
    text = f"precision:{to}{''.join(f',keep={k}' for k in keep)},borders={str(borders).lower()}"
    found = TransformStep.parse(text).apply(net).check({"x": np.random.default_rng(0).standard_normal((3, 2))})
    assert (found.word, found.formats) == ("right", (to,))


def test_float32_and_float64_together() -> None:
    net = network(
        "f (double[4] x, float[4] z) => (double[4] y, float[4] v)"
        " { a = Exp(x)  v = Neg(z)  c = Cast<to = 11>(v)  y = Add(a, c) }"
    )
    low = precision(net, "float16", keep=["Add"])
    assert [spec.dtype.name for spec in low.outputs] == ["float64", "float32"]
    rng = np.random.default_rng(0)
    inputs = {"x": rng.standard_normal(4), "z": rng.standard_normal(4).astype(np.float32)}
    assert TransformStep.parse("precision:float16,keep=Add").apply(net).check(inputs).word == "right"


def test_float64_that_overflows_is_refused() -> None:
    net = network("f (double[2] x) => (double[2] y) <double[2] w = {1, 1e300}> { y = Mul(x, w) }")
    with pytest.raises(db.errors.InvalidArgument, match="1e\\+300"):
        precision(net, "bfloat16")
