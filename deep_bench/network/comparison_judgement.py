"""What a whole comparison says: whether all is well, why not, and what else a reader must know."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from deep_bench.errors import InvalidArgument, UnknownName
from deep_bench.network.differences import ORACLE, Difference, Yardstick, norms, unlike

if TYPE_CHECKING:
    from deep_bench.network.comparison import NetworkComparison

_BAD = ("failed", "wrong")
_UNDECIDED = ("cannot tell", "no information")


def objections(found: NetworkComparison) -> tuple[str, ...]:
    """Why a comparison is not `NetworkComparison.ok`, one sentence each; nothing where it is."""
    statements = [f"{s.label} {'failed' if s.word == 'failed' else 'is wrong'}" for s in found.systems if s.word in _BAD]
    statements += _not_compared(found)
    for pair in found.pairs:
        if pair.word == "more than rounding":
            statements.append(f"output {pair.output!r} of {pair.label} and {pair.base} differs by more than rounding")
        elif pair.word == "no reference":
            statements.append(f"output {pair.output!r} of {pair.label} and {pair.base} differs, and there is no reference")
    if not statements and not any(map(_decided, (*found.against_oracle, *found.pairs))):
        statements.append("nothing could be decided")
    return tuple(statements)


def _decided(pair: Difference) -> bool:
    """Whether there was something to compare: where all is NaN or nothing is there, anything would be as good."""
    figures = pair.norms
    empty = figures is not None and figures.size == figures.not_finite
    return pair.word not in _UNDECIDED and not empty


def _not_compared(comparison: NetworkComparison) -> Iterator[str]:
    """The systems that have no output in common, and those without an output of the network's."""
    required = () if comparison.yardstick is None else tuple(comparison.yardstick.truth.outputs)
    for label, arrays in comparison.outputs.items():
        if missing := [name for name in required if name not in arrays]:
            yield f"{label} has no output {missing[0]!r}"
    compared = {frozenset((pair.label, pair.base)) for pair in comparison.pairs}
    for first, second in combinations(comparison.outputs, 2):
        if frozenset((first, second)) not in compared:
            yield f"{second} and {first} have no output in common"


def between(found: NetworkComparison, label: str, base: str, output: str) -> Difference:
    """See `NetworkComparison.between`."""
    every = (*found.against_oracle, *found.pairs)
    for pair in every:
        if (pair.label, pair.base, pair.output) == (label, base, output):
            return pair
        if (pair.base, pair.label, pair.output) == (label, base, output):
            return _turned(found, pair)
    for name in (label, base):
        if name not in found and name != ORACLE:
            raise UnknownName("system of this comparison", name, [*found, ORACLE])
    descriptions = {f"{pair.output!r} of {pair.label} and {pair.base}" for pair in every}
    raise InvalidArgument(
        f"no comparison of {output!r} of {label} with {base}", f"one of these: {'; '.join(sorted(descriptions)) or '(none)'}"
    )


def _turned(comparison: NetworkComparison, pair: Difference) -> Difference:
    """The same comparison the other way round: its word stays, what is relative to the base changes."""
    actual, base = (_array(comparison, label, pair.output) for label in (pair.base, pair.label))
    figures = None if pair.norms is None else norms(actual, base)
    bits = pair.bits
    if figures is not None and pair.word in ("equal", "no reference"):
        bits = figures.comparable_bits
    reason = pair.reason if pair.alike else unlike(actual, base)
    return replace(pair, label=pair.base, base=pair.label, norms=figures, bits=bits, reason=reason)


def _array(comparison: NetworkComparison, label: str, output: str) -> np.ndarray:
    if label != ORACLE:
        return comparison.outputs[label][output]
    assert comparison.yardstick is not None
    return np.asarray(comparison.yardstick.truth.outputs[output])


def names_that_differ(outputs: Mapping[str, Mapping[str, np.ndarray]], yardstick: Yardstick | None) -> list[str]:
    """What of the outputs' names not all agree on."""
    reference = {} if yardstick is None else {"the network": yardstick.truth.outputs}
    names = {label: list(arrays) for label, arrays in {**reference, **outputs}.items()}
    every = list(dict.fromkeys(name for output_names in names.values() for name in output_names))
    notes = []
    for name in every:
        without = [label for label, output_names in names.items() if name not in output_names]
        owners = [label for label in names if label not in without]
        if without and len(without) <= len(owners):
            notes.append(f"the output {name!r} is missing in {', '.join(without)}, and not compared there")
        elif without:
            notes.append(f"the output {name!r} is in {', '.join(owners)} only, and not compared with the others")
    return notes


def not_finite(outputs: Mapping[str, Mapping[str, np.ndarray]]) -> list[str]:
    """Which outputs hold NaN or infinity, and how many."""
    notes = []
    for label, arrays in outputs.items():
        for name, array in arrays.items():
            if array.dtype.kind not in "OSUbiu" and (count := int(np.count_nonzero(~_finite(array)))):
                notes.append(f"{count} of the {array.size} elements of output {name!r} of {label} are NaN or infinite")
    return notes


def _finite(array: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        return np.isfinite(array.astype(np.complex128 if np.iscomplexobj(array) else np.float64))


def remarks(yardstick: Yardstick | None, blocks: Mapping[str, Any]) -> list[str]:
    """What holds for the comparison as a whole."""
    notes = []
    if yardstick is None:
        notes.append("no reference: the differences are plain norms, and nothing says which of the systems is right")
    if blocks:
        notes.append(
            "timed in turn, in random order, in this one process, where systems disturb each other; "
            "deep_bench.run gives each framework a process of its own"
        )
    return notes
