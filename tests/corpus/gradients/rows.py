"""Backward passes of what works along rows: softmax, normalizations, reductions, attention."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from .problem import Kernel
from .products import Product, swapped


def softmax_of(x: Any, axis: int = -1) -> Any:
    """The softmax itself."""
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def softmax(axis: int, *, centred: bool = True, to: Callable[[Any], Any] = lambda y: y) -> Kernel:
    """``y (dy - sum of (y dy))``; what is kept of the forward pass may be rounded."""

    def kernel(v: Mapping[str, Any]) -> Mapping[str, Any]:
        y, dy = to(softmax_of(v["x"], axis)), v["dy0"]
        return {"x": y * (dy - ((y * dy).sum(axis, keepdims=True) if centred else 0))}

    return kernel


def softmax_late(axis: int) -> Kernel:
    """The same as ``y dy - y sum of (y dy)``."""

    def kernel(v: Mapping[str, Any]) -> Mapping[str, Any]:
        y = softmax_of(v["x"], axis)
        along = y * v["dy0"]
        return {"x": along - y * along.sum(axis, keepdims=True)}

    return kernel


def log_softmax(axis: int, *, weights: bool = True) -> Kernel:
    """``dy - softmax sum of dy``."""

    def kernel(v: Mapping[str, Any]) -> Mapping[str, Any]:
        y, dy = softmax_of(v["x"], axis), v["dy0"]
        total = dy.sum(axis, keepdims=True)
        return {"x": dy - (y * total if weights else total / y.dtype.type(y.shape[axis]))}

    return kernel


def cross_entropy(*, mean: bool = True, target: int = 1, to: Callable[[Any], Any] = lambda y: y) -> Kernel:
    """``(softmax - one at the target) / N``."""

    def kernel(v: Mapping[str, Any]) -> Mapping[str, Any]:
        x, t = v["x"], v["t"]
        hot = np.zeros_like(x)
        hot[np.arange(len(t)), t] = target
        return {"x": (to(softmax_of(x)) - hot) * v["dy0"] / x.dtype.type(len(t) if mean else 1)}

    return kernel


def layer_norm(
    *,
    epsilon: float = 1e-3,
    mean_term: bool = True,
    slope_term: bool = True,
    over: int = 0,
    summed: int | None = None,
    to: Callable[[Any], Any] = lambda y: y,
    total: Callable[[Any], Any] = lambda g: g.reshape(-1, g.shape[-1]).sum(0),
) -> Kernel:
    """``dx = (g - mean of g - x' mean of (g x')) / root`` with ``g = dy s``.

    Args:
        epsilon: Of the variance.
        mean_term: Whether the mean of ``g`` is taken off.
        slope_term: Whether the part along ``x'`` is taken off.
        over: Taken from the count of elements that the means divide by.
        summed: The axis that the gradients of scale and bias are summed over, if only one.
        to: What the statistics are rounded by.
        total: The sum over all rows.
    """

    def kernel(v: Mapping[str, Any]) -> Mapping[str, Any]:
        x, s, dy = v["x"], v["s"], v["dy0"]
        one = x.dtype.type
        n = one(x.shape[-1] - over)
        mean = to(x.mean(-1, keepdims=True))
        root = to(1 / np.sqrt(((x - mean) ** 2).mean(-1, keepdims=True) + one(epsilon)))
        normal, g = (x - mean) * root, dy * s
        dx = g
        if mean_term:
            dx = dx - g.sum(-1, keepdims=True) / n
        if slope_term:
            dx = dx - normal * ((g * normal).sum(-1, keepdims=True) / n)
        return {"x": dx * root, "s": total(dy * normal), "b": total(dy)}

    return kernel


def rms_norm(*, slope_term: bool = True, epsilon: float = 1e-3) -> Kernel:
    """As for layer normalization, without means."""

    def kernel(v: Mapping[str, Any]) -> Mapping[str, Any]:
        x, s, dy = v["x"], v["s"], v["dy0"]
        root = 1 / np.sqrt((x**2).mean(-1, keepdims=True) + x.dtype.type(epsilon))
        normal, g = x * root, dy * s
        dx = g - normal * (g * normal).mean(-1, keepdims=True) if slope_term else g
        return {"x": dx * root, "s": (dy * normal).reshape(-1, x.shape[-1]).sum(0)}

    return kernel


def batch_norm(*, epsilon: float = 1e-3, centred: bool = True, axes: tuple[int, ...] = (0, 2, 3)) -> Kernel:
    """With given statistics: ``dx = s dy / root``, ``ds = sum of (dy x')``, ``do = sum of dy``."""

    def kernel(v: Mapping[str, Any]) -> Mapping[str, Any]:
        each = (-1, 1, 1)
        root = (1 / np.sqrt(v["v"] + v["x"].dtype.type(epsilon))).reshape(each)
        normal = (v["x"] - (v["m"].reshape(each) if centred else 0)) * root
        dy = v["dy0"]
        scale = v["s"].reshape(each) * root
        return {"x": dy * scale, "s": (dy * normal).sum(axes), "o": dy.sum(axes)}

    return kernel


def attention(
    multiply: Product = np.matmul,
    *,
    scale: float = 0.25,
    causal: bool = False,
    shared: int = 1,
    delta_term: bool = True,
    scale_keys: bool = True,
    group_sum: bool = True,
    mask_offset: int = 0,
    to: Callable[[Any], Any] = lambda y: y,
) -> Kernel:
    """``dV = P' dY``, ``dS = P (dP - sum of (dP P))``, ``dQ = scale dS K``, ``dK = scale dS' Q``.

    Args:
        multiply: The product of matrices.
        scale: Of the scores.
        causal: Whether queries attend to keys up to their own only.
        shared: How many heads of queries share one of keys.
        delta_term: Whether the sum is taken off.
        scale_keys: Whether the gradient of the keys is scaled.
        group_sum: Whether the gradients of shared keys are summed, or only the first one's.
        mask_offset: How far the diagonal of the mask is off in this pass.
        to: What the weights are rounded by.
    """

    def kernel(v: Mapping[str, Any]) -> Mapping[str, Any]:
        q, dy = v["q"], v["dy0"]
        k, values = (np.repeat(v[name], shared, axis=1) for name in ("k", "v"))
        one = q.dtype.type
        scores = multiply(q, swapped(k)) * one(scale)
        if causal:
            rows, columns = np.arange(scores.shape[-2])[:, None], np.arange(scores.shape[-1])
            scores = np.where(columns <= rows + mask_offset, scores, -np.inf).astype(q.dtype)
        p = to(softmax_of(scores))
        dp = multiply(dy, swapped(values))
        ds = p * (dp - ((dp * p).sum(-1, keepdims=True) if delta_term else 0))
        dq = multiply(ds, k) * one(scale)
        dk = multiply(swapped(ds), q) * one(scale if scale_keys else 1)
        dv = multiply(swapped(p), dy)
        return {"q": dq, "k": _shared(dk, shared, group_sum), "v": _shared(dv, shared, group_sum)}

    return kernel


def _shared(x: Any, count: int, summed: bool) -> Any:
    grouped = x.reshape(x.shape[0], x.shape[1] // count, count, *x.shape[2:])
    return grouped.sum(2) if summed else grouped[:, :, 0]


def attention_by_output(v: Mapping[str, Any]) -> Mapping[str, Any]:
    """With the sum of ``dP P`` taken as that of ``dY Y``, as FlashAttention does, and keys in tiles."""
    q, k, values, dy = v["q"], v["k"], v["v"], v["dy0"]
    scale = q.dtype.type(1 / math.sqrt(q.shape[-1]))
    scores = np.matmul(q, swapped(k)) * scale
    log_total = scores.max(-1, keepdims=True)
    log_total = log_total + np.log(np.exp(scores - log_total).sum(-1, keepdims=True))
    delta = (dy * np.matmul(softmax_of(scores), values)).sum(-1, keepdims=True)
    dq, dk, dv = np.zeros_like(q), [], []
    for tile in np.array_split(np.arange(k.shape[-2]), 4):
        kt, vt = k[..., tile, :], values[..., tile, :]
        p = np.exp(np.matmul(q, swapped(kt)) * scale - log_total)
        ds = p * (np.matmul(dy, swapped(vt)) - delta) * scale
        dv.append(np.matmul(swapped(p), dy))
        dk.append(np.matmul(swapped(ds), q))
        dq = dq + np.matmul(ds, kt)
    return {"q": dq, "k": np.concatenate(dk, axis=-2), "v": np.concatenate(dv, axis=-2)}


def reduced(slope: Callable[[Any], Any]) -> Kernel:
    """A reduction over the axes that ``dy0`` has once: ``dy`` times a slope."""
    return lambda v: {"x": v["dy0"] * slope(v["x"])}
