"""Recurrent networks: a cell, applied to one element of a sequence after the other.

A sequence counts at its full length, also where ``sequence_lens`` says that its end is padding.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod

from deep_bench.facts.row import OperatorFacts, Shape, Unknown, Work
from deep_bench.facts.rules import DrawRule, ShapedCase, named

_ACTIVATIONS = {
    "affine": Work(flops=2),
    "elu": Work(flops=1, special=1, comparisons=1),
    "hardsigmoid": Work(flops=2, comparisons=2),
    "leakyrelu": Work(flops=1, comparisons=1),
    "relu": Work(comparisons=1),
    "scaledtanh": Work(flops=2, special=1),
    "sigmoid": Work(flops=2, special=1),
    "softplus": Work(special=2),
    "softsign": Work(flops=2),
    "tanh": Work(special=1),
    "thresholdedrelu": Work(comparisons=1),
}
"""For each element; with parameters that are not 1."""


def _functions(names: Sequence[str] | None, defaults: Sequence[str], clip: float | None) -> list[Work]:
    """The work of the functions of one direction for each element; those of the other are taken to be the same."""
    chosen = [name.lower() for name in (names or defaults)][: len(defaults)]
    if any(name not in _ACTIVATIONS for name in chosen):
        raise Unknown
    return [_ACTIVATIONS[name] + Work(comparisons=2 * (clip is not None)) for name in chosen]


def _products(x: Shape, w: Shape, b: Shape | None, gates: int) -> tuple[Work, int]:
    """The products of all gates with the input and the state and their sum; and the states that are computed."""
    directions, hidden = w[0], w[1] // gates
    states = directions * x[0] * x[1] * hidden
    each = gates * (2 * w[2] + 2 * hidden + 1)
    return Work(flops=states * each), states


def RNN(
    x: Shape,
    w: Shape,
    r: Shape,
    b: Shape | None = None,
    *,
    activations: Sequence[str] | None = None,
    clip: float | None = None,
) -> Work:
    """``h' = f(W x + R h + Wb + Rb)``: two products; the biases are added up once. Source: ONNX RNN, opset 22."""
    (f,) = _functions(activations, ("Tanh",), clip)
    products, states = _products(x, w, b, 1)
    biases = Work() if b is None else Work(flops=states + prod(b) // 2)
    return products + biases + f * states


def GRU(
    x: Shape,
    w: Shape,
    r: Shape,
    b: Shape | None = None,
    *,
    activations: Sequence[str] | None = None,
    clip: float | None = None,
    linear_before_reset: int = 0,
) -> Work:
    """Six products; two gates and a candidate; a product with the reset gate, and 4 for ``(1 - z) * c + z * h``.

    The biases of the input and of the state are added apart, since the reset gate may lie between them.

    Source:
        ONNX GRU, opset 22; Cho et al., 2014.
    """
    f, g = _functions(activations, ("Sigmoid", "Tanh"), clip)
    products, states = _products(x, w, b, 3)
    biases = Work(flops=6 * states) if b is not None else Work()
    return products + biases + (f * 2 + g + Work(flops=5)) * states


def LSTM(
    x: Shape,
    w: Shape,
    r: Shape,
    b: Shape | None = None,
    sequence_lens: Shape | None = None,
    initial_h: Shape | None = None,
    initial_c: Shape | None = None,
    p: Shape | None = None,
    *,
    activations: Sequence[str] | None = None,
    clip: float | None = None,
    input_forget: int = 0,
) -> Work:
    """Eight products; three gates (or two, and a difference), a candidate, 3 for the cell, a function and a product.

    Peepholes add a product and a sum to each gate; the biases are added up once.

    Source:
        ONNX LSTM, opset 22; Hochreiter and Schmidhuber, 1997; Gers et al., 2002.
    """
    f, g, h = _functions(activations, ("Sigmoid", "Tanh", "Tanh"), clip)
    products, states = _products(x, w, b, 4)
    gates = 2 if input_forget else 3
    biases = Work() if b is None else Work(flops=4 * states + prod(b) // 2)
    peepholes = Work() if p is None else Work(flops=2 * gates)
    return products + biases + (f * gates + g + h + peepholes + Work(flops=4 + bool(input_forget))) * states


def _steps(case: ShapedCase) -> str:
    return f"lengths:{named(case, 'X').shape[1 if case.attributes.get('layout', 0) else 0]}"


def _by_fan_in(name: str) -> DrawRule:
    return lambda case: f"scaled:{named(case, name).shape[-1]}"


_DRAWS: Mapping[str, DrawRule] = {"W": _by_fan_in("W"), "R": _by_fan_in("R"), "sequence_lens": _steps}

_CELL = OperatorFacts(
    choices={"direction": "bidirectional forward reverse"},
    learnt=(1, 2, 3),
    roles={1: "recurrent", 2: "recurrent", 3: "recurrent", 5: "state"},
    allowance=1.0,
    draws=_DRAWS,
)


OPERATORS: Mapping[str, OperatorFacts] = {
    "GRU": replace(_CELL, cost=GRU),
    "LSTM": replace(_CELL, cost=LSTM, roles={**_CELL.roles, 6: "state", 7: "recurrent"}),
    "RNN": replace(_CELL, cost=RNN),
}
"""The rows, by operator."""
