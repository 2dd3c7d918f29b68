"""Recurrent layers: all directions, layouts, activations, clipping, sequences of different lengths and initial states.

No sequence is empty: what its last state is, and the state before it, is left open. Activations that have parameters but
no defaults in the standard are always given theirs; none is equal to the limit of ``clip``, for whether ThresholdedRelu is 0
at its threshold is said in two ways.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from deep_bench.testing.generated.problem import Draw, GeneratedProblem, dtypes

# Name to the number of parameters alpha and beta.
FUNCTIONS = {
    "Tanh": (0, 0),
    "Sigmoid": (0, 0),
    "Relu": (0, 0),
    "Softsign": (0, 0),
    "Softplus": (0, 0),
    "Elu": (1, 0),
    "LeakyRelu": (1, 0),
    "ThresholdedRelu": (1, 0),
    "HardSigmoid": (1, 1),
    "ScaledTanh": (1, 1),
    "Affine": (1, 1),
}


@dataclass(frozen=True)
class RecurrentLayer:
    """The sizes of a layer, and the shapes that follow from them."""

    time: int
    batch: int
    features: int
    hidden: int
    direction: str
    layout: int

    @property
    def directions(self) -> int:
        """1 or 2."""
        return 2 if self.direction == "bidirectional" else 1

    @property
    def state(self) -> tuple[int, ...]:
        """The shape of a state."""
        shape = (self.batch, self.directions) if self.layout else (self.directions, self.batch)
        return (*shape, self.hidden)

    @property
    def x(self) -> tuple[int, ...]:
        """The shape of the sequences."""
        shape = (self.batch, self.time) if self.layout else (self.time, self.batch)
        return (*shape, self.features)


def _layer(draw: Draw) -> RecurrentLayer:
    direction = draw.pick(("forward", "reverse", "bidirectional"))
    time, batch, features, hidden = (draw.integer(1, high) for high in (4, 3, 3, 3))
    return RecurrentLayer(time, batch, features, hidden, direction, draw.pick((0, 0, 0, 1)))


def _inputs(draw: Draw, at: RecurrentLayer, dtype: np.dtype, gates: int) -> list[Any]:
    """The sequences, weights, bias, lengths and initial output."""
    lengths = np.array([draw.integer(1, at.time) for _ in range(at.batch)], np.int32)
    return [
        draw.moderate(at.x, dtype),
        draw.array((at.directions, gates * at.hidden, at.features), dtype, "normal"),
        draw.array((at.directions, gates * at.hidden, at.hidden), dtype, "normal"),
        draw.maybe(draw.moderate((at.directions, 2 * gates * at.hidden), dtype)),
        draw.maybe(lengths),
        draw.maybe(draw.moderate(at.state, dtype)),
    ]


def _attributes(draw: Draw, at: RecurrentLayer, functions: int) -> dict[str, Any]:
    names = draw.pick((None, [draw.pick(tuple(FUNCTIONS)) for _ in range(at.directions * functions)]))
    alphas, betas = (
        [draw.pick((0.375, 0.25, 0.75)) for name in names or () for _ in range(FUNCTIONS[name][which])] for which in (0, 1)
    )
    return {
        "activations": names,
        "activation_alpha": alphas or None,
        "activation_beta": betas or None,
        "clip": draw.maybe(draw.pick((0.5, 1.0))),
        "direction": at.direction if at.direction != "forward" else draw.maybe("forward"),
        "hidden_size": at.hidden,
        "layout": at.layout or draw.maybe(0),
    }


def RNN(draw: Draw) -> GeneratedProblem:
    """One function per direction; without ``activations`` there are two, as the default has it."""
    at, dtype = _layer(draw), draw.pick(dtypes("RNN"))
    return GeneratedProblem("RNN", _inputs(draw, at, dtype, 1), _attributes(draw, at, 1), outputs=draw.integer(1, 2))


def GRU(draw: Draw) -> GeneratedProblem:
    """Two functions per direction."""
    at, dtype = _layer(draw), draw.pick(dtypes("GRU"))
    attributes = _attributes(draw, at, 2) | {"linear_before_reset": draw.maybe(draw.boolean())}
    return GeneratedProblem("GRU", _inputs(draw, at, dtype, 3), attributes, outputs=draw.integer(1, 2))


def LSTM(draw: Draw) -> GeneratedProblem:
    """Three functions per direction, and peepholes."""
    at, dtype = _layer(draw), draw.pick(dtypes("LSTM"))
    extra = [
        draw.maybe(draw.moderate(at.state, dtype)),
        draw.maybe(draw.moderate((at.directions, 3 * at.hidden), dtype)),
    ]
    attributes = _attributes(draw, at, 3) | {"input_forget": draw.maybe(draw.boolean())}
    return GeneratedProblem("LSTM", _inputs(draw, at, dtype, 4) + extra, attributes, outputs=draw.integer(1, 3))


GENERATORS: dict[str, Callable[[Draw], GeneratedProblem]] = {"GRU": GRU, "LSTM": LSTM, "RNN": RNN}
