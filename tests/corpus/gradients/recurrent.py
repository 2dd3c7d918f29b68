"""Backward passes through time, by hand: layers with all weights in one direction."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from scipy import special

from .problem import Kernel
from .products import Product


def _identity(x: Any) -> Any:
    return x


def rnn(*, carried: bool = True, slope: bool = True, to: Callable[[Any], Any] = _identity) -> Kernel:
    """``h' = tanh(W x + R h + b)``.

    Args:
        carried: Whether the gradient is handed on from step to step.
        slope: Whether the slope of ``tanh`` is taken.
        to: What the carried gradient is rounded by.
    """

    def kernel(v: Mapping[str, Any]) -> Mapping[str, Any]:
        x, w, r = v["x"], v["w"][0], v["r"][0]
        b = np.add(*np.split(v["b"][0], 2))
        states = [np.zeros((x.shape[1], r.shape[0]), x.dtype)]
        for xt in x:
            states.append(np.tanh(xt @ w.T + states[-1] @ r.T + b))
        dx, dw, dr, db = np.zeros_like(x), np.zeros_like(w), np.zeros_like(r), np.zeros_like(b)
        dh = v["dy0_1"][0]
        for t in reversed(range(len(x))):
            dh = dh + v["dy0"][t, 0]
            da = dh * (1 - states[t + 1] ** 2) if slope else dh
            dx[t], dw, dr, db = da @ w, dw + da.T @ x[t], dr + da.T @ states[t], db + da.sum(0)
            dh = to(da @ r) if carried else np.zeros_like(dh)
        return {"x": dx, "w": dw[None], "r": dr[None], "b": np.concatenate((db, db))[None]}

    return kernel


def lstm(
    multiply: Product = np.matmul,
    *,
    forgotten: bool = True,
    last_cell: bool = True,
    previous: int = 0,
    first_bias_only: bool = False,
    order: tuple[int, ...] = (0, 1, 2, 3),
    to: Callable[[Any], Any] = _identity,
) -> Kernel:
    """Gates ``i, o, f, g``: ``c' = f c + i g``, ``h' = o tanh(c')``.

    Args:
        multiply: The product of matrices.
        forgotten: Whether the gradient of the cell goes through the forget gate.
        last_cell: Whether the gradient of the last cell counts.
        previous: Which state the recurrence's weights see: 0 that before the step, 1 that after it.
        first_bias_only: Whether the second half of the bias is left without a gradient.
        order: Of the gates in what is returned.
        to: What the carried gradients are rounded by.
    """

    def kernel(v: Mapping[str, Any]) -> Mapping[str, Any]:
        x, w, r = v["x"], v["w"][0], v["r"][0]
        b, size = np.add(*np.split(v["b"][0], 2)), v["r"].shape[-1]
        hs = [np.zeros((x.shape[1], size), x.dtype)]
        cs, kept = [hs[0]], []
        for xt in x:
            gates = np.split(multiply(xt, w.T) + multiply(hs[-1], r.T) + b, 4, axis=1)
            i, o, u = (special.expit(a) for a in gates[:3])
            g = np.tanh(gates[3])
            cs.append(u * cs[-1] + i * g)
            hs.append(o * np.tanh(cs[-1]))
            kept.append((i, o, u, g))
        dx, dw, dr, db = np.zeros_like(x), np.zeros_like(w), np.zeros_like(r), np.zeros_like(b)
        dh, dc = v["dy0_1"][0], v["dy0_2"][0] * (1 if last_cell else 0)
        for t in reversed(range(len(x))):
            i, o, u, g = kept[t]
            dh, squashed = dh + v["dy0"][t, 0], np.tanh(cs[t + 1])
            dc = dc + dh * o * (1 - squashed**2)
            parts = (dc * g * i * (1 - i), dh * squashed * o * (1 - o), dc * cs[t] * u * (1 - u), dc * i * (1 - g**2))
            da = np.concatenate(parts, axis=1)
            dx[t], dw = multiply(da, w), dw + multiply(da.T, x[t])
            dr, db = dr + multiply(da.T, hs[t + previous]), db + da.sum(0)
            dh, dc = to(multiply(da, r)), to(dc * u if forgotten else dc)
        rows = np.concatenate([np.arange(k * size, (k + 1) * size) for k in order])
        second = np.zeros_like(db) if first_bias_only else db
        return {"x": dx, "w": dw[None, rows], "r": dr[None, rows], "b": np.concatenate((db[rows], second[rows]))[None]}

    return kernel


def gru(*, through_gate: bool = True, through_reset: bool = True, to: Callable[[Any], Any] = _identity) -> Kernel:
    """With the reset gate after the product: ``c = tanh(Wh x + bw + r (Rh h + br))``, ``h' = (1 - z) c + z h``.

    Args:
        through_gate: Whether the gradient goes through ``z``.
        through_reset: Whether it goes through ``r``.
        to: What the carried gradient is rounded by.
    """

    def kernel(v: Mapping[str, Any]) -> Mapping[str, Any]:
        x, w, r = v["x"], v["w"][0], v["r"][0]
        wb, rb = np.split(v["b"][0], 2)
        hs, kept = [np.zeros((x.shape[1], v["r"].shape[-1]), x.dtype)], []
        for xt in x:
            (xz, xr, xc), (hz, hr, hc) = (np.split(a, 3, axis=1) for a in (xt @ w.T + wb, hs[-1] @ r.T + rb))
            z, reset = special.expit(xz + hz), special.expit(xr + hr)
            c = np.tanh(xc + reset * hc)
            kept.append((z, reset, c, hc))
            hs.append((1 - z) * c + z * hs[-1])
        dx, dw, dr = np.zeros_like(x), np.zeros_like(w), np.zeros_like(r)
        dwb, drb = np.zeros_like(wb), np.zeros_like(rb)
        dh = v["dy0_1"][0]
        for t in reversed(range(len(x))):
            z, reset, c, hc = kept[t]
            dh = dh + v["dy0"][t, 0]
            da = dh * (1 - z) * (1 - c**2)
            dz = dh * (hs[t] - c) * z * (1 - z) * (1 if through_gate else 0)
            dreset = da * hc * reset * (1 - reset) * (1 if through_reset else 0)
            left, right = np.concatenate((dz, dreset, da), 1), np.concatenate((dz, dreset, da * reset), 1)
            dx[t], dw, dwb = left @ w, dw + left.T @ x[t], dwb + left.sum(0)
            dr, drb = dr + right.T @ hs[t], drb + right.sum(0)
            dh = to(dh * z + right @ r)
        return {"x": dx, "w": dw[None], "r": dr[None], "b": np.concatenate((dwb, drb))[None]}

    return kernel
