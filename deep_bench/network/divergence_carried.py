"""How precise a framework's own intermediate values are, with all the errors that were carried to them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from deep_bench.check.decisions import Seen, open_decisions
from deep_bench.check.endtoend import Whole, assess_whole
from deep_bench.check.information import nothing_in
from deep_bench.check.rounding import Recall
from deep_bench.check.truth import SAMPLES, Truth
from deep_bench.network.suspect import Suspect, as_float
from deep_bench.tensor import is_float

_CHUNK_BYTES = 512 * 2**20
_MOST_ASKS = 128
_MOST_ASKS_OF_A_KIND = 12


@dataclass(frozen=True, slots=True)
class Carried:
    """How a value of the network compares with the oracle's, end to end.

    Args:
        word: *right* (rounding of all that came before explains it), *cannot tell*, *wrong*, *no information* (rounding
            drowns it), *fused* (it cannot be had without changing what the framework computes) or *not compared*.
        bits: Its significant bits, by the errors that rounding is expected to carry there; NaN where not compared.
        reason: Why, in one sentence; empty where it is simply right.
    """

    word: str
    bits: float = float("nan")
    reason: str = ""

    @classmethod
    def of(cls, whole: Whole, nothing: str = "") -> Carried:
        """What a comparison of one value says, and why what is expected tells nothing, if so."""
        (output,) = whole.outputs
        if nothing and whole.word == "right":
            return cls("no information", reason=f"what it should be is {nothing}")
        if whole.clear and whole.information:
            return cls("no information", output.bits, "rounding alone changes it by as much as its own spread")
        return cls(whole.word, output.bits, output.reason)


@dataclass(eq=False)
class CarriedValues:
    """Asks a framework for the values inside its network, and compares them.

    Values are asked for in chunks, as further outputs. A chunk counts only if the network's own outputs come out bitwise
    as they do without it; if not, its values are asked for by kind (which operators give and read them), and the kinds that
    change something by halves, so that little more than the values that change something is left out.

    Args:
        truth: Of the network.
        suspect: The framework.
        kinds: Names of values of the outermost graph, in order, each with its kind.
    """

    truth: Truth
    suspect: Suspect
    kinds: Mapping[str, str]
    asks: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self._plain, again = self.suspect.outputs(), self.suspect.outputs()
        self._repeats = all(_same(y, again[n]) for n, y in self._plain.items())

    @property
    def names(self) -> Sequence[str]:
        """The names of the values."""
        return list(self.kinds)

    def compared(self) -> dict[str, Carried]:
        """What is said of each value."""
        if self.truth.random:
            return dict.fromkeys(self.names, Carried("not compared", reason="the network draws random numbers"))
        verdicts = self._round({}, {})
        if all(c.word not in ("wrong", "cannot tell") for c in verdicts.values()):
            return verdicts
        decisions = open_decisions(self.truth)
        if not decisions:
            return verdicts
        return self._round(decisions, self._flipped(decisions))

    def _flipped(self, decisions: Mapping[str, Seen]) -> dict[str, np.ndarray]:
        """The framework's own decisions where they differ from the oracle's within the margin of rounding."""
        actual, _ = self._given([n for n in decisions if n in self.names])
        chosen = {n: y for n, y in actual.items() if n in decisions and not np.array_equal(y, decisions[n].oracle)}
        admitted = {n: y for n, y in chosen.items() if decisions[n].admits(y)}
        return {n: y.astype(np.float64) if is_float(y.dtype) else y for n, y in admitted.items()}

    def _round(self, decisions: Mapping[str, Seen], imposed: Mapping[str, np.ndarray]) -> dict[str, Carried]:
        verdicts: dict[str, Carried] = {}
        for chunk in self._chunks():
            actual, missing = self._given(chunk)
            oracle, samples = self._evaluations(frozenset(actual), imposed)
            for name in chunk:
                if name not in actual or name not in oracle:
                    verdicts[name] = missing.get(name, Carried("not compared", reason="the oracle has no such value"))
                else:
                    evaluated = [_restored(s[name], oracle[name]) for s in samples]
                    verdicts[name] = self._one(name, actual[name], oracle[name], evaluated, decisions)
        return verdicts

    def _one(self, name: str, actual: Any, oracle: Any, samples: Sequence[Any], decisions: Mapping[str, Seen]) -> Carried:
        if self.suspect.cast:
            actual = as_float(actual, self.truth.formats.get(name, np.asarray(oracle).dtype))
        whole = assess_whole(self.truth, {name: actual}, {name: oracle}, [{name: s} for s in samples], decisions)
        return Carried.of(whole, nothing_in([np.asarray(oracle)]))

    def _evaluations(
        self, names: frozenset[str], imposed: Mapping[str, np.ndarray]
    ) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        """The oracle's values, and those of evaluations with rounding errors, as `_stored` keeps them."""
        recall = Recall()
        oracle: dict[str, Any] = {}
        self.truth.evaluate(self.truth.arithmetic(imposed=imposed), _Collector(names, oracle, {}))
        samples: list[dict[str, Any]] = []
        for k in range(SAMPLES[self.truth.effort] if names else 0):
            samples.append({})
            arithmetic = self.truth.arithmetic(np.random.default_rng([6, k]), recall=recall, imposed=imposed)
            self.truth.evaluate(arithmetic, _Collector(names, samples[-1], oracle))
        return oracle, samples

    def _chunks(self) -> Iterator[list[str]]:
        """The names, in chunks whose evaluations fit into a bounded memory."""
        bytes_each = 16 + 4 * SAMPLES[self.truth.effort]
        chunk: list[str] = []
        used = 0
        for name in self.names:
            size = self.truth.values[name].size * bytes_each if name in self.truth.values else 0
            if chunk and used + size > _CHUNK_BYTES:
                yield chunk
                chunk, used = [], 0
            chunk.append(name)
            used += size
        if chunk:
            yield chunk

    def _given(self, names: Sequence[str]) -> tuple[dict[str, Any], dict[str, Carried]]:
        """The values that the framework gives, and why it does not give the others."""
        plain_values = {n: self._plain[n] for n in names if n in self._plain}
        remaining = [n for n in names if n not in plain_values]
        if not remaining:
            return plain_values, {}
        if not self._repeats:
            reason = "its outputs differ from run to run, so that nobody sees whether asking for more changes them"
            return plain_values, dict.fromkeys(remaining, Carried("not compared", reason=reason))
        values, missing = self._asked(remaining)
        return plain_values | values, missing

    def _asked(self, names: Sequence[str]) -> tuple[dict[str, Any], dict[str, Carried]]:
        """All at once if that changes nothing, else kind by kind."""
        values, reason = self._ask(names)
        missing: dict[str, Carried] = {}
        if not reason:
            return values, missing
        kinds: dict[str, list[str]] = {}
        for name in names:
            kinds.setdefault(self.kinds.get(name, ""), []).append(name)
        for members in kinds.values():
            self._halve(members, values, missing, self.asks + _MOST_ASKS_OF_A_KIND)
        return values, missing

    def _halve(self, names: Sequence[str], values: dict[str, Any], missing: dict[str, Carried], limit: int) -> None:
        """Ask for values of one kind, then for the halves of what changes something."""
        if self.asks >= min(limit, _MOST_ASKS):
            reason = "others of its kind change what is computed when they are asked for, and not each of them was tried"
            missing.update(dict.fromkeys(names, Carried("fused", reason=reason)))
            return
        new_values, reason = self._ask(names)
        values.update(new_values)
        if reason and len(names) == 1:
            missing[names[0]] = Carried("fused", reason=reason)
        elif reason:
            middle = len(names) // 2
            self._halve(names[:middle], values, missing, limit)
            self._halve(names[middle:], values, missing, limit)

    def _ask(self, names: Sequence[str]) -> tuple[dict[str, Any], str]:
        """The values, or why they do not count."""
        self.asks += 1
        try:
            values = self.suspect.values([*self._plain, *names])
        except Exception as error:  # a framework may fail in any way when asked for values inside its network
            return {}, f"asking for it fails: {next(iter(str(error).splitlines()), type(error).__name__)[:200]}"
        changed = [n for n, y in self._plain.items() if not _same(values[n], y)]
        if changed:
            return {}, f"asking for it changes the output {changed[0]!r}"
        return {n: values[n] for n in names}, ""


