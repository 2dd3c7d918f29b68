"""What callbacks cost: nothing where nobody watches, little where somebody does.

    python benchmarks/callback_cost.py [--budget 20] [--only reference]

A watched executor holds the one it watches, which has no code for callbacks at all: so "nobody watches" must be as fast
after a watched executor was made from it as before. A bar holds when the upper end of the ratio's interval does.
"""

from __future__ import annotations

import argparse
import sys

from _side_by_side import Bar, Comparison, run

FRAMEWORKS = ("reference", "onnxruntime", "torch", "tensorflow")


def comparison(framework: str) -> Comparison:
    systems = {
        "never watched": "_callback_systems:unwatched",
        "nobody watches": "_callback_systems:watched_before",
        "calls watched": "_callback_systems:calls_watched",
    }
    bars = [Bar("nobody watches", "never watched", 1.02), Bar("calls watched", "never watched", 1.02, allowance_ns=5_000)]
    if framework == "reference":
        systems["nodes watched"] = "_callback_systems:nodes_watched"
        bars.append(Bar("nodes watched", "never watched", 1.25))
    return Comparison(f"{framework}, digits-cnn, batch 8", systems, bars, {"framework": framework})


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--budget", type=float, default=20.0, help="seconds for each comparison")
    parser.add_argument("--only", action="append", choices=FRAMEWORKS, help="frameworks")
    arguments = parser.parse_args()
    held = [run(comparison(name), budget=arguments.budget) for name in arguments.only or FRAMEWORKS]
    return 0 if all(held) else 1


if __name__ == "__main__":
    sys.exit(main())
