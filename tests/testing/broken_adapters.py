"""Adapters that are wrong on purpose, each in its own way."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import ClassVar

import numpy as np

from deep_bench.errors import Unsupported, UnsupportedOperator
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


class _Exits(ReferenceExecutor):
    def __call__(self, inputs):
        raise SystemExit(3)


class _Misnames(ReferenceExecutor):
    def __call__(self, inputs):
        return {f"{name}_": array for name, array in super().__call__(inputs).items()}


class _KeepsLists(ReferenceExecutor):
    def __call__(self, inputs):
        return {name: memoryview(array) for name, array in super().__call__(inputs).items()}


class OnceWrong(ReferenceAdapter):
    """Wrong in the first call of each kind of network only, as with a race or memory that was not initialised."""

    name = "once wrong"
    seen: ClassVar[set[str]] = set()

    def prepare(self, network, *, mode="inference", outputs=None):
        executor = super().prepare(network, mode=mode, outputs=outputs)
        if network.name not in self.seen:
            self.seen.add(network.name)
            executor.__class__ = _Wrong
        return executor


class InFloat32Only(ReferenceAdapter):
    """A little wrong, and not to be had in float64."""

    name = "in float32 only"

    def prepare(self, network, *, mode="inference", outputs=None):
        if any(spec.dtype == np.float64 for spec in network.inputs):
            raise Unsupported("float64")
        executor = super().prepare(network, mode=mode, outputs=outputs)
        executor.__class__ = _Coarse
        return executor


class _Coarse(ReferenceExecutor):
    def __call__(self, inputs):
        return {name: array * np.asarray(1.001, array.dtype) for name, array in super().__call__(inputs).items()}


class Unmakeable(ReferenceAdapter):
    """Cannot be made."""

    def __init__(self) -> None:
        print("looking for the licence")
        raise RuntimeError("no licence")


_EXECUTORS = {
    "wrong": _Wrong,
    "dies": _Dies,
    "hangs": _Hangs,
    "raises": _Raises,
    "type": _LosesType,
    "exits": _Exits,
    "misnames": _Misnames,
    "no array": _KeepsLists,
}
FAULTS = {
    "test_ceil": "exits",
    "test_floor": "misnames",
    "test_neg": "no array",
    "test_abs": "wrong",
    "test_cos": "dies",
    "test_sin": "hangs",
    "test_tan": "refuses",
    "test_exp": "raises",
    "test_sqrt": "type",
}


class StartsOnce(ReferenceAdapter):
    """Dies in the second case, and cannot be made again while its mark is there."""

    name = "starts-once"

    def __init__(self) -> None:
        super().__init__()
        self._mark = Path(os.environ["DEEP_BENCH_TEST_MARK"])
        if self._mark.exists():
            raise RuntimeError("the device is gone")

    def prepare(self, network, *, mode="inference", outputs=None):
        if network.name == "test_acos":
            self._mark.touch()
            os.kill(os.getpid(), signal.SIGSEGV)
        return super().prepare(network, mode=mode, outputs=outputs)


class Reordered(ReferenceAdapter):
    """Names its inputs in another order than the graph."""

    name = "reordered"

    def prepare(self, network, *, mode="inference", outputs=None):
        executor = super().prepare(network, mode=mode, outputs=outputs)
        executor.inputs = tuple(reversed(executor.inputs))
        return executor


class Surrogate(ReferenceAdapter):
    """Raises an error whose text is no valid Unicode."""

    name = "surrogate"

    def prepare(self, network, *, mode="inference", outputs=None):
        raise ValueError("bad \ud800 text")


def no_adapter() -> None:
    """Not a class."""
