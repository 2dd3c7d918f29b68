"""Recurrent networks: torch's fused layers where they mean the same, else a loop over time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from deep_bench.adapters.lowering import NotNative, Site
from deep_bench.adapters.torch.arrays import to_tensor
from deep_bench.adapters.torch.module import Holding
from deep_bench.adapters.torch.operators._recurrent_loop import (
    Activation,
    Cell,
    activations,
    gru_cell,
    loop,
    lstm_cell,
    rnn_cell,
)
from deep_bench.adapters.torch.operators._site import Tensor, torch_type

__all__ = ["GRU", "LSTM", "RNN"]


@dataclass(frozen=True, slots=True)
class _Layer:
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


_LSTM = _Layer(4, (0, 2, 3, 1), ("sigmoid", "tanh", "tanh"), (5, 6))
_GRU = _Layer(3, (1, 0, 2), ("sigmoid", "tanh"), (5,))
_RNN = _Layer(1, (0,), ("tanh",), (5,))
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


def _activations(site: Site, layer: _Layer, directions: int) -> list[str]:
    return [a.lower() for a in site.attribute("activations", layer.default * directions)]


def _fused(site: Site, layer: _Layer, expected: tuple[str, ...] | None = None) -> bool:
    directions = 2 if site.attribute("direction", "forward") == "bidirectional" else 1
    usual = _activations(site, layer, directions) == list((expected or layer.default) * directions)
    lengths = site.constant(4)
    shape = None if site.inputs[0] is None else site.inputs[0].shape
    time = None if shape is None else shape[1 if site.attribute("layout", 0) else 0]
    whole = not site.has(4) or (lengths is not None and time is not None and bool((lengths == time).all()))
    return usual and whole and site.attribute("clip") is None


def _reorder(weights: Tensor, layer: _Layer, direction: int) -> Tensor:
    """The rows of one direction's weights in torch's order of gates."""
    parts = weights[direction].chunk(layer.gates, 0)
    return torch.cat([parts[i] for i in layer.order], 0) if layer.gates > 1 else parts[0]


def _weights(layer: _Layer, directions: int, w: Tensor, r: Tensor, b: Tensor | None) -> list[Tensor]:
    """torch's flat list of weights from ONNX's three tensors."""
    flat_weights = []
    for d in range(directions):
        flat_weights += [_reorder(w, layer, d), _reorder(r, layer, d)]
        if b is not None:
            halves = b.reshape(b.shape[0], 2, -1)
            flat_weights += [_reorder(halves[:, 0], layer, d), _reorder(halves[:, 1], layer, d)]
    return [t.contiguous() for t in flat_weights]


def _native(site: Site, layer: _Layer, function: Callable[..., Any]) -> Callable[..., Any]:
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
    site: Site, layer: _Layer, directions: int, run: Callable[[Sequence[Any], Sequence[Tensor]], Any]
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


def _looped(site: Site, layer: _Layer, cell: Callable[[Site, Sequence[Activation]], Cell]) -> Callable[..., Any]:
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
            columns.append(loop(cells[d], x, weights, initial, lengths, backward[d]))
        y = torch.stack([c[0] for c in columns], 1)
        last = [torch.stack([c[1][i] for c in columns]) for i in range(count)]
        if batch_first:
            results = (y.permute(2, 0, 1, 3), *(s.transpose(0, 1) for s in last))
        else:
            results = (y, *last)
        results = tuple(f.to(dtype) for f in results)
        return results[:outputs] if outputs > 1 else results[0]

    return run
