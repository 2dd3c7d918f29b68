"""How many images a second come from each kind of container: 5,000 of 32 x 32 x 3, in batches of 64, warm.

    python benchmarks/container_speed.py [--budget 60] [--folder .] [--only npy --only hdf5]

In order and at random, each container in a process of its own, in turns. The bars: in order, a .npy memmap and contiguous
HDF5 give at least 90 % of the batches a second that arrays in memory give (ratio of times at most 1.111); a bar holds when
the upper end of the ratio's interval does. "arrays" is NumPy's indexing alone. Images are coarse noise, which takes about as
long to decode as photographs.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from tqdm import tqdm

from deep_bench.measure.compare import ratio
from deep_bench.measure.session import Measurement, Plan, measure
from deep_bench.measure.statistics import summarize
from deep_bench.training.containers import memory, parse_kind, write_container
from deep_bench.workers.fleet import Contender

COUNT, BATCH = 5_000, 64
KINDS = (
    "npy",
    "hdf5",
    "hdf5:layout=chunked",
    "hdf5:layout=chunked,compression=gzip",
    "idx",
    "cifar",
    "tfrecord",
    "tfrecord:image=png",
    "tfrecord:image=jpeg",
    "recordio",
    "folder",
    "folder:image=jpeg",
    "tar",
    "tar:image=jpeg",
    "webdataset",
)
ORDERS = ("sequential", "random")
BARRED = {("npy", "sequential"), ("hdf5", "sequential")}
MOST = 1 / 0.9
READING = "deep_bench.training.containers.measurement:Reading"
BASE = "memory"


class Arrays:
    """NumPy arrays indexed by hand: what no container can be faster than."""

    threaded = False

    def prepare(self) -> dict[str, Any]:
        content = images("npy")
        full = COUNT // BATCH * BATCH
        numbers = {"sequential": np.arange(COUNT), "random": np.random.default_rng(0).permutation(COUNT)}
        self._batches = {order: np.split(found[:full], full // BATCH) for order, found in numbers.items()}
        self._next = dict.fromkeys(ORDERS, 0)
        self._content = content
        return {}

    def calls(self) -> dict[str, Any]:
        return {order: self._call(order) for order in ORDERS}

    def synchronize(self) -> None:
        pass

    def _call(self, order: str) -> Any:
        batches = self._batches[order]

        def call() -> dict[str, np.ndarray]:
            indices = batches[self._next[order]]
            self._next[order] = (self._next[order] + 1) % len(batches)
            return {name: array[indices] for name, array in self._content.items()}

        return call


def images(kind: str) -> dict[str, np.ndarray]:
    """The images and their classes; CIFAR's files have colours first."""
    random = np.random.default_rng(0)
    coarse = random.integers(16, 240, (COUNT, 8, 8, 3)).repeat(4, axis=1).repeat(4, axis=2)
    found = (coarse + random.integers(-8, 9, coarse.shape)).astype(np.uint8)
    chosen = np.ascontiguousarray(found.transpose(0, 3, 1, 2)) if kind == "cifar" else found
    return {"image": chosen, "label": random.integers(0, 10, COUNT)}


def contenders(folder: Path, kinds: list[str]) -> list[Contender]:
    """Write all containers."""
    found = [Contender("arrays", "container_speed:Arrays", path=(Path(__file__).parent,))]
    for number, text in enumerate(tqdm(kinds, desc="writing", disable=None, leave=False)):
        kind, options = parse_kind(text)
        path = write_container(folder / str(number), memory(images(kind)), kind, **options)
        if kind == "npy":
            found.append(Contender(BASE, READING, {"name": str(path), "memory": True, "batch": BATCH}))
        found.append(Contender(text, READING, {"name": str(path), "batch": BATCH}))
    return found


def show(found: Measurement, labels: list[str]) -> bool:
    """Print the table, and say whether the bars hold."""
    title = f"{COUNT} images of 32 x 32 x 3, batches of {BATCH}: thousand images a second"
    table = Table("container", "order", "1000/s", "95 % interval", "time over memory", "95 % interval", "", title=title)
    held = True
    for label in labels:
        for order in ORDERS:
            blocks, base = found.blocks(label, order), found.blocks(BASE, order)
            if not blocks or not base:
                table.add_row(label, order, "failed")
                held = False
                continue
            summary, compared = summarize(blocks[0]), ratio(blocks, base)
            limits = "{:.3f} to {:.3f}".format(*compared.interval) if compared.interval else "too few"
            interval = summary.interval
            rates = "too few" if interval is None else f"{_rate(interval.high)} to {_rate(interval.low)}"
            word = ""
            if (label, order) in BARRED:
                holds = compared.interval is not None and compared.interval[1] <= MOST
                word, held = f"at most {MOST:.3f}: {'holds' if holds else 'does not hold'}", held and holds
            table.add_row(label, order, _rate(summary.median), rates, f"{compared.value:.3f}", limits, word)
    Console(width=160).print(table)
    for label, error in found.failures.items():
        print(f"{label} failed: {error}")
    return held


def _rate(ns: float) -> str:
    return f"{BATCH / ns * 1e6:.1f}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--budget", type=float, default=60.0, help="seconds for measuring")
    parser.add_argument("--folder", type=Path, default=Path(), help="where to write, on a disk")
    parser.add_argument("--only", action="append", choices=KINDS, help="kinds")
    arguments = parser.parse_args()
    kinds = [kind for kind in KINDS if kind == "npy" or not arguments.only or kind in arguments.only]
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        systems = contenders(Path(folder).absolute(), kinds)
        plan = Plan(ci_width=0.01, budget_s=arguments.budget, quantities=ORDERS, warm_up_s=0.5, min_ns=20_000_000)
        with tqdm(total=arguments.budget, unit="s", desc="measuring", disable=None, leave=False) as bar:
            found = measure(systems, plan, watch=lambda p: bar.update(p.elapsed_s - bar.n))
    return 0 if show(found, [system.label for system in systems]) else 1


if __name__ == "__main__":
    sys.exit(main())
