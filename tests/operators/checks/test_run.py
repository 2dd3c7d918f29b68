"""`check_operator`: all checks, in a process of their own, whatever the kernel does."""

from __future__ import annotations

import ctypes
import json
import sys
import time

import numpy as np
import pytest

import deep_bench as db
from deep_bench import Case, Operator
from deep_bench.errors import InvalidArgument, UnknownName, Unsupported
from deep_bench.operators.checks import CHECKS, Finding, Findings, check_operator
from deep_bench.operators.checks.finding import combined
from deep_bench.operators.checks.run import CheckRunner, check_of
from tests.operators.checks.tricks import Exp

CASES = [Case.of("Exp", (4, 5)), Case.of("Exp", (6,))]
FEW = ["contract", "forward"]


class Hangs(Exp):
    def forward(self, x):
        while x.ndim == 2:
            time.sleep(0.1)
        return np.exp(x)


class Crashes(Exp):
    def forward(self, x):
        if x.ndim == 2:
            ctypes.string_at(0)
        return np.exp(x)


class CrashesOnOnes(Exp):
    def forward(self, x):
        if 1 in x.shape:
            ctypes.string_at(0)
        return np.exp(x)


class Raises(Exp):
    def forward(self, x):
        if x.ndim == 2:
            raise ValueError("no code for two dimensions\nsecond line")
        return np.exp(x)


class Exits(Exp):
    def forward(self, x):
        sys.exit(3)


class SetupRaises(Exp):
    def setup(self, case):
        raise OSError("no compiler")


class Refuses(Exp):
    def forward(self, x):
        if x.ndim == 2:
            raise Unsupported("only vectors")
        return np.exp(x)


class Returns(Exp):
    def __init__(self, what):
        self.what = what

    def forward(self, x):
        return self.what(x)


@pytest.mark.long
def test_a_kernel_that_never_returns_costs_its_own_case_only() -> None:
    found = check_operator(Hangs(), CASES, checks=[*FEW, "reruns"], limit_s=1)
    assert [(f.word, f.reason) for f in found] == [
        ("failed", "took more than 1 s"),
        ("failed", "took more than 1 s"),
        ("not checked", "2 checks in a row ended its process"),
        *[("right", "")] * 3,
    ]
    assert not found.ok


@pytest.mark.long
def test_a_crash_is_named_and_the_others_go_on() -> None:
    found = check_operator(Crashes(), CASES, checks=FEW)
    assert [(f.word, f.reason) for f in found][:2] == [("failed", "its process crashed (SIGSEGV)")] * 2
    assert [f.word for f in found][2:] == ["right", "right"]


def test_a_crash_in_a_later_check_leaves_the_other_checks() -> None:
    found = check_operator(CrashesOnOnes(), CASES[0], checks=["contract", "sizes", "reruns"])
    assert [f.word for f in found] == ["right", "failed", "right"]


def test_a_crash_in_the_first_check_leaves_the_others() -> None:
    found = check_operator(CrashesOnOnes(), CASES[0], checks=["sizes", "reruns", "fresh"])
    assert [f.word for f in found] == ["failed", "right", "right"]


def test_a_class_and_a_file_are_checked_as_an_operator_is(tmp_path) -> None:
    file = tmp_path / "named_kernels.py"
    file.write_text(
        "import numpy as np\nfrom deep_bench import Operator\nclass Named(Operator):\n    computes = 'Exp'\n"
        "    def forward(self, x):\n        return np.exp(x)\n"
    )
    found = check_operator(f"{file}:Named", CASES[1], checks=["forward"])
    assert (found.operator, found.ok) == ("Named", True)
    assert check_operator(Exp, CASES[1], checks=["forward"], isolate=False).ok
    with pytest.raises(InvalidArgument, match="has no 'Nemad'"):
        check_operator(f"{file}:Nemad", CASES)
    with pytest.raises(InvalidArgument, match=r"'file\.py:Class'"):
        check_operator("torch", CASES)


@pytest.mark.parametrize(
    ("operator", "reason"),
    [
        (Raises(), "Raises.forward raised ValueError: no code for two dimensions"),
        (Exits(), "Exits.forward raised SystemExit: 3"),
        (SetupRaises(), "SetupRaises.setup raised OSError: no compiler"),
        (Returns(lambda x: [np.exp(x)]), "Returns.forward returned a list; expected: an array"),
        (Returns(lambda x: (np.exp(x), x)), "Returns.forward returned a tuple of 2; expected: an array"),
        (Returns(lambda x: None), "Returns.forward returned a NoneType; expected: an array"),
    ],
)
def test_a_kernel_that_fails_is_told_what_came(operator, reason) -> None:
    for check in CHECKS:
        finding = check_of(check)(operator, CASES[0])
        assert (finding.word, finding.reason.split(", and ")[0]) in (("failed", reason), ("not applicable", finding.reason))
    assert check_of("forward")(operator, CASES[0]).word == "failed"


