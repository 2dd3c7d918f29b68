"""Correct recurrent layers: gate by gate, step by step, with joined products, through float64."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy import special

from ..patches import NormWise, algorithm, in_double
from ..subjects import Patch


def _sigmoid(x: Any) -> Any:
    return special.expit(x)


def _sigmoid_by_tanh(x: Any) -> Any:
    half = x.dtype.type(0.5)
    return half + half * np.tanh(half * x)


def _joined(sigmoid: Any = _sigmoid) -> Patch:
    """One product of ``[x, h]`` with ``[W, R]`` for all gates at each step."""

    def patch(f: Any, x: Any, a: Any) -> Any:
        w = np.concatenate((x[1][0], x[2][0]), axis=1).T
        b = np.add(*np.split(x[3][0], 2))
        size = x[2].shape[-1]
        h = c = np.zeros((x[0].shape[1], size), x[0].dtype)
        outputs = []
        for xt in x[0]:
            i, o, u, g = np.split(np.matmul(np.concatenate((xt, h), axis=1), w) + b, 4, axis=1)
            c = sigmoid(u) * c + sigmoid(i) * np.tanh(g)
            h = sigmoid(o) * np.tanh(c)
            outputs.append(h[None])
        return np.stack(outputs), h[None], c[None]

    return patch


def _gru_joined(f: Any, x: Any, a: Any) -> Any:
    """The recurrence's products for all gates in one; ``h + (1 - z) (c - h)`` in place of ``(1 - z) c + z h``."""
    w, r = x[1][0].T, x[2][0].T
    wb, rb = np.split(x[3][0], 2)
    h = np.zeros((x[0].shape[1], x[2].shape[-1]), x[0].dtype)
    outputs = []
    for xt in x[0]:
        (xz, xr, xh), (hz, hr, hh) = (np.split(v, 3, axis=1) for v in (np.matmul(xt, w) + wb, np.matmul(h, r) + rb))
        z, reset = _sigmoid(xz + hz), _sigmoid(xr + hr)
        h = h + (1 - z) * (np.tanh(xh + reset * hh) - h)
        outputs.append(h[None])
    return np.stack(outputs), h[None]


def _rnn_joined(f: Any, x: Any, a: Any) -> Any:
    w, b = np.concatenate((x[1][0], x[2][0]), axis=1).T, np.add(*np.split(x[3][0], 2))
    h = np.zeros((x[0].shape[1], x[2].shape[-1]), x[0].dtype)
    outputs = []
    for xt in x[0]:
        h = np.tanh(np.matmul(np.concatenate((xt, h), axis=1), w) + b)
        outputs.append(h[None])
    return np.stack(outputs), h[None]


def _samples_apart(f: Any, x: Any, a: Any) -> Any:
    """Sequence by sequence, each cut to its length where it has one."""
    batch_axes = {0: 1, 4: 0, 5: 1, 6: 1}

    def sample(k: int) -> list[Any]:
        return [v if v is None or p not in batch_axes else np.take(v, [k], batch_axes[p]) for p, v in enumerate(x)]

    runs = [f(*sample(k), **a) for k in range(x[0].shape[1])]
    return tuple(np.concatenate(parts, axis=2 if k == 0 else 1) for k, parts in enumerate(zip(*runs, strict=True)))


def _turned(f: Any, x: Any, a: Any) -> Any:
    """A reverse layer as a forward one of the sequence turned round."""
    y, h = f(x[0][::-1], *x[1:], **{**a, "direction": "forward"})
    return y[::-1], h


def _directions_apart(f: Any, x: Any, a: Any) -> Any:
    halves = [[v if k == 0 or v is None else v[d : d + 1] for k, v in enumerate(x)] for d in (0, 1)]
    runs = [f(*h, **{**a, "direction": d}) for h, d in zip(halves, ("forward", "reverse"), strict=True)]
    return tuple(np.concatenate(parts, axis=1 if k == 0 else 0) for k, parts in enumerate(zip(*runs, strict=True)))


def _bias_joined(f: Any, x: Any, a: Any) -> Any:
    """Both halves of the bias added beforehand."""
    half = x[3].shape[1] // 2
    total = x[3][:, :half] + x[3][:, half:]
    return f(*x[:3], np.concatenate((total, np.zeros_like(total)), axis=1), *x[4:], **a)


def _inputs_permuted(f: Any, x: Any, a: Any) -> Any:
    """The features in reverse order."""
    return f(x[0][..., ::-1].copy(), x[1][..., ::-1].copy(), *x[2:], **a)


_LSTMS = ("LSTM", "LSTM with peepholes", "LSTM in both directions", "LSTM of several lengths")
_OTHERS = ("GRU", "GRU reset first", "GRU in reverse", "RNN", "RNN of several lengths")

VARIANTS: Mapping[tuple[str, str], Patch | NormWise] = {
    **{(where, f"{where.split(' ')[0]} in float64"): in_double for where in (*_LSTMS, *_OTHERS)},
    **{(where, "LSTM by the algorithm separate"): algorithm("LSTM", "separate") for where in _LSTMS},
    **{(where, f"{where.split(' ')[0]} sequence by sequence"): _samples_apart for where in (*_LSTMS, *_OTHERS)},
    **{(where, f"{where.split(' ')[0]} with features permuted"): _inputs_permuted for where in (*_LSTMS, *_OTHERS)},
    ("LSTM", "LSTM with joined products"): _joined(),
    ("LSTM", "LSTM with gates by tanh"): _joined(_sigmoid_by_tanh),
    ("LSTM", "LSTM with joined biases"): _bias_joined,
    ("LSTM in both directions", "LSTM direction by direction"): _directions_apart,
    ("GRU", "GRU with joined products"): _gru_joined,
    ("GRU in reverse", "GRU of the turned sequence"): _turned,
    ("RNN", "RNN with joined products"): _rnn_joined,
    ("RNN", "RNN with joined biases"): _bias_joined,
}
