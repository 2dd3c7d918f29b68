"""Products of matrices and tensors: vectors, batches that broadcast, empty sums, every kind of equation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from deep_bench.tensor import is_float
from deep_bench.testing.generated.problem import SIZES, Draw, GeneratedProblem, dtypes

EQUATIONS = (
    "ij,jk->ik",
    "ij,jk",
    "ij->ji",
    "ba",
    "ij->",
    "ij",
    "ii->i",
    "ii",
    "iij->j",
    "i,j->ij",
    "i,i",
    "bij,bjk->bik",
    "bij, bkj -> b i k",
    "...ij,...jk->...ik",
    "...ij,...jk",
    "i...->...",
    "...i->...",
    "...ii->...i",
    "ij,jk,kl->il",
    "ij,ij,ij->j",
    "ijk,jil->kl",
    "aB,Bc->ca",
    "b...,b->...",
)
"""Explicit and implicit, with an ellipsis, repeated indices, upper case or spaces, of one to three tensors."""


def MatMul(draw: Draw) -> GeneratedProblem:
    """As `operands`; whole numbers are small, so that none overflows."""
    a, b = operands(draw)
    dtype = draw.pick(dtypes("MatMul"))
    return GeneratedProblem("MatMul", [draw.moderate(a, dtype), draw.moderate(b, dtype)])


def operands(draw: Draw) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Shapes of two factors: vectors or matrices, with leading axes that broadcast."""
    m, k, n = (draw.pick(SIZES) for _ in range(3))
    batch = draw.shape(0, 2)
    a = draw.pick(((*draw.broadcast(batch), m, k), (m, k), (k,)))
    b = draw.pick(((*batch, k, n), (k, n), (k,)))
    return a, b


def Gemm(draw: Draw) -> GeneratedProblem:
    """Whole numbers with whole factors: what a fraction makes of them is left open."""
    dtype = draw.pick(dtypes("Gemm"))
    m, k, n = (draw.pick(SIZES) for _ in range(3))
    trans_a, trans_b = (draw.maybe(draw.boolean()) for _ in "AB")
    factors = (0.5, 2.0, 0.0, -1.5) if is_float(dtype) else (2.0, 3.0, 0.0)
    a = draw.moderate((k, m) if trans_a else (m, k), dtype)
    b = draw.moderate((n, k) if trans_b else (k, n), dtype)
    c = draw.maybe(draw.moderate(draw.broadcast((m, n)), dtype))
    alpha, beta = draw.maybe(draw.pick(factors)), draw.maybe(draw.pick(factors))
    return GeneratedProblem("Gemm", [a, b, c], {"alpha": alpha, "beta": beta, "transA": trans_a, "transB": trans_b})


def Einsum(draw: Draw) -> GeneratedProblem:
    """One of `EQUATIONS`; an index has one length throughout, those of an ellipsis broadcast."""
    equation, dtype = draw.pick(EQUATIONS), draw.pick(dtypes("Einsum"))
    sizes = {letter: draw.pick(SIZES) for letter in sorted(set(equation)) if letter.isalpha()}
    extra_shape = draw.shape(0, 2)
    inputs = []
    for term in equation.replace(" ", "").split("->")[0].split(","):
        head, dots, tail = term.partition("...")
        middle = draw.broadcast(extra_shape) if dots else ()
        inputs.append(draw.moderate((*(sizes[i] for i in head), *middle, *(sizes[i] for i in tail)), dtype))
    return GeneratedProblem("Einsum", inputs, {"equation": equation})


def MatMulInteger(draw: Draw) -> GeneratedProblem:
    """Zero points for all, per row or per column."""
    a, b = (draw.array(shape, draw.pick(dtypes("MatMulInteger"))) for shape in operands(draw))
    return GeneratedProblem("MatMulInteger", [a, b, draw.maybe(per_row(draw, a)), draw.maybe(per_column(draw, b))])


def per_row(draw: Draw, a: np.ndarray, dtype: Any = None) -> np.ndarray:
    """A parameter of a left factor: one for all, or per row of a matrix or of each matrix."""
    rows = () if a.ndim < 2 else (a.shape[0],) if a.ndim == 2 else (*a.shape[:-1], 1)
    return draw.array(draw.pick(((), rows)), a.dtype if dtype is None else dtype)


def per_column(draw: Draw, b: np.ndarray, dtype: Any = None) -> np.ndarray:
    """A parameter of a right factor: one for all, or per column of a matrix or of each matrix."""
    columns = () if b.ndim < 2 else (b.shape[1],) if b.ndim == 2 else (*b.shape[:-2], 1, b.shape[-1])
    return draw.array(draw.pick(((), columns)), b.dtype if dtype is None else dtype)


def Det(draw: Draw) -> GeneratedProblem:
    """At least one row: whether a matrix of none has a determinant is left open."""
    size = draw.integer(1, 4)
    return GeneratedProblem("Det", [draw.moderate((*draw.shape(0, 2), size, size), draw.pick(dtypes("Det")))])


GENERATORS: dict[str, Callable[[Draw], GeneratedProblem]] = {
    "Det": Det,
    "Einsum": Einsum,
    "Gemm": Gemm,
    "MatMul": MatMul,
    "MatMulInteger": MatMulInteger,
}
