"""An operator is added as CONTRIBUTING.md says: its meaning, native code and a row of facts. The library does the rest."""

from __future__ import annotations

import re
from collections.abc import Callable
from math import prod
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest

import deep_bench as db
import deep_bench.facts
from deep_bench.check import InProcessSubject, establish, judge
from deep_bench.facts import OperatorFacts
from deep_bench.facts.row import Shape, Work
from deep_bench.facts.rules import first, passing
from deep_bench.operators.case import Case
from deep_bench.operators.checks.forward import defines_special
from deep_bench.operators.checks.repeatability import rows_of
from deep_bench.operators.cost import cost_of_case
from deep_bench.operators.draws import draw_of, limit_of
from deep_bench.reference import operators as reference

ROOT = Path(__file__).parents[2]
DOMAIN, NAME = "com.example", "RootedScale"
OPERATOR = f"{DOMAIN}::{NAME}"


def RootedScale(x: np.ndarray, power: np.ndarray) -> np.ndarray:
    """``sqrt(x) * 2^power``."""
    return np.sqrt(x) * np.exp2(power).astype(x.dtype)


def cost(x: Shape) -> Work:
    return Work(flops=1, special=1) * prod(x)


ROW = OperatorFacts(
    cost=cost,
    settings=(1,),
    draws={"x0": "domain:0:inf", "x1": "below:3"},
    growth=passing,
    row_axes=first,
    defines_special=True,
)


@pytest.fixture
def added(monkeypatch: pytest.MonkeyPatch) -> None:
    """The operator, as if the files of its family had it."""
    functions = MappingProxyType({**reference.OPERATORS, (DOMAIN, NAME): RootedScale})
    monkeypatch.setattr(reference, "OPERATORS", functions)
    monkeypatch.setattr(deep_bench.facts, "OPERATORS", {**deep_bench.facts.OPERATORS, OPERATOR: ROW})


@pytest.fixture
def case(added: None) -> Case:
    return Case.of(OPERATOR, (4, 3), "int64[1]")


def test_the_recipe_names_files_that_there_are() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").partition("## Adding an operator")[2].partition("\n## ")[0]
    paths = re.findall(r"`((?:reference|deep_bench|tests)/[^`]*\.py)`", text)
    families = [("<family>", "linear"), ("<framework>", "torch")]
    assert len(paths) >= 5
    for path in paths:
        for placeholder, value in families:
            path = path.replace(placeholder, value)
        assert (ROOT / path).is_file(), path


def test_inputs_are_drawn_as_the_row_says(case: Case) -> None:
    assert [draw_of(case, i) for i in range(2)] == ["domain:0:inf", "below:3"]
    assert np.all(case.arrays()["x0"] >= 0)
    assert limit_of(case, 0) == pytest.approx(np.finfo(np.float32).max / 4)


def test_cost_and_samples_are_those_of_the_row(case: Case) -> None:
    estimate, rows = cost_of_case(case), rows_of(case)
    assert estimate is not None
    assert rows is not None
    assert (estimate.flops, estimate.special, estimate.bytes) == (12, 12, 4 * 12 + 8 + 4 * 12)
    assert (rows.inputs, rows.count) == ({"x0": 0}, 4)
    assert defines_special(case)


def word_of(framework: str, case: Case) -> str:
    truth = establish(case.network(), case.arrays())
    return judge(truth, InProcessSubject(db.frameworks[framework](), truth.network, truth.inputs)).word


def test_the_reference_runs_it_and_is_right(case: Case) -> None:
    assert word_of("reference", case) == "right"


def test_native_code_is_judged_by_the_reference(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    from deep_bench.adapters.torch import operators as native

    calls = []

    def build(_: Any) -> Callable[..., Any]:
        def scaled(x: Any, power: Any) -> Any:
            calls.append(x.shape)
            return torch.sqrt(x) * torch.exp2(power)

        return scaled

    monkeypatch.setattr(native, "OPERATORS", {**native.OPERATORS, f"{DOMAIN}:{NAME}": build})
    assert word_of("torch", case) == "right"
    assert calls
