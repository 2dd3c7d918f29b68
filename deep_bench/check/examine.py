"""Settling what the replay of one node leaves open: other summation orders, narrower formats, the precision ladder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from deep_bench.check.assess import Opinion, assess
from deep_bench.check.decisions import Seen
from deep_bench.check.discrete import rounds_to
from deep_bench.check.estimate import Expectation, compare
from deep_bench.check.isolate import Isolated, isolate
from deep_bench.check.reduced import recognise
from deep_bench.check.replay import Expected, Replayed, evaluations, expectations, form_of, samples_for
from deep_bench.check.thresholds import EXACT_BITS, FEWEST_BITS, LINEAR_SHARE, MARGIN_RATIO, SHRINKS_BY
from deep_bench.check.truth import SAMPLES, Truth
from deep_bench.check.verdict import NodeVerdict, Word
from deep_bench.graph import operator_name
from deep_bench.tensor import significand_bits

_SAMPLES = 16


@dataclass(frozen=True, slots=True)
class Settled:
    """What was found out about a node."""

    word: Word
    reason: str = ""
    opinion: Opinion = Opinion("clear")  # noqa: RUF009 (immutable)


def as_decisions(replayed: Replayed) -> Replayed:
    """The same, with what is rounded once to a floating-point format expected exactly."""
    exact = {
        name: e.value.astype(e.form)
        for name, e in replayed.expected.items()
        if isinstance(e, Expectation) and rounds_to(replayed.node, e.form)
    }
    return replace(replayed, expected={**replayed.expected, **exact}) if exact else replayed


def first_opinions(replayed: Replayed) -> dict[str, Opinion]:
    """The opinion of each output of a replayed node."""
    return {name: assess(replayed.actual[name], e) for name, e in replayed.expected.items()}


def settle(truth: Truth, subject: Any, replayed: Replayed, opinions: Mapping[str, Opinion]) -> Settled:
    """Examine a node whose first opinions are not all clear."""
    worst = max(opinions.values(), key=lambda o: (o.rank, o.deficit))
    alone = isolate(form_of(truth.network, subject.upgrades), [replayed.node], truth.values)
    discrete = {n for n, e in replayed.expected.items() if not isinstance(e, Expectation)}
    doubted = {n for n, o in opinions.items() if o.level != "clear"}
    if any(opinions[n].level == "impossible" for n in doubted):
        return Settled("wrong", worst.reason, worst)
    if doubted & discrete:
        refused = _beyond_margin(alone, replayed, doubted & discrete)
        if refused or doubted <= discrete:
            return Settled("wrong", worst.reason, worst) if refused else Settled("right", "a decision within its margin")
    size = sum(x.nbytes for x in (*alone.inputs.values(), *replayed.actual.values()))
    if sequential := _sequential(alone, replayed.actual, samples_for(size, SAMPLES[truth.effort])):
        precise = _precisely(subject, alone, replayed)
        if precise is None or _all_shrink(replayed, precise):
            return Settled("right", "it adds term by term, which loses bits on long sums", sequential)
        return Settled("wrong", f"{worst.reason}; in float64 the error stays", worst)
    if narrow := recognise(alone, replayed.actual, replayed.expected):
        return Settled("reduced precision", f"it computes in {narrow}", worst)
    return _by_ladder(subject, alone, replayed, worst)


def _beyond_margin(alone: Isolated, replayed: Replayed, names: set[str]) -> bool:
    """Whether a discrete result differs where rounding leaves no choice."""
    trials = evaluations(alone, _SAMPLES, scale=MARGIN_RATIO)
    for name in names:
        observation = Seen(np.asarray(replayed.expected[name]), [np.asarray(t[name]) for t in trials])
        if not observation.admits(replayed.actual[name]):
            return True
    return False


def _sequential(alone: Isolated, actual: Mapping[str, np.ndarray], samples: int) -> Opinion | None:
    """The opinion if sums are taken to be added term by term, where that makes all clear."""
    expected: Mapping[str, Expected] = expectations(alone, samples, accumulation="sequential")
    opinions = [assess(actual[n], e) for n, e in expected.items()]
    return max(opinions, key=lambda o: o.deficit) if all(o.level == "clear" for o in opinions) else None


def _by_ladder(subject: Any, alone: Isolated, replayed: Replayed, worst: Opinion) -> Settled:
    """Run the node in float64: rounding shrinks, a fault stays."""
    precise = _precisely(subject, alone, replayed)
    if precise is not None:
        if _all_shrink(replayed, precise):
            if worst.bits < FEWEST_BITS:
                return Settled("wrong", f"{worst.reason}; in float64, where another kernel runs, it does not", worst)
            return Settled("reduced precision", f"{worst.reason}; in float64 the error vanishes", worst)
        return Settled("wrong", f"{worst.reason}; in float64 the error stays", worst)
    if worst.level == "beyond":
        return Settled("wrong", worst.reason, worst)
    if worst.agreement is not None and worst.agreement.linear_share > LINEAR_SHARE:
        return Settled("wrong", worst.reason, worst)
    return Settled("cannot tell", f"{worst.reason}, and it cannot run in float64 here", worst)


def _precisely(subject: Any, alone: Isolated, replayed: Replayed) -> Mapping[str, np.ndarray] | None:
    """The node's results in float64, if it has any in the same shapes."""
    try:
        precise: Mapping[str, np.ndarray] = subject.run_precisely(alone.network, alone.inputs)
    except Exception:  # a framework says in its own ways that it has no such kernel
        return None
    return precise if all(n in precise and precise[n].shape == a.shape for n, a in replayed.actual.items()) else None


