"""Recurrent layers: the states' gradients step by step, everything else for all steps at once.

Source:
    Werbos, 1990 (backpropagation through time); the formulas are in `_recurrent_cells` and `_recurrent_gated`.
"""

from __future__ import annotations

import numpy as np

from deep_bench.network.gradient.rules._recurrent_activations import activation_functions
from deep_bench.network.gradient.rules._recurrent_cells import Direction, rnn
from deep_bench.network.gradient.rules._recurrent_gated import gru, lstm

__all__ = ["GRU", "LSTM", "RNN"]


def RNN(
    at,
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
    """``D = G f'(a)``; ``dX = D W``, ``dW = D^T X``, ``dR = D^T H``, ``dB = sum D``; ``G`` of the step before is ``D R``."""
    functions = activation_functions(activations, activation_alpha, activation_beta, clip, at.backward.rounded_slopes)
    layer = _Layer(at, (x, w, r, b, sequence_lens), (initial_h,), None, direction, layout)
    return layer.gradients([rnn(run) for run in layer.directions(functions, 1)])


def GRU(
    at,
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
    """As of `RNN`, with the ``D`` of three gates: see `gru`."""
    names = activations or ("Sigmoid", "Tanh") * 2
    functions = activation_functions(names, activation_alpha, activation_beta, clip, at.backward.rounded_slopes)
    layer = _Layer(at, (x, w, r, b, sequence_lens), (initial_h,), None, direction, layout)
    by_direction = [gru(run, linear_before_reset=bool(linear_before_reset)) for run in layer.directions(functions, 2)]
    return layer.gradients(by_direction)


def LSTM(
    at,
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
    """As of `RNN`, with the ``D`` of four gates and the gradient of the cell's state: see `lstm`."""
    names = activations or ("Sigmoid", "Tanh", "Tanh") * 2
    functions = activation_functions(names, activation_alpha, activation_beta, clip, at.backward.rounded_slopes)
    layer = _Layer(at, (x, w, r, b, sequence_lens), (initial_h, initial_c), p, direction, layout)
    return layer.gradients([lstm(run, input_forget=bool(input_forget)) for run in layer.directions(functions, 3)])


class _Layer:
    """The tensors of a layer, in float32 at least, with time before the batch; and its directions one by one."""

    def __init__(self, at, inputs, initial, p, direction, layout):
        self.at, self.op, self.layout, self.p = at, at.op, layout, p
        self.x, self.w, self.r, self.b, self.lengths = inputs
        self.initial = initial
        self.backwards = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}[direction]
        self.dtype = self.x.dtype if self.x.dtype.itemsize >= 4 else np.dtype(np.float32)

    def directions(self, functions, each):
        """The directions one by one, ``each`` with as many of the activations."""
        x = self._early(self.x, (1, 0, 2))
        mask = self._mask(x)
        x = x if mask is None else self.op.Where(mask, x, 0)
        for number, backwards in enumerate(self.backwards):
            yield self._direction(number, x, mask, backwards, functions[number * each : (number + 1) * each])

    def _direction(self, number, x, mask, backwards, functions):
        def part(tensor, axis=0):
            return self._part(tensor, number, axis)

        y = part(self._early(self.at.y, (1, 2, 0, 3)), 1)
        dy = self.at.gradient_or_none(0)
        dy = None if dy is None else part(self._early(dy, (1, 2, 0, 3)), 1)
        biases = None if self.b is None else part(self._wide(self.b))
        return Direction(
            self.op,
            x,
            part(self._wide(self.w)),
            part(self._wide(self.r)),
            None if biases is None else tuple(self.op.Split(biases, outputs=2, axis=0, num_outputs=2)),
            None if self.p is None else part(self._wide(self.p)),
            y,
            [part(self._state(s)) for s in self.initial],
            dy if mask is None or dy is None else self.op.Where(mask, dy, 0),
            [part(self._state(self.at.gradient_or_none(1 + i))) for i in range(len(self.initial))],
            mask,
            backwards,
            functions,
        )

    def _state(self, s):
        """A state of all directions, ``(directions, batch, hidden)``, zeros if it is ``None``."""
        return self._early(self.op.zeros_like(self.at.output(1)) if s is None else s, (1, 0, 2))

    def _mask(self, x):
        """Which elements count."""
        if self.lengths is None:
            return None
        length = x.static_shape[0] if x.static_shape else self.op.Gather(x.shape, self.op.constant(0, np.int64), axis=0)
        times = self.op.Range(self.op.constant(0, np.int64), length, self.op.constant(1, np.int64))
        return times.unsqueeze(1, 2) < self.lengths.cast(np.int64).unsqueeze(0, 2)

    def _wide(self, tensor):
        return tensor.cast(self.dtype)

    def _early(self, tensor, permutation):
        """A tensor as with layout 0."""
        tensor = self._wide(tensor)
        return tensor.transpose(permutation) if self.layout else tensor

    def _late(self, tensor, permutation, like):
        return (tensor.transpose(permutation) if self.layout else tensor).cast(like)

    def _part(self, tensor, number, axis):
        if len(self.backwards) == 1:
            return tensor.squeeze(axis)
        return self.op.Gather(tensor, self.op.constant(number, np.int64), axis=axis)

    def gradients(self, by_direction):
        """The gradients of the node's inputs from those of its directions."""
        x = by_direction[0].x + by_direction[1].x if len(by_direction) == 2 else by_direction[0].x
        stacked = [
            self._stacked([f.w for f in by_direction]),
            self._stacked([f.r for f in by_direction]),
            self._stacked([f.b for f in by_direction]),
        ]
        weights = [g.cast(self.x) for g in stacked]
        states = [self._stacked([f.first[i] for f in by_direction]) for i in range(len(self.initial))]
        first = [self._late(s, (1, 0, 2), self.x) for s in states]
        peepholes = [] if self.p is None else [self._stacked([f.p for f in by_direction]).cast(self.x)]
        return [self._late(x, (1, 0, 2), self.x), *weights, None, *first, *peepholes]

    def _stacked(self, parts):
        return self.op.concat([part.unsqueeze(0) for part in parts])
