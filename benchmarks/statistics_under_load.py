"""How often a median taken beside busy processes is that of a quiet machine: deep_bench next to torch.utils.benchmark.

Each method first measures a NumPy product undisturbed, then again and again beside busy processes. A repeat counts if its
median lies within 2 % of that method's own quiet one. All methods run in one worker process, in random order.

    python benchmarks/statistics_under_load.py                    # about two minutes
    python benchmarks/statistics_under_load.py --repeats 5 --sizes 64
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from time import sleep
from typing import Any

import numpy as np

from deep_bench.measure.environment import StealMeter
from deep_bench.measure.statistics import summarize
from deep_bench.workers.process import Worker

TOLERANCE = 0.02
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


class Product:
    """The product of two square matrices in NumPy, timed by deep_bench, or by torch's timers in the same process."""

    threaded = False

    def __init__(self, size: int) -> None:
        a = np.random.default_rng(0).normal(size=(size, size)).astype(np.float32)
        out = np.empty_like(a)
        self.multiply: Callable[[], object] = lambda: np.matmul(a, a, out=out)

    def prepare(self) -> dict[str, Any]:
        return {}

    def calls(self) -> Mapping[str, Callable[[], object]]:
        return {"product": self.multiply}

    def synchronize(self) -> None:
        pass

    def blocked(self, seconds: float) -> float:
        from torch.utils.benchmark import Timer

        return Timer("f()", globals={"f": self.multiply}).blocked_autorange(min_run_time=seconds).median * 1e9

    def adaptive(self, seconds: float) -> float:
        from torch.utils.benchmark import Timer

        return (
            Timer("f()", globals={"f": self.multiply})
            .adaptive_autorange(min_run_time=seconds, max_run_time=5 * seconds)
            .median
            * 1e9
        )


def ours(worker: Worker, seconds: float) -> float:
    """The median that deep_bench reports after as many seconds, in four blocks."""
    return summarize([worker.sample("product", min_ns=int(seconds * 1e9 / 4)) for _ in range(4)]).median


def methods(worker: Worker, seconds: float) -> dict[str, Callable[[], float]]:
    return {
        "deep_bench": lambda: ours(worker, seconds),
        "torch blocked_autorange": lambda: worker.call("blocked", seconds),
        "torch adaptive_autorange": lambda: worker.call("adaptive", seconds),
    }


@contextmanager
def busy(count: int) -> Iterator[None]:
    """So many processes that do nothing but compute."""
    processes = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        sleep(0.5)
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def run(size: int, arguments: argparse.Namespace, folder: Path) -> None:
    here = Path(__file__)
    with Worker(
        f"{here.stem}:Product", {"size": size}, log=folder / "log", path=[here.parent], environment=ONE_THREAD
    ) as worker:
        worker.prepare()
        worker.warm_up("product")
        measured = methods(worker, arguments.seconds)
        order = np.random.default_rng(arguments.seed)
        for measure in measured.values():
            measure()  # torch's import, and the first calls
        quiet = {name: [measure() for _ in range(5)] for name, measure in measured.items()}
        loaded: dict[str, list[float]] = {name: [] for name in measured}
        with busy(arguments.busy):
            for _ in range(arguments.repeats):
                for name in order.permutation(list(measured)):
                    loaded[name].append(measured[name]())
    for name, values in loaded.items():
        base = float(np.median(quiet[name]))
        spread = (max(quiet[name]) - min(quiet[name])) / base
        ratios = np.array(values) / base
        near = int(np.count_nonzero(np.abs(ratios - 1) <= TOLERANCE))
        count = f"{near:3d} of {len(values):3d}"
        print(f"{size:5d}  {name:26} {base / 1e3:10.2f} {spread:8.1%}   {count}   ", end="")
        print(f"{np.median(ratios):8.3f} {ratios.max():8.3f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description="How many medians taken under load are right.")
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=0.2, help="of each measurement")
    parser.add_argument("--busy", type=int, default=2, help="how many busy processes")
    parser.add_argument("--sizes", type=int, nargs="+", default=[64, 256, 400, 640], help="of the matrices")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    steal = StealMeter()
    print(f"beside {arguments.busy} busy processes, {arguments.seconds:g} s each; ratios to the method's own quiet median")
    print(f"{'size':>5}  {'method':26} {'quiet us':>10} {'spread':>8}   within 2 %    {'median':>7} {'worst':>8}")
    with tempfile.TemporaryDirectory() as folder:
        for size in arguments.sizes:
            run(size, arguments, Path(folder))
    share = steal.share()
    print("stolen time: " + ("not counted here" if share is None else f"{share:.1%}"))


if __name__ == "__main__":
    main()
