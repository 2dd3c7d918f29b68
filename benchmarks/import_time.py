"""CPU time of ``import deep_bench`` beside ``import numpy``: at most 1.2 times that plus 0.1 s, and no framework loaded.

python benchmarks/import_time.py
"""

from __future__ import annotations

import random
import subprocess
import sys
from statistics import median

REPEATS = 15
_PROGRAM = "import time, sys; t = time.process_time(); import {}; print(time.process_time() - t, *sys.modules)"
FRAMEWORKS = {"torch", "tensorflow", "onnxruntime", "mpi4py", "matplotlib", "jax"}


def cpu_seconds(module: str) -> tuple[float, set[str]]:
    """The CPU time of one import in a fresh interpreter, and the modules that it loaded."""
    printed = subprocess.run([sys.executable, "-c", _PROGRAM.format(module)], capture_output=True, text=True, check=True)
    seconds, *modules = printed.stdout.split()
    return float(seconds), set(modules)


def main() -> int:
    times: dict[str, list[float]] = {"numpy": [], "deep_bench": []}
    loaded: set[str] = set()
    for _ in range(REPEATS):
        for module in random.sample(sorted(times), k=len(times)):
            seconds, modules = cpu_seconds(module)
            times[module].append(seconds)
            loaded |= modules & FRAMEWORKS
    numpy, ours = median(times["numpy"]), median(times["deep_bench"])
    bar = 1.2 * numpy + 0.1
    holds = ours <= bar and not loaded
    print(f"import numpy       {numpy:.3f} s of CPU (median of {REPEATS})")
    print(f"import deep_bench  {ours:.3f} s; at most 1.2 x numpy + 0.1 s = {bar:.3f} s")
    print(f"frameworks loaded: {', '.join(sorted(loaded)) or 'none'}")
    print("holds" if holds else "does not hold")
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
