"""Kernels that give the right answer now and then, or seem faster than they are. All compute ``Exp``."""

from __future__ import annotations

import multiprocessing
import threading
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

import numpy as np

import deep_bench.check
from deep_bench import Operator


class Exp(Operator):
    computes = "Exp"

    def forward(self, x):
        return np.exp(x)


class ByIdentity(Exp):
    """Keeps its answers by the identity of the input."""

    def __init__(self):
        self.known = {}

    def forward(self, x):
        key = x.__array_interface__["data"][0]
        return self.known.setdefault(key, np.exp(x)).copy()


class ByShape(Exp):
    """Keeps one answer for each shape."""

    def __init__(self):
        self.known = {}

    def forward(self, x):
        return self.known.setdefault(x.shape, np.exp(x)).copy()


class BySum(Exp):
    """Keeps its answers by the sum of the input, which another order does not change."""

    def __init__(self):
        self.known = {}

    def forward(self, x):
        key = round(float(np.sort(x.ravel()).sum(dtype=np.float64)), 9)
        return self.known.setdefault(key, np.exp(x)).copy()


class BySample(Exp):
    """Keeps its answers by a few elements of the input."""

    def __init__(self):
        self.known = {}

    def forward(self, x):
        return self.known.setdefault(x.ravel()[:: max(1, x.size // 3)].tobytes(), np.exp(x)).copy()


class GivesUp(Exp):
    """Works for thirty calls, and then returns zeros."""

    def __init__(self):
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        return np.exp(x) if self.calls <= 30 else np.zeros_like(x)


class FirstInputsOnly(Exp):
    """After thirty calls it returns what it returned last."""

    def __init__(self):
        self.calls, self.last = 0, None

    def forward(self, x):
        self.calls += 1
        if self.calls <= 30 or self.last.shape != x.shape:
            self.last = np.exp(x)
        return self.last.copy()


class ReturnsEarly(Exp):
    """Writes its result only once, and takes it for written later."""

    reuses_outputs = True

    def __init__(self):
        self.buffers = {}

    def forward(self, x):
        if x.shape not in self.buffers:
            self.buffers[x.shape] = np.exp(x)
        return self.buffers[x.shape]


class WritesHalf(Exp):
    """Leaves half of the result as the allocator gave it."""

    reuses_outputs = True

    def __init__(self):
        self.buffers = {}

    def forward(self, x):
        y = self.buffers.setdefault(x.shape, np.exp(x))
        half = x.shape[0] // 2
        np.exp(x[:half], out=y[:half])
        return y


class LeavesThread(Exp):
    """A thread fills in the result after the call."""

    def forward(self, x):
        y = np.zeros_like(x)

        def later():
            time.sleep(0.03)
            np.exp(x, out=y)

        threading.Thread(target=later).start()
        return y


class WorksOn(Exp):
    """The result is there; a thread of a pool works on, as if for the next one."""

    def __init__(self):
        self.pool = None

    def forward(self, x):
        self.pool = self.pool or ThreadPoolExecutor(1, "hidden")
        self.pool.submit(self.later)
        return np.exp(x)

    def later(self):
        time.sleep(0.03)
        return sum(range(4_000_000))


class ChildWorksOn(Exp):
    """A child process works on."""

    def forward(self, x):
        context = multiprocessing.get_context("fork")
        child = context.Process(target=sum, args=(range(20_000_000),), daemon=True)
        child.start()
        return np.exp(x)


class _Lazy:
    """Computes its contents when they are asked for."""

    def __init__(self, x):
        self.x, self.shape, self.dtype = x, x.shape, x.dtype

    def __array__(self, dtype=None, copy=None):
        return np.exp(self.x)


class Lazy(Exp):
    """Returns something that computes the result when it is read."""

    def forward(self, x):
        return _Lazy(x)


class Remembers(Exp):
    """Keeps all its answers by the contents of the input; an answer takes three milliseconds to find otherwise."""

    def __init__(self):
        self.known = {}

    def forward(self, x):
        key = x.tobytes()
        if key not in self.known:
            time.sleep(0.003)
            self.known[key] = np.exp(x)
        return self.known[key].copy()


class StopsClock(Exp):
    def forward(self, x):
        time.perf_counter_ns = lambda: 0
        return np.exp(x)


class SlowsClock(Exp):
    def setup(self, case):
        real = time.perf_counter
        time.perf_counter = lambda: real() / 2


class PatchesChecker(Exp):
    def setup(self, case):
        deep_bench.check.judge = lambda *args, **options: None


class PatchesCode(Exp):
    """Replaces what is inside a function, which stays the same object."""

    def forward(self, x):
        import deep_bench.check.estimate as estimate

        estimate.same_kind.__code__ = (lambda a, b: a == a).__code__
        return np.exp(x)


class PatchesMethod(Exp):
    """Its device waits for nothing any more."""

    def forward(self, x):
        from deep_bench.operators.operator import Host

        Host.synchronize = lambda self: None
        return np.exp(x)


class PatchesNumpy(Exp):
    def forward(self, x):
        np.allclose = lambda *args, **options: True
        return np.exp(x)


TRICKS: Mapping[str, tuple[Exp, str, str]] = {
    f"{operator.name}, {check}": (operator, check, words)
    for operator, check, words in (
        (ByIdentity(), "reuse", "gives its earlier answer again"),
        (ByShape(), "reuse", "gives its earlier answer again"),
        (BySum(), "reuse", "gives its earlier answer again"),
        (BySample(), "reuse", "gives its earlier answer again"),
        (GivesUp(), "fresh", "wrong after the calls"),
        (FirstInputsOnly(), "fresh", "gives its earlier answer again for inputs it has not seen"),
        (ReturnsEarly(), "unwritten", "does not write 600 of 600 elements"),
        (WritesHalf(), "unwritten", "does not write 300 of 600 elements"),
        (LeavesThread(), "unfinished", "still changes after the call has returned"),
        (WorksOn(), "unfinished", "thread 'hidden_0' works on"),
        (ChildWorksOn(), "unfinished", "child process"),
        (Lazy(), "contract", "returns output as tests.operators.checks.tricks._Lazy"),
        (Lazy(), "unfinished", "computed from what the inputs hold when they are read"),
        (Remembers(), "remembering", "it remembers answers"),
        (StopsClock(), "patches", "it replaces time.perf_counter_ns"),
        (SlowsClock(), "patches", "it replaces time.perf_counter"),
        (PatchesChecker(), "patches", "it replaces deep_bench.check.judge"),
        (PatchesCode(), "patches", "deep_bench.check.estimate.same_kind"),
        (PatchesMethod(), "patches", "it replaces deep_bench.operators.operator.Host.synchronize"),
        (PatchesNumpy(), "patches", "it replaces numpy.allclose"),
    )
}
"""Name to a dishonest kernel, the check that finds it, and what that says."""
