"""The reference executor beside ``onnx.reference`` on real networks: never slower, 2.5 times as fast on convolutional ones.

    python benchmarks/reference_speed.py [--budget 12] [--only det]

The networks come from the package index, with the inputs that the tests use. Where ``onnx.reference`` fails on a network,
that is said.
"""

from __future__ import annotations

import argparse
import sys

from _side_by_side import HERE, Bar, Comparison, run

sys.path.insert(0, str(HERE.parent))

import deep_bench as db
from tests.real.fetch import fetch
from tests.real.table import REAL


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--budget", type=float, default=12.0, help="seconds for each network")
    parser.add_argument("--only", action="append", default=[], help="part of a network's name")
    arguments = parser.parse_args()
    held = []
    for real in REAL:
        if arguments.only and not any(part in real.name for part in arguments.only):
            continue
        file = fetch(real.package, real.name)
        network = db.load(file)
        # Silero's few convolutions are short; its time goes to control flow and the LSTM.
        convolutional = any(n.op_type == "Conv" for n in network.nodes) and "silero" not in real.name
        comparison = Comparison(
            real.name,
            {"deep_bench": "_reference_systems:ours", "onnx.reference": "_reference_systems:standard"},
            [Bar("deep_bench", "onnx.reference", 1 / 2.5 if convolutional else 1.0)],
            {"file": str(file), "inputs": dict(real.inputs()), "outputs": [o.name for o in network.outputs]},
        )
        held.append(run(comparison, budget=arguments.budget, ci_width=0.02, min_calls=1))
    return 0 if all(held) else 1


if __name__ == "__main__":
    sys.exit(main())
