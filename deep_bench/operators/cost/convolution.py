"""Convolutions. What a window reads of the padding counts like the rest, as is usual."""

from __future__ import annotations

from math import prod

from deep_bench.operators.cost.activation import Swish
from deep_bench.operators.cost.model import Shape, Work

__all__ = ["CausalConvWithState", "Col2Im", "Conv", "ConvInteger", "ConvTranspose", "DeformConv"]


def Conv(x: Shape, w: Shape, b: Shape | None = None, *, y: Shape) -> Work:
    """``2 C/group k1 k2 …`` for each element of the result, and an addition for the bias.

    Source:
        ONNX Conv, opset 22; Sze et al., Efficient processing of deep neural networks, Proc. IEEE 105 (2017), section II.
    """
    return Work(flops=prod(y) * (2 * prod(w[1:]) + (b is not None)))


def ConvTranspose(x: Shape, w: Shape, b: Shape | None = None, *, y: Shape) -> Work:
    """``2 M/group k1 k2 …`` for each element of ``x``, and an addition for the bias.

    Source:
        ONNX ConvTranspose, opset 22.
    """
    return Work(flops=2 * prod(x) * prod(w[1:]) + (b is not None) * prod(y))


def Col2Im(x: Shape) -> Work:
    """An addition for each element of ``x``. Source: ONNX Col2Im, opset 18."""
    return Work(flops=prod(x))


def ConvInteger(
    x: Shape, w: Shape, x_zero_point: Shape | None = None, w_zero_point: Shape | None = None, *, y: Shape
) -> Work:
    """A `Conv`, and the subtraction of the zero points that are given. Source: ONNX ConvInteger, opset 10."""
    shifted = (x_zero_point is not None) * prod(x) + (w_zero_point is not None) * prod(w)
    return Conv(x, w, y=y) + Work(flops=shifted)


def CausalConvWithState(x: Shape, w: Shape, b: Shape | None = None, *, y: Shape, activation: str = "none") -> Work:
    """A `Conv` of each channel by itself, and ``Swish`` if asked for. Source: ONNX CausalConvWithState, opset 27."""
    return Conv(x, w, b, y=y) + (Work() if activation == "none" else Swish(y))


def DeformConv(
    x: Shape,
    w: Shape,
    offset: Shape,
    b: Shape | None = None,
    mask: Shape | None = None,
    *,
    y: Shape,
    offset_group: int = 1,
) -> Work:
    """A `Conv` of elements that are interpolated linearly between the ``2^rank`` neighbours of each moved position.

    For each position and axis an addition for its coordinate, and the distances and weights of two neighbours (4); for each
    neighbour the product of its weights; for each channel and neighbour a product and a sum, and a product with the mask.

    Source:
        ONNX DeformConv, opset 22; Dai et al., Deformable Convolutional Networks, 2017, section 2.1.
    """
    rank, neighbours = len(x) - 2, 2 ** (len(x) - 2)
    positions = prod(offset) // rank
    placing = Work(flops=5 * rank + (rank - 1) * neighbours) * positions
    reading = Work(flops=2 * neighbours + (mask is not None)) * (positions * (x[1] // offset_group))
    return Conv(x, w, b, y=y) + placing + reading
