"""Convolutions. What a window reads of the padding counts like the rest, as is usual."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from deep_bench.facts.activation import Swish
from deep_bench.facts.row import OperatorFacts, Shape, Weighed, Work, blocks
from deep_bench.facts.rules import AUTO_PAD, ShapedCase, codes, first, products, several, shape_at, single_result


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


def _window(case: ShapedCase) -> float:
    return prod(shape_at(case, 1)[1:]) + 1


def _transposed_window(case: ShapedCase) -> float:
    return prod(shape_at(case, 1)) / max(1, shape_at(case, 1)[1]) + 1


def _kernels(positions: np.ndarray, settings: Mapping[str, Any]) -> Weighed:
    """Kernels [out, in / groups, …]: an output sums a window of the channels of its group."""
    groups, window = settings.get("group", 1), prod(positions.shape[2:])
    out = positions.shape[0] // groups
    return blocks(positions.reshape(groups, out, -1), fan_out=out * window)


def _transposed_kernels(positions: np.ndarray, settings: Mapping[str, Any]) -> Weighed:
    """Kernels [in, out / groups, …]: strides leave an output only some of the window."""
    groups, window = settings.get("group", 1), prod(positions.shape[2:])
    into, out = positions.shape[0] // groups, positions.shape[1]
    matrices = np.moveaxis(positions.reshape(groups, into, out, window), 1, 2).reshape(groups, out, into * window)
    strides = prod(settings.get("strides", ()))
    return blocks(matrices, fan_in=max(into * window / strides, 1), fan_out=out * window)


_CONVOLUTION = OperatorFacts(
    choices=AUTO_PAD,
    learnt=(1, 2),
    adds_bias=True,
    roles={2: "bias"},
    multiplies=True,
    row_axes=first,
    by_sample=single_result,
    windowed=True,
)

OPERATORS: Mapping[str, OperatorFacts] = {
    "CausalConvWithState": OperatorFacts(cost=CausalConvWithState),
    "Col2Im": OperatorFacts(cost=Col2Im, settings=(1, 2), constants=("image_shape", "block_shape")),
    "Conv": replace(_CONVOLUTION, cost=Conv, weights={1: _kernels}, growth=products(_window), defines_special=True),
    "ConvInteger": OperatorFacts(
        cost=ConvInteger,
        choices=AUTO_PAD,
        draws=codes("x", "w", "x_zero_point", "w_zero_point"),
        accumulates_wide=True,
        windowed=True,
    ),
    "ConvTranspose": replace(
        _CONVOLUTION, cost=ConvTranspose, weights={1: _transposed_kernels}, growth=products(_transposed_window)
    ),
    "DeformConv": OperatorFacts(
        cost=DeformConv,
        multiplies=True,
        draws={"mask": "between:0:1", "offset": "between:-2:2"},
        row_axes=several(0, 2, 4),
        interpolates=True,
        windowed=True,
    ),
}
"""The rows, by operator."""
