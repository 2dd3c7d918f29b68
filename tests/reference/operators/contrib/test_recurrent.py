"""An LSTM on quantized weights."""

from __future__ import annotations

import numpy as np
import pytest

RNG = np.random.default_rng(7)
TIME, BATCH, INPUTS, HIDDEN = 5, 3, 4, 6


def random(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def inputs(directions, dtype, columns, *, bias=False, lengths=None, states=False, peepholes=False, batch=BATCH):
    limits = np.iinfo(dtype)
    shape = (directions, 4 * HIDDEN) if columns else (directions,)
    zero_point = np.full(shape, 120).astype(dtype) if dtype == np.uint8 else np.zeros(shape, dtype)
    w, r = (RNG.integers(limits.min, limits.max + 1, (directions, n, 4 * HIDDEN)).astype(dtype) for n in (INPUTS, HIDDEN))
    scales = [(RNG.random(shape) * 0.01 + 0.003).astype(np.float32) for _ in range(2)]
    initial = [random(directions, batch, HIDDEN) if states else None for _ in range(2)]
    return [
        random(TIME, batch, INPUTS),
        w,
        r,
        random(directions, 8 * HIDDEN) if bias else None,
        None if lengths is None else np.array(lengths, np.int32),
        *initial,
        random(directions, 3 * HIDDEN) if peepholes else None,
        scales[0],
        zero_point,
        scales[1],
        zero_point,
    ]


@pytest.fixture
def lstm(judge):
    def compare(given, **attributes):
        # The runtime wants zero points of each column to be known when it loads the network.
        judge("DynamicQuantizeLSTM", given, n_outputs=3, hidden_size=HIDDEN, frozen=(1, 2, 8, 9, 10, 11), **attributes)

    return compare


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
@pytest.mark.parametrize("columns", [False, True])
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
def test_directions_and_weights(lstm, dtype, columns, direction) -> None:
    lstm(inputs(1 + (direction == "bidirectional"), dtype, columns), direction=direction)


@pytest.mark.parametrize(
    "options",
    [
        {"bias": True},
        {"states": True},
        {"peepholes": True},
        {"bias": True, "states": True, "peepholes": True},
        {"lengths": (3, 3, 3)},
        {"lengths": (5, 5, 5), "states": True},
        {"batch": 1, "bias": True},
    ],
)
@pytest.mark.parametrize("direction", ["forward", "bidirectional"])
def test_optional_inputs(lstm, options, direction) -> None:
    lstm(inputs(1 + (direction == "bidirectional"), np.int8, False, **options), direction=direction)


@pytest.mark.parametrize(
    "attributes",
    [
        {"input_forget": 1},
        {"clip": 2.0},
        {"activations": ["HardSigmoid", "Relu", "Tanh"], "activation_alpha": [0.3], "activation_beta": [0.4]},
        {"activations": ["Sigmoid", "Softsign", "Affine"], "activation_alpha": [0.3], "activation_beta": [0.4]},
    ],
)
def test_attributes(lstm, attributes) -> None:
    lstm(inputs(1, np.int8, False, bias=True), **attributes)


def test_sequences_of_different_lengths(judge) -> None:
    # What sequences that have ended do to the range of the outputs is not defined: quantization may differ by that.
    given = inputs(1, np.int8, False, bias=True, lengths=(5, 2, 3))
    judge("DynamicQuantizeLSTM", given, n_outputs=3, hidden_size=HIDDEN, atol=0.02)
