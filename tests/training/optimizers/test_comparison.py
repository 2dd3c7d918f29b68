"""``compare_optimizers``: what it takes, says and draws."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import deep_bench as db
from deep_bench.errors import InvalidArgument
from deep_bench.training import compare_optimizers
from tests.training.optimizers.problems import logistic, rosenbrock

ADAM = db.optimizers["adam"](lr=0.01)
START = {"x": np.array([0.5, -0.5, 0.25])}


def test_free_trajectories_are_followed_beside_the_lock_step(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    found = compare_optimizers({"a": ADAM, "b": ADAM, "c": "sgd"}, parameters=START, evaluate=logistic, steps=8)
    assert [v.label for v in found.verdicts] == ["a", "b", "c"]
    assert [(v.word, v.parts) for v in found.verdicts] == [("right", None), ("right", None), ("wrong", 1)]
    assert not found.ok
    assert {(r.mode, r.step) for r in found.rows} == {(m, s + 1) for m in ("lock-step", "free") for s in range(8)}
    assert "never" in found.table()
    assert "c: wrong" in str(found)
    assert "the reference is a, the first that was given" in str(found)
    rows = [line.split()[:2] for line in str(found).splitlines()[2:5]]
    assert rows == [["a", "reference"], ["b", "judged"], ["c", "judged"]]
    json.dumps(found.to_json(), allow_nan=False)
    assert found.plot(tmp_path / "found.png").read_bytes().startswith(b"\x89PNG")


def test_acceleration_evaluates_where_it_prepares() -> None:
    rule = db.optimizers["accelegrad"](diameter=4.0)
    assert compare_optimizers(rule, rule, parameters=START, evaluate=logistic, steps=8).ok


def test_a_line_search_is_compared_only_as_a_second() -> None:
    searching = db.optimizers["lbfgs"](line_search=True, history=3)
    start = {"x": np.array([-1.2, 1.0])}
    found = compare_optimizers(db.optimizers["lbfgs"](history=3), searching, parameters=start, evaluate=rosenbrock, steps=4)
    assert [v.word for v in found.verdicts] == ["right", "wrong"]
    with pytest.raises(InvalidArgument, match="line_search=True and no evaluate"):
        compare_optimizers(searching, "sgd", parameters=start, evaluate=rosenbrock, steps=4)


def test_labels_differ() -> None:
    found = compare_optimizers(ADAM, ADAM, ("adam", "reference"), steps=2)
    assert [v.label for v in found.verdicts] == ["adam", "adam 2", "reference.adam"]


def test_rounding_that_drowns_the_result_is_no_information() -> None:
    cancelling, sgd = {"x": np.float32([1.1e7, 2.3e7, 3.7e7])}, db.optimizers["sgd"](lr=0.1)
    slopes = [{"x": 10 * cancelling["x"]}]
    found = compare_optimizers(sgd, sgd, parameters=cancelling, gradients=slopes)
    assert found.verdicts[0].word == "no information"
    assert "rounding alone changes 'x'" in found.verdicts[0].reason
    undefined = db.optimizers["adam"](epsilon=0.0)
    found = compare_optimizers(undefined, undefined, parameters={"x": np.zeros(4)}, gradients=[{"x": np.zeros(4)}] * 2)
    assert found.verdicts[0].word == "no information"
    assert "'x' is not finite" in found.verdicts[0].reason


@pytest.mark.parametrize(
    ("given", "options", "named"),
    [
        (("adam",), {}, "1 optimizers"),
        (("adam", 3), {}, "3 to compare"),
        (("adam", "sgd"), {"dtype": "float16"}, "dtype='float16'"),
        (("adam", "sgd"), {"gradients": [{"y": np.zeros(2)}], "parameters": {"x": np.zeros(2)}}, "gradients of y"),
        (("adam", "sgd"), {"gradients": [{"x": np.zeros(3)}], "parameters": {"x": np.zeros(2)}}, r"shape \[2\]"),
    ],
)
def test_what_cannot_be_compared_is_refused(given: tuple[Any, ...], options: dict[str, Any], named: str) -> None:
    with pytest.raises(InvalidArgument, match=named):
        compare_optimizers(*given, **options)
