"""Matrix products, and the indices of ``Einsum``."""

from __future__ import annotations

import string
from collections import Counter

import numpy as np

from deep_bench.network.gradient.rules._arithmetic import dimension, joined, positions, size, widened

__all__ = ["Det", "Einsum", "Gemm", "MatMul"]


def MatMul(at, a, b):
    """``dA = dY Bᵀ`` and ``dB = Aᵀ dY``, summed over the samples that share a matrix."""
    dy = at.dy
    if a.rank == 1:
        dy = dy.unsqueeze(-1) if b.rank == 1 else dy.unsqueeze(-2)
    if b.rank == 1:
        dy = dy.unsqueeze(-1)
    row = a.unsqueeze(0) if a.rank == 1 else a
    column = b.unsqueeze(1) if b.rank == 1 else b
    da = _of_left(at, row, column, dy) if at.wants(0) else None
    db = _of_right(at, row, column, dy) if at.wants(1) else None
    return (
        da if da is None or a.rank > 1 else da.squeeze(0),
        db if db is None or b.rank > 1 else db.squeeze(1),
    )


def _of_left(at, a, b, dy):
    if b.rank > 2:
        return at.op.sum_to(dy @ _swapped(b), a)
    # One matrix for all samples: their rows make one large product.
    if a.rank == 2:
        return at.op.Gemm(dy, b, transB=1)
    return at.op.Gemm(_rows(dy), b, transB=1).reshape(a.shape)


def _of_right(at, a, b, dy):
    if b.rank > 2:
        return at.op.sum_to(_swapped(a) @ dy, b)
    return at.op.Gemm(_rows(a), _rows(dy), transA=1)


def _rows(x):
    """All rows of all matrices as one matrix."""
    if x.rank == 2:
        return x
    if x.static_shape is not None:
        return x.reshape([int(np.prod(x.static_shape[:-1])), x.static_shape[-1]])
    return x.tape.Flatten(x, axis=x.rank - 1)


def _swapped(x):
    order = list(range(x.rank))
    return x.transpose([*order[:-2], order[-1], order[-2]])


def Gemm(at, a, b, c=None, *, alpha=1.0, beta=1.0, transA=0, transB=0):
    """``dA = α dY Bᵀ`` and ``dB = α Aᵀ dY``, transposed where the operand is, and ``dC = β dY``."""
    dy, op = at.dy, at.op
    if transA:
        da = op.Gemm(b, dy, alpha=alpha, transA=transB, transB=1)
    else:
        da = op.Gemm(dy, b, alpha=alpha, transB=1 - transB)
    if transB:
        db = op.Gemm(dy, a, alpha=alpha, transA=1, transB=transA)
    else:
        db = op.Gemm(a, dy, alpha=alpha, transA=1 - transA)
    if c is None or not at.wants(2):
        return da, db
    dc = op.sum_to(dy, c)
    return da, db, dc if beta == 1 else dc * beta


def Einsum(at, *inputs, equation):
    """``dx_i`` is the product of ``dy`` and the other factors, summed over the indices that ``x_i`` lacks."""
    terms = Terms(equation, [x.rank for x in inputs])
    narrow = inputs[0].dtype.name == "bfloat16"  # for which ONNX Runtime lacks most of what is written here
    factors = [widened(x) if narrow else x for x in inputs]
    dy = widened(at.dy) if narrow else at.dy
    gradients = [terms.gradient(dy, factors, i) if at.wants(i) else None for i in range(len(inputs))]
    return [None if g is None else g.cast(inputs[0].dtype) for g in gradients] if narrow else gradients


