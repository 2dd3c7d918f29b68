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
    return told_apart([labelled(pairing, one.labels) for pairing, one in pairs])


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
    labels = dict.fromkeys(label for found in everything for label in found)
    varying = [label for label in labels if label in always or len({found.get(label) for found in everything}) > 1]
    varying = _without_repetition(varying, everything, always)
    return [" ".join(_shown(label, found[label]) for label in varying if label in found) for found in everything]


def _without_repetition(
    varying: Sequence[str], everything: Sequence[Mapping[str, str]], always: Collection[str]
) -> list[str]:
    """The labels, the speaking ones first, without those that tell no more than the ones before them."""
    ordered = sorted(varying, key=lambda label: (label not in _SPEAK_FOR_THEMSELVES, _rank(label)))
    kept: list[str] = []
    for label in ordered:
        told = {tuple(found.get(other) for other in kept) for found in everything}
        more = {tuple(found.get(other) for other in (*kept, label)) for found in everything}
        if label in always or len(more) > len(told):
            kept.append(label)
    return kept


def some(names: Sequence[str]) -> str:
    """The first few of some names, each once, and how many more there are."""
    kept = list(dict.fromkeys(names))
    return ", ".join(kept) if len(kept) <= _LISTED else f"{', '.join(kept[:_LISTED])} and {len(kept) - _LISTED} more"


def _rank(label: str) -> int:
    return _SPEAK_FOR_THEMSELVES.index(label) if label in _SPEAK_FOR_THEMSELVES else 0


def _shown(label: str, value: str) -> str:
    value = short_digests(" ".join(value.split()))
    return value if label in _SPEAK_FOR_THEMSELVES else f"{label}={value}"