@pytest.mark.parametrize(
    ("what", "reason"),
    [
        (lambda x: np.exp(x).astype(np.float64), "output 'output' is float64[4, 5] instead of float32[4, 5]"),
        (lambda x: np.exp(x)[:, :-1], "output 'output' is float32[4, 4] instead of float32[4, 5]"),
        (lambda x: np.exp(x)[0, 0], "output 'output' is float32[] instead of float32[4, 5]"),
    ],
)
def test_another_shape_or_type_is_wrong(what, reason) -> None:
    finding = check_of("forward")(Returns(what), CASES[0])
    assert (finding.word, finding.reason) == ("wrong", reason)


def test_a_refusal_is_no_fault() -> None:
    found = check_operator(Refuses(), CASES, checks=FEW, isolate=False)
    assert [(f.word, f.reason) for f in found][:2] == [("not applicable", "only vectors")] * 2
    assert found.ok


def test_all_checks_in_a_child_process_find_nothing_in_a_correct_kernel() -> None:
    found = check_operator(Exp(), CASES[:1], seed=2)
    assert [f.name for f in found] == list(CHECKS)
    assert found.faults == [], str(found)


def test_a_kernel_of_a_notebook_reaches_the_child() -> None:
    factor = np.float32(1)

    class Local(Operator):
        computes = "Exp"

        def forward(self, x):
            return factor * np.exp(x)

    assert check_operator(Local(), CASES[0], checks=["forward"]).ok


def test_what_cannot_be_pickled_is_refused() -> None:
    operator = Exp()
    operator.lock = time.sleep, (step for step in [])
    with pytest.raises(InvalidArgument, match="Exp cannot be sent to its process"):
        check_operator(operator, CASES)
    assert check_operator(operator, CASES, checks=["forward"], isolate=False).ok


def test_bad_arguments_are_refused() -> None:
    with pytest.raises(UnknownName, match="did you mean 'forward'"):
        check_operator(Exp(), CASES, checks=["foward"])
    with pytest.raises(UnknownName):
        check_of("foward")
    with pytest.raises(InvalidArgument, match="no cases"):
        check_operator(Exp(), [])
    with pytest.raises(InvalidArgument, match="a str among the cases"):
        check_operator(Exp(), ["Exp"])
    with pytest.raises(InvalidArgument, match="effort 'slow'"):
        check_operator(Exp(), CASES, effort="slow")
    with pytest.raises(InvalidArgument, match="a subclass of deep_bench"):
        check_operator(np.exp, CASES)


def test_a_case_of_another_operator_is_not_applicable() -> None:
    found = check_operator(Exp(), Case.of("Tanh", (2,)), checks=["forward"], isolate=False)
    assert (found[0].word, found.ok) == ("not applicable", False)
    assert "Exp computes a single Exp" in found[0].reason


def test_findings_are_shown_and_written(tmp_path) -> None:
    found = check_operator(Returns(lambda x: np.exp(x) * np.float32(1.01)), CASES, checks=FEW, isolate=False)
    table = found.table(every=False)
    assert table.splitlines()[0] == "Returns: 2 wrong, 2 right"
    assert table.count("forward") == 2
    assert "contract" not in table
    file = tmp_path / "found.json"
    text = found.to_json(file)
    plain = json.loads(file.read_text())
    assert plain == json.loads(text)
    assert (plain["operator"], plain["ok"], len(plain["findings"])) == ("Returns", False, 4)
    assert plain["findings"][1]["parts"][0]["place"].startswith("normal inputs, output")
    with pytest.raises(InvalidArgument, match="cannot be written"):
        found.to_json(tmp_path / "missing" / "found.json")


def test_the_worst_part_decides() -> None:
    def part(word, bits=None):
        return Finding("c", "case", word, word, bits)

    for words, expected in (
        (["right", "no information"], "right"),
        (["right", "cannot tell", "not applicable"], "cannot tell"),
        (["cannot tell", "reduced precision"], "reduced precision"),
        (["reduced precision", "wrong", "right"], "wrong"),
        (["failed", "wrong"], "failed"),
        (["no information", "not applicable"], "no information"),
    ):
        assert combined("c", "case", [part(word) for word in words]).word == expected
    assert combined("c", "case", [part("right", 23.0), part("right", 24.0)]).bits == 23.0
    assert combined("c", "case", [], "nothing to do").reason == "nothing to do"
    assert not Findings("X", [Finding("c", "case", "not applicable")]).ok


def test_a_runner_keeps_what_is_known_of_a_case(monkeypatch) -> None:
    runner = CheckRunner(Exp(), 0, "quick")
    runner.check("forward", CASES[0])
    known = runner._problem
    runner.check("reruns", CASES[0])
    assert runner._problem is known
    runner.check("reruns", CASES[1])
    assert runner._problem is not known


def test_they_are_public() -> None:
    assert db.operators.check_operator is check_operator
    from deep_bench.testing import OPERATOR_CHECKS

    assert OPERATOR_CHECKS is CHECKS
