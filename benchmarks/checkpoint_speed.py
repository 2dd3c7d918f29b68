"""How fast checkpoints are written, beside the disk.

    python benchmarks/checkpoint_speed.py [--mebibytes 256] [--repeats 7] [--folder DIR]

The disk's speed is that of writing the same bytes to a plain file and bringing them to the disk (``fsync``). A checkpoint
should reach at least half of it: its time at most twice the file's. The two take turns; ratios are of the medians.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter_ns

import numpy as np

from deep_bench.training import read_checkpoint, write_checkpoint


def plain(path: Path, arrays: dict[str, np.ndarray]) -> None:
    """The same bytes in a plain file."""
    with open(path, "wb") as file:
        for array in arrays.values():
            file.write(array.data)
        os.fsync(file.fileno())


def timed(call: Callable[[], object]) -> float:
    """Seconds of a call."""
    start = perf_counter_ns()
    call()
    return (perf_counter_ns() - start) * 1e-9


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mebibytes", type=int, default=256)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--folder", type=Path, help="on the disk to try; the temporary folder by default")
    arguments = parser.parse_args()
    rng = np.random.default_rng(0)
    parts = max(arguments.mebibytes // 4, 1)
    arrays = {f"layer{n}.weight": rng.random((1024, 1024), np.float32) for n in range(parts)}
    tree = {"step": {"parameters": arrays}}
    size = sum(array.nbytes for array in arrays.values()) / 2**20
    with tempfile.TemporaryDirectory(dir=arguments.folder) as temporary:
        folder = Path(temporary)
        calls = {
            "a plain file": lambda: plain(folder / "plain", arrays),
            "a checkpoint": lambda: write_checkpoint(folder / "checkpoint.h5", tree),
            "reading it": lambda: read_checkpoint(folder / "checkpoint.h5"),
        }
        seconds: dict[str, list[float]] = {label: [] for label in calls}
        for _ in range(arguments.repeats):
            for label, call in calls.items():
                seconds[label].append(timed(call))
    medians = {label: float(np.median(values)) for label, values in seconds.items()}
    for label, value in medians.items():
        low, high = min(seconds[label]), max(seconds[label])
        print(f"{label}: {size / value:,.0f} MiB/s (median of {arguments.repeats}; {low:.3f} to {high:.3f} s)")
    ratio = medians["a checkpoint"] / medians["a plain file"]
    print(f"{'holds' if ratio <= 2 else 'does not hold'}: {ratio:.2f} times the plain file's time, at most 2")
    return 0 if ratio <= 2 else 1


if __name__ == "__main__":
    sys.exit(main())
