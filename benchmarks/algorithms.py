"""Several algorithms of one operator: how long each takes beside the reference's own, and how many bits it keeps.

    python benchmarks/algorithms.py [--budget 4] [--only Conv]

Times are NumPy's, in which a loop over many small steps is slow: they compare the methods as they are written here, and
are no prediction for a kernel. Bits are significant bits by the estimate of rounding errors, element by element and, for
algorithms that are knowingly less accurate, relative to the largest elements.
"""

from __future__ import annotations

import argparse
import sys

from _algorithm_systems import OPERATORS, problem
from _side_by_side import HERE
from rich.console import Console
from rich.table import Table

import deep_bench as db
from deep_bench.check import InProcessSubject, Truth, Verdict, establish, judge
from deep_bench.measure.compare import ratio
from deep_bench.measure.session import Plan, measure
from deep_bench.measure.statistics import summarize
from deep_bench.reference.operators import find
from deep_bench.reference.operators.algorithms import algorithms, less_accurate, name_of
from deep_bench.workers.fleet import Contender


def verdict(truth: Truth, operator: str, name: str, *, declared: bool) -> Verdict:
    """The checker's verdict on an algorithm, norm-wise if it is declared as less accurate."""
    adapter = db.frameworks["reference"](algorithms={operator: name})
    return judge(truth, InProcessSubject(adapter, truth.network, truth.inputs), norm_wise=[operator] if declared else [])


def compare(operator: str, budget: float) -> bool:
    """Time all algorithms of an operator in one interleaved run, judge them, and print the table; whether all are right."""
    own = name_of(operator, find("", operator))
    names = [own, *(name for name in algorithms[operator] if name != own)]
    contenders = [
        Contender(
            name,
            "_algorithm_systems:chosen",
            {"operator": operator, "algorithm": name},
            environment={"OMP_NUM_THREADS": "1"},
            path=(HERE,),
        )
        for name in names
    ]
    found = measure(contenders, Plan(ci_width=0.01, budget_s=budget, min_calls=1))
    truth = establish(*problem(operator))
    shapes = ", ".join(str(list(x.shape)) for x in truth.inputs.values())
    table = Table(
        "algorithm", "median", "ratio", "95 % interval", "bits", "norm-wise", "verdict", title=f"{operator} {shapes}"
    )
    right = True
    for name in names:
        if not (blocks := found.blocks(name, "native")):
            table.add_row(name, f"failed: {found.failures.get(name, 'no samples')}")
            right = False
            continue
        compared = ratio(blocks, found.blocks(own, "native"))
        interval = "too few samples" if compared.interval is None else "{:.2f} to {:.2f}".format(*compared.interval)
        less = name in less_accurate.get(operator, ())
        plain, declared = verdict(truth, operator, name, declared=False), verdict(truth, operator, name, declared=less)
        right = right and declared.word == "right"
        table.add_row(
            name if name != own else f"{name} (the reference's own)",
            f"{summarize(blocks[0]).median / 1e6:.3f} ms",
            f"{compared.value:.2f}",
            interval,
            f"{plain.significant_bits:.1f}",
            f"{declared.significant_bits:.1f}" if less else "",
            declared.word,
        )
    Console(width=120).print(table)
    return right


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--budget", type=float, default=4.0, help="seconds of timing for each operator")
    parser.add_argument("--only", action="append", choices=OPERATORS, help="operators")
    arguments = parser.parse_args()
    right = [compare(operator, arguments.budget) for operator in arguments.only or OPERATORS]
    return 0 if all(right) else 1


if __name__ == "__main__":
    sys.exit(main())
