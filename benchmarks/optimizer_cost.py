"""What an optimizer's step costs on torch tensors: deep_bench's own rules, and the wrapper of ``torch.optim``.

    python benchmarks/optimizer_cost.py [--budget 20] [--only adam]

Both against bare ``torch.optim`` with ``foreach``, in one run: own rules, which are references, take at most 4 times as
long, the wrapper at most 1.05 times. A bar holds when the upper end of the ratio's interval does.
"""

from __future__ import annotations

import argparse
import sys

from _side_by_side import Bar, Comparison, run

OPTIMIZERS = ("adam", "adamw", "momentum", "sgd")
SHAPES = ("resnet18", "small")


def comparison(optimizer: str, shapes: str) -> Comparison:
    systems = {
        "torch.optim": "_optimizer_systems:bare",
        "wrapped": "_optimizer_systems:wrapped",
        "own": "_optimizer_systems:own",
    }
    bars = [Bar("wrapped", "torch.optim", 1.05), Bar("own", "torch.optim", 4.0)]
    return Comparison(f"{optimizer}, {shapes}", systems, bars, {"optimizer": optimizer, "shapes": shapes})


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--budget", type=float, default=20.0, help="seconds for each comparison")
    parser.add_argument("--only", action="append", choices=OPTIMIZERS, help="optimizers")
    arguments = parser.parse_args()
    names = arguments.only or OPTIMIZERS
    held = [run(comparison(name, shapes), budget=arguments.budget) for name in names for shapes in SHAPES]
    return 0 if all(held) else 1


if __name__ == "__main__":
    sys.exit(main())
