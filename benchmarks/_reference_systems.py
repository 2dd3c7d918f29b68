"""The systems that ``reference_speed.py`` compares."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from _side_by_side import TimedCall

import deep_bench as db


def ours(file: str, inputs: dict[str, np.ndarray], outputs: list[str]) -> TimedCall:
    """The reference executor of deep_bench."""
    del outputs

    def make() -> Callable[[], Any]:
        return db.frameworks["reference"]().prepare(db.load(file)).bind(inputs)

    return TimedCall(make)


def standard(file: str, inputs: dict[str, np.ndarray], outputs: list[str]) -> TimedCall:
    """``onnx.reference``."""

    def make() -> Callable[[], Any]:
        from onnx.reference import ReferenceEvaluator

        evaluator = ReferenceEvaluator(file)
        return lambda: evaluator.run(outputs, inputs)

    return TimedCall(make)
