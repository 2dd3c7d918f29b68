"""Systems under test for the tests, importable in a worker: small, in NumPy, and some of them ill-behaved."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from deep_bench.errors import InvalidInput


class Tiny:
    """Sums an array; every method below is a way to misbehave."""

    threaded = False

    def __init__(self, size: int = 64) -> None:
        self.array = np.ones(size)
        self.children: list[subprocess.Popen[bytes]] = []

    def prepare(self) -> dict[str, Any]:
        print("chatter on stdout", flush=True)
        os.write(2, b"chatter on stderr\n")
        return {"version": np.__version__}

    def calls(self) -> Mapping[str, Callable[[], object]]:
        return {"native": self.array.sum, "numpy": lambda: np.asarray(self.array.tolist()).sum()}

    def synchronize(self) -> None:
        pass

    def total(self, scale: float = 1.0) -> float:
        return float(self.array.sum() * scale)

    def echo(self, value: object) -> object:
        return value

    def environment(self, name: str) -> str | None:
        return os.environ.get(name)

    def refuse(self) -> None:
        raise InvalidInput("came", "expected", "advice")

    def fail(self) -> None:
        raise ZeroDivisionError("on purpose")

    def unpicklable(self) -> object:
        return lambda: None

    def leave(self) -> None:
        sys.exit(3)

    def exit(self, status: int) -> None:
        os._exit(status)

    def chatter(self, size: int) -> None:
        """Print so many bytes."""
        sys.stdout.write("x" * size)
        sys.stdout.flush()

    def chatter_until_cut(self) -> int:
        """Print until what is printed to was cut; how much that took."""
        written = 0
        while os.fstat(1).st_size >= written:
            written += os.write(1, b"x" * 2**16)
        return written

    def complain(self, size: int) -> None:
        """Raise an error with a message that is that long."""
        raise ValueError("begin " + "x" * size + " end")

    def kill(self, number: int) -> None:
        os.kill(os.getpid(), number)

    def crash(self) -> None:
        ctypes.string_at(0)

    def allocate(self, size: int) -> int:
        return np.ones(size, dtype=np.uint8).nbytes

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    def interrupt(self, pid: int) -> None:
        os.kill(pid, signal.SIGINT)
        time.sleep(60)

    def spawn(self) -> int:
        self.children.append(subprocess.Popen(["sleep", "300"]))
        return self.children[-1].pid


class Mortal(Tiny):
    """Dies in its nth timed call."""

    def __init__(self, after: int) -> None:
        super().__init__()
        self.left = after

    def calls(self) -> Mapping[str, Callable[[], object]]:
        return {"native": self.step}

    def step(self) -> None:
        self.left -= 1
        if self.left < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(0.0001)


class Watching(Tiny):
    """Each timed call notes the state of another process."""

    def __init__(self) -> None:
        super().__init__()
        self.watched: list[int] = []
        self.states: set[str] = set()

    def watch(self, pids: list[int]) -> None:
        self.watched = pids

    def seen(self) -> set[str]:
        return self.states

    def calls(self) -> Mapping[str, Callable[[], object]]:
        return {"native": self.look}

    def look(self) -> None:
        for pid in self.watched:
            with open(f"/proc/{pid}/stat", encoding="ascii") as stat:
                self.states.add(stat.read().rsplit(")", 1)[1].split()[0])


class Slow(Tiny):
    """Waits, and then takes a good while."""

    def calls(self) -> Mapping[str, Callable[[], object]]:
        return {"native": lambda: time.sleep(0.05)}


class Clocked(Tiny):
    """Has a device with a clock of its own, on which each call takes 42 ns."""

    def timer(self, call: Callable[[], object]) -> int:
        call()
        return 42


def unbuildable() -> None:
    raise ValueError("cannot be built")
