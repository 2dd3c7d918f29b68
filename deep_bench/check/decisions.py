"""Discrete results: a decision may flip where its margin is within rounding, and what follows is judged by that flip."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from deep_bench.check.discrete import differing, rounds_to, widened
from deep_bench.check.replay import form_of
from deep_bench.check.subject import named
from deep_bench.check.thresholds import MARGIN_RATIO
from deep_bench.check.truth import Truth
from deep_bench.graph.node import is_standard
from deep_bench.tensor import is_float

_STEPS = frozenset({"Floor", "Ceil", "Round", "Sign", "Hardmax", "Mod", "Unique"})
_TRIALS = 12


@dataclass(frozen=True, slots=True, eq=False)
class Seen:
    """The values that a discrete result took over evaluations with enlarged rounding errors.

    Args:
        oracle: The oracle's.
        trials: The others.
    """

    oracle: np.ndarray
    trials: Sequence[np.ndarray]

    @property
    def open(self) -> bool:
        """Whether rounding can change it at all."""
        return any(t.shape != self.oracle.shape or differing(t, self.oracle).any() for t in self.trials)

    def admits(self, actual: np.ndarray) -> bool:
        """Whether every element of ``actual`` is the oracle's or lies within what was seen at its place."""
        if actual.shape == self.oracle.shape and not differing(actual, self.oracle).any():
            return True
        if any(t.shape != self.oracle.shape for t in self.trials):
            return True  # the number of results is itself a decision
        if actual.shape != self.oracle.shape:
            return False
        different = differing(actual, self.oracle)
        stack = np.stack([widened(np.asarray(t)[different]) for t in (self.oracle, *self.trials)])
        if stack.dtype == object:
            return bool(np.all(np.any(stack == actual[different], axis=0)))
        stack, chosen = stack.astype(np.float64), actual[different].astype(np.float64)
        return bool(np.all((stack.min(axis=0) <= chosen) & (chosen <= stack.max(axis=0))))


@dataclass(frozen=True, slots=True, eq=False)
class Imposed:
    """The oracle's results with a system's own decisions imposed.

    Args:
        outputs, samples: As those of `Truth`.
        flipped: Names of the values that the system decided otherwise, within the margin.
        refused: Why its decisions cannot be accepted, or ``""``.
    """

    outputs: Mapping[str, Any]
    samples: Sequence[Mapping[str, Any]]
    flipped: tuple[str, ...]
    refused: str = ""


def open_decisions(truth: Truth) -> dict[str, Seen]:
    """The decisions of the outermost graph, and the discrete outputs, that rounding can change."""
    names = _deciding(truth)
    discrete = {n for n, y in truth.outputs.items() if not is_float(np.asarray(y).dtype)}
    oracle: dict[str, np.ndarray] = {}
    truth_outputs = truth.evaluate(truth.arithmetic(), _collector(names, oracle))
    oracle.update({n: np.asarray(truth_outputs[n]) for n in discrete})
    trials: list[dict[str, np.ndarray]] = []
    for k in range(_TRIALS if oracle else 0):
        values: dict[str, np.ndarray] = {}
        rng = np.random.default_rng([3, k])
        outputs = truth.evaluate(truth.arithmetic(rng, scale=MARGIN_RATIO), _collector(names, values))
        trials.append({**values, **{n: np.asarray(outputs[n]) for n in discrete}})
    observations = {n: Seen(y, [t[n] for t in trials if n in t]) for n, y in oracle.items()}
    return {n: s for n, s in observations.items() if s.open}


def impose(truth: Truth, subject: Any, decisions: Mapping[str, Seen]) -> Imposed | None:
    """Ask a system for its decisions, and evaluate the oracle with them.

    Returns:
        ``None`` if it decides as the oracle does.
    """
    form = form_of(truth.network, subject.upgrades)
    inner = {v.name for node in form.nodes for v in node.outputs}
    names = [n for n in decisions if n in inner]
    actual = named(subject.run(form.with_outputs(names), truth.inputs), names) if names else {}
    flipped = tuple(n for n in names if _decided_otherwise(actual[n], decisions[n].oracle))
    if not flipped:
        return None
    beyond = [n for n in flipped if not decisions[n].admits(actual[n])]
    if beyond:
        return Imposed({}, (), flipped, f"decision {beyond[0]!r} differs from the oracle's where rounding leaves no choice")
    imposed = {n: widened(actual[n]) for n in flipped}
    outputs = truth.evaluate(truth.arithmetic(imposed=imposed))
    return Imposed(outputs, truth.sampled(len(truth.samples), 4, imposed=imposed), flipped)


def _decided_otherwise(actual: np.ndarray, oracle: np.ndarray) -> bool:
    return actual.shape != oracle.shape or bool(differing(actual, oracle).any())


def _deciding(truth: Truth) -> frozenset[str]:
    """Names of results of the outermost graph that are discrete functions of floating-point inputs."""
    formats, deciding = truth.formats, set()
    for node in truth.network.upgraded().nodes:
        names = [str(v.name) for v in node.outputs if v.name]
        if not any(v is not None and is_float(formats.get(str(v.name), np.dtype(bool))) for v in node.inputs):
            continue
        stepped = is_standard(node) and node.op_type in _STEPS
        for name in names:
            form = formats.get(name)
            if form is None or name in truth.settings:
                continue
            if stepped or not is_float(form) or rounds_to(node, form):
                deciding.add(name)
    return frozenset(deciding)


def _collector(names: frozenset[str], values: dict[str, np.ndarray]) -> Any:
    def observe(step: Any, arrays: Sequence[Any], results: Sequence[Any]) -> None:  # noqa: ARG001 (an Observer)
        for name, y in zip(step.outputs, results, strict=False):
            if name in names:
                values[name] = np.asarray(y)

    return observe