def Det(at, x):
    """``dx_ij = dy (-1)^(i + j) det(x without row i and column j)``: the cofactors, also of singular matrices."""
    op, n = at.op, dimension(x, -1)
    if n is None:
        n = dimension(x, -2)
    spread = at.op.Unsqueeze(at.dy, [-2, -1])
    if n in (0, 1):
        return spread.expand(x.shape)
    count = size(x, -1)
    unit = op.constant(1, np.int64)
    ticks = positions(op, count).unsqueeze(1)
    minor_ticks = positions(op, count - 1 if n is None else op.constant([n - 1], np.int64))
    retained = minor_ticks + (minor_ticks >= ticks).cast(np.int64)
    minors = op.Gather(op.Gather(x, retained, axis=-2), retained, axis=-1)
    rank = x.rank
    order = [*range(rank - 2), rank - 2, rank, rank - 1, rank + 1]
    parity = op.Mod(ticks + ticks.squeeze(1), unit + unit).cast(x.dtype)
    return spread * op.Det(minors.transpose(order)) * (1 - parity * 2)


class Terms:
    """An equation in which every index is a letter, also those that ``...`` stands for.

    Args:
        equation: As ONNX has it, with or without ``->``.
        ranks: Of the operands.
    """

    def __init__(self, equation, ranks):
        operands, arrow, result = equation.replace(" ", "").partition("->")
        inputs = operands.split(",")
        self._free = [c for c in string.ascii_letters if c not in equation]
        hidden = max((rank - len(t) + 3 for t, rank in zip(inputs, ranks, strict=True) if "..." in t), default=0)
        letters = "".join(self._free.pop(0) for _ in range(hidden))
        if not arrow:
            counts = Counter(operands.replace(",", "").replace(".", ""))
            result = "..." * ("..." in operands) + "".join(sorted(c for c, n in counts.items() if n == 1))
        self.inputs = [_spelled(t, letters, rank) for t, rank in zip(inputs, ranks, strict=True)]
        self.result = result.replace("...", letters)

    def gradient(self, dy, inputs, place):
        """The gradient of the factor at a place."""
        term, x, tape = self.inputs[place], inputs[place], dy.tape
        indices = "".join(dict.fromkeys(term))
        factors = [(t, v) for i, (t, v) in enumerate(zip(self.inputs, inputs, strict=True)) if i != place]
        if self.result:
            factors.insert(0, (self.result, dy))
        missing = [c for c in indices if not any(c in t for t, _ in factors)]
        if missing:  # it was only summed over: the gradient is the same all along it
            ones = tape.constant(1, dy.dtype).expand(joined(tape, *(size(x, term.index(c)) for c in missing)))
            factors.append(("".join(missing), ones))
        if not factors:
            return dy
        if any(0 in (v.static_shape or ()) for v in (dy, *inputs)):
            return tape.zeros_like(x)
        gradient = _product(tape, factors, indices)
        if not self.result:
            gradient = gradient * dy
        return tape.sum_to(self._on_diagonals(gradient, term, x), x)

    def _on_diagonals(self, gradient, term, x):
        """Where an operand repeats an index, its gradient is 0 off the diagonal."""
        indices, free = "".join(dict.fromkeys(term)), list(self._free)
        for place, index in enumerate(term):
            if index in term[:place]:
                new = free.pop(0)
                at = [i for i, c in enumerate(term[:place]) if c == index]
                ticks = positions(gradient.tape, size(x, at[0]))
                diagonal = ticks.unsqueeze(0).equals(ticks.unsqueeze(1)).cast(gradient.dtype)
                wider = indices + new
                gradient = _product(gradient.tape, [(indices, gradient), (index + new, diagonal)], wider)
                indices, term = wider, term[:place] + new + term[place + 1 :]
        return gradient if indices == term else gradient.transpose([indices.index(c) for c in term])


def _product(tape, factors, result):
    if [t for t, _ in factors] == [result]:
        return factors[0][1]
    equation = ",".join(t for t, _ in factors) + "->" + result
    return tape.Einsum(*(v for _, v in factors), equation=equation)


def _spelled(term, letters, rank):
    """A term in which ``...`` is spelled out by the last of the letters."""
    if "..." not in term:
        return term
    hidden = rank - len(term) + 3
    return term.replace("...", letters[len(letters) - hidden :])
