"""The systems of ``timeline_cost.py``: the same loops with a timeline and without."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np
from _side_by_side import TimedCall

import deep_bench as db

CALLS = 100
_LIMIT = 1_000_000
"""Few events are kept: the benchmark stamps more in a minute than a training run in a day."""


def empty_blocks() -> TimedCall:
    """Blocks of a ``with`` statement that do nothing."""

    def make() -> Callable[[], None]:
        nothing = nullcontext()

        def call() -> None:
            for _ in range(CALLS):
                with nothing:
                    pass

        return call

    return TimedCall(make)


def regions() -> TimedCall:
    """As many regions, asked for by name."""

    def make() -> Callable[[], None]:
        t = db.timeline(limit=_LIMIT)

        def call() -> None:
            for _ in range(CALLS):
                with t.region("forward"):
                    pass

        return call

    return TimedCall(make)


def kept_regions() -> TimedCall:
    """As many regions, by an object that was kept."""

    def make() -> Callable[[], None]:
        forward = db.timeline(limit=_LIMIT).region("forward")

        def call() -> None:
            for _ in range(CALLS):
                with forward:
                    pass

        return call

    return TimedCall(make)


def plain_iteration() -> TimedCall:
    """Iterating a list of batches."""
    return TimedCall(lambda: lambda: _iterate(_batches()))


def watched_iteration() -> TimedCall:
    """Iterating it with an epoch, steps, waiting, samples and memory."""

    def make() -> Callable[[], None]:
        loop = db.timeline(limit=_LIMIT).over(_batches())
        return lambda: _iterate(loop)

    return TimedCall(make)


def plain_training() -> TimedCall:
    """Ten steps of a perceptron in NumPy."""
    return TimedCall(lambda: _training(None))


def watched_training() -> TimedCall:
    """The same with a timeline of four regions a step."""
    return TimedCall(lambda: _training(db.timeline(limit=_LIMIT)))


def _batches(n: int = CALLS, size: int = 1) -> list[np.ndarray]:
    return [np.ones((size, 256), np.float32)] * n


def _iterate(batches: Any) -> None:
    for _ in batches:
        pass


def _training(t: Any) -> Callable[[], None]:
    """The loop; its arrays are made before, since where new ones lie differs more than what a timeline costs."""
    batches = _batches(10, 256)
    weights, gradient = np.eye(256, dtype=np.float32), np.empty((256, 256), np.float32)
    y, slope = (np.empty((256, 256), np.float32) for _ in range(2))
    nothing = nullcontext()

    def call() -> None:
        for x in batches if t is None else t.over(batches):
            with nothing if t is None else t.region("forward"):
                np.tanh(np.matmul(x, weights, out=y), out=y)
            with nothing if t is None else t.region("backward"):
                np.multiply(y, y, out=slope)
                np.matmul(x.T, slope, out=gradient)
            with nothing if t is None else t.region("update"):
                np.multiply(gradient, 1e-3, out=gradient)
                np.subtract(weights, gradient, out=weights)

    return call
