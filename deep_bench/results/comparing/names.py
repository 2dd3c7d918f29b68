"""What tells the pairs of a comparison from each other, in as few words as are needed."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from deep_bench.errors import short_digests
from deep_bench.results.comparing.pairing import RECORD, Pair, Pairing

_SPEAK_FOR_THEMSELVES = ("case", "network", "system", "framework", "optimizer", "scheme", "recipe", "suite", "kind")
"""Labels whose values need no name beside them, in the order in which they are shown."""

_LISTED = 6


def names_of(pairs: Sequence[tuple[Pairing, Pair]]) -> list[str]:
    """A name for each pair: the values of the labels that differ among them; empty where there is nothing to tell apart."""
    return told_apart([labelled(pairing, pair.labels) for pairing, pair in pairs])


def labelled(pairing: Pairing, labels: Mapping[str, str]) -> Mapping[str, str]:
    """The labels that both sides share, and what the factor is on the later side."""
    return {**labels, **({pairing.factor: pairing.values[1]} if pairing.factor != RECORD else {})}


def told_apart(everything: Sequence[Mapping[str, str]], always: Collection[str] = ()) -> list[str]:
    """A name for each of some labelled things.

    Args:
        everything: The labels of each.
        always: Labels that are in the names even where they do not differ.

    Example:
        >>> told_apart([{"seed": "0", "dtype": "float32"}, {"seed": "0", "dtype": "float64"}])
        ['dtype=float32', 'dtype=float64']
    """
    labels = dict.fromkeys(label for mapping in everything for label in mapping)
    varying = [label for label in labels if label in always or len({mapping.get(label) for mapping in everything}) > 1]
    varying = _without_repetition(varying, everything, always)
    return [" ".join(_shown(label, mapping[label]) for label in varying if label in mapping) for mapping in everything]


def _without_repetition(
    varying: Sequence[str], everything: Sequence[Mapping[str, str]], always: Collection[str]
) -> list[str]:
    """The labels, the speaking ones first, without those that tell no more than the ones before them."""
    ordered = sorted(varying, key=lambda label: (label not in _SPEAK_FOR_THEMSELVES, _rank(label)))
    selected: list[str] = []
    for label in ordered:
        groups = {tuple(mapping.get(name) for name in selected) for mapping in everything}
        finer_groups = {tuple(mapping.get(name) for name in (*selected, label)) for mapping in everything}
        if label in always or len(finer_groups) > len(groups):
            selected.append(label)
    return selected


def some(names: Sequence[str]) -> str:
    """The first few of some names, each once, and how many more there are."""
    unique = list(dict.fromkeys(names))
    return ", ".join(unique) if len(unique) <= _LISTED else f"{', '.join(unique[:_LISTED])} and {len(unique) - _LISTED} more"


def _rank(label: str) -> int:
    return _SPEAK_FOR_THEMSELVES.index(label) if label in _SPEAK_FOR_THEMSELVES else 0


def _shown(label: str, value: str) -> str:
    value = short_digests(" ".join(value.split()))
    return value if label in _SPEAK_FOR_THEMSELVES else f"{label}={value}"
