"""Recurrent networks: a cell, applied to one element of a sequence after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from deep_bench.errors import Unsupported
from deep_bench.reference.operators import activation
from deep_bench.reference.operators._arguments import check_choice, in_float32

__all__ = ["GRU", "LSTM", "RNN"]

Function = Callable[[Any], Any]


def _affine(x, *, alpha=1.0, beta=0.0):
    return alpha * x + beta


def _scaled_tanh(x, *, alpha=1.0, beta=1.0):
    return alpha * np.tanh(beta * x)


def _thresholded_relu(x, *, alpha=1.0):
    # Here the standard includes alpha itself, in the operator ThresholdedRelu it does not.
    return np.where(x >= alpha, x, np.zeros_like(x, shape=()))


# Name to the function and the parameters that it takes from activation_alpha and activation_beta.
_FUNCTIONS: dict[str, tuple[Callable[..., Any], tuple[str, ...]]] = {
    "affine": (_affine, ("alpha", "beta")),
    "elu": (activation.Elu, ("alpha",)),
    "hardsigmoid": (activation.HardSigmoid, ("alpha", "beta")),
    "leakyrelu": (activation.LeakyRelu, ("alpha",)),
    "relu": (activation.Relu, ()),
    "scaledtanh": (_scaled_tanh, ("alpha", "beta")),
    "sigmoid": (activation.Sigmoid, ()),
    "softplus": (activation.Softplus, ()),
    "softsign": (activation.Softsign, ()),
    "tanh": (np.tanh, ()),
    "thresholdedrelu": (_thresholded_relu, ("alpha",)),
}


def activation_functions(
    names: Sequence[str], alphas: Sequence[float] | None, betas: Sequence[float] | None, clip: float | None
) -> list[Function]:
    """The functions behind ``names``; each takes its parameters from the front of ``alphas`` and ``betas`` while they last.

    Args:
        names: Names as ONNX spells them, in any case.
        alphas: Values for the functions that have an alpha, in order.
        betas: Values for the functions that have a beta, in order.
        clip: The arguments of all functions are limited to ``[-clip, clip]``; ``None`` for no limit.

    Raises:
        Unsupported: The standard knows no such function.

    Source:
        ONNX LSTM, opset 22.
    """
    values = {"alpha": list(alphas or ()), "beta": list(betas or ())}
    return [_activation_function(name, values, clip) for name in names]


def _activation_function(name: str, values: dict[str, list[float]], clip: float | None) -> Function:
    if name.lower() not in _FUNCTIONS:
        raise Unsupported(
            f"a recurrent network with the activation {name!r}", f"one of {', '.join(_FUNCTIONS)}, in any case"
        )
    function, parameters = _FUNCTIONS[name.lower()]
    chosen = {p: values[p].pop(0) for p in parameters if values[p]}
    if clip is None:
        return lambda x: function(x, **chosen)
    return lambda x: function(np.minimum(np.maximum(x, -clip), clip), **chosen)


Step = Callable[..., tuple[Any, ...]]
"""From an element's projection ``W x + b`` and the states to the next states, the output first."""


@in_float32
def RNN(
    x,
    w,
    r,
    b=None,
    sequence_lens=None,
    initial_h=None,
    *,
    activation_alpha=None,
    activation_beta=None,
    activations=("Tanh", "Tanh"),
    clip=None,
    direction="forward",
    hidden_size=None,
    layout=0,
):
    """A layer of simple recurrent cells, ``h' = f(W x + R h + Wb + Rb)``. Source: ONNX RNN, opset 22."""
    functions = activation_functions(activations, activation_alpha, activation_beta, clip)

    def cell(number: int) -> Step:
        f, recurrence = functions[number], r[number].T

        def step(xt, h):
            return (f(xt + np.matmul(h, recurrence)),)

        return step

    bias = None if b is None else np.add(*np.split(b, 2, axis=1))
    return layer(cell, x, _products(w), bias, (initial_h,), r.shape[2], sequence_lens, direction, layout)


