"""What rows are called: which labels tell results apart, and what was run, in words."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from deep_bench.errors import short_digests
from deep_bench.results.report.model import clean
from deep_bench.results.result import Result
from deep_bench.results.table import problem, short_names
from deep_bench.results.telling import grouped, telling

KINDS = {
    "network": "Networks",
    "operators": "Operators",
    "communication": "Communication",
    "training": "Training",
    "scaling": "Scaling, predicted",
    "mlperf": "MLPerf",
}
"""Kind of record to its title, in the order of the report."""

_MOST_COLUMNS = 4


def of_kinds(results: Sequence[Result]) -> dict[str, list[Result]]:
    """The results of each kind, in the order of the report."""
    order = dict.fromkeys([*KINDS, *(result.kind for result in results)])
    by_kind = {kind: [result for result in results if result.kind == kind] for kind in order}
    return {kind: by_problem(kind_results) for kind, kind_results in by_kind.items() if kind_results}


def by_problem(results: Sequence[Result]) -> list[Result]:
    """The results of each problem beside each other, in the order in which problems first come."""
    order = {name: number for number, name in reversed(list(enumerate(map(problem, results))))}
    return sorted(results, key=lambda result: order[problem(result)])


def title_of(kind: str) -> str:
    """The title of a kind of record."""
    return KINDS.get(kind, clean(kind))


def system_of(result: Result) -> str:
    """The system, as a label has it."""
    return result.labels.get("system") or result.labels.get("framework") or "–"


def further(results: Sequence[Result], named: Callable[[Result], str] = system_of) -> dict[str, list[str]]:
    """Label to its value for each result, of all labels that tell results of one name apart.

    Of many the first have columns of their own, and one column has the others; where labels are not enough, the record's
    name comes last.

    Args:
        results: The rows of a table.
        named: What a row is called beside its problem.

    Example:
        >>> from datetime import datetime
        >>> from pathlib import Path
        >>> about = [{"system": "a", "size.batch": size} for size in "12"]
        >>> further([Result("network", Path("r.json"), datetime(2026, 1, 1), labels, {}) for labels in about])
        {'size.batch': ['1', '2']}
    """
    names = telling(grouped(results, lambda result: (problem(result), named(result))))
    separate, shared = names[:_MOST_COLUMNS], names[_MOST_COLUMNS:]
    columns = {name: [_value(result, name) for result in results] for name in separate}
    if shared:
        columns["further"] = [
            ", ".join(f"{clean(name, 80)} {_value(result, name)}" for name in shared) for result in results
        ]
    rows = {(problem(result), named(result), *(result.labels.get(name) for name in names)) for result in results}
    if len(rows) < len(results):
        short = short_names(list(dict.fromkeys(result.file for result in results)))
        columns["record"] = [clean(short[result.file], 60) for result in results]
    return columns


def _value(result: Result, name: str) -> str:
    return clean(short_digests(result.labels.get(name, "–")), 80)


def subject(result: Result) -> str:
    """What was run, in a word: the network, the operator or the operation."""
    of = result.labels
    names = ("operator", "case") if result.kind in ("operators", "communication") else ("network", "recipe")
    return clean(next((of[name] for name in names if name in of), problem(result)), 60)


def settings(result: Result, factor: str = "system") -> dict[str, str]:
    """The labels in which two results of one problem must agree that differ in the factor alone.

    Args:
        result: One of them.
        factor: The label that tells them apart.
    """
    free = {factor, "launches", "cell", "host", "version"}
    if factor == "system":
        free |= {"framework", "device"}
    if result.kind == "training":
        free |= {"seed", "network.sha256"}  # initial values are a matter of the seed
    details = ("option.", "framework.") if factor == "system" else (f"{factor}.",)
    return {name: value for name, value in result.labels.items() if name not in free and not name.startswith(details)}


def numbered(results: Sequence[Result]) -> Mapping[str, int]:
    """System to a number, in the order in which they come."""
    return {name: number for number, name in enumerate(dict.fromkeys(map(system_of, results)))}


def listed(words: Sequence[str], most: int = 4) -> str:
    """Some words as a sentence has them.

    Example:
        >>> listed(["a"]), listed(["a", "b", "c"]), listed(["a", "b", "c", "d", "e", "f"], 3)
        ('a', 'a, b and c', 'a, b, c and 3 more')
    """
    if len(words) > most:
        return f"{', '.join(words[:most])} and {len(words) - most} more"
    return " and ".join(filter(None, (", ".join(words[:-1]), words[-1]))) if words else ""
