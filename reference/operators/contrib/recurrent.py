"""Recurrent networks whose weights are quantized."""

from __future__ import annotations

import functools

import numpy as np

from deep_bench.reference.operators.contrib.linear import DynamicQuantizeMatMul
from deep_bench.reference.operators.recurrent import Step, activation_functions, layer, lstm_cell

__all__ = ["DynamicQuantizeLSTM"]


def DynamicQuantizeLSTM(
    x,
    w,
    r,
    b,
    sequence_lens,
    initial_h,
    initial_c,
    p,
    w_scale,
    w_zero_point,
    r_scale,
    r_zero_point,
    *,
    activation_alpha=None,
    activation_beta=None,
    activations=None,
    clip=None,
    direction="forward",
    hidden_size=None,
    input_forget=0,
):
    """LSTM, whose weights are quantized, and whose input and output are before they are multiplied with them.

    The input is quantized as a whole, up to the end of the longest sequence, and the output of one time after the other,
    each as DynamicQuantizeLinear does it.

    Args:
        w: ``(directions, inputs, 4 * hidden)``; ``r`` likewise.
        w_scale: ``(directions,)``, or one for each column, ``(directions, 4 * hidden)``; ``r_scale`` and both zero points
            likewise.

    Source:
        ONNX Runtime DynamicQuantizeLSTM.
    """
    names = activations or ("Sigmoid", "Tanh", "Tanh") * len(w)
    functions = activation_functions(names, activation_alpha, activation_beta, clip)
    project = _products(w, w_scale, w_zero_point)
    recur = _products(r, r_scale, r_zero_point)
    hidden = r.shape[1]

    def cell(number: int) -> Step:
        peepholes = None if p is None else p[number]
        return lstm_cell(functions[3 * number : 3 * number + 3], recur[number], peepholes, hidden, input_forget)

    bias = None if b is None else np.add(*np.split(b, 2, axis=1))
    used = x if sequence_lens is None else x[: np.max(sequence_lens, initial=0)]
    y, *last = layer(cell, used, project, bias, (initial_h, initial_c), hidden, sequence_lens, direction, 0)
    unused = np.zeros_like(y, shape=(len(x) - len(used), *y.shape[1:]))
    return np.concatenate((y, unused)), *last


def _products(matrices, scales, zero_points):
    return [
        functools.partial(DynamicQuantizeMatMul, b=matrix, b_scale=scale, b_zero_point=zero_point)
        for matrix, scale, zero_point in zip(matrices, scales, zero_points, strict=True)
    ]
