"""Twenty single operators: the reference beside ``onnx.reference``, the adapters beside hand-written calls.

    python benchmarks/operator_speed.py [--budget 10] [--launches 1] [--only Conv] [--skip tensorflow]

The reference should be at least as fast as ``onnx.reference`` on each, 2.5 times as fast on Conv, 20 times on MaxPool, 100
times on AveragePool and ConvTranspose; an adapter should take at most 1.05 times the hand-written call where that takes
50 us or more. A goal is met if the upper end of the ratio's interval says so, and missed if the lower end does. The
cases are in ``_operator_cases.py``, the hand-written calls in ``_operator_systems.py``.

Two systems that run the same kernels still differ by some percent, another way in each launch: ``--launches 8`` starts
everything afresh so many times, and takes the intervals over that.
"""

from __future__ import annotations

import argparse
import sys

from _operator_cases import cases
from _side_by_side import Bar, Comparison, Outcome, outcomes

_GOALS = {
    "Conv 3x3": 2.5,
    "Conv strided, dilated, grouped": 2.5,
    "MaxPool": 20,
    "AveragePool": 100,
    "ConvTranspose": 100,
}
"""How many times as fast as ``onnx.reference``; the others at least as fast."""

_ADAPTERS = ("torch", "tensorflow", "onnxruntime")


def comparison(case: str, adapters: list[str]) -> Comparison:
    """One case: all systems in one interleaved run."""
    systems = {"reference": "_operator_systems:reference", "onnx.reference": "_operator_systems:standard"}
    bars = [Bar("reference", "onnx.reference", 1 / _GOALS.get(case, 1))]
    for name in adapters:
        systems |= {name: f"_operator_systems:ours_{name}", f"{name} by hand": f"_operator_systems:hand_{name}"}
        bars.append(Bar(name, f"{name} by hand", 1.05, from_ns=50_000))
    return Comparison(case, systems, bars, {"case": case})


def _said(case: str, outcome: Outcome) -> str:
    """A goal in one line."""
    bar = outcome.bar
    missed = "missed" if outcome.low > bar.most else "cannot tell"
    word = {"holds": "met", "does not hold": missed, "not asked": "not asked (under 50 us)"}.get(outcome.word, outcome.word)
    if bar.label == "reference":
        asked = f"at least {1 / bar.most:g} times as fast as {bar.base}"
        found = f"{1 / outcome.value:.2f} ({1 / outcome.high:.2f} to {1 / outcome.low:.2f})"
    else:
        asked = f"at most {bar.most:g} of {bar.base}"
        found = f"{outcome.value:.3f} ({outcome.low:.3f} to {outcome.high:.3f})"
    return f"{word}: {case}, {bar.label}: {found}, {asked}"


def _measured(case: str, adapters: list[str], arguments: argparse.Namespace) -> list[Outcome]:
    compared = comparison(case, adapters)
    return outcomes(compared, budget=arguments.budget, ci_width=0.01, min_calls=1, launches=arguments.launches)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--budget", type=float, default=10.0, help="seconds for each operator")
    parser.add_argument("--launches", type=int, default=1, help="fresh starts among which the budget is divided")
    parser.add_argument("--only", action="append", default=[], help="part of a case's name")
    parser.add_argument("--skip", action="append", default=[], choices=_ADAPTERS, help="leave out an adapter")
    arguments = parser.parse_args()
    chosen = [c for c in cases() if not arguments.only or any(part in c for part in arguments.only)]
    adapters = [a for a in _ADAPTERS if a not in arguments.skip]
    found = [(case, outcome) for case in chosen for outcome in _measured(case, adapters, arguments)]
    for case, outcome in found:
        print(_said(case, outcome))
    return 0 if all(outcome.fine for _, outcome in found) else 1


if __name__ == "__main__":
    sys.exit(main())
