"""What pictures of kernels say beside their times. Importing this module needs matplotlib."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

from matplotlib.axes import Axes

from deep_bench.operators.studies.trial import Trial

WRONG = "wrong, or of reduced precision"
"""What a cross means."""

FAILED = "failed"
"""The reason that comes first."""

_NAMES = 3
_LINES = 6
"""So many cases are named in a line, and so many lines are written, before the rest is counted."""


def mark_wrong(axes: Axes, places: Iterable[tuple[float, float]]) -> None:
    """A cross on each result that is not right, and what crosses mean in the legend; nothing where there is none."""
    wrong = list(places)
    if wrong:
        x, y = zip(*wrong, strict=True)
        look: dict[str, Any] = {"color": "red", "markersize": 10, "markeredgewidth": 1.5, "linestyle": "none", "zorder": 5}
        axes.plot(x, y, marker="x", label=WRONG, **look)


def not_shown(trials: Sequence[Trial], unfit: Callable[[Trial], str]) -> list[str]:
    """A line for each reason for which some of these are not in the picture: whose they are, and of which cases.

    Args:
        trials: All that was asked for.
        unfit: Why a trial cannot be shown; empty if it is.
    """
    cases: dict[tuple[str, str], list[str]] = defaultdict(list)
    for trial in trials:
        if reason := unfit(trial):
            cases[reason, trial.label].append(trial.case.name)
    labels = defaultdict(list)
    for (reason, label), names in cases.items():
        labels[reason, tuple(names)].append(label)
    every = {trial.label for trial in trials}
    lines = [
        f"not shown: {'all' if len(contestants) == len(every) > 1 else ', '.join(contestants)} on {_some(names)}: {reason}"
        for (reason, names), contestants in sorted(labels.items(), key=lambda item: item[0][0] != FAILED)
    ]
    return lines if len(lines) <= _LINES else [*lines[: _LINES - 1], f"not shown: {len(lines) - _LINES + 1} more such"]


def number_of(cases: Collection[object]) -> str:
    """How many cases.

    Example:
        >>> number_of(["4x8"]), number_of(["4x8", "8x8"])
        ('1 case', '2 cases')
    """
    return f"{len(cases)} case{'' if len(cases) == 1 else 's'}"


def _some(names: Sequence[str]) -> str:
    return (
        ", ".join(names)
        if len(names) <= _NAMES
        else f"{', '.join(names[: _NAMES - 1])} and {len(names) - _NAMES + 1} more cases"
    )
