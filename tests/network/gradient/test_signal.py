"""Gradients of Fourier transforms."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.network.gradient.checks import alone, check

HEAD = '<ir_version: 10, opset_import: ["" : 21]> g '


def drawn(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).normal(size=shape)


@pytest.mark.parametrize("operator", ["DFT", "STFT"])
def test_cases(operator: str) -> None:
    found = alone(operator)
    assert found
    assert [o for o in found if o.word not in ("right", "kink")] == []


@pytest.mark.parametrize("parts", [1, 2])
@pytest.mark.parametrize("inverse", [0, 1])
@pytest.mark.parametrize("length", [None, 3, 5, 8])
@pytest.mark.parametrize("dims", ["2, 5, {}", "a, b, {}", "a, b, c"])
def test_transforms(parts: int, inverse: int, length: int | None, dims: str) -> None:
    constant = "" if length is None else f"<int64 n = {{{length}}}> "
    text = f"(double[{dims.format(parts)}] x) => (double[a, d, e] y) {constant}"
    text += f"{{ z = DFT<inverse = {inverse}>(x{'' if length is None else ', n'}) y = Mul(z, z) }}"
    assert check(HEAD + text, x=drawn(2, 5, parts)) == "right"


@pytest.mark.parametrize("inverse", [0, 1])
@pytest.mark.parametrize("length", [5, 8, 12])
@pytest.mark.parametrize("axis", [1, -2, 0])
@pytest.mark.parametrize("known", [True, False])
def test_half_spectra(inverse: int, length: int, axis: int, known: bool) -> None:
    more, constants = ("", f"<int64 n = {{{length}}}, int64 a = {{{axis}}}>") if known else (", int64 n, int64 a", "")
    text = f"(double[p, q, {1 + inverse}] x{more}) => (double[c, d, e] y) {constants} "
    text += f"{{ z = DFT<inverse = {inverse}, onesided = 1>(x, n, a) y = Mul(z, z) }}"
    fed = {} if known else {"n": np.array(length), "a": np.array(axis)}
    assert check(HEAD + text, x=drawn(5, 6, 1 + inverse), **fed) == "right"


@pytest.mark.parametrize("onesided", [0, 1])
@pytest.mark.parametrize("window", [True, False])
def test_short_transforms(onesided: int, window: bool) -> None:
    more = ", double[4] w" if window else ""
    text = f"(double[2, n, 1] x{more}, int64 step, int64 length) => (double[2, f, k, 2] y) "
    text += f"{{ z = STFT<onesided = {onesided}>(x, step, {'w' if window else ''}, length) y = Mul(z, z) }}"
    fed = {"w": np.array([0.5, 1, 1, 0.25])} if window else {}
    assert check(HEAD + text, x=drawn(2, 11, 1), **fed, step=np.array(3), length=np.array(4)) == "right"


def test_a_window_says_how_long_frames_are() -> None:
    text = "(double[1, 9, 1] x, double[4] w) => (double[1, f, 3, 2] y) <int64 step = {2}> "
    text += "{ z = STFT(x, step, w) y = Mul(z, z) }"
    assert check(HEAD + text, x=drawn(1, 9, 1), w=drawn(4)) == "right"


@given(st.data())
@settings(max_examples=15, deadline=None)
def test_any_length(data: st.DataObject) -> None:
    size, length = data.draw(st.integers(1, 9)), data.draw(st.integers(1, 9))
    inverse, onesided = data.draw(st.booleans()), data.draw(st.booleans())
    parts = (2 if inverse else 1) if onesided else data.draw(st.integers(1, 2))
    text = f"(double[n, {parts}, {parts}] x) => (double[k, {parts}, p] y) <int64 length = {{{length}}}, int64 axis = {{0}}> "
    text += f"{{ z = DFT<inverse = {int(inverse)}, onesided = {int(onesided)}>(x, length, axis) y = Mul(z, z) }}"
    assert check(HEAD + text, x=drawn(size, parts, parts)) == "right"
