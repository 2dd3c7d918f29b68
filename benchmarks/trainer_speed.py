"""An epoch of training on a CNN, an MLP and a transformer block: `Trainer` beside hand-written loops.

    python benchmarks/trainer_speed.py [--budget 20] [--launches 1] [--only CNN] [--skip tensorflow]

With the frameworks' own Adam, `Trainer` should take at most 1.05 times a loop written in PyTorch, and at most 1.1 times
``keras.Model.fit`` after its first epoch. One thread computes; data are in memory.
"""

from __future__ import annotations

import argparse
import sys

from _gradient_cases import cases
from _side_by_side import Bar, Comparison, outcomes, told


def comparison(case: str, skipped: list[str]) -> Comparison:
    """One network: all systems in one interleaved run."""
    chosen = [name for name in ("torch", "tensorflow") if name not in skipped]
    labels = {"torch": "torch by hand", "tensorflow": "keras fit"}
    factories = {f"{name} trainer": f"_trainer_systems:{name}" for name in chosen}
    factories |= {labels[name]: f"_trainer_systems:hand_{name}" for name in chosen}
    most = {"torch": 1.05, "tensorflow": 1.1}
    bars = [Bar(f"{name} trainer", labels[name], most[name]) for name in chosen]
    return Comparison(f"{case}, an epoch of 10 steps", factories, bars, {"case": case})


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--budget", type=float, default=20.0, help="seconds for each network")
    parser.add_argument("--launches", type=int, default=1, help="fresh starts among which the budget is divided")
    parser.add_argument("--only", action="append", default=[], help="part of a network's name")
    parser.add_argument("--skip", action="append", default=[], choices=["torch", "tensorflow"])
    arguments = parser.parse_args()
    chosen = [name for name in cases() if not arguments.only or any(part in name for part in arguments.only)]
    options = {"budget": arguments.budget, "ci_width": 0.01, "min_calls": 2, "launches": arguments.launches}
    return told([(name, o) for name in chosen for o in outcomes(comparison(name, arguments.skip), **options)])


if __name__ == "__main__":
    sys.exit(main())
