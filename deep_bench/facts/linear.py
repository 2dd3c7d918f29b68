"""Products of matrices and tensors."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np

from deep_bench.facts.row import OperatorFacts, Shape, Weighed, Work, blocks
from deep_bench.facts.rules import Growth, ShapedCase, at, codes, elements, powers, products, shape_at


def MatMul(a: Shape, b: Shape, *, y: Shape) -> Work:
    """``2 K`` for each element of the result: K products and K sums.

    Source:
        ONNX MatMul, opset 13; Golub and Van Loan, *Matrix Computations*, 4th ed., section 1.1.15.
    """
    return Work(flops=2 * prod(y) * a[-1])


def Gemm(
    a: Shape, b: Shape, c: Shape | None = None, *, y: Shape, alpha: float = 1.0, beta: float = 1.0, transA: int = 0
) -> Work:
    """``alpha * A B + beta * C``: ``2 M N K``, and ``M N`` for ``alpha`` and ``C`` each; ``beta`` scales ``C`` as it is.

    Source:
        ONNX Gemm, opset 13; Golub and Van Loan, *Matrix Computations*, 4th ed., section 1.1.15.
    """
    inner = a[0] if transA else a[1]
    added = 0 if c is None else prod(y) + (beta != 1) * prod(c)
    return Work(flops=2 * prod(y) * inner + (alpha != 1) * prod(y) + added)


def Einsum(*inputs: Shape, equation: str) -> Work:
    """A product of two tensors: one product, and one sum if any index is summed, for each value of all indices together.

    More than two are multiplied two by two, in the cheapest order.

    Source:
        ONNX Einsum, opset 28; the order: NumPy, ``einsum_path``.
    """
    inward, arrow, result = equation.replace(" ", "").partition("->")
    terms = [_indices(term, len(shape)) for term, shape in zip(inward.split(","), inputs, strict=True)]
    sizes: dict[str, int] = {}
    for term, shape in zip(terms, inputs, strict=True):
        for index, size in zip(term, shape, strict=True):
            sizes[index] = size if sizes.get(index, 1) == 1 else sizes[index]
    every = [index for term in terms for index in term]
    if arrow:
        result_indices = {index for index in every if index.startswith(".") or index in result}
    else:
        result_indices = {index for index in every if index.startswith(".") or every.count(index) == 1}
    work, remaining = Work(), [set(term) for term in terms]
    for chosen in _order(equation, inputs):
        group = [remaining.pop(i) for i in sorted(chosen, reverse=True)]
        indices = set[str]().union(*group)
        needed = result_indices.union(*remaining)
        work += Work(flops=prod(sizes[index] for index in indices) * (len(group) - 1 + bool(indices - needed)))
        remaining.append(indices & needed)
    return work


def _order(equation: str, shapes: tuple[Shape, ...]) -> list[tuple[int, ...]]:
    """Which tensors are multiplied one step after the other; results come last."""
    if len(shapes) <= 2:
        return [tuple(range(len(shapes)))]
    tensors = [np.broadcast_to(np.float32(0), shape) for shape in shapes]
    return np.einsum_path(equation.replace(" ", ""), *tensors, optimize="optimal")[0][1:]


def _indices(term: str, rank: int) -> list[str]:
    """The names of a term's indices; those that an ellipsis stands for are numbered from the last, as they broadcast."""
    before, dots, after = term.partition("...")
    count = rank - len(before) - len(after) if dots else 0
    return [*before, *(f".{count - 1 - i}" for i in range(count)), *after]


def MatMulInteger(
    a: Shape, b: Shape, a_zero_point: Shape | None = None, b_zero_point: Shape | None = None, *, y: Shape
) -> Work:
    """A `MatMul`, and the subtraction of the zero points that are given. Source: ONNX MatMulInteger, opset 10."""
    shifted = (a_zero_point is not None) * prod(a) + (b_zero_point is not None) * prod(b)
    return MatMul(a, b, y=y) + Work(flops=shifted)


def Det(x: Shape) -> Work:
    """Gaussian elimination, ``sum over k from 1 to n - 1 of k + 2 k^2``, and the product of the ``n`` pivots, ``n - 1``.

    Source:
        ONNX Det, opset 22; Golub and Van Loan, *Matrix Computations*, 4th ed., section 3.2.
    """
    n = x[-1]
    return Work(flops=sum(k + 2 * k * k for k in range(1, n)) + max(n - 1, 0)) * prod(x[:-2])


def _summed(case: ShapedCase) -> float:
    return shape_at(case, 0)[0 if case.attributes.get("transA", 0) else 1] + 1


def _einsum(case: ShapedCase) -> Growth:
    shapes = [shape_at(case, i) for i in range(len(case.arguments))]
    return Growth(float(prod(max(shape, default=1) for shape in shapes)) * elements(case), len(shapes))


def _gemm_axes(case: ShapedCase) -> dict[str, int] | None:
    a, c = at(case, 0), at(case, 2)
    axes = {a.spec.name: 1 if case.attributes.get("transA", 0) else 0}
    if c is not None and len(c.shape) == 2 and c.shape[0] != 1:
        axes[c.spec.name] = 0
    return axes


def _matmul_axes(case: ShapedCase) -> dict[str, int] | None:
    a, b = at(case, 0), at(case, 1)
    if len(a.shape) < 2:
        return None
    axes = {a.spec.name: 0}
    if len(b.shape) > 2 and len(b.shape) == len(a.shape) and b.shape[0] != 1:
        axes[b.spec.name] = 0
    return axes if len(b.shape) <= len(a.shape) else None


def _untransposed(attributes: Mapping[str, Any], _: int) -> bool:
    return attributes.get("transA", 0) == 0


def _matrix(positions: np.ndarray, *, rows_are_in: bool) -> Weighed:
    if positions.ndim == 1:
        return blocks(positions.reshape(1, 1, -1))
    matrices = np.swapaxes(positions, -1, -2) if rows_are_in else positions
    return blocks(matrices.reshape(-1, *matrices.shape[-2:]))


OPERATORS: Mapping[str, OperatorFacts] = {
    "Det": OperatorFacts(cost=Det, growth=powers(lambda case: shape_at(case, 0)[-1])),
    "Einsum": OperatorFacts(cost=Einsum, multiplies=True, growth=_einsum),
    "Gemm": OperatorFacts(
        cost=Gemm,
        weights={
            0: lambda positions, stated: _matrix(positions, rows_are_in=bool(stated.get("transA", 0))),
            1: lambda positions, stated: _matrix(positions, rows_are_in=not stated.get("transB", 0)),
        },
        learnt=(0, 1, 2),
        adds_bias=True,
        roles={2: "bias"},
        multiplies=True,
        growth=products(_summed),
        row_axes=_gemm_axes,
        by_sample=_untransposed,
        defines_special=True,
    ),
    "MatMul": OperatorFacts(
        cost=MatMul,
        weights={
            0: lambda positions, _: _matrix(positions, rows_are_in=False),
            1: lambda positions, _: _matrix(positions, rows_are_in=True),
        },
        learnt=(0, 1),
        adds_bias=True,
        multiplies=True,
        growth=products(lambda case: (shape_at(case, 0) or (1,))[-1]),
        row_axes=_matmul_axes,
        defines_special=True,
    ),
    "MatMulInteger": OperatorFacts(
        cost=MatMulInteger, draws=codes("A", "B", "a_zero_point", "b_zero_point"), accumulates_wide=True
    ),
}
"""The rows, by operator."""
