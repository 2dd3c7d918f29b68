"""What a timeline costs the loop that it watches.

    python benchmarks/timeline_cost.py [--budget 10]

A region may cost half a microsecond more than an empty ``with`` block. A loop of NumPy steps that take some tenths of a
millisecond, with three regions and the waiting for data in each, may become 5 % slower. A bar holds when the upper end of
the ratio's interval does.
"""

from __future__ import annotations

import argparse
import sys

from _side_by_side import Bar, Comparison, run
from _timeline_systems import CALLS

REGIONS = Comparison(
    f"{CALLS} regions",
    {
        "empty blocks": "_timeline_systems:empty_blocks",
        "regions": "_timeline_systems:regions",
        "kept regions": "_timeline_systems:kept_regions",
    },
    [Bar(label, "empty blocks", 1.0, allowance_ns=500 * CALLS) for label in ("regions", "kept regions")],
)
STEPS = Comparison(
    f"{CALLS} steps of nothing",
    {"plain": "_timeline_systems:plain_iteration", "watched": "_timeline_systems:watched_iteration"},
    [Bar("watched", "plain", 1.0, allowance_ns=5_000 * CALLS)],
)
TRAINING = Comparison(
    "10 steps of a perceptron in NumPy",
    {"plain": "_timeline_systems:plain_training", "watched": "_timeline_systems:watched_training"},
    [Bar("watched", "plain", 1.05)],
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--budget", type=float, default=10.0, help="seconds for each comparison")
    arguments = parser.parse_args()
    held = [run(comparison, budget=arguments.budget) for comparison in (REGIONS, STEPS, TRAINING)]
    return 0 if all(held) else 1


if __name__ == "__main__":
    sys.exit(main())
