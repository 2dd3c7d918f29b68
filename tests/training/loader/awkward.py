"""Sets that misbehave, importable from reading processes."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

import numpy as np

from deep_bench.errors import InvalidData
from deep_bench.tensor import TensorSpec


class Counted:
    """Row ``i`` is ``[i, i, i]``; says how many batches were begun."""

    specs = (TensorSpec("x", (3,), np.dtype("int64")),)

    def __init__(self, size: int = 40) -> None:
        self.size = size
        self.begun = 0
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, indices: np.ndarray) -> dict[str, np.ndarray]:
        with self._lock:
            self.begun += 1
        return {"x": np.repeat(indices[:, None], 3, axis=1)}


class Rows:
    """Row ``i`` is ``[i, i, i]``; may go wrong at one sample, in a chosen way."""

    specs = (TensorSpec("x", (3,), np.dtype("int64")),)

    def __init__(self, size: int = 40, *, bad: int | None = None, how: str = "raise") -> None:
        self.size, self.bad, self.how = size, bad, how

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, indices: np.ndarray) -> dict[str, np.ndarray]:
        if self.bad in indices.tolist():
            self._misbehave()
        rows = np.repeat(indices[:, None], 3, axis=1)
        return {"x": rows[:-1] if self.bad in indices.tolist() else rows}

    def _misbehave(self) -> None:
        if self.how == "raise":
            raise ZeroDivisionError("by sample")
        if self.how == "damaged":
            raise InvalidData(f"sample {self.bad} in x.bin is damaged", "whole files", "fetch x.bin again")
        if self.how == "die":
            os.kill(os.getpid(), signal.SIGKILL)


class Text:
    """Strings and numbers of sizes that vary."""

    specs = (TensorSpec("text", (), np.dtype(object)), TensorSpec("n", ("n",), np.dtype("float32")))

    def __len__(self) -> int:
        return 10

    def __getitem__(self, indices: np.ndarray) -> dict[str, np.ndarray]:
        text = np.empty(len(indices), object)
        text[:] = [b"x" * int(number) for number in indices]
        return {"text": text, "n": np.ones((len(indices), int(indices.max())), np.float32)}


class Waiting:
    """Says in a file that it was asked, and never answers."""

    specs = (TensorSpec("x", (), np.dtype("int64")),)

    def __init__(self, told: Path) -> None:
        self.told = told

    def __len__(self) -> int:
        return 10

    def __getitem__(self, indices: np.ndarray) -> dict[str, np.ndarray]:
        (self.told / str(os.getpid())).touch()
        signal.pause()
        raise AssertionError


class Unsendable(Rows):
    """Cannot be pickled."""

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("bound to this process")


class Unopenable(Rows):
    """Cannot be made again in another process."""

    def __reduce__(self) -> tuple[object, ...]:
        return _gone, ()


def _gone() -> None:
    raise InvalidData("x.bin is missing")


def add_epoch(batch: dict[str, np.ndarray], numbers: np.ndarray, epoch: int) -> dict[str, np.ndarray]:
    """A preparation that shows what it is called with."""
    return {"y": batch["x"] + 1000 * epoch, "numbers": numbers.copy()}