def _same(a: Any, b: Any) -> bool:
    """Whether two results have the same bits."""
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(_same, a, b))
    if not isinstance(a, np.ndarray) or not isinstance(b, np.ndarray):
        return a is b
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    return np.array_equal(a, b) if a.dtype == object else a.tobytes() == b.tobytes()


@dataclass(frozen=True, slots=True)
class _Collector:
    """Keeps the named values of an evaluation, as what they differ by from the oracle's if there are any."""

    names: frozenset[str]
    found: dict[str, Any]
    oracle: dict[str, Any]

    def __call__(self, step: Any, arrays: Sequence[Any], results: Sequence[Any]) -> None:  # noqa: ARG002 (an Observer)
        for name, y in zip(step.outputs, results, strict=False):
            if name in self.names and isinstance(y, np.ndarray | np.generic):
                self.found[name] = _stored(np.asarray(y), self.oracle.get(name))


@dataclass(frozen=True, slots=True, eq=False)
class _Deviation:
    """How far an evaluation lies from the oracle's: a size of an error, for which float32 is precise enough."""

    difference: np.ndarray


def _stored(y: np.ndarray, oracle: np.ndarray | None) -> np.ndarray | _Deviation:
    if oracle is None or y.dtype != np.float64 or y.shape != oracle.shape:
        return y
    with np.errstate(all="ignore"):
        difference = y - oracle
        narrow = difference.astype(np.float32)
    return _Deviation(narrow) if np.isfinite(narrow).all() else y


def _restored(stored: np.ndarray | _Deviation, oracle: np.ndarray) -> np.ndarray:
    return oracle + stored.difference if isinstance(stored, _Deviation) else stored
