"""Gradients of what reads and writes at computed places."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.network.gradient.checks import alone, check, twice

HEAD = '<ir_version: 10, opset_import: ["" : 21]> g '


def drawn(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape)


def numbers(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


@pytest.mark.parametrize(
    "operator",
    [
        "Compress",
        "Gather",
        "GatherElements",
        "GatherND",
        "OneHot",
        "ReverseSequence",
        "ScatterElements",
        "ScatterND",
        "TopK",
        "Trilu",
        "Unique",
    ],
)
def test_cases(operator: str) -> None:
    found = alone(operator)
    assert found
    others = [o for o in found if o.word not in ("right", "kink")]
    # float8e8m0 cannot hold gradients.
    assert [o for o in others if "no 0" not in o.detail] == []


def test_a_format_without_zero_is_refused() -> None:
    others = [o for o in alone("TensorScatter") if o.word not in ("right", "kink")]
    assert [o.case for o in others] == ["TensorScatter/10"]
    assert "no 0" in others[0].detail


@pytest.mark.parametrize("dims", ["3, 4", "n, m"])
@pytest.mark.parametrize("axis", [0, 1, -1, -2])
@pytest.mark.parametrize("indices", [np.array(-1), numbers(2), np.array([[-1], [2]]), np.array([[1, 2, -1]])])
@pytest.mark.parametrize("known", [True, False])
def test_gathers(dims: str, axis: int, indices: np.ndarray, known: bool) -> None:
    shape = ",".join(map(str, indices.shape))
    kind = f"int64[{shape}]" if shape else "int64"
    values = ", ".join(map(str, indices.reshape(-1).tolist()))
    constant = f"<{kind} i = {{{values}}}> " if known else ""
    more = "" if known else f", {kind} i"
    result = ", ".join("abc"[: 1 + indices.ndim])
    text = f"(double[{dims}] x{more}) => (double[{result}] y) {constant}{{ z = Gather<axis = {axis}>(x, i) y = Mul(z, z) }}"
    assert check(HEAD + text, x=drawn(3, 4), **({} if known else {"i": indices})) == "right"


def test_gathers_along_an_axis_in_the_middle() -> None:
    text = "(double[2, n, 2] x, int64[2, 2] i) => (double[2, 2, 2, 2] y) { z = Gather<axis = -2>(x, i) y = Mul(z, z) }"
    assert check(HEAD + text, x=drawn(2, 3, 2), i=np.array([[0, 2], [2, 2]])) == "right"
    one = (
        "(double[2, n, 2] x) => (double[2, 1, 1, 2] y) <int64[1, 1] i = {-1}> { z = Gather<axis = -2>(x, i) y = Mul(z, z) }"
    )
    assert check(HEAD + one, x=drawn(2, 3, 2)) == "right"


@pytest.mark.parametrize("dims", ["2, 3, 4", "a, b, c"])
@pytest.mark.parametrize(
    ("batch", "indices"),
    [
        (0, np.array([[0, 1], [-1, 1], [0, 1]])),
        (1, np.array([[[-1], [2]], [[1], [1]]])),
        (1, np.array([[0, -1], [2, 1]])),
        (2, np.array([[[0], [-1], [1]], [[2], [3], [0]]])),
    ],
)
def test_gathers_slices(dims: str, batch: int, indices: np.ndarray) -> None:
    result = ", ".join("xyzw"[: indices.ndim - 1 + 3 - indices.shape[-1] - batch])
    kind = f"int64[{', '.join(map(str, indices.shape))}]"
    text = (
        f"(double[{dims}] x, {kind} i) => (double[{result}] y) {{ z = GatherND<batch_dims = {batch}>(x, i) y = Mul(z, z) }}"
    )
    assert check(HEAD + text, x=drawn(2, 3, 4), i=indices) == "right"


UPDATES = {"plain": drawn(2, 3, seed=1), "zeros": np.array([[0.0, 2, 0], [0, 0, 3]])}


@pytest.mark.parametrize("reduction", ["none", "add", "mul", "max", "min"])
@pytest.mark.parametrize("updates", ["plain", "zeros"])
def test_scatters_elements(reduction: str, updates: str) -> None:
    indices = np.array([[0, 1, 2], [-1, 0, 1]]) if reduction == "none" else np.array([[0, 1, 2], [0, -3, 1]])
    text = "(double[n, 3] x, int64[2, 3] i, double[2, 3] u) => (double[n, 3] y) "
    text += f'{{ z = ScatterElements<axis = -2, reduction = "{reduction}">(x, i, u) y = Mul(z, z) }}'
    assert check(HEAD + text, x=drawn(3, 3), i=indices, u=UPDATES[updates]) == "right"


@pytest.mark.parametrize("reduction", ["none", "add", "mul", "max", "min"])
@pytest.mark.parametrize("updates", ["plain", "zeros"])
def test_scatters_slices(reduction: str, updates: str) -> None:
    indices = np.array([[1], [-1]]) if reduction == "none" else np.array([[1], [-3]])
    text = "(double[n, 3] x, int64[2, 1] i, double[2, 3] u) => (double[n, 3] y) "
    text += f'{{ z = ScatterND<reduction = "{reduction}">(x, i, u) y = Mul(z, z) }}'
    assert check(HEAD + text, x=drawn(4, 3), i=indices, u=UPDATES[updates]) == "right"


def test_of_equal_elements_the_greatest_share() -> None:
    text = '(double[1] x, int64[2] i, double[2] u) => (double[1] y) { y = ScatterElements<reduction = "max">(x, i, u) }'
    assert check(HEAD + text, x=np.array([2.0]), i=numbers(0, 0), u=np.array([2.0, 1.0])) == "kink"


def test_nothing_is_divided_by_a_zero() -> None:
    text = '(double[2] x, int64[3] i, double[3] u) => (double[2] y) { y = ScatterElements<reduction = "mul">(x, i, u) }'
    assert check(HEAD + text, x=np.array([0.0, 3.0]), i=numbers(0, 1, 1), u=np.array([0.0, 0.0, 5.0])) == "right"


@pytest.mark.parametrize("mode", ["linear", "circular"])
@pytest.mark.parametrize("axis", [1, -2])
def test_writes_to_a_cache(mode: str, axis: int) -> None:
    head = HEAD.replace("21", "24")
    text = "(double[2, 4, 3] p, double[2, n, 3] u, int64[2] w) => (double[2, 4, 3] y) "
    text += f'{{ z = TensorScatter<mode = "{mode}", axis = {axis}>(p, u, w) y = Mul(z, z) }}'
    assert check(head + text, p=drawn(2, 4, 3), u=drawn(2, 2, 3), w=numbers(0, 3 if mode == "circular" else 2)) == "right"
    text = "(double[2, 4, 3] p, double[2, n, 3] u) => (double[2, 4, 3] y) { y = TensorScatter(p, u) }"
    assert check(head + text, p=drawn(2, 4, 3), u=drawn(2, 2, 3)) == "right"


def test_the_largest_whose_places_nobody_asked_for() -> None:
    text = "(double[n, 5] x, int64[1] k) => (double[n, 2] y) { v, places = TopK<largest = 0>(x, k) y = Mul(v, v) }"
    assert check(HEAD + text, x=drawn(3, 5), k=numbers(2)) == "right"


def test_values_of_one_hot() -> None:
    text = "(int64[n] i, int64 d, double[2] v) => (double[5, n] y) { z = OneHot<axis = 0>(i, d, v) y = Mul(z, z) }"
    assert check(HEAD + text, i=numbers(0, -1, 9, 2), d=np.array(5), v=drawn(2)) == "right"


@pytest.mark.parametrize("axis", ["", "<axis = 1>", "<axis = -2>"])
def test_what_is_chosen(axis: str) -> None:
    rank = "a" if not axis else "a, b"
    text = f"(double[n, 3] x, bool[2] c) => (double[{rank}] y) {{ z = Compress{axis}(x, c) y = Mul(z, z) }}"
    assert check(HEAD + text, x=drawn(2, 3), c=np.array([False, True])) == "right"


def test_the_first_of_equal_slices() -> None:
    text = "(double[n, 3] x) => (double[k, 3] y) { z = Unique<axis = 0, sorted = 0>(x) y = Mul(z, z) }"
    assert check(HEAD + text, x=drawn(4, 3)) == "right"


def test_triangles_and_reversals() -> None:
    text = "(double[2, n, 3] x, int64 k) => (double[2, n, 3] y) { z = Trilu<upper = 0>(x, k) y = Mul(z, z) }"
    assert check(HEAD + text, x=drawn(2, 2, 3), k=np.array(-1)) == "right"
    text = "(double[2, n, 2] x, int64[2] l) => (double[2, n, 2] y) "
    text += "{ z = ReverseSequence<batch_axis = 0, time_axis = 1>(x, l) y = Mul(z, x) }"
    assert check(HEAD + text, x=drawn(2, 3, 2), l=numbers(2, 3)) == "right"


@given(st.data())
@settings(max_examples=15, deadline=None)
def test_any_gather(data: st.DataObject) -> None:
    shape = data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=3))
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    places = data.draw(st.lists(st.integers(-shape[axis], shape[axis] - 1), min_size=0, max_size=4))
    dims = ", ".join(map(str, shape)) if data.draw(st.booleans()) else ", ".join("abc"[: len(shape)])
    text = f"(double[{dims}] x, int64[k] i) => (double[{', '.join('pqr'[: len(shape)])}] y) "
    text += f"{{ z = Gather<axis = {axis}>(x, i) y = Mul(z, z) }}"
    assert check(HEAD + text, x=drawn(*shape), i=np.array(places, np.int64)) == "right"


@pytest.mark.parametrize("reduction", ["add", "mul", "max"])
def test_second_derivatives(reduction: str) -> None:
    text = "(double[3, 4] x, int64[2] i, int64[3, 2] j, double[3, 2] u) => (double l) "
    text += "{ z = Gather<axis = 1>(x, i) c = Mul(z, z) "
    text += (
        f'q = ScatterElements<reduction = "{reduction}", axis = 1>(c, j, u) k = Mul(q, q) l = ReduceSum<keepdims = 0>(k) }}'
    )
    fed = {"i": numbers(1, -1), "j": np.array([[0, 0], [1, 0], [1, 1]])}
    assert twice(HEAD + text, x=drawn(3, 4), **fed, u=drawn(3, 2, seed=1)) == "right"
