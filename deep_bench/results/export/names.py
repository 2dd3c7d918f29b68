"""How other programs call a result."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence

from deep_bench.results.result import Result

_OF_ONE_RUN = frozenset({"cell", "factor.seed", "launches", "seed", "version"})


def word(text: str) -> str:
    """A text as one word of letters, digits, dots, dashes and underscores.

    Example:
        >>> word("time to target"), word("torch:threads=1"), word("")
        ('time_to_target', 'torch_threads_1', '_')
    """
    return re.sub(r"[^\w.-]+", "_", text) or "_"


def problem_name(result: Result) -> str:
    """What was run, as one word.

    Example:
        >>> from datetime import datetime
        >>> from pathlib import Path
        >>> labels = {"case": "8 x 8", "operator": "Gelu", "ranks": "4"}
        >>> problem_name(Result("operators", Path("r"), datetime(2026, 1, 1), labels, {}))
        'operators_Gelu_8_x_8_ranks_4'
    """
    of = result.labels
    case, operator = of.get("case", ""), of.get("operator", "").rpartition("::")[2]
    words = [of[key] for key in ("recipe", "network", "data") if of.get(key)]
    words += [case] if case.startswith(operator) else [operator, case]
    words += [f"ranks {of['ranks']}"] if of.get("ranks", "1") != "1" else []
    words += [f"{key} {value}" for key, value in of.items() if key.startswith("size.")]
    return word(" ".join(filter(None, [result.kind, *dict.fromkeys(words)])))


def distinct_names(results: Sequence[Result]) -> list[str]:
    """What was run, as one word; where one system on one host ran it with other settings too, with the labels that differ.

    The same run made again, or with another seed, has the same name.

    Args:
        results: All that are named together.

    Example:
        >>> from datetime import datetime
        >>> from pathlib import Path
        >>> both = [Result("training", Path("r"), datetime(2026, 1, 1), {"recipe": "digits", "lr": lr}, {}) for lr in "12"]
        >>> distinct_names(both)
        ['training_digits_lr_1', 'training_digits_lr_2']
    """
    names = [problem_name(result) for result in results]
    groups: dict[tuple[str, ...], list[int]] = {}
    for number, (result, name) in enumerate(zip(results, names, strict=True)):
        key = (name, result.labels.get("host", ""), result.labels.get("system", ""))
        groups.setdefault(key, []).append(number)
    for indices in groups.values():
        labels = dict.fromkeys(label for i in indices for label in results[i].labels if label not in _OF_ONE_RUN)
        differ = [label for label in labels if len({results[i].labels.get(label) for i in indices}) > 1]
        for i in indices:
            parts = [word(f"{label} {results[i].labels[label]}") for label in differ if label in results[i].labels]
            names[i] = "_".join([names[i], *parts])
    return names


def numbered(names: Iterable[str]) -> list[str]:
    """Names of which each is there once: a second one of a name gets a number.

    Example:
        >>> numbered(["a", "b", "a"])
        ['a', 'b', 'a.2']
    """
    counts: Counter[str] = Counter()
    unique = []
    for name in names:
        counts[name] += 1
        unique.append(name if counts[name] == 1 else f"{name}.{counts[name]}")
    return unique
