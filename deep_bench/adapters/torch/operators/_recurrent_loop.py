"""Recurrent layers written out step by step, for what torch's fused ones cannot do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from deep_bench.adapters.lowering import NotNative, Site
from deep_bench.adapters.torch.operators._site import Tensor

Weights = tuple[Tensor, Tensor, Tensor | None, Tensor | None]
Activation = Callable[[Tensor], Tensor]
Cell = Callable[[Tensor, Weights, Sequence[Tensor]], list[Tensor]]
"""The next states of one time step, from the step's input times W plus bias, the weights and the states."""

_PLAIN: dict[str, Callable[[Tensor], Tensor]] = {
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "relu": torch.relu,
    "softsign": torch.nn.functional.softsign,
    "softplus": torch.nn.functional.softplus,
}
_SHAPED: dict[str, tuple[float, float, Callable[[Tensor, float, float], Tensor]]] = {
    "affine": (1.0, 0.0, lambda x, a, b: a * x + b),
    "leakyrelu": (0.01, 0.0, lambda x, a, _: torch.where(x < 0, a * x, x)),
    "thresholdedrelu": (1.0, 0.0, lambda x, a, _: torch.where(x >= a, x, 0)),
    "scaledtanh": (1.0, 1.0, lambda x, a, b: a * torch.tanh(b * x)),
    "hardsigmoid": (0.2, 0.5, lambda x, a, b: torch.clamp(a * x + b, 0, 1)),
    "elu": (1.0, 0.0, lambda x, a, _: torch.nn.functional.elu(x, a)),
}
"""Name to the defaults of alpha and beta, and the function."""


_WITHOUT_BETA = ("leakyrelu", "thresholdedrelu", "elu")


def activations(site: Site, names: Sequence[str]) -> list[Activation]:
    """The activations; each takes its parameters from the front of the node's alphas and betas while they last.

    Args:
        site: The node.
        names: The activations of all directions, in lower case.
    """
    alphas, betas = list(site.attribute("activation_alpha", ())), list(site.attribute("activation_beta", ()))
    return [_activation(name, alphas, betas) for name in names]


def _activation(name: str, alphas: list[float], betas: list[float]) -> Activation:
    if name in _PLAIN:
        return _PLAIN[name]
    if name not in _SHAPED:
        raise NotNative(f"there is no activation {name!r}")
    alpha, beta, function = _SHAPED[name]
    a = alphas.pop(0) if alphas else alpha
    b = betas.pop(0) if betas and name not in _WITHOUT_BETA else beta
    return lambda x: function(x, a, b)


def _clipped(site: Site) -> Callable[[Tensor], Tensor]:
    limit = site.attribute("clip")
    return (lambda x: x) if limit is None else (lambda x: torch.clamp(x, -limit, limit))


def lstm_cell(site: Site, functions: Sequence[Activation]) -> Cell:
    """``c' = f c + i g(...)``, ``h' = o h(c')``, with peepholes, clipping and coupled gates."""
    f, g, h = functions
    clip, coupled = _clipped(site), bool(site.attribute("input_forget", 0))

    def cell(x: Tensor, weights: Weights, states: Sequence[Tensor]) -> list[Tensor]:
        _, r, b, p = weights
        hidden, memory = states
        gates = x + hidden @ r.t() + (0 if b is None else b[b.shape[0] // 2 :])
        i, o, forget, c = gates.chunk(4, -1)
        pi, po, pf = (0, 0, 0) if p is None else p.chunk(3, -1)
        i = f(clip(i + pi * memory))
        forget = 1 - i if coupled else f(clip(forget + pf * memory))
        memory = forget * memory + i * g(clip(c))
        return [f(clip(o + po * memory)) * h(clip(memory)), memory]

    return cell


def gru_cell(site: Site, functions: Sequence[Activation]) -> Cell:
    """``h' = (1 - z) g(...) + z h``, with the reset gate before or after the recurrent product."""
    f, g = functions
    clip, linear_first = _clipped(site), bool(site.attribute("linear_before_reset", 0))

    def cell(x: Tensor, weights: Weights, states: Sequence[Tensor]) -> list[Tensor]:
        _, r, b, _ = weights
        (hidden,) = states
        rz, rr, rh = r.chunk(3, 0)
        bz, br, bh = (0, 0, 0) if b is None else b[b.shape[0] // 2 :].chunk(3, 0)
        xz, xr, xh = x.chunk(3, -1)
        z = f(clip(xz + hidden @ rz.t() + bz))
        reset = f(clip(xr + hidden @ rr.t() + br))
        if linear_first:
            candidate = g(clip(xh + reset * (hidden @ rh.t() + bh)))
        else:
            candidate = g(clip(xh + (reset * hidden) @ rh.t() + bh))
        return [(1 - z) * candidate + z * hidden]

    return cell


def rnn_cell(site: Site, functions: Sequence[Activation]) -> Cell:
    """``h' = f(W x + R h + b)``."""
    (f,), clip = functions, _clipped(site)

    def cell(x: Tensor, weights: Weights, states: Sequence[Tensor]) -> list[Tensor]:
        _, r, b, _ = weights
        return [f(clip(x + states[0] @ r.t() + (0 if b is None else b[b.shape[0] // 2 :])))]

    return cell


def loop(
    cell: Cell, x: Tensor, weights: Weights, states: Sequence[Tensor], lengths: Tensor | None, backward: bool
) -> tuple[Tensor, list[Tensor]]:
    """One direction of a layer.

    Args:
        cell: The next states of one step.
        x: Inputs ``[time, batch, features]``.
        weights: W, R, the biases of both, and peepholes.
        states: The initial states ``[batch, hidden]``.
        lengths: The length of each sequence; results beyond it are zero, and states stay as they are.
        backward: Whether to go from the last step to the first.

    Returns:
        The hidden state of each step ``[time, batch, hidden]``, and the last states.
    """
    w, _, b, _ = weights
    projected = x @ w.t() + (0 if b is None else b[: b.shape[0] // 2])
    steps = range(x.shape[0])
    by_step: dict[int, Any] = {}
    current = list(states)
    for t in reversed(steps) if backward else steps:
        following = cell(projected[t], weights, current)
        if lengths is None:
            current, by_step[t] = following, following[0]
        else:
            inside = (t < lengths)[:, None]
            current = [torch.where(inside, new, old) for new, old in zip(following, current, strict=True)]
            by_step[t] = torch.where(inside, following[0], 0)
    empty = torch.zeros((0, *states[0].shape), dtype=x.dtype, device=x.device)
    return (torch.stack([by_step[t] for t in steps]) if by_step else empty), current
