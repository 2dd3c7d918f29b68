"""What it costs to build a native kernel, and to call one.

    python benchmarks/native_call_cost.py [--budget 20]

The kernel is a C++ function of three arrays that does nothing. Calls: through pointers that ctypes was given before (the
floor), bound arrays, ``forward``, ctypes with the pointers taken from the arrays each time, apache-tvm-ffi where it is
installed, and NumPy's own addition. Builds: by gcc alone, cold and from the cache; through apache-tvm-ffi.
A bar holds when the upper end of the interval does; those of builds, and that of ``forward`` (1 us), are absolute times, and
so for a quiet machine.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

from _native_systems import NOTHING, NOTHING_TVM, operator
from _side_by_side import Bar, Comparison, run
from rich.console import Console
from rich.table import Table

CALLS = {
    "pointers made before": "_native_systems:pointers_made_before",
    "bound": "_native_systems:bound",
    "forward": "_native_systems:forward",
    "forward, result kept": "_native_systems:forward_kept",
    "forward, other inputs": "_native_systems:forward_other_inputs",
    "pointers taken each time": "_native_systems:pointers_taken_each_time",
    "numpy.add, out=": "_native_systems:numpy_add",
}
TVM_CALLS = {"tvm-ffi, bound": "_native_systems:tvm_bound", "tvm-ffi, forward": "_native_systems:tvm_forward"}
REPEATS = 7


def build_seconds(source: str, *, cold: bool) -> float:
    """The median time of building, each time in an empty cache or always in the same one."""
    taken = []
    with TemporaryDirectory() as kept:
        for i in range(REPEATS + 1):
            os.environ["DEEP_BENCH_CACHE"] = f"{kept}/{i if cold else 0}"
            start = time.perf_counter()
            _ = operator(source).built
            taken.append(time.perf_counter() - start)
    # The first asks the compiler for its version, and fills the cache.
    return statistics.median(taken[1:])


def gcc_alone() -> float:
    """The median time of the compiler by itself, with the same options."""
    taken = []
    with TemporaryDirectory() as folder:
        (Path(folder) / "kernel.cpp").write_text(NOTHING, encoding="utf-8")
        for _ in range(REPEATS):
            start = time.perf_counter()
            command = ["g++", "kernel.cpp", "-o", "k.so", "-std=c++17", "-O3", "-march=native", "-shared", "-fPIC"]
            subprocess.run(command, check=True, cwd=folder)
            taken.append(time.perf_counter() - start)
    return statistics.median(taken)


def builds() -> bool:
    """Print what building costs, and say whether the bars hold."""
    kinds: list[tuple[str, Callable[[], float], float | None]] = [
        ("g++ alone", gcc_alone, None),
        ("plain C route, cold", lambda: build_seconds(NOTHING, cold=True), 0.5),
        ("plain C route, cached", lambda: build_seconds(NOTHING, cold=False), 0.02),
    ]
    if find_spec("tvm_ffi") is not None:
        kinds.append(("tvm-ffi, cold", lambda: build_seconds(NOTHING_TVM, cold=True), None))
        kinds.append(("tvm-ffi, cached", lambda: build_seconds(NOTHING_TVM, cold=False), None))
    table = Table("build", "median", "bar", "", title=f"building a small C++ kernel, {REPEATS} times")
    held = []
    for label, measure, most in kinds:
        seconds = measure()
        fine = most is None or seconds <= most
        held.append(fine)
        bar = "" if most is None else f"at most {most * 1e3:.0f} ms"
        table.add_row(label, f"{seconds * 1e3:.1f} ms", bar, "" if most is None else "holds" if fine else "does not hold")
    Console(width=120).print(table)
    return all(held)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--budget", type=float, default=20.0, help="seconds for the calls")
    arguments = parser.parse_args()
    held = builds()
    systems = {**CALLS, **(TVM_CALLS if find_spec("tvm_ffi") is not None else {})}
    floor = "pointers made before"
    bars = [
        Bar("bound", floor, 1.3),
        Bar("forward", floor, 0.0, allowance_ns=1_000),
        Bar("forward", "pointers taken each time", 1.0),
        Bar("forward, result kept", "pointers taken each time", 1.0),
    ]
    comparison = Comparison("a native function of three arrays that does nothing", systems, bars)
    held = run(comparison, budget=arguments.budget) and held
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
