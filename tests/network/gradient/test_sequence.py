"""Gradients of sequences and optionals."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.network.gradient.checks import check, outcomes

HEAD = '<ir_version: 10, opset_import: ["" : 21]> g '


def drawn(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape)


@pytest.mark.parametrize(
    "operator",
    [
        "ConcatFromSequence",
        "Optional",
        "OptionalGetElement",
        "SequenceAt",
        "SequenceConstruct",
        "SequenceErase",
        "SequenceInsert",
        "SplitToSequence",
    ],
)
def test_cases(operator: str) -> None:
    others = [o for o in outcomes(operator) if o.word not in ("right", "kink")]
    # What an optional input holds is no tensor to differentiate with respect to.
    assert [o for o in others if "is no floating-point tensor" not in o.detail] == []


@pytest.mark.parametrize(
    "body",
    [
        "s = SequenceConstruct(a, b) y = SequenceAt(s, last)",
        "s = SequenceConstruct(a, b, a) p = SequenceAt(s, last) q = SequenceAt(s, first) y = Mul(p, q)",
        "s = SequenceConstruct(a, b) y = ConcatFromSequence<axis = -2>(s)",
        "s = SequenceConstruct(a, a) y = ConcatFromSequence<axis = -1, new_axis = 1>(s)",
        "s = SequenceConstruct(a, b) e = SequenceErase(s) p = SequenceAt(e, first) y = Mul(p, p)",
        "s = SequenceConstruct(a, b, a) e = SequenceErase(s, first) p = SequenceAt(e, first) y = MatMul(p, t)",
        "s = SequenceConstruct(a, b) i = SequenceInsert(s, a) y = ConcatFromSequence<axis = 0>(i)",
        "s = SequenceConstruct(a, b) c = Mul(b, b) i = SequenceInsert(s, c, last) y = ConcatFromSequence<axis = 0>(i)",
        "s = SplitToSequence<axis = 1>(a) p = SequenceAt(s, last) y = Mul(p, p)",
        "s = SplitToSequence<axis = -1, keepdims = 0>(a) p = SequenceAt(s, last) y = Mul(p, p)",
        "s = SplitToSequence<axis = 0>(a, sizes) p = SequenceAt(s, last) y = Mul(p, p)",
        "o = Optional(a) p = OptionalGetElement(o) y = Mul(p, p)",
        "s = SequenceConstruct(a, b) o = Optional(s) q = OptionalGetElement(o) p = SequenceAt(q, last) y = Mul(p, p)",
    ],
)
@pytest.mark.parametrize("dims", ["3, 4", "n, m"])
def test_gradients_of_sequences_are_sequences(body: str, dims: str) -> None:
    text = f"(double[{dims}] a, double[{dims.replace('3', '2').replace('n', 'k')}] b, double[4, 4] t) => (double[...] y) "
    rank = 3 if "new_axis" in body else 1 if "keepdims" in body else 2
    text = text.replace("...", ", ".join("pqr"[:rank]))
    constants = "<int64 first = {0}, int64 last = {-1}, int64[2] sizes = {1, 2}> "
    assert check(HEAD + text + constants + f"{{ {body} }}", a=drawn(3, 4), b=drawn(2, 4, seed=1), t=drawn(4, 4)) == "right"


@given(st.lists(st.integers(1, 3), min_size=1, max_size=4), st.data())
@settings(max_examples=10, deadline=None)
def test_any_sequence(lengths: list[int], data: st.DataObject) -> None:
    place = data.draw(st.integers(-len(lengths), len(lengths) - 1))
    text = "(double[n, 2] x, int64[k] lengths, int64 place) => (double[m, 2] y, double[p, 2] z) "
    text += "{ s = SplitToSequence<axis = 0>(x, lengths) a = SequenceAt(s, place) y = Mul(a, a) "
    text += "i = SequenceInsert(s, y, place) z = ConcatFromSequence<axis = 0>(i) }"
    fed = {"lengths": np.array(lengths, np.int64), "place": np.array(place)}
    assert check(HEAD + text, x=drawn(sum(lengths), 2), **fed) == "right"
