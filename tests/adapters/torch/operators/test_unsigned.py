"""Unsigned integers of 64 bits, whose larger half is negative for torch."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

T = onnx.TensorProto
U64 = np.uint64
VALUES = np.array([0, 1, 2, 3, 7, 2**31, 2**32 + 5, 2**63 - 1, 2**63, 2**63 + 1, 2**64 - 2, 2**64 - 1], U64)
ROWS, COLUMNS = VALUES[:, None], VALUES[None, :]


@pytest.mark.parametrize("operator", ["Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Equal"])
def test_comparisons(operator: str, agrees) -> None:
    agrees(operator, ROWS, COLUMNS, outputs=[T.BOOL])


@pytest.mark.parametrize("operator", ["Max", "Min", "Add", "Sub", "Mul", "BitwiseXor"])
def test_pairs(operator: str, agrees) -> None:
    agrees(operator, ROWS, COLUMNS, outputs=[T.UINT64])


def test_quotients(agrees) -> None:
    agrees("Div", ROWS, COLUMNS[:, 1:], outputs=[T.UINT64])


@pytest.mark.parametrize("fmod", [0, 1])
def test_remainders(fmod: int, agrees) -> None:
    agrees("Mod", ROWS, COLUMNS[:, 1:], outputs=[T.UINT64], fmod=fmod)


@pytest.mark.parametrize("direction", ["LEFT", "RIGHT"])
def test_shifts(direction: str, agrees) -> None:
    agrees("BitShift", ROWS, np.array([[0, 1, 5, 31, 32, 62, 63]], U64), outputs=[T.UINT64], direction=direction)


def test_powers(agrees) -> None:
    agrees("Pow", np.array([0.5, 1.0, -2.0], np.float32), np.array([3, 2**64 - 1, 63], U64), outputs=[T.FLOAT], rtol=1e-6)


@pytest.mark.parametrize("largest", [0, 1])
def test_the_first(largest: int, agrees) -> None:
    shuffled = np.random.default_rng(0).permutation(VALUES)
    agrees("TopK", shuffled, np.array([5]), outputs=[T.UINT64, T.INT64], largest=largest)


@pytest.mark.parametrize("operator", ["ReduceMax", "ReduceMin", "ReduceSum"])
def test_reductions(operator: str, agrees) -> None:
    agrees(operator, VALUES.reshape(3, 4), np.array([-1]), outputs=[T.UINT64])


@pytest.mark.parametrize("operator", ["ArgMax", "ArgMin"])
def test_positions(operator: str, agrees) -> None:
    agrees(operator, VALUES[::-1].reshape(3, 4).copy(), outputs=[T.INT64], axis=1)


def test_limits(agrees) -> None:
    agrees("Clip", VALUES, np.array(2, U64), np.array(2**63 + 1, U64), outputs=[T.UINT64])


def test_distinct_values(agrees) -> None:
    agrees("Unique", VALUES[[9, 1, 9, 11, 0]], outputs=[T.UINT64])


@pytest.mark.parametrize("reduction", ["max", "min", "add"])
def test_writing(reduction: str, agrees) -> None:
    x, index = VALUES.reshape(3, 4), np.array([[0, 1, 2, 0]])
    agrees("ScatterElements", x, index, VALUES[None, 8:], outputs=[T.UINT64], reduction=reduction)
