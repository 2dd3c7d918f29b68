"""How fast the loader hands out batches, beside ``torch.utils.data.DataLoader``.

    python benchmarks/loader_cost.py [--budget 20] [--only memory]

5,000 images of 3 x 32 x 32 bytes and their labels, in batches of 64; one call is an epoch. torch reads one sample at a time
as its tutorial does, or a batch at a time through ``__getitems__``. A bar holds when the upper end of the ratio's interval
does. Reading ahead cannot gain here, where nothing is computed meanwhile; its rows say what handing over costs.
"""

from __future__ import annotations

import argparse
import sys

from _side_by_side import Bar, Comparison, run

PLACES = ("memory", "memmap")


def comparisons(where: str) -> list[Comparison]:
    systems = {
        "torch, per item": "_loader_systems:torch_per_item",
        "torch, __getitems__": "_loader_systems:torch_per_batch",
        "deep_bench": "_loader_systems:ours",
        "deep_bench, 2 threads": "_loader_systems:ours_in_threads",
    }
    bars = [
        Bar("deep_bench", "torch, per item", 1 / 4),
        Bar("deep_bench", "torch, __getitems__", 1.0),
    ]
    in_processes = {
        "torch, per item, 2 processes": "_loader_systems:torch_per_item_in_processes",
        "deep_bench, 2 processes": "_loader_systems:ours_in_processes",
    }
    bar = Bar("deep_bench, 2 processes", "torch, per item, 2 processes", 1.0)
    shuffled = {"where": where, "order": "shuffled"}
    return [
        Comparison(f"{where}, shuffled", systems, bars, shuffled),
        Comparison(f"{where}, in order", systems, bars, {"where": where, "order": "sequential"}),
        Comparison(f"{where}, shuffled, in processes", in_processes, [bar], shuffled),
    ]


def places() -> Comparison:
    """At least 90 % of the batches a second that come from memory, in order, from files that hold whole arrays."""
    systems = {
        "memory": "_loader_systems:from_memory",
        "memmap": "_loader_systems:from_memmap",
        "HDF5, contiguous": "_loader_systems:from_hdf5",
    }
    bars = [Bar(label, "memory", 1 / 0.9) for label in systems if label != "memory"]
    return Comparison("deep_bench, in order", systems, bars)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--budget", type=float, default=20.0, help="seconds for each comparison")
    parser.add_argument(
        "--only", action="append", choices=[*PLACES, "places"], help="where the images lie; or all places beside one another"
    )
    arguments = parser.parse_args()
    chosen = arguments.only or [*PLACES, "places"]
    asked = [comparison for where in chosen for comparison in ([places()] if where == "places" else comparisons(where))]
    held = [run(comparison, budget=arguments.budget) for comparison in asked]
    return 0 if all(held) else 1


if __name__ == "__main__":
    sys.exit(main())
