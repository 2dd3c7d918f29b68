"""LSTM with one matrix product for each gate; the reference itself multiplies with the weights of all four at once."""

from __future__ import annotations

import numpy as np

from deep_bench.reference.operators._arguments import in_float32
from deep_bench.reference.operators.recurrent import activation_functions, layer, lstm_cell


@in_float32
def LSTM(
    x,
    w,
    r,
    b=None,
    sequence_lens=None,
    initial_h=None,
    initial_c=None,
    p=None,
    *,
    activation_alpha=None,
    activation_beta=None,
    activations=None,
    clip=None,
    direction="forward",
    hidden_size=None,
    input_forget=0,
    layout=0,
):
    """A layer of long short-term memory, gate by gate: ``W_i x``, ``W_o x``, ``W_f x`` and ``W_c x`` are four products each.

    The fused form, ``[W_i; W_o; W_f; W_c] x``, computes the same sums in one product of four times the rows.

    Source:
        ONNX LSTM, opset 22; Appleyard, Kocisky and Blunsom, Optimizing Performance of Recurrent Neural Networks on GPUs,
        2016, for the fused form.
    """
    names = activations or ("Sigmoid", "Tanh", "Tanh") * len(w)
    functions = activation_functions(names, activation_alpha, activation_beta, clip)
    hidden, recur = r.shape[2], _by_gate(r)

    def cell(number):
        peepholes = None if p is None else p[number]
        return lstm_cell(functions[3 * number : 3 * number + 3], recur[number], peepholes, hidden, input_forget)

    bias = None if b is None else np.add(*np.split(b, 2, axis=1))
    return layer(cell, x, _by_gate(w), bias, (initial_h, initial_c), hidden, sequence_lens, direction, layout)


def _by_gate(w):
    """For each direction the products of its four gates' matrices with what it is given, side by side."""

    def project(matrices):
        return lambda x: np.concatenate([np.matmul(x, matrix.T) for matrix in matrices], axis=-1)

    return [project(np.split(direction, 4)) for direction in w]
