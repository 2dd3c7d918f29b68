"""Kernels for the tests, right ones and wrong ones; the command line names some by this file."""

from __future__ import annotations

import os
import time
from typing import Any

import numpy as np

import deep_bench as db
from deep_bench.errors import Unsupported


class Doubled(db.Operator):
    """Adds; right, with a gradient."""

    computes = "Add"

    def forward(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return a + b

    def backward(self, grads: Any, inputs: Any, outputs: Any) -> tuple[np.ndarray, np.ndarray]:
        return grads[0], grads[0]


class Product(db.Operator):
    """Multiplies; its gradient is off by one hundredth."""

    computes = "Mul"

    def forward(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return a * b

    def backward(self, grads: Any, inputs: Any, outputs: Any) -> tuple[np.ndarray, np.ndarray]:
        return 1.01 * grads[0] * inputs[1], grads[0] * inputs[0]


class Off(Doubled):
    """Wrong by a thousandth."""

    def forward(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return (a + b) * np.float32(1.001)


class Forgetful(Doubled):
    """Right, until it has been called often: then it gives a kept answer."""

    def __init__(self) -> None:
        self.kept: np.ndarray | None = None
        self.calls = 0

    def forward(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        self.calls += 1
        if self.calls == 30:
            self.kept = a + b
        return self.kept if self.kept is not None and self.kept.shape == a.shape else a + b


class Misbehaving(Doubled):
    """Does something else for each size."""

    def forward(self, a: np.ndarray, b: np.ndarray) -> Any:
        if a.size == 1:
            raise ValueError("on purpose")
        if a.size == 2:
            return [a + b]
        if a.size == 3:
            return (a + b).astype(np.float64)
        if a.size == 4:
            os.abort()
        if a.size == 5:
            time.sleep(600)
        if a.size == 6:
            raise Unsupported("six elements")
        return a + b


class Tiring(Doubled):
    """Cannot be set up a second time."""

    setups = 0

    def setup(self, case: db.Case) -> None:
        type(self).setups += 1
        if self.setups > 1:
            raise RuntimeError("tired")


class Demanding(Doubled):
    """Cannot be made without arguments."""

    def __init__(self, factor: int) -> None:
        self.factor = factor


instance = Doubled()
number = 3


class InPlace(db.Operator):
    """Right, and on its own input."""

    computes = "Relu"

    def forward(self, x: np.ndarray) -> np.ndarray:
        return np.maximum(x, 0, out=x)


class LaterInPlace(InPlace):
    """Leaves its input alone for as long as it is judged."""

    calls = 0

    def forward(self, x: np.ndarray) -> np.ndarray:
        self.calls += 1
        return np.maximum(x, 0, out=x if self.calls > 20 else None)


class BackwardInPlace(Doubled):
    """Its backward overwrites an input of forward."""

    def backward(self, grads: Any, inputs: Any, outputs: Any) -> tuple[np.ndarray, np.ndarray]:
        inputs[0][...] = 0
        return grads[0], grads[0]


class Clockmaker(Doubled):
    """Right, and slows down the clock that it is timed by."""

    def forward(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        import sys

        for name, module in list(sys.modules.items()):
            if name.startswith("deep_bench.measure") and getattr(module, "perf_counter_ns", None) is time.perf_counter_ns:
                module.perf_counter_ns = lambda: time.perf_counter_ns() // 50
        return a + b


class OneTooMany(Doubled):
    """Returns a gradient too many."""

    def backward(self, grads: Any, inputs: Any, outputs: Any) -> Any:
        return grads[0], grads[0], grads[0]


class RaisesBackward(Doubled):
    """Raises in backward."""

    def backward(self, grads: Any, inputs: Any, outputs: Any) -> Any:
        raise ZeroDivisionError("on purpose")


class ForgetsToReturn(InPlace):
    """Returns nothing in backward."""

    def forward(self, x: np.ndarray) -> np.ndarray:
        return np.maximum(x, 0)

    def backward(self, grads: Any, inputs: Any, outputs: Any) -> Any:
        grads[0] * (inputs[0] > 0)


class InitRaises(Doubled):
    """Cannot be made here."""

    def __init__(self) -> None:
        raise OSError("no licence for it")


class Flattening(Doubled):
    """Gives a result of another shape."""

    def forward(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return (a + b).reshape(-1)

    def backward(self, grads: Any, inputs: Any, outputs: Any) -> tuple[np.ndarray, np.ndarray]:
        return grads[0] * np.ones_like(inputs[0]), grads[0]


class Zeroing(Doubled):
    """Its backward overwrites the gradient that it is given."""

    def backward(self, grads: Any, inputs: Any, outputs: Any) -> tuple[np.ndarray, np.ndarray]:
        found = grads[0].copy()
        grads[0][...] = 0
        return found, found
