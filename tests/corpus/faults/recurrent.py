"""Faults of recurrent layers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ..patches import after, attributes, bfloat16, float16, gates, on_input, rounded_inputs, scaled, tf32, without
from ..subjects import Patch


def _carried(to: Callable[[Any], Any]) -> Patch:
    """The states rounded between the steps."""

    def patch(f: Any, x: Any, a: Any) -> Any:
        rest = list(x) + [None] * (8 - len(x))
        states: list[Any] = []
        outputs = []
        for t in range(x[0].shape[0]):
            given = [*rest[:4], None, *(states or [None] * 2)]
            y, *new = f(x[0][t : t + 1], *given[1 : 6 + (len(states) > 1)], **a)
            states = [to(s) for s in new]
            outputs.append(y)
        return (np.concatenate(outputs), *new)

    return patch


def _lagging(f: Any, x: Any, a: Any) -> Any:
    """The outputs are those of the step before."""
    y, *states = f(*x, **a)
    return (np.roll(y, 1, axis=0), *states)


def _last_step_lost(f: Any, x: Any, a: Any) -> Any:
    """The loop ends one step early; the states are those of then."""
    y, *states = f(x[0][:-1], *x[1:], **a)
    return (np.concatenate((y, y[-1:])), *states)


def _reset_state(f: Any, x: Any, a: Any) -> Any:
    """The second half of the sequence starts from zeros again."""
    half = x[0].shape[0] // 2
    first, second = f(x[0][:half], *x[1:], **a), f(x[0][half:], *x[1:], **a)
    return (np.concatenate((first[0], second[0])), *second[1:])


def _transposed_recurrence(f: Any, x: Any, a: Any) -> Any:
    """Each gate's square matrix of the recurrence transposed."""
    directions, rows, size = x[2].shape
    r = x[2].reshape(directions, rows // size, size, size).swapaxes(-1, -2).reshape(x[2].shape)
    return f(x[0], x[1], r, *x[3:], **a)


def _recurrent_bias_lost(f: Any, x: Any, a: Any) -> Any:
    """Only the first half of the bias, that of the input."""
    b = np.array(x[3])
    b[:, b.shape[1] // 2 :] = 0
    return f(*x[:3], b, *x[4:], **a)


def _activations(*names: str) -> Patch:
    return attributes(activations=names)


def _forget_bias(f: Any, x: Any, a: Any) -> Any:
    """One is added to the bias of the forget gate, as one framework did by default."""
    b = np.array(x[3])
    size = x[2].shape[-1]
    b[:, 2 * size : 3 * size] += 1
    return f(*x[:3], b, *x[4:], **a)


def _states_swapped(f: Any, x: Any, a: Any) -> Any:
    y, h, c = f(*x, **a)
    return y, c, h


def _second_direction_forwards(f: Any, x: Any, a: Any) -> Any:
    """The second direction runs forwards, too."""
    halves = [[v if k == 0 or v is None else v[d : d + 1] for k, v in enumerate(x)] for d in (0, 1)]
    runs = [f(*h, **{**a, "direction": "forward"}) for h in halves]
    return tuple(np.concatenate(parts, axis=1 if k == 0 else 0) for k, parts in enumerate(zip(*runs, strict=True)))


def _full_length(f: Any, x: Any, a: Any) -> Any:
    return f(*(None if k == 4 else v for k, v in enumerate(x)), **a)


_ONE_LONGER = on_input(4, lambda n: np.minimum(n + 1, 15).astype(n.dtype))

FAULTS: Mapping[tuple[str, str], Patch] = {
    ("LSTM", "LSTM with gates in another order"): gates([0, 2, 1, 3]),
    ("LSTM", "LSTM with candidate and forget gate swapped"): gates([0, 1, 3, 2]),
    ("LSTM", "LSTM without bias"): without(3),
    ("LSTM", "LSTM without the bias of its recurrence"): _recurrent_bias_lost,
    ("LSTM", "LSTM with a forget bias"): _forget_bias,
    ("LSTM", "LSTM with TF32"): rounded_inputs(tf32),
    ("LSTM", "LSTM of bfloat16"): rounded_inputs(bfloat16),
    ("LSTM", "LSTM with states in bfloat16"): _carried(bfloat16),
    ("LSTM", "LSTM with states in float16"): _carried(float16),
    ("LSTM", "LSTM with a transposed recurrence"): _transposed_recurrence,
    ("LSTM", "LSTM with outputs one step late"): _lagging,
    ("LSTM", "LSTM that ends one step early"): _last_step_lost,
    ("LSTM", "LSTM that starts anew in the middle"): _reset_state,
    ("LSTM", "LSTM with coupled gates"): attributes(input_forget=1),
    ("LSTM", "LSTM with other activations"): _activations("HardSigmoid", "Tanh", "Tanh"),
    ("LSTM", "LSTM that does not squash its cell"): _activations("Sigmoid", "Tanh", "Affine"),
    ("LSTM", "LSTM with its states swapped"): _states_swapped,
    ("LSTM with peepholes", "LSTM without peepholes"): without(7),
    ("LSTM with peepholes", "LSTM with peepholes in another order"): on_input(
        7, lambda p: np.concatenate(np.split(p, 3, 1)[::-1], 1)
    ),
    ("LSTM with peepholes", "LSTM without its first cell state"): without(6),
    ("LSTM with peepholes", "LSTM without its first output"): without(5),
    ("LSTM with peepholes", "LSTM with peepholes in bfloat16"): on_input(7, bfloat16),
    ("LSTM in both directions", "LSTM with both directions forwards"): _second_direction_forwards,
    ("LSTM in both directions", "LSTM with its directions swapped"): after(lambda y: y[:, ::-1]),
    ("LSTM in both directions", "LSTM with TF32"): rounded_inputs(tf32),
    ("LSTM of several lengths", "LSTM that ignores the lengths"): _full_length,
    ("LSTM of several lengths", "LSTM with lengths one too long"): _ONE_LONGER,
    ("LSTM of several lengths", "LSTM with outputs after the end"): after(
        lambda y: np.where(y == 0, y[8:9], y).astype(y.dtype)
    ),
    ("GRU", "GRU with the reset gate first"): attributes(linear_before_reset=0),
    ("GRU", "GRU with gates in another order"): gates([1, 0, 2]),
    ("GRU", "GRU without the bias of its recurrence"): _recurrent_bias_lost,
    ("GRU", "GRU with a transposed recurrence"): _transposed_recurrence,
    ("GRU", "GRU with states in bfloat16"): _carried(bfloat16),
    ("GRU", "GRU of float16"): rounded_inputs(float16),
    ("GRU reset first", "GRU with the reset gate last"): attributes(linear_before_reset=1),
    ("GRU reset first", "GRU that ends one step early"): _last_step_lost,
    ("GRU reset first", "GRU with states in float16"): _carried(float16),
    ("GRU in reverse", "GRU that runs forwards"): attributes(direction="forward"),
    ("GRU in reverse", "GRU with outputs in reverse"): after(lambda y: y[::-1]),
    ("GRU in reverse", "GRU with TF32"): rounded_inputs(tf32),
    ("RNN", "RNN by another activation"): _activations("Sigmoid"),
    ("RNN", "RNN with a transposed recurrence"): _transposed_recurrence,
    ("RNN", "RNN with states in bfloat16"): _carried(bfloat16),
    ("RNN", "RNN with TF32"): rounded_inputs(tf32),
    ("RNN", "RNN with outputs one step late"): _lagging,
    ("RNN", "RNN that starts anew in the middle"): _reset_state,
    ("RNN", "RNN with a larger recurrence"): scaled(2, 1.001),
    ("RNN of several lengths", "RNN that ignores the lengths"): _full_length,
    ("RNN of several lengths", "RNN with lengths one too long"): _ONE_LONGER,
}