@in_float32
def GRU(
    x,
    w,
    r,
    b=None,
    sequence_lens=None,
    initial_h=None,
    *,
    activation_alpha=None,
    activation_beta=None,
    activations=None,
    clip=None,
    direction="forward",
    hidden_size=None,
    layout=0,
    linear_before_reset=0,
):
    """A layer of gated recurrent units.

    ``z = f(Wz x + Rz h + Wbz + Rbz)``, ``r`` likewise; ``c = g(Wh x + Wbh + Rh (r * h) + Rbh)``, or with
    ``linear_before_reset`` ``g(Wh x + Wbh + r * (Rh h + Rbh))``; ``h' = (1 - z) * c + z * h``.

    Source:
        ONNX GRU, opset 22; Cho et al., 2014.
    """
    names = activations or ("Sigmoid", "Tanh") * len(w)
    functions = activation_functions(names, activation_alpha, activation_beta, clip)

    hidden = r.shape[2]
    wb, rb = (None, np.zeros_like(r, shape=(len(w), 3 * hidden))) if b is None else np.split(b, 2, axis=1)

    def cell(number: int) -> Step:
        f, g = functions[2 * number : 2 * number + 2]
        to_gates, to_candidate = np.split(r[number].T, [2 * hidden], axis=1)
        gates_bias, candidate_bias = np.split(rb[number], [2 * hidden])

        def step(xt, h):
            gates = f(xt[:, : 2 * hidden] + np.matmul(h, to_gates) + gates_bias)
            z, reset = gates[:, :hidden], gates[:, hidden:]
            if linear_before_reset:
                recurrence = reset * (np.matmul(h, to_candidate) + candidate_bias)
            else:
                recurrence = np.matmul(reset * h, to_candidate) + candidate_bias
            candidate = g(xt[:, 2 * hidden :] + recurrence)
            return ((1 - z) * candidate + z * h,)

        return step

    return layer(cell, x, _products(w), wb, (initial_h,), hidden, sequence_lens, direction, layout)


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
    """A layer of long short-term memory.

    ``i = f(Wi x + Ri h + Pi * c + Wbi + Rbi)``, the forget gate ``u`` likewise (``1 - i`` with ``input_forget``);
    ``c' = u * c + i * g(Wc x + Rc h + Wbc + Rbc)``; ``o = f(Wo x + Ro h + Po * c' + Wbo + Rbo)``; ``h' = o * h(c')``.

    Source:
        ONNX LSTM, opset 22; Hochreiter and Schmidhuber, 1997; Gers et al., 2002 for the peepholes ``P``.
    """
    names = activations or ("Sigmoid", "Tanh", "Tanh") * len(w)
    functions = activation_functions(names, activation_alpha, activation_beta, clip)

    hidden = r.shape[2]

    recur = _products(r)

    def cell(number: int) -> Step:
        peepholes = None if p is None else p[number]
        return lstm_cell(functions[3 * number : 3 * number + 3], recur[number], peepholes, hidden, input_forget)

    bias = None if b is None else np.add(*np.split(b, 2, axis=1))
    return layer(cell, x, _products(w), bias, (initial_h, initial_c), hidden, sequence_lens, direction, layout)


def lstm_cell(functions, recur, peepholes, hidden, input_forget):
    """The step of one direction of an LSTM.

    Args:
        functions: Those of the gates, the candidate and the output.
        recur: From the output ``h`` to its product with the weights of all gates, ``(batch, 4 * hidden)``.
        peepholes: ``(3 * hidden,)``, or ``None``.
        hidden: The size of a state.
        input_forget: Whether the forget gate is one minus the input gate.
    """
    f, g, squash = functions
    pi, po, pu = (None, None, None) if peepholes is None else np.split(peepholes, 3)

    def step(xt, h, c):
        gates = xt + recur(h)
        i, o, u, candidate = (gates[:, k * hidden : (k + 1) * hidden] for k in range(4))
        i = f(_peeped(i, pi, c))
        u = 1 - i if input_forget else f(_peeped(u, pu, c))
        c = u * c + i * g(candidate)
        return f(_peeped(o, po, c)) * squash(c), c

    return step


def _peeped(gate, weights, c):
    return gate if weights is None else gate + weights * c


def _products(w):
    """For each direction the product of its matrix with the elements of a sequence, or with a state."""
    return [lambda x, matrix=matrix.T: np.matmul(x, matrix) for matrix in w]


def layer(cell, x, project, b, initial, hidden, lengths, direction, layout):
    """Run the cell of each direction over the sequences.

    Args:
        cell: From the number of a direction to its `Step`.
        x: ``(time, batch, inputs)``, or ``(batch, time, inputs)`` with ``layout`` 1.
        project: For each direction the function from ``x`` to its product with the weights of all gates.
        b: Biases of the input's product, ``(directions, gates * hidden)``, or ``None`` for zeros.
        initial: For each state ``(directions, batch, hidden)``, or ``None`` for zeros.
        hidden: The size of a state.
        lengths: For each sequence how many of its elements count, or ``None`` for all.
        direction: "forward", "reverse" or "bidirectional".
        layout: With 1 the batch is the first axis of every tensor.
    """
    check_choice("RNN, GRU or LSTM", "direction", direction, ("forward", "reverse", "bidirectional"))
    if layout:
        x = np.swapaxes(x, 0, 1)
        initial = [s if s is None else np.swapaxes(s, 0, 1) for s in initial]
    zeros = np.zeros_like(x, shape=(x.shape[1], hidden))
    runs = []
    for number in range(len(project)):
        projected = project[number](x)
        if b is not None:
            projected = projected + b[number]
        states = tuple(zeros if s is None else s[number] for s in initial)
        backwards = direction == "reverse" or number == 1
        runs.append(_run(cell(number), projected, states, lengths, backwards))
    y = np.stack([outputs for outputs, _ in runs], axis=1)
    last = [np.stack(states, axis=0) for states in zip(*(states for _, states in runs), strict=True)]
    if layout:
        return (np.transpose(y, (2, 0, 1, 3)), *(np.swapaxes(s, 0, 1) for s in last))
    return (y, *last)


def _run(step, projected, states, lengths, backwards):
    """The outputs ``(time, batch, hidden)``, zero beyond a sequence's length, and the last states."""
    outputs = np.zeros_like(projected, shape=(len(projected), *states[0].shape))
    times = range(len(projected))
    for t in reversed(times) if backwards else times:
        new = step(projected[t], *states)
        if lengths is None:
            states, outputs[t] = new, new[0]
            continue
        inside = (t < lengths)[:, np.newaxis]
        outputs[t] = np.where(inside, new[0], 0)
        states = tuple(np.where(inside, n, s) for n, s in zip(new, states, strict=True))
    return outputs, states