def _all_shrink(replayed: Replayed, precise: Mapping[str, np.ndarray]) -> bool:
    return all(_shrinks(replayed.actual[n], precise[n], e) for n, e in replayed.expected.items())


def _shrinks(actual: np.ndarray, precise: np.ndarray, expected: Expected) -> bool:
    if not isinstance(expected, Expectation):
        return bool(np.array_equal(precise, expected))
    before, after = compare(actual, expected), compare(precise, expected)
    if after.misplaced:
        return False
    p = significand_bits(expected.form)
    gained = -np.log2(SHRINKS_BY)
    return after.bits >= min(before.bits + gained, p + 2.5) and after.largest <= max(before.largest * SHRINKS_BY, 1.0)


def node_verdict(replayed: Replayed, opinions: Mapping[str, Opinion], settled: Settled) -> NodeVerdict:
    """What is reported of a node."""
    name, operator = str(replayed.node.name), replayed.operator
    forms = [e.form for e in replayed.expected.values() if isinstance(e, Expectation)]
    worst = max(opinions.values(), key=lambda o: o.deficit if o.bits < EXACT_BITS else -np.inf)
    deficit = settled.opinion.deficit if settled.word == "right" and settled.reason else worst.deficit
    form = str(forms[0]) if forms else ""
    return NodeVerdict(name, operator, settled.word, settled.reason, worst.bits, form, float(deficit))


def relative_loss(replayed: Replayed) -> str:
    """A remark on a bounded, positive operator whose small results lose relative accuracy, or ``""``."""
    if operator_name(replayed.node) not in ("Sigmoid", "Softmax"):
        return ""
    for name, expected in replayed.expected.items():
        if not isinstance(expected, Expectation) or replayed.actual[name].shape != expected.value.shape:
            continue
        y = np.abs(expected.value)
        u = 2.0 ** -significand_bits(expected.form)
        with np.errstate(all="ignore"):
            relative = np.abs(replayed.actual[name].astype(np.float64) - expected.value) / y
        lost = (y > 1e-30) & (relative > 64 * u)
        if lost.any():
            return (
                f"{replayed.operator} loses relative accuracy where its result is below {np.max(y[lost]):.2g} "
                f"(by up to {np.max(relative[lost]):.1g})"
            )
    return ""
