"""What tells the pairs of a comparison from each other, in as few words as are needed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from deep_bench.errors import short_digests
from deep_bench.results.comparing.pairing import RECORD, Pair, Pairing

_SPEAK_FOR_THEMSELVES = ("case", "network", "system", "framework", "optimizer", "scheme", "recipe", "suite", "kind")
"""Labels whose values need no name beside them, in the order in which they are shown."""


def names_of(pairs: Sequence[tuple[Pairing, Pair]]) -> list[str]:
    """A name for each pair: the values of the labels that differ among them; empty where there is nothing to tell apart."""
    everything: list[Mapping[str, str]] = [
        {**one.labels, **({pairing.factor: pairing.values[1]} if pairing.factor != RECORD else {})} for pairing, one in pairs
    ]
    labels = dict.fromkeys(label for found in everything for label in found)
    varying = [label for label in labels if len({found.get(label) for found in everything}) > 1]
    varying = _without_repetition(varying, everything)
    return [" ".join(_shown(label, found[label]) for label in varying if label in found) for found in everything]


def _without_repetition(varying: Sequence[str], everything: Sequence[Mapping[str, str]]) -> list[str]:
    """The labels, the speaking ones first, without those that tell no more than the ones before them."""
    ordered = sorted(varying, key=lambda label: (label not in _SPEAK_FOR_THEMSELVES, _rank(label)))
    kept: list[str] = []
    for label in ordered:
        told = {tuple(found.get(other) for other in kept) for found in everything}
        more = {tuple(found.get(other) for other in (*kept, label)) for found in everything}
        if len(more) > len(told):
            kept.append(label)
    return kept


def _rank(label: str) -> int:
    return _SPEAK_FOR_THEMSELVES.index(label) if label in _SPEAK_FOR_THEMSELVES else 0


def _shown(label: str, value: str) -> str:
    value = short_digests(" ".join(value.split()))
    return value if label in _SPEAK_FOR_THEMSELVES else f"{label}={value}"
