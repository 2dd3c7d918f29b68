"""Recurrent networks: torch's fused layers where they mean the same, else a loop over time, written out step by step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from deep_bench.adapters.lowering import NotNative, Site
from deep_bench.adapters.torch.arrays import to_tensor
from deep_bench.adapters.torch.module import Holding
from deep_bench.adapters.torch.operators._site import Tensor, torch_type

__all__ = ["GRU", "LSTM", "RNN"]

Weights = tuple[Tensor, Tensor, Tensor | None, Tensor | None]
Activation = Callable[[Tensor], Tensor]
StepFunction = Callable[[Tensor, Weights, Sequence[Tensor]], list[Tensor]]
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


def _clip(site: Site) -> Callable[[Tensor], Tensor]:
    limit = site.attribute("clip")
    return (lambda x: x) if limit is None else (lambda x: torch.clamp(x, -limit, limit))


def lstm_cell(site: Site, functions: Sequence[Activation]) -> StepFunction:
    """``c' = f c + i g(...)``, ``h' = o h(c')``, with peepholes, clipping and coupled gates."""
    f, g, h = functions
    clip, coupled = _clip(site), bool(site.attribute("input_forget", 0))

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


def gru_cell(site: Site, functions: Sequence[Activation]) -> StepFunction:
    """``h' = (1 - z) g(...) + z h``, with the reset gate before or after the recurrent product."""
    f, g = functions
    clip, linear_first = _clip(site), bool(site.attribute("linear_before_reset", 0))

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


def rnn_cell(site: Site, functions: Sequence[Activation]) -> StepFunction:
    """``h' = f(W x + R h + b)``."""
    (f,), clip = functions, _clip(site)

    def cell(x: Tensor, weights: Weights, states: Sequence[Tensor]) -> list[Tensor]:
        _, r, b, _ = weights
        return [f(clip(x + states[0] @ r.t() + (0 if b is None else b[b.shape[0] // 2 :])))]

    return cell


def time_loop(
    cell: StepFunction, x: Tensor, weights: Weights, states: Sequence[Tensor], lengths: Tensor | None, backward: bool
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


@dataclass(frozen=True, slots=True)
class _FusedLayer:
    """What the three operators have in common.

    Args:
        gates: Number of gates.
        order: torch's order of the gates, in terms of ONNX's.
        default: ONNX's default activations for one direction, in lower case.
        states: Positions of the initial states among the node's inputs.
    """

    gates: int
    order: tuple[int, ...]
    default: tuple[str, ...]
    states: tuple[int, ...]


_LSTM = _FusedLayer(4, (0, 2, 3, 1), ("sigmoid", "tanh", "tanh"), (5, 6))
_GRU = _FusedLayer(3, (1, 0, 2), ("sigmoid", "tanh"), (5,))
_RNN = _FusedLayer(1, (0,), ("tanh",), (5,))
_LENGTHS = 4
"""The position of the input that is no floating-point tensor."""


def LSTM(site: Site) -> Callable[..., Any]:
    """Long short-term memory."""
    plain = not site.has(7) and not site.attribute("input_forget", 0)
    if plain and _fused(site, _LSTM):
        return _native(site, _LSTM, torch.lstm)
    return _looped(site, _LSTM, lstm_cell)


def GRU(site: Site) -> Callable[..., Any]:
    """Gated recurrent units."""
    if site.attribute("linear_before_reset", 0) and _fused(site, _GRU):
        return _native(site, _GRU, torch.gru)
    return _looped(site, _GRU, gru_cell)


def RNN(site: Site) -> Callable[..., Any]:
    """A simple recurrent network."""
    directions = 2 if site.attribute("direction", "forward") == "bidirectional" else 1
    if _activations(site, _RNN, directions) == ["relu"] * directions and _fused(site, _RNN, ("relu",)):
        return _native(site, _RNN, torch.rnn_relu)
    if _fused(site, _RNN):
        return _native(site, _RNN, torch.rnn_tanh)
    return _looped(site, _RNN, rnn_cell)


def _activations(site: Site, layer: _FusedLayer, directions: int) -> list[str]:
    return [a.lower() for a in site.attribute("activations", layer.default * directions)]


def _fused(site: Site, layer: _FusedLayer, expected: tuple[str, ...] | None = None) -> bool:
    directions = 2 if site.attribute("direction", "forward") == "bidirectional" else 1
    usual = _activations(site, layer, directions) == list((expected or layer.default) * directions)
    lengths = site.constant(4)
    shape = None if site.inputs[0] is None else site.inputs[0].shape
    time = None if shape is None else shape[1 if site.attribute("layout", 0) else 0]
    whole = not site.has(4) or (lengths is not None and time is not None and bool((lengths == time).all()))
    return usual and whole and site.attribute("clip") is None


def _reorder(weights: Tensor, layer: _FusedLayer, direction: int) -> Tensor:
    """The rows of one direction's weights in torch's order of gates."""
    parts = weights[direction].chunk(layer.gates, 0)
    return torch.cat([parts[i] for i in layer.order], 0) if layer.gates > 1 else parts[0]


def _weights(layer: _FusedLayer, directions: int, w: Tensor, r: Tensor, b: Tensor | None) -> list[Tensor]:
    """torch's flat list of weights from ONNX's three tensors."""
    flat_weights = []
    for d in range(directions):
        flat_weights += [_reorder(w, layer, d), _reorder(r, layer, d)]
        if b is not None:
            halves = b.reshape(b.shape[0], 2, -1)
            flat_weights += [_reorder(halves[:, 0], layer, d), _reorder(halves[:, 1], layer, d)]
    return [t.contiguous() for t in flat_weights]


def _native(site: Site, layer: _FusedLayer, function: Callable[..., Any]) -> Callable[..., Any]:
    direction = site.attribute("direction", "forward")
    directions, backward = (2 if direction == "bidirectional" else 1), direction == "reverse"
    batch_first, biased = bool(site.attribute("layout", 0)), site.has(3)
    hidden, outputs, states = _hidden(site), len(site.outputs), layer.states

    def run(inputs: Sequence[Any], weights: Sequence[Tensor]) -> Any:
        x = inputs[0].transpose(0, 1) if batch_first else inputs[0]
        x = x.flip(0) if backward else x
        initial = []
        for position in states:
            state = inputs[position] if position < len(inputs) else None
            if state is None:
                initial.append(torch.zeros((directions, x.shape[1], hidden), dtype=x.dtype, device=x.device))
            else:
                initial.append(state.transpose(0, 1).contiguous() if batch_first else state)
        start = initial if len(initial) > 1 else initial[0]
        y, *last = function(x, start, weights, biased, 1, 0.0, False, directions == 2, False)
        y = y.flip(0) if backward else y
        y = y.reshape(*y.shape[:2], directions, hidden)
        if batch_first:
            results = (y.transpose(0, 1), *(s.transpose(0, 1) for s in last))
        else:
            results = (y.transpose(1, 2), *last)
        return results[:outputs] if outputs > 1 else results[0]

    return _with_weights(site, layer, directions, run)


def _with_weights(
    site: Site, layer: _FusedLayer, directions: int, run: Callable[[Sequence[Any], Sequence[Tensor]], Any]
) -> Callable[..., Any]:
    """Known weights are put in torch's order once; others in each call."""
    constants = [site.constant(i) if site.has(i) else None for i in (1, 2, 3)]
    if any(c is None and site.has(i) for i, c in zip((1, 2, 3), constants, strict=True)):

        def ordered(*inputs: Any) -> Any:
            return run(inputs, _weights(layer, directions, inputs[1], inputs[2], inputs[3] if len(inputs) > 3 else None))

        return ordered
    kind = torch_type(site)
    w, r, b = (None if c is None else to_tensor(c).to(kind) for c in constants)
    assert w is not None
    assert r is not None
    count = len(site.inputs)
    return Holding(lambda *arguments: run(arguments[:count], arguments[count:]), *_weights(layer, directions, w, r, b))


def _hidden(site: Site) -> int:
    declared = site.attribute("hidden_size")
    if declared:
        return int(declared)
    shape = None if site.inputs[2] is None else site.inputs[2].shape
    if shape is None or shape[-1] is None:
        raise NotNative("the number of hidden units is not known before it runs")
    return shape[-1]


def _looped(
    site: Site, layer: _FusedLayer, cell: Callable[[Site, Sequence[Activation]], StepFunction]
) -> Callable[..., Any]:
    direction = site.attribute("direction", "forward")
    directions = 2 if direction == "bidirectional" else 1
    functions = activations(site, _activations(site, layer, directions))
    each = len(functions) // directions
    cells = [cell(site, functions[d * each : (d + 1) * each]) for d in range(directions)]
    backward = [d == 1 or direction == "reverse" for d in range(directions)]
    batch_first, hidden, outputs = bool(site.attribute("layout", 0)), _hidden(site), len(site.outputs)
    count, dtype = len(layer.states), torch_type(site)
    wide = dtype if dtype.itemsize >= 4 else torch.float32  # a state in half precision would be rounded in every step

    def run(*inputs: Any) -> Any:
        padded: list[Any] = [*inputs, *[None] * (8 - len(inputs))]
        padded = [a if a is None or i == _LENGTHS else a.to(wide) for i, a in enumerate(padded)]
        x, w, r, b, lengths = padded[:5]
        tail = padded[5:]
        x = x.transpose(0, 1) if batch_first else x
        columns = []
        for d in range(directions):
            initial = []
            for position in range(count):
                state = tail[position]
                if state is None:
                    initial.append(torch.zeros((x.shape[1], hidden), dtype=x.dtype, device=x.device))
                else:
                    initial.append(state[:, d] if batch_first else state[d])
            peepholes = tail[2] if count == 2 else None
            weights = (w[d], r[d], None if b is None else b[d], None if peepholes is None else peepholes[d])
            columns.append(time_loop(cells[d], x, weights, initial, lengths, backward[d]))
        y = torch.stack([c[0] for c in columns], 1)
        last = [torch.stack([c[1][i] for c in columns]) for i in range(count)]
        if batch_first:
            results = (y.permute(2, 0, 1, 3), *(s.transpose(0, 1) for s in last))
        else:
            results = (y, *last)
        results = tuple(f.to(dtype) for f in results)
        return results[:outputs] if outputs > 1 else results[0]

    return run
