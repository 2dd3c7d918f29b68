"""What ``prepare`` costs for a network of 500 nodes: at most 1 s on PyTorch and ONNX Runtime, 3 s on TensorFlow.

    python benchmarks/prepare_cost.py [--nodes 500] [--budget 60] [--only torch]

The framework's own work is included in what the bars are held against. Of that, the time inside the call by which the
network is handed over is shown: tracing a ``tf.function``, creating an ``InferenceSession``; PyTorch has none. TensorFlow's
trace runs deep_bench's code of every node as well.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import Any

from _large_network import large_network
from _side_by_side import HERE
from rich.console import Console
from rich.table import Table

import deep_bench as db
from deep_bench.measure.session import Measurement, Plan, measure
from deep_bench.measure.statistics import summarize
from deep_bench.workers.fleet import Contender

_BARS = {"torch": 1.0, "onnxruntime": 1.0, "tensorflow": 3.0}
"""Seconds."""


class Preparing:
    """``prepare`` as what is timed; making it ready measures the framework's share once.

    Args:
        framework: Its name in the registry.
        nodes: The number of nodes.
    """

    threaded = False

    def __init__(self, framework: str, nodes: int) -> None:
        self._framework, self._nodes = framework, nodes

    def prepare(self) -> dict[str, Any]:
        self._adapter, self._network = db.frameworks[self._framework](threads=1), large_network(self._nodes)
        self._adapter.prepare(self._network)  # what happens once in a process
        with _clocked(self._framework) as spent:
            self._adapter.prepare(self._network)
        return {"share_s": sum(spent)}

    def calls(self) -> dict[str, Any]:
        return {"native": lambda: self._adapter.prepare(self._network)}

    def synchronize(self) -> None:
        """Nothing to wait for."""


@contextmanager
def _clocked(framework: str) -> Iterator[list[float]]:
    """Keep the time of every call by which a framework takes a network over."""
    spent: list[float] = []
    if framework == "torch":
        yield spent
        return
    owner, name = _entrance(framework)
    original = getattr(owner, name)

    def clocked(*arguments: Any, **options: Any) -> Any:
        start = perf_counter()
        try:
            return original(*arguments, **options)
        finally:
            spent.append(perf_counter() - start)

    setattr(owner, name, clocked)
    try:
        yield spent
    finally:
        setattr(owner, name, original)


def _entrance(framework: str) -> tuple[Any, str]:
    if framework == "onnxruntime":
        import onnxruntime

        return onnxruntime, "InferenceSession"
    import tensorflow

    return type(tensorflow.function(lambda: None)), "get_concrete_function"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=500)
    parser.add_argument("--budget", type=float, default=60.0, help="seconds")
    parser.add_argument("--only", action="append", choices=sorted(_BARS), help="a framework")
    arguments = parser.parse_args()
    contenders = [
        Contender(name, "prepare_cost:Preparing", {"framework": name, "nodes": arguments.nodes}, path=(HERE,))
        for name in arguments.only or _BARS
    ]
    found = measure(contenders, Plan(ci_width=0.02, budget_s=arguments.budget, min_calls=1))
    for label, error in found.failures.items():
        print(f"{label} failed: {error}")
    table = Table("framework", "prepare", "95 % interval", "of that in the framework's call", "bar", "")
    held = [_row(table, found, contender.label) for contender in contenders]
    Console(width=120).print(table)
    return 0 if all(held) else 1


def _row(table: Table, found: Measurement, name: str) -> bool:
    blocks = found.blocks(name, "native")
    if not blocks:
        table.add_row(name, "failed")
        return False
    summary = summarize(blocks[0])
    interval = summary.interval
    high = interval.high if interval else summary.maximum
    shown = f"{interval.low / 1e9:.3f} to {high / 1e9:.3f} s" if interval else f"at most {high / 1e9:.3f} s"
    fine = high / 1e9 <= _BARS[name]
    share = f"{found.prepared[name]['facts']['share_s']:.3f} s"
    table.add_row(name, f"{summary.median / 1e9:.3f} s", shown, share, f"{_BARS[name]:g} s", "met" if fine else "missed")
    return fine


if __name__ == "__main__":
    sys.exit(main())
