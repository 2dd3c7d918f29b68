"""Gradients of a CNN, an MLP and a transformer block: each framework beside hand-written code, and ONNX Runtime beside both.

    python benchmarks/gradient_speed.py [--budget 20] [--launches 1] [--only CNN] [--skip tensorflow]

ONNX Runtime, which has no gradients of its own, runs the network that ``differentiate`` derives: it should take at most 1.5
times PyTorch's autograd on the MLP and the transformer block, and 3 times on the CNN. Our adapters for PyTorch and
TensorFlow should take at most 1.05 times a hand-written step's forward and backward. One thread computes.
"""

from __future__ import annotations

import argparse
import sys

from _gradient_cases import cases
from _side_by_side import Bar, Comparison, outcomes, told

_AT_MOST = {"CNN": 3.0, "MLP": 1.5, "transformer block": 1.5}


def comparison(case: str, skipped: list[str]) -> Comparison:
    """One network: all systems in one interleaved run."""
    names = ("torch by hand", "torch", "onnxruntime", "tensorflow by hand", "tensorflow")
    chosen = [n for n in names if n.split()[0] not in skipped or n == "torch by hand"]
    factories = {n: f"_gradient_systems:{'hand_' if 'hand' in n else ''}{n.split()[0]}" for n in chosen}
    bars = [
        Bar("onnxruntime", "torch by hand", _AT_MOST[case]),
        Bar("torch", "torch by hand", 1.05),
        Bar("tensorflow", "tensorflow by hand", 1.05),
    ]
    return Comparison(case, factories, [b for b in bars if b.label in chosen], {"case": case})


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--budget", type=float, default=20.0, help="seconds for each network")
    parser.add_argument("--launches", type=int, default=1, help="fresh starts among which the budget is divided")
    parser.add_argument("--only", action="append", default=[], help="part of a network's name")
    parser.add_argument("--skip", action="append", default=[], choices=["torch", "tensorflow", "onnxruntime"])
    arguments = parser.parse_args()
    chosen = [name for name in cases() if not arguments.only or any(part in name for part in arguments.only)]
    options = {"budget": arguments.budget, "ci_width": 0.01, "min_calls": 2, "launches": arguments.launches}
    return told([(name, o) for name in chosen for o in outcomes(comparison(name, arguments.skip), **options)])


if __name__ == "__main__":
    sys.exit(main())
