"""Optimizers, as operators."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from deep_bench.facts.row import OperatorFacts
from deep_bench.facts.rules import ShapedCase


def _optimizer(tensors: int) -> Callable[[ShapedCase, int], str]:
    """Of so many tensors for each parameter the last one holds sums of squares; before them are learning rate and step."""

    def rule(case: ShapedCase, index: int) -> str:
        parameters = (len(case.arguments) - 2) // tensors
        return "positive" if index < 2 or index >= len(case.arguments) - parameters else "normal"

    return rule


def _tensors(*kinds: int) -> Callable[[int], Iterable[tuple[int, int]]]:
    """The results are like these of the kinds of tensors that are there for each parameter, after two scalars."""

    def rule(n_outputs: int) -> Iterable[tuple[int, int]]:
        count = n_outputs // len(kinds)
        return [(i, 2 + kinds[i // count] * count + i % count) for i in range(n_outputs)]

    return rule


OPERATORS: Mapping[str, OperatorFacts] = {
    "ai.onnx.preview.training::Adagrad": OperatorFacts(alike=_tensors(0, 2), draws=_optimizer(3)),
    "ai.onnx.preview.training::Adam": OperatorFacts(alike=_tensors(0, 2, 3), draws=_optimizer(4)),
    "ai.onnx.preview.training::Momentum": OperatorFacts(alike=_tensors(0, 2), draws={"R": "positive", "T": "below:1000"}),
    "ai.onnx.preview.training::Gradient": OperatorFacts(),
}
"""The rows, by operator."""
