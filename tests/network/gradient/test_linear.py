"""Gradients of matrix products."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.network.gradient.checks import alone, check, twice

HEAD = '<ir_version: 10, opset_import: ["" : 21]> g '


def drawn(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape)


def names(rank: int, letter: str) -> str:
    return ", ".join(f"{letter}{i}" for i in range(rank))


def sizes(shape: tuple[int, ...]) -> str:
    return ", ".join(map(str, shape))


@pytest.mark.parametrize("operator", ["Det", "Einsum", "Gemm", "MatMul"])
def test_cases(operator: str) -> None:
    found = alone(operator)
    assert found
    assert [o for o in found if o.word not in ("right", "kink")] == []


PRODUCTS = [((3,), (3,)), ((3,), (3, 2)), ((2, 3), (3,)), ((2, 3), (3, 4)), ((5, 2, 3), (3, 4)), ((5, 2, 3), (5, 3, 4))]
PRODUCTS += [((2, 3), (5, 3, 4)), ((3,), (5, 3, 2)), ((5, 2, 3), (3,)), ((4, 1, 2, 3), (5, 3, 1)), ((1, 2, 3), (2, 1, 3, 2))]
PRODUCTS += [((0, 3), (3, 2)), ((2, 0), (0, 2)), ((3, 0, 2), (2, 2))]


@pytest.mark.parametrize(("a", "b"), PRODUCTS)
@pytest.mark.parametrize("known", [True, False])
def test_products(a: tuple[int, ...], b: tuple[int, ...], known: bool) -> None:
    rank = np.ndim(np.matmul(np.zeros(a), np.zeros(b)))
    result = f"double[{names(rank, 'y')}]" if rank else "double"
    left, right = (sizes(a), sizes(b)) if known else (names(len(a), "a"), names(len(b), "b"))
    text = f"(double[{left}] a, double[{right}] b) => ({result} y) {{ z = MatMul(a, b) y = Mul(z, z) }}"
    assert check(HEAD + text, a=drawn(*a), b=drawn(*b, seed=1)) == "right"


@pytest.mark.parametrize("transposed", [(0, 0), (0, 1), (1, 0), (1, 1)])
@pytest.mark.parametrize("c", [(2, 4), (4,), (2, 1), (), None])
def test_general_products(transposed: tuple[int, int], c: tuple[int, ...] | None) -> None:
    a, b = (3, 2)[:: 1 if transposed[0] else -1], (3, 4)[:: -1 if transposed[1] else 1]
    last = "" if c is None else f", double[{sizes(c)}] c" if c else ", double c"
    attributes = f"alpha = 0.5, beta = 2.0, transA = {transposed[0]}, transB = {transposed[1]}"
    text = f"(double[n, {a[1]}] a, double[{sizes(b)}] b{last}) => (double[m, 4] y) "
    text += f"{{ z = Gemm<{attributes}>(a, b{'' if c is None else ', c'}) y = Mul(z, z) }}"
    fed = {} if c is None else {"c": drawn(*c, seed=2)}
    assert check(HEAD + text, a=drawn(*a), b=drawn(*b, seed=1), **fed) == "right"


EQUATIONS = [
    ("ij,jk->ik", (2, 3), (3, 4)),
    ("ij, jk", (2, 3), (3, 4)),
    ("bij,bkj->bik", (2, 3, 4), (2, 2, 4)),
    ("i,j->ij", (2,), (3,)),
    ("i,i->", (3,), (3,)),
    ("ij,kl->i", (2, 3), (2, 4)),
    ("...ij,...jk->...ik", (2, 1, 2, 3), (4, 3, 2)),
    ("...i,i->...", (2, 2, 3), (3,)),
    ("...,...", (2, 1), (3,)),
    ("ii,ij->j", (3, 3), (3, 2)),
    ("iji,k->jk", (2, 3, 2), (2,)),
    ("iii,i->i", (2, 2, 2), (2,)),
    ("iij,jj->i", (2, 2, 3), (3, 3)),
    (",i->i", (), (3,)),
    (",", (), ()),
]


@pytest.mark.parametrize(("equation", "a", "b"), EQUATIONS)
@pytest.mark.parametrize("known", [True, False])
def test_equations(equation: str, a: tuple[int, ...], b: tuple[int, ...], known: bool) -> None:
    left, right = (sizes(a), sizes(b)) if known else (names(len(a), "a"), names(len(b), "b"))
    rank = np.einsum(equation, np.zeros(a), np.zeros(b)).ndim
    kinds = [f"double[{d}]" if d else "double" for d in (left, right, names(rank, "y"))]
    text = f'({kinds[0]} a, {kinds[1]} b) => ({kinds[2]} y) {{ z = Einsum<equation = "{equation}">(a, b) y = Mul(z, z) }}'
    assert check(HEAD + text, a=drawn(*a), b=drawn(*b, seed=1)) == "right"


@pytest.mark.parametrize(("equation", "rank"), [("ij->", 0), ("ij->j", 1), ("ij->ji", 2), ("...j->...", 1), ("ij", 2)])
def test_equations_of_one(equation: str, rank: int) -> None:
    result = f"double[{names(rank, 'y')}]" if rank else "double"
    text = f'(double[n, 3] a) => ({result} y) {{ z = Einsum<equation = "{equation}">(a) y = Mul(z, z) }}'
    assert check(HEAD + text, a=drawn(2, 3)) == "right"


def test_an_equation_of_three() -> None:
    text = '(double[2, 3] a, double[3] b, double[3, 2] c) => (double y) { z = Einsum<equation = "ij,j,ji->">(a, b, c) '
    assert check(HEAD + text + "y = Mul(z, z) }", a=drawn(2, 3), b=drawn(3), c=drawn(3, 2)) == "right"


@pytest.mark.parametrize("dims", ["2, {n}, {n}", "b, n, n"])
@pytest.mark.parametrize("n", [1, 2, 4])
def test_determinants(dims: str, n: int) -> None:
    text = f"(double[{dims.format(n=n)}] x) => (double[b] y) {{ z = Det(x) y = Mul(z, z) }}"
    assert check(HEAD + text, x=drawn(2, n, n)) == "right"


def test_a_singular_matrix_has_cofactors_too() -> None:
    text = "(double[n, n] x) => (double y) { y = Det(x) }"
    assert check(HEAD + text, x=np.array([[1.0, 2, 3], [2, 4, 6], [0, 1, 5]])) == "right"


@given(st.data())
@settings(max_examples=15, deadline=None)
def test_any_product_of_many_matrices(data: st.DataObject) -> None:
    batch = data.draw(st.lists(st.integers(1, 3), max_size=2))
    inner = [data.draw(st.integers(1, 3)) for _ in range(3)]
    shapes = []
    for matrix in (inner[:2], inner[1:]):
        mine = batch[data.draw(st.integers(0, len(batch))) :]
        shapes.append((*(1 if data.draw(st.booleans()) else d for d in mine), *matrix))
    known = data.draw(st.booleans())
    left, right = (sizes(s) if known else names(len(s), c) for s, c in zip(shapes, "ab", strict=True))
    rank = max(map(len, shapes))
    text = f"(double[{left}] a, double[{right}] b) => (double[{names(rank, 'y')}] y) {{ z = MatMul(a, b) y = Mul(z, z) }}"
    assert check(HEAD + text, a=drawn(*shapes[0]), b=drawn(*shapes[1], seed=1)) == "right"


def test_second_derivatives() -> None:
    text = "(double[2, 3] x, double[3, 2] b) => (double l) { z = MatMul(x, b) g = Gemm<transB = 1>(z, z) "
    text += 'e = Einsum<equation = "ij,jk->ik">(g, z) d = Det(e) l = ReduceSum<keepdims = 0>(d) }'
    assert twice(HEAD + text, x=drawn(2, 3), b=drawn(3, 2, seed=1)) == "right"
