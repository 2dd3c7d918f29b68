"""The page that says how far the gradients of each framework are right.

``python -m deep_bench.testing.gradient_coverage found.json outputs.json > docs/gradients.md`` writes it from what
``deep-bench conformance --gradients --json`` has found, what the same command has without ``--gradients``, and what
``python -m deep_bench.testing.agreement`` has; ``make gradients`` does all of it.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from deep_bench.testing.agreement import AGREEMENT_WORDS
from deep_bench.testing.conformance import GRADIENT_WORDS
from deep_bench.testing.coverage import read
from deep_bench.testing.report import one_line, plain_refusal

Run = Mapping[str, Any]
"""One framework's result, as `GradientConformance.as_json` or `Conformance.as_json` gives it."""

_HEAD = """# Gradients of the ONNX standard's cases

Written by `make gradients`, from those of the cases of kind `node` in `onnx` {onnx} that have an input and an output in
float32 or float64; copies of a case that write an operator out in others are left out. Each case gets a loss: the sum of
all outputs' elements, with random weights between 0.5 and 1.5 of either sign. The gradient with respect to every
floating-point input that is no setting (the scales of `Resize`, say) is compared with differences of the reference in
float64, element by element; of inputs with more than 64 elements 64 drawn ones are tried, and three random directions.

**Right**: every slope agrees. **Kink**: every slope agrees, but at some element the function has two slopes (`Relu` at 0),
a jump (`Floor` at 1), or no value; there the gradient lies between the slopes, or may be anything. **Refused**: the
framework or its adapter says that there is no gradient, and why. **Wrong**: an answer, and not the right one. **Failed**:
any error.

The reference and ONNX Runtime run the network that `differentiate` derives, torch and TensorFlow their own autograd. The
last column counts the cases whose outputs the framework itself gets right (`deep-bench conformance`), and how many of those
have a gradient that is right, at a kink or not.

"""

_AGREEMENT = """
## Agreement in the last bits

The same gradients against those of the derived network in higher precision, by the rounding-error estimate
(`docs/checking.md`), in each case's own types and widened to float64 (`python -m deep_bench.testing.agreement`). **Right**:
rounding explains every difference. **Kink**: at some element the function has no single slope, and the framework's is
another one that is allowed. Cases that draw their results are not compared.

"""

_PEERS = """
`{system}` is the package of that name, another differentiation from ONNX to ONNX, whose networks were run on the reference
too (`benchmarks/onnx_ad_peer.py`).
"""


def page(runs: Iterable[Run]) -> str:
    """The page in Markdown.

    Args:
        runs: Gradient runs of any number of frameworks; and, for the last column, plain runs.
    """
    runs = list(runs)
    gradient_runs = [run for run in runs if run.get("gradients")]
    plain = {run["system"]: run for run in runs if "cases" in run and not run.get("gradients") and not run.get("frozen")}
    lines = [
        _HEAD.format(onnx=", ".join(sorted({run["onnx"] for run in gradient_runs})))
        + "\n".join(_summary(gradient_runs, plain))
    ]
    peers = [run for run in gradient_runs if ":" in run["system"]]
    lines += [_PEERS.format(system=_name(run)) for run in peers]
    if agreed := [run for run in runs if run.get("agreement")]:
        lines += [_AGREEMENT + "\n".join(_agreements(agreed))]
    lines += ["\n## Refusals\n", *_refusals(gradient_runs), "\n## By operator\n", *_operators(gradient_runs)]
    return "\n".join(lines).rstrip() + "\n"


def _name(run: Run) -> str:
    """The framework's name; of an import path, the class's module."""
    return str(run["system"]).partition("_peer:")[0].replace("_", "-")


def _summary(gradient_runs: Sequence[Run], plain: Mapping[str, Run]) -> Iterator[str]:
    yield f"| framework | cases | {' | '.join(GRADIENT_WORDS)} | right of those with right outputs |"
    yield f"|---|{'---:|' * (len(GRADIENT_WORDS) + 2)}"
    for run in gradient_runs:
        yield f"{line(run)} {_share(run, plain.get(run['system']))} |"


def line(run: Run) -> str:
    """The line of the first table that is about one framework, without its last column."""
    counts = [len(run["cases"]), *(run["words"][word] for word in GRADIENT_WORDS)]
    return f"| {_name(run)} {run['facts']['version']} | {' | '.join(f'{n:,}' for n in counts)} |"


def _share(run: Run, plain: Run | None) -> str:
    if plain is None:
        return "–"
    passed = {case["case"] for case in plain["cases"] if case["word"] == "passed"}
    counted = [case for case in run["cases"] if case["case"] in passed]
    right = sum(case["word"] in ("right", "kink") for case in counted)
    return f"{right:,} of {len(counted):,} ({right / len(counted):.1%})" if counted else "–"


def _agreements(agreed: Sequence[Run]) -> Iterator[str]:
    yield f"| framework | in | {' | '.join(AGREEMENT_WORDS)} |"
    yield f"|---|---|{'---:|' * len(AGREEMENT_WORDS)}"
    for run in agreed:
        counts = " | ".join(f"{run['words'].get(word, 0):,}" for word in AGREEMENT_WORDS)
        yield f"| {run['system']} | {'float64' if run['double'] else 'its own types'} | {counts} |"
    for run in agreed:
        for case in run["others"]:
            where = f"{run['system']} in {'float64' if run['double'] else 'its own types'}"
            yield f"\n{where}, `{case['case']}`: {case['word']}: {one_line(case['reason'])}"


def _refusals(gradient_runs: Sequence[Run]) -> Iterator[str]:
    yield "| framework | operator | cases | reason |"
    yield "|---|---|---:|---|"
    for run in gradient_runs:
        if ":" in run["system"]:
            continue
        reasons: dict[tuple[str, str], int] = Counter(
            (case["operators"][0], _reason(case["detail"])) for case in run["cases"] if case["word"] == "refused"
        )
        for (operator, reason), count in sorted(reasons.items(), key=lambda item: (-item[1], item[0])):
            yield f"| {_name(run)} | {operator} | {count} | {reason} |"


def _reason(detail: str) -> str:
    """A refusal without the node's name, in one line that a table can hold."""
    return plain_refusal(one_line(detail)).replace("|", "\\|")


def _operators(gradient_runs: Sequence[Run]) -> Iterator[str]:
    names = sorted({operator for run in gradient_runs for case in run["cases"] for operator in case["operators"]})
    yield f"| operator | {' | '.join(_name(run) for run in gradient_runs)} |"
    yield f"|---|{'---|' * len(gradient_runs)}"
    for operator in names:
        yield f"| {operator} | {' | '.join(_cell(operator, run) for run in gradient_runs)} |"


def _cell(operator: str, run: Run) -> str:
    counts = Counter(case["word"] for case in run["cases"] if operator in case["operators"])
    return ", ".join(f"{counts[word]} {word}" for word in GRADIENT_WORDS if counts[word]) or "–"


if __name__ == "__main__":
    sys.stdout.write(page(read(map(Path, sys.argv[1:]))))
