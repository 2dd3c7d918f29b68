"""The page that says how far each framework covers the standard.

``python -m deep_bench.testing.coverage as-is.json frozen.json > docs/coverage.md`` writes it from what
``deep-bench conformance --json`` has found; ``make coverage`` does both.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import onnx

from deep_bench.graph import OPSET

Run = Mapping[str, Any]
"""One framework's result, as `deep_bench.testing.conformance.Conformance.as_json` gives it."""

DOMAINS = {"": OPSET, "ai.onnx.ml": None, "ai.onnx.preview": None, "ai.onnx.preview.training": None}
_SHORT = {"native": "n", "decomposed": "d", "fallback": "f", "folded": "k"}
_FORMS = tuple(_SHORT)
_OTHERS = ("wrong", "refused", "failed", "undecided", "skipped")

_HEAD = """# Coverage of the ONNX standard

Written by `make coverage` from the standard's own test cases, those that the package `onnx` {onnx} ships; opset {opset}.
A case counts as **passed** by its own tolerances; as **silently wrong** if there was an answer, and not the right one; as
**refused** if it was refused when the network was prepared, naming node, operator and reason; as **failed** if it failed
later; as **undecided** if the checker cannot tell, which only generated cases can be; as **skipped** if it draws random
numbers, whose distribution is tested apart. A passed case is **native** if the framework's own code ran every node,
**decomposed** if a composite operator was written out in such code, **fallback** if the reference computed a node, and
**folded** if all of it was known beforehand. *Frozen*: every input but the first is an initializer, as in real networks.
"""

_OPERATORS = """
## By operator

How the nodes of each operator were run in the cases, as they are, that contain it and were passed: **n**ative,
**d**ecomposed, **f**allback, **k** for known beforehand; and how many cases were not passed. A dash: no case contains it.
"""


def page(runs: Iterable[Run]) -> str:
    """The page in Markdown.

    Args:
        runs: Results of any number of frameworks, as they are and frozen.
    """
    runs = list(runs)
    versions = {run["onnx"] for run in runs}
    lines = [_HEAD.format(onnx=", ".join(sorted(versions)), opset=OPSET), *_summary(runs), _faults(runs), _OPERATORS]
    as_is = [run for run in runs if not run["frozen"]]
    for domain in DOMAINS:
        lines += [f"### {domain or 'Default domain'}", "", *_operators(domain, as_is), ""]
    return "\n".join(lines).rstrip() + "\n"


def _summary(runs: Sequence[Run]) -> Iterator[str]:
    names = ("cases", "passed", *_FORMS, "silently wrong", *_OTHERS[1:])
    yield f"| framework | {' | '.join(names)} |"
    yield f"|---|{'---:|' * len(names)}"
    yield from map(row, runs)


def row(run: Run) -> str:
    """The line of the first table that is about one framework in one form."""
    words, passed = run["words"], run["passed"]
    form = ", frozen" if run["frozen"] else ""
    counts = [len(run["cases"]), words["passed"], *(passed[f] for f in _FORMS), *(words[w] for w in _OTHERS)]
    return f"| {run['system']} {run['facts']['version']}{form} | {' | '.join(f'{n:,}' for n in counts)} |"


def _faults(runs: Sequence[Run]) -> str:
    by_system: dict[str, list[str]] = {}
    for run in runs:
        for case in run["cases"]:
            if case["known"] and case["word"] in ("wrong", "failed"):
                by_system.setdefault(run["system"], []).append(case["case"])
    if not by_system:
        return ""
    text = "; ".join(f"{len(set(names))} of {system}" for system, names in by_system.items())
    return f"\nWrong and failed cases that are known faults of the framework (`docs/framework-findings.md`): {text}."


def _operators(domain: str, runs: Sequence[Run]) -> Iterator[str]:
    yield f"| operator | {' | '.join(run['system'] for run in runs)} |"
    yield f"|---|{'---|' * len(runs)}"
    for operator in operators(domain):
        name = f"{domain}:{operator}" if domain else operator
        yield f"| {operator} | {' | '.join(_cell(operator, name, run) for run in runs)} |"


def _cell(operator: str, name: str, run: Run) -> str:
    cases = [case for case in run["cases"] if operator in case["operators"]]
    forms = Counter(case["forms"].get(name, "folded") for case in cases if case["word"] == "passed")
    counts = Counter(case["word"] for case in cases if case["word"] != "passed")
    parts = [f"{forms[form]} {_SHORT[form]}" for form in _FORMS if forms[form]]
    parts += [f"{counts[word]} {word}" for word in _OTHERS if counts[word]]
    return ", ".join(parts) or "–"


def operators(domain: str) -> list[str]:
    """The operators of a domain that are not deprecated in its newest version."""
    newest = DOMAINS[domain] or max(s.since_version for s in onnx.defs.get_all_schemas_with_history() if s.domain == domain)
    schemas = (s for s in onnx.defs.get_all_schemas_with_history() if s.domain == domain and s.since_version <= newest)
    latest: dict[str, Any] = {}
    for schema in schemas:
        if schema.name not in latest or latest[schema.name].since_version < schema.since_version:
            latest[schema.name] = schema
    return sorted(name for name, schema in latest.items() if not schema.deprecated)


def read(files: Iterable[Path]) -> Iterator[Run]:
    """The results in some files."""
    for file in files:
        content = json.loads(file.read_text(encoding="utf-8"))
        yield from content if isinstance(content, list) else [content]


if __name__ == "__main__":
    sys.stdout.write(page(read(map(Path, sys.argv[1:]))))
