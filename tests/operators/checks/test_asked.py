"""What checks ask of NaN and infinities, and what they say that they did not ask."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import erf

from deep_bench import Case
from deep_bench.operators import wrap
from deep_bench.operators.checks import forward_check, honesty, remembering_check
from deep_bench.operators.checks.finding import Finding, combined


def gelu(x):
    return (0.5 * x * (1 + erf(x / np.sqrt(2)))).astype(x.dtype)


def softsign(x):
    return x / (1 + np.abs(x))


def flushed(function):
    return lambda *x: np.nan_to_num(function(*x), posinf=np.inf, neginf=-np.inf)


RIGHT = {
    "Gelu": (gelu, [(2,)]),
    "Softsign": (softsign, [(4, 5)]),
    "Relu": (lambda x: np.maximum(x, 0), [(3,)]),
    "Max": (np.maximum, [(3,), (3,)]),
    "Softmax": (lambda x: np.exp(x - x.max(-1, keepdims=True)) / np.exp(x - x.max(-1, keepdims=True)).sum(-1), [(1, 4)]),
}


@pytest.mark.parametrize("name", RIGHT)
def test_nan_is_asked_wherever_the_reference_gives_nan(name) -> None:
    function, shapes = RIGHT[name]
    case = Case.of(name, *shapes)
    right = forward_check(wrap(function, computes=name, device="numpy"), case)
    assert right.word == "right", str(right)
    assert ("not asked: infinities" in right.reason) == (name in ("Gelu", "Softsign"))
    wrong = forward_check(wrap(flushed(function), computes=name, device="numpy"), case)
    assert (wrong.word, "0 instead of nan" in wrong.reason) == ("wrong", True), str(wrong)


def test_infinities_are_asked_where_a_function_has_limits() -> None:
    cut = wrap(lambda x: np.minimum(np.maximum(x, 0), np.finfo(x.dtype).max), computes="Relu", device="numpy")
    assert forward_check(cut, Case.of("Relu", (8, 8))).word == "wrong"


def test_nan_is_not_asked_of_interpolations() -> None:
    case = Case.of("Resize", (1, 1, 2, 2), None, None, [1, 1, 4, 4])
    finding = forward_check(wrap(lambda x, *_: x.repeat(2, 2).repeat(2, 3), computes="Resize", device="numpy"), case)
    assert finding.word == "right", str(finding)
    assert "not asked: infinities, since the standard leaves open what Resize gives for them, NaN" in finding.reason


def test_what_was_not_asked_is_kept_when_findings_are_combined() -> None:
    right, open_ = Finding("a", "c", "right"), Finding("a", "c", "not applicable", "no such inputs")
    assert combined("a", "c", [right, open_]).reason == "not asked: no such inputs"
    assert combined("a", "c", [right, right]).reason == ""


@pytest.mark.parametrize(("seen", "unseen", "word"), [(1e3, 3e4, "cannot tell"), (9e4, 1e5, "right"), (1e3, 1e5, "wrong")])
def test_calls_may_be_too_short_to_show_that_answers_are_remembered(monkeypatch, seen, unseen, word) -> None:
    monkeypatch.setattr(honesty, "_times", lambda *_: (seen, unseen))
    finding = remembering_check(wrap(np.exp, computes="Exp", device="numpy"), Case.of("Exp", (4,)))
    assert finding.word == word
    assert "from 60 us on" in finding.reason or word != "cannot tell"
