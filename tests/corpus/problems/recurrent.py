"""Recurrent layers: with peepholes, in both directions, over sequences of different length, from states given."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from ..problem import Arrays, Problem, normal, single

_SIZE, _WIDTH, _X = 12, 10, {"x": normal(15, 4, 10)}
_SHORT = {"x": normal(3, 4, 10)}


def _weights(gates: int, directions: int = 1) -> Arrays:
    w, r = normal(directions, gates * _SIZE, _WIDTH, scale=0.3), normal(directions, gates * _SIZE, _SIZE, scale=0.3)
    return {"w": w, "r": r, "b": normal(directions, 2 * gates * _SIZE, scale=0.3)}


_STATES = {"": np.zeros(0), "h": normal(1, 4, _SIZE), "c": normal(1, 4, _SIZE, seed=1)}
_PEEPHOLES = {**_weights(4), **_STATES, "p": normal(1, 3 * _SIZE, scale=0.5)}
_LENGTHS = {"lengths": np.array([15, 9, 1, 12], np.int32)}
_HIDDEN = {"hidden_size": _SIZE}

PROBLEMS: Mapping[str, Callable[[], Problem]] = {
    "LSTM": single("LSTM", _X, _weights(4), outputs=3, **_HIDDEN),
    "LSTM with peepholes": single("LSTM", _X, _PEEPHOLES, outputs=3, **_HIDDEN),
    "LSTM in both directions": single("LSTM", _X, _weights(4, 2), outputs=3, direction="bidirectional", **_HIDDEN),
    "LSTM of several lengths": single("LSTM", _X, {**_weights(4), **_LENGTHS}, outputs=3, **_HIDDEN),
    "GRU": single("GRU", _X, _weights(3), outputs=2, linear_before_reset=1, **_HIDDEN),
    "GRU reset first": single("GRU", _X, _weights(3), outputs=2, **_HIDDEN),
    "GRU in reverse": single("GRU", _X, _weights(3), outputs=2, direction="reverse", **_HIDDEN),
    "LSTM of three steps": single("LSTM", _SHORT, _weights(4), outputs=3, **_HIDDEN),
    "GRU of three steps": single("GRU", _SHORT, _weights(3), outputs=2, **_HIDDEN),
    "RNN of three steps": single("RNN", _SHORT, _weights(1), outputs=2, **_HIDDEN),
    "RNN": single("RNN", _X, _weights(1), outputs=2, **_HIDDEN),
    "RNN of several lengths": single("RNN", _X, {**_weights(1), **_LENGTHS}, outputs=2, **_HIDDEN),
}
