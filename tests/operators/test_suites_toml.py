"""Suites as TOML: read, written, and refused with the place of what is wrong."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import deep_bench as db
from deep_bench.errors import InvalidArgument
from deep_bench.operators.argument import Argument
from deep_bench.operators.case import Case
from deep_bench.operators.suites.suite import Suite
from deep_bench.tensor import TensorSpec

WRITTEN = """
name = "mine"
source = "our own network"

[[cases]]
operator = "Gemm"
inputs = [[35, 2048], [700, 2048]]
attributes = {transB = 1}
dtype = "float16"
tags = ["speech"]
count = 4

[[cases]]
operator = "Gather"
label = "table"
inputs = ["bfloat16[100, 8]", {shape = [4], dtype = "int32", draw = "below:9"}]

[[cases]]
operator = "Clip"
inputs = [[2, 3], {omitted = true}, {value = 6, dtype = "float32"}]

[[cases]]
operator = "Reshape"
inputs = [[2, 3], {value = [3, 2]}]

[[cases]]
operator = "numpy:tanh"
inputs = [[2, 3]]
"""


def written(path: Path, text: str) -> Path:
    file = path / "suite.toml"
    file.write_text(text, encoding="utf-8")
    return file


def test_a_suite_is_read(tmp_path: Path) -> None:
    suite = Suite.from_toml(written(tmp_path, WRITTEN))
    assert (suite.name, suite.source) == ("mine", "our own network")
    gemm, gather, clip, reshape, tanh = suite
    assert gemm == Case.of("Gemm", (35, 2048), (700, 2048), dtype="float16", transB=1, tags=["speech"], count=4)
    assert [str(a) for a in gather.arguments] == ["data: bfloat16[100, 8]", "indices: int32[4]"]
    assert gather.arguments[1] is not None
    assert gather.arguments[1].draw == "below:9"
    assert clip.problem == Case.of("Clip", (2, 3), None, np.float32(6)).problem
    assert reshape.results[0].shape == (3, 2)
    assert tanh.operator is np.tanh


def test_without_a_name_it_has_that_of_its_file(tmp_path: Path) -> None:
    assert Suite.from_toml(written(tmp_path, '[[cases]]\noperator = "Gelu"\ninputs = [[2]]')).name == "suite"


@pytest.mark.parametrize(
    "name", ["deepbench/rnn/device", "deepbench/sparse_gemm/device", "transformer/attention", "convnet/unet"]
)
def test_what_ships_is_written_and_read_back(tmp_path: Path, name: str) -> None:
    suite = db.suites[name]
    assert Suite.from_toml(suite.save(tmp_path / "suite.toml")) == suite


def test_all_that_a_case_can_hold_is_written_and_read_back(tmp_path: Path) -> None:
    names = np.array(["a", 'b "c"\n', "\x7fé"], dtype=object)
    cases = [
        Case.of("Clip", (2,), None, 1.5, label='x "y" \\ z', tags=["a b"], count=2, source="s"),
        Case.of("Add", np.array([1.5, np.inf, np.nan], ml_dtypes.bfloat16), (3,)),
        Case.of("Equal", names, (3,)),
        Case.of("Cast", np.array([-8, 7], ml_dtypes.int4), to=1),
        Case.of("Elu", (2,), alpha=1e-30),
        Case.of("Constant", settings={"value": np.arange(6, dtype=np.uint8).reshape(2, 3)}),
        Case.of("Split", (6, 2), [2, 4], axis=0),
        Case.of("RNN", (2, 1, 3), (1, 4, 3), (1, 4, 4), hidden_size=4, activations=["Relu"]),
        Case.of("Gelu", (0, 3)),
        Case.of("ReduceSum", (2, 3), np.empty(0, np.int64)),
        Case.of(np.tanh, (2,)),
    ]
    suite = Suite("it", cases, "a", "b", ("c", "d"))
    assert Suite.from_toml(suite.save(tmp_path / "suite.toml")) == suite


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name = ", "is no TOML: Invalid value"),
        ('name = "x"', "has no 'cases'"),
        ("cases = []", "cases is \\[\\]"),
        ('nam = "x"\n[[cases]]\noperator = "Gelu"', "there is no field 'nam'\\n.*\\n.*did you mean 'name'"),
        ('[[cases]]\noperater = "Gelu"', "no field 'cases\\[0\\].operater'\\n.*\\n.*did you mean 'operator'"),
        (
            '[[cases]]\noperator = "Gelu"\ninputs = [[2], {shap = [2]}]',
            "no field 'cases\\[0\\].inputs\\[1\\].shap'\\n.*\\n.*did you mean 'shape'",
        ),
        (
            '[[cases]]\noperator = "Gelu"\ninputs = [[2, -3]]',
            "cases\\[0\\].inputs\\[0\\]\\[1\\] is -3\\nExpected: greater than",
        ),
        ('[[cases]]\noperator = "Gelu"\ncount = "two"', "cases\\[0\\].count is 'two'\\nExpected: a valid integer"),
        (
            '[[cases]]\noperator = "Gelu"\ninputs = [[2]]\n[[cases]]\noperator = "Gel"',
            "cases\\[1\\]: unknown operator 'Gel'",
        ),
        ('[[cases]]\noperator = "Gelu"\ninputs = [{dtype = "float16"}]', "cases\\[0\\]: an input without shape and value"),
        ('[[cases]]\noperator = "Gelu"\ninputs = [{shape = [2], draw = "norml"}]', "unknown draw 'norml'[^?]*'normal'"),
        ('[[cases]]\noperator = "Gemm"\ninputs = [[2, 3], [4, 5]]', "cases\\[0\\]: Gemm.* do not fit each other"),
        ('[[cases]]\noperator = "Cast"\ninputs = [[2]]\nattributes = {to = {vlue = 1}}', "cases\\[0\\]: an attribute"),
        ('[[cases]]\noperator = "no_such_module:f"', "the operator 'no_such_module:f': No module"),
        ('[[cases]]\noperator = "numpy:pi"', "the operator 'numpy:pi' is a float"),
    ],
)
def test_what_is_wrong_is_named_with_its_place(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        Suite.from_toml(written(tmp_path, text))


def test_a_file_that_is_missing(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="cannot be read: No such file"):
        Suite.from_toml(tmp_path / "none.toml")


def test_what_cannot_be_written_is_refused(tmp_path: Path) -> None:
    double = Case.of(lambda x: 2 * x, (2,))
    with pytest.raises(InvalidArgument, match=r"'<lambda>' cannot be written down"):
        Suite("x", [double]).save(tmp_path / "x.toml")
    drawn = Case("Gelu", (Argument(TensorSpec("", (2,), np.dtype("float32")), draw=lambda rng, spec: np.zeros(2)),))
    with pytest.raises(InvalidArgument, match="draws X by a function"):
        Suite("x", [drawn]).save(tmp_path / "x.toml")
    with pytest.raises(InvalidArgument, match=r"a folder that exists"):
        Suite("x", [Case.of("Gelu", (2,))]).save(tmp_path / "none" / "x.toml")
    assert list(tmp_path.iterdir()) == []
