"""Which labels tell results apart that have one name."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from deep_bench.results.result import Result

_FOLLOWING = frozenset({"kind", "cell", "launches"})
"""Labels that other labels or columns say as well."""


def grouped(results: Sequence[Result], named: Callable[[Result], object]) -> list[list[Result]]:
    """The results of each name, in the order in which names first come."""
    groups: dict[object, list[Result]] = {}
    for result in results:
        groups.setdefault(named(result), []).append(result)
    return list(groups.values())


def telling(groups: Sequence[Sequence[Result]]) -> list[str]:
    """The labels that vary within any of some groups; what names something goes before its settings.

    A factor of a recipe that says what another label says, such as ``factor.batch`` beside ``size.batch``, is left out.

    Example:
        >>> from datetime import datetime
        >>> from pathlib import Path
        >>> about = [{"system": "a", "factor.batch": size, "size.batch": size, "seed": "1"} for size in "12"]
        >>> telling([[Result("network", Path("r.json"), datetime(2026, 1, 1), labels, {}) for labels in about]])
        ['size.batch']
    """
    every = [result for group in groups for result in group]
    names = dict.fromkeys(name for result in every for name in result.labels if name not in _FOLLOWING)
    varying = [name for name in names if any(len({result.labels.get(name) for result in group}) > 1 for group in groups)]
    if "system" in varying:  # it has the framework and the options in it
        varying = [name for name in varying if name != "framework" and not name.startswith(("option.", "framework."))]
    selected: list[str] = []
    for name in sorted(varying, key=lambda name: ("." in name, name.startswith("factor."))):
        if not any(_says(label, name, every) for label in selected):
            selected.append(name)
    return selected


def _says(label: str, name: str, results: Sequence[Result]) -> bool:
    """Whether a label has all that another of the same last word has."""
    if label.rpartition(".")[2] != name.rpartition(".")[2]:
        return False
    return all(result.labels.get(name) in (None, result.labels.get(label)) for result in results)
