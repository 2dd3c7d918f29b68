"""What is timed for the roofs, in a worker process: products of large matrices, and copies and sums of large arrays."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from time import perf_counter_ns
from typing import Any

import ml_dtypes  # noqa: F401 - so that NumPy knows bfloat16 by its name
import numpy as np
import onnx
import psutil

from deep_bench import frameworks
from deep_bench.errors import DeepBenchError
from deep_bench.framework import Adapter, Executor
from deep_bench.graph import Network
from deep_bench.variant import Variant, option_types

CALL_NS = 20_000_000
"""How long a product should take about: long enough to be near the peak, short enough to be timed often."""

_SMALLEST, _LARGEST, _STEP = 256, 8192, 64
_LEAST_BYTES = 64 << 20
_PART = 1 << 15
"""Elements of a part of the triad, so that what is between its two steps stays in the cache of a core."""

Call = Callable[[], Any]


def width(time_of: Callable[[int], int]) -> int:
    """The width of square matrices whose product takes about `CALL_NS`.

    Args:
        time_of: From a width to nanoseconds.

    Example:
        >>> width(lambda n: 2 * n**3 // 100)  # 100 FLOP a nanosecond
        960
    """
    n, ns = _SMALLEST, max(time_of(_SMALLEST), 1)
    estimate = n * (CALL_NS / ns) ** (1 / 3)
    return int(min(max(estimate // _STEP * _STEP, _SMALLEST), _LARGEST))


def array_bytes() -> int:
    """The size of each array that is moved: four times the last-level cache, as far as memory allows.

    Source:
        McCalpin, STREAM, "Adjusting the problem size".
    """
    units = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
    sizes = [0]
    for file in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size"):
        text = file.read_text(encoding="ascii").strip()
        sizes.append(int(text[:-1]) * units[text[-1]] if text[-1] in units else int(text))
    return min(max(_LEAST_BYTES, 4 * max(sizes)), psutil.virtual_memory().available // 12)


def _timed(call: Call, synchronize: Call) -> int:
    """The shortest of three calls after a first one: others may be at work too."""
    times = []
    for _ in range(4):
        begin = perf_counter_ns()
        call()
        synchronize()
        times.append(perf_counter_ns() - begin)
    return min(times[1:])


class NumpyRoofs:
    """NumPy's products, by its BLAS, and its copies.

    Args:
        dtypes: Element types of the products; BLAS has float32 and float64 only, others are left out.
        threads: How many threads; BLAS must have been told by the environment (see `thread_variables`).
    """

    def __init__(self, dtypes: Sequence[str], threads: int) -> None:
        self.threaded = threads > 1
        self._dtypes = [dtype for dtype in dtypes if dtype in ("float32", "float64")]
        self._threads = threads
        self._pool = ThreadPoolExecutor(threads)
        self._calls: dict[str, Call] = {}
        self._sizes: dict[str, int] = {}

    def prepare(self) -> dict[str, Any]:
        """Draw the matrices and arrays; returns ``sizes``, by call, and ``failed``."""
        random = np.random.default_rng(0)
        for dtype in self._dtypes:
            n = width(lambda n, dtype=dtype: _timed(_product(random, n, dtype), self.synchronize))  # type: ignore[misc]
            self._add(f"gemm {dtype}", n, _product(random, n, dtype))
        size = array_bytes() // 8
        a, b, c = (np.full(size, value) for value in (0.0, 1.0, 2.0))
        bounds = np.linspace(0, size, self._threads + 1).astype(int)
        shares = [tuple(x[i:j] for x in (a, b, c)) for i, j in pairwise(bounds)]
        self._add("copy float64", 8 * size, self._together([_copy(x, y) for x, y, _ in shares]))
        self._add("triad float64", 8 * size, self._together([_triad(x, y, z) for x, y, z in shares]))
        return {"sizes": self._sizes, "failed": {}}

    def calls(self) -> Mapping[str, Call]:
        """The calls to time."""
        return self._calls

    def synchronize(self) -> None:
        """Nothing: NumPy's work is done when its call returns."""

    def _add(self, name: str, size: int, call: Call) -> None:
        self._calls[name], self._sizes[name] = call, size

    def _together(self, calls: list[Call]) -> Call:
        if len(calls) == 1:
            return calls[0]
        return lambda: list(self._pool.map(lambda call: call(), calls))


def _product(random: np.random.Generator, n: int, dtype: str) -> Call:
    a, b = (random.random((n, n)).astype(dtype) for _ in range(2))
    c = np.empty((n, n), dtype)
    return lambda: np.matmul(a, b, out=c)


def _copy(a: np.ndarray, b: np.ndarray) -> Call:
    return lambda: np.copyto(a, b)


def _triad(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> Call:
    """``a = b + 3 c``, part by part: the product of a part stays in the cache until it is added."""
    product = np.empty(min(_PART, len(a)))
    parts = [(a[i : i + _PART], b[i : i + _PART], c[i : i + _PART]) for i in range(0, len(a), _PART)]

    def run() -> None:
        for x, y, z in parts:
            np.multiply(z, 3.0, product[: len(z)])
            np.add(y, product[: len(z)], x)

    return run


def thread_variables(threads: int) -> dict[str, str | None]:
    """The environment variables that tell a BLAS how many threads to use."""
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")
    return dict.fromkeys(names, str(threads))


class FrameworkRoofs:
    """A framework's products of matrices, and its sums of large arrays, as networks of one node.

    Args:
        variant: The framework with its options.
        dtypes: Element types of the products; int8 is multiplied into int32.
        threads: How many threads, for a framework that has such an option; others go by the environment.
    """

    def __init__(self, variant: str, dtypes: Sequence[str], threads: int | None = None) -> None:
        self._variant, self._dtypes = Variant.parse(variant), list(dtypes)
        if threads is not None and "threads" in option_types(frameworks[self._variant.framework]):
            self._variant = replace(self._variant, options={**self._variant.options, "threads": str(threads)})
        self.threaded = "1" not in (str(threads), self._variant.options.get("threads"))
        self._adapter: Adapter[Any] | None = None
        self._executors: list[Executor[Any]] = []
        self._calls: dict[str, Call] = {}

    @property
    def timer(self) -> Any:
        """The device's own clock, where the executors have one."""
        return getattr(self._executors[0], "timer", None) if self._executors else None

    def prepare(self) -> dict[str, Any]:
        """Prepare the networks.

        Returns:
            ``sizes``, by call; ``failed``: call to why the framework cannot do it; and ``description``.
        """
        adapter = self._adapter = self._variant.create()
        sizes: dict[str, int] = {}
        failed: dict[str, str] = {}
        for dtype in self._dtypes:
            name = f"gemm {dtype}"
            try:
                n = sizes[name] = width(lambda n, dtype=dtype: self._time(adapter, n, dtype))  # type: ignore[misc]
                self._calls[name] = self._bind(adapter, product_network(n, dtype))
            except Exception as error:  # a framework refuses an element type in ways of its own
                sizes.pop(name, None)
                failed[name] = (error.came if isinstance(error, DeepBenchError) else str(error)).partition("\n")[0]
        size = array_bytes() // 4
        self._calls["add float32"], sizes["add float32"] = self._bind(adapter, sum_network(size)), 4 * size
        return {"sizes": sizes, "failed": failed, "description": dict(adapter.describe())}

    def calls(self) -> Mapping[str, Call]:
        """The calls to time."""
        return self._calls

    def synchronize(self) -> None:
        """Wait for the device."""
        if self._adapter is not None:
            self._adapter.synchronize()

    def _time(self, adapter: Adapter[Any], n: int, dtype: str) -> int:
        return _timed(self._bind(adapter, product_network(n, dtype), keep=False), adapter.synchronize)

    def _bind(self, adapter: Adapter[Any], network: Network, *, keep: bool = True) -> Call:
        random = np.random.default_rng(0)
        executor = adapter.prepare(network)
        if keep:
            self._executors.append(executor)
        inputs = {spec.name: _drawn(random, tuple(map(int, spec.shape)), spec.dtype) for spec in network.inputs}
        return executor.bind({name: adapter.from_numpy(array) for name, array in inputs.items()})


def _drawn(random: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    if dtype.kind in "iu":
        return random.integers(0, 100, shape, dtype=dtype)
    return random.random(shape, np.float32).astype(dtype)


def product_network(n: int, dtype: str) -> Network:
    """``y = a b`` of square matrices; of int8 in int32.

    Example:
        >>> [str(spec) for spec in product_network(64, "bfloat16").inputs]
        ['a: bfloat16[64, 64]', 'b: bfloat16[64, 64]']
    """
    operator = "MatMulInteger" if np.dtype(dtype).kind in "iu" else "MatMul"
    return _network(operator, (n, n), np.dtype(dtype), np.dtype(np.int32 if operator == "MatMulInteger" else dtype))


def sum_network(size: int) -> Network:
    """``y = a + b`` of vectors in float32."""
    return _network("Add", (size,), np.dtype(np.float32), np.dtype(np.float32))


def _network(operator: str, shape: tuple[int, ...], dtype: np.dtype, result: np.dtype) -> Network:
    helper = onnx.helper
    input_type, returned = map(helper.np_dtype_to_tensor_dtype, (dtype, result))
    graph = helper.make_graph(
        [helper.make_node(operator, ["a", "b"], ["y"], name="node")],
        operator,
        [helper.make_tensor_value_info(name, input_type, shape) for name in ("a", "b")],
        [helper.make_tensor_value_info("y", returned, shape)],
    )
    return Network.from_proto(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10))


def allowed_cpus() -> int:
    """How many CPUs this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
