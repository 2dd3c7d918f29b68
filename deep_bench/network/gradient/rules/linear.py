"""Matrix products."""

from __future__ import annotations

import numpy as np

from deep_bench.network.gradient.rules._einsum import Terms
from deep_bench.network.gradient.rules._sizes import dimension, positions, size, widened

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
