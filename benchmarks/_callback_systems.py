"""The systems of ``callback_cost.py``: one network, watched in several ways and not at all."""

from __future__ import annotations

from typing import Any

import numpy as np
from _side_by_side import TimedCall

import deep_bench as db
from deep_bench.events import Moment

CALLS = (Moment.BEFORE_CALL, Moment.AFTER_CALL)


def ignore(moment: Moment, index: int, time_ns: int, data: Any) -> None:
    """A callback that does nothing."""


def unwatched(framework: str) -> TimedCall:
    """An executor that was never watched."""
    return TimedCall(lambda: _bound(framework, lambda executor: executor))


def watched_before(framework: str) -> TimedCall:
    """An executor from which a watched one was made and used: it is not watched itself."""

    def kept(executor: Any) -> Any:
        adapter = executor.device
        executor.watch(ignore).forward({"image": adapter.from_numpy(_image())})
        return executor

    return TimedCall(lambda: _bound(framework, kept))


def calls_watched(framework: str) -> TimedCall:
    """An executor that tells a callback of each call."""
    return TimedCall(lambda: _bound(framework, lambda executor: executor.watch(ignore, CALLS)))


def nodes_watched(framework: str) -> TimedCall:
    """An executor that tells a callback of each call and node."""
    return TimedCall(lambda: _bound(framework, lambda executor: executor.watch(ignore)))


def _bound(framework: str, choose: Any) -> Any:
    adapter = db.frameworks[framework]() if framework == "reference" else db.frameworks[framework](threads=1)
    executor = choose(adapter.prepare(db.load("digits-cnn")))
    return executor.bind({"image": adapter.from_numpy(_image())})


def _image() -> np.ndarray:
    return np.random.default_rng(0).random((8, 1, 8, 8), np.float32)
