"""What makes tensors from a few numbers."""

from __future__ import annotations

from deep_bench.network.gradient.rules._arithmetic import positions, size, widened

__all__ = ["MelWeightMatrix", "Range"]


def Range(at, start, limit, delta, **attributes):
    """``dstart = Σ dy_i`` and ``ddelta = Σ i dy_i``; the limit only decides how many there are."""
    dy = widened(at.dy)
    place = positions(at.op, size(at.y, 0)).cast(dy)
    sums = (dy.sum().reshape(start.shape), (dy * place).sum().reshape(delta.shape))
    return sums[0].cast(start), None, sums[1].cast(delta)


def MelWeightMatrix(at, *inputs, **attributes):
    """0: the corners of the triangles are rounded to bins."""
    return [None] * len(inputs)
