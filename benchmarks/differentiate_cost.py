"""What ``differentiate`` costs on a network of 500 nodes: it should take at most 2 seconds.

python benchmarks/differentiate_cost.py
"""

from __future__ import annotations

import sys
from time import perf_counter

import numpy as np
from _large_network import large_network

import deep_bench as db

_MOST_S = 2.0
_REPEATS = 5


def main() -> int:
    network = large_network()
    output = network.outputs[0].name
    scored = network.with_loss("Sum", output=output)
    times = []
    for _ in range(_REPEATS):
        start = perf_counter()
        derived = db.network.differentiate(scored)
        times.append(perf_counter() - start)
    median = float(np.median(times))
    met = median <= _MOST_S
    size = f"{len(scored.nodes)} nodes, {len(scored.parameters)} parameters, {len(derived.nodes)} nodes derived"
    spread = f"median {median:.2f} s ({min(times):.2f} to {max(times):.2f}) of {_REPEATS}"
    print(f"{'met' if met else 'missed'}: {size}: {spread}, at most {_MOST_S:g} s")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
