"""Whether a later answer of a kernel is still one: no worse than its first."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from deep_bench.check.endtoend import Whole, assess_whole
from deep_bench.check.truth import Truth

_LOST = 4.0
"""How many bits an answer may have less than the first: other inputs round otherwise."""

_FEWEST = 4.0
"""An answer with fewer bits than this is none."""


class Honest:
    """Compares later answers with the first: a kernel in reduced precision stays what it is.

    Args:
        truth: Of the inputs of the first answer.
        first: That answer.
    """

    def __init__(self, truth: Truth, first: Mapping[str, np.ndarray]) -> None:
        whole = whole_of(truth, first)
        self._clear, self._bits = whole.clear, _bits(whole)

    @property
    def judgeable(self) -> bool:
        """Whether the first answer is good enough to tell a later one from none."""
        return self._clear or self._bits >= _FEWEST

    def admits(self, truth: Truth, answer: Mapping[str, np.ndarray]) -> bool:
        """Whether an answer to other inputs is as good as the first was to its own."""
        whole = whole_of(truth, answer)
        return whole.clear or _bits(whole) >= max(_FEWEST, self._bits - _LOST)


def _bits(whole: Whole) -> float:
    """The bits of the worst output; none where elements differ in kind."""
    return 0.0 if any(o.mismatches for o in whole.outputs) else whole.bits


def whole_of(truth: Truth, answer: Mapping[str, np.ndarray]) -> Whole:
    """What is said of an answer to the inputs of ``truth``."""
    return assess_whole(truth, answer, truth.outputs, truth.samples)


def tells_apart(truth: Truth, other: Truth) -> bool:
    """Whether the right answers to two inputs differ by more than rounding."""
    for name, y in truth.outputs.items():
        a, b = np.asarray(y), np.asarray(other.outputs[name])
        if a.shape != b.shape:
            return True
        narrow = {name: b.astype(truth.formats[name])}
        with np.errstate(all="ignore"):
            if not assess_whole(truth, narrow, {name: y}, [{name: s[name]} for s in truth.samples]).clear:
                return True
    return False
