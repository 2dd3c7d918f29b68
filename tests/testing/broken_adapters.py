"""Adapters that are wrong on purpose, each in its own way."""

from __future__ import annotations

import os
import signal
import time

import numpy as np

from deep_bench.errors import UnsupportedOperator
from deep_bench.reference.network import ReferenceAdapter, ReferenceExecutor


class Broken(ReferenceAdapter):
    """Right, but for the cases whose network is named in ``faults``."""

    name = "broken"

    def prepare(self, network, *, mode="inference", outputs=None):
        fault = FAULTS.get(network.name)
        if fault == "refuses":
            raise UnsupportedOperator("n", "Tan", 28, "no code for it")
        executor = super().prepare(network, mode=mode, outputs=outputs)
        if fault is not None:
            executor.__class__ = _EXECUTORS[fault]
        return executor


class Listing(Broken):
    """Lists one of its faults, and a fault that it does not have."""

    known_failures = {"test_abs": "the sign is kept", "test_acos": "not so"}  # noqa: RUF012


class _Wrong(ReferenceExecutor):
    def __call__(self, inputs):
        return {name: array + 1 for name, array in super().__call__(inputs).items()}


class _Dies(ReferenceExecutor):
    def __call__(self, inputs):
        os.kill(os.getpid(), signal.SIGSEGV)
        return {}


class _Hangs(ReferenceExecutor):
    def __call__(self, inputs):
        time.sleep(600)
        return {}


class _Raises(ReferenceExecutor):
    def __call__(self, inputs):
        raise ValueError("no such kernel")


class _LosesType(ReferenceExecutor):
    def __call__(self, inputs):
        return {name: array.astype(np.float64) for name, array in super().__call__(inputs).items()}


_EXECUTORS = {"wrong": _Wrong, "dies": _Dies, "hangs": _Hangs, "raises": _Raises, "type": _LosesType}
FAULTS = {
    "test_abs": "wrong",
    "test_cos": "dies",
    "test_sin": "hangs",
    "test_tan": "refuses",
    "test_exp": "raises",
    "test_sqrt": "type",
}
