"""Faults nobody thought of: mutants of the reference's source and of the gradient rules', held out from every threshold."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import CodeType, FunctionType
from typing import Any

import numpy as np

from deep_bench import frameworks
from deep_bench.check.subject import in_float64
from deep_bench.graph import Network
from deep_bench.network import differentiate
from deep_bench.network.gradient import gradient_name
from deep_bench.network.gradient.pullback import LOSS
from deep_bench.tensor import is_inexact

from ..entry import Entry
from ..problem import Arrays
from ..problems import BUILDERS, GRADIENTS, problem
from ..subjects import refuse_float64
from .mutator import Mutation, functions_in, mutation, places, watched
from .trial import faults_among

_SMALLEST = 2.0**-17
"""A mutant counts as a fault if in float64 it changes the largest result by at least this share of the largest result.

Smaller changes are a few units in the last place of float32: no test can tell them from rounding, and no user would.
"""

_REFERENCE, _RULES = "deep_bench.reference.operators.", "deep_bench.network.gradient.rules."
_APART = ("_dtypes", "_arguments", "algorithms", "cast")
"""Modules that are not mutated: what every operator goes through, and messages."""

_WINDOWS = ("Windows", "windows", "padded", "box")
"""What is mutated although it is in one of these: where a window lies."""

GRADIENTS_OF = (
    "MatMul",
    "MatMul batched",
    "Gemm",
    "Conv",
    "Conv grouped",
    "ConvTranspose",
    "Softmax",
    "LogSoftmax",
    "SoftmaxCrossEntropyLoss",
    "LayerNormalization",
    "RMSNormalization",
    "BatchNormalization",
    "GroupNormalization",
    "Attention",
    "Attention causal",
    "Attention biased",
    "Attention shared",
    "ReduceMean",
    "ReduceL1",
    "ReduceL2",
    "ReduceProd",
    "ReduceLogSumExp",
    "CumSum",
    "AveragePool",
    "LSTM of three steps",
    "GRU of three steps",
    "RNN of three steps",
    "Add",
    "Gelu",
    "Sigmoid",
)
"""The problems whose gradient rules are mutated."""

_MOST = 40
"""How many mutants of the rules are tried for each problem, drawn by a seed: every one differentiates a network."""


class _Mutated:
    """The reference while one function of it is changed.

    Args:
        run: From a network and its inputs to the outputs, by the reference as it is then.
        network, inputs: What it is judged on.
        mutation: The change.
        ladder: Whether it can run in float64.
    """

    upgrades = True

    def __init__(
        self, run: Callable[[Network, Arrays], Any], network: Network, inputs: Arrays, mutation: Mutation, *, ladder: bool
    ) -> None:
        self._run, self.network, self.inputs, self.mutation, self.ladder = run, network, inputs, mutation, ladder

    def outputs(self) -> dict[str, np.ndarray]:
        """The outputs on the problem itself."""
        return self.run(self.network, self.inputs)

    def run(self, network: Network, inputs: Arrays) -> dict[str, np.ndarray]:
        """The outputs of another network."""
        if not self.ladder:
            refuse_float64(network)
        with self.mutation.applied(), np.errstate(all="ignore"):
            return {n: np.array(y) for n, y in self._run(network, inputs).items()}

    def precisely(self) -> dict[str, np.ndarray]:
        """The outputs on the problem itself in float64."""
        return self.run(*in_float64(self.network, self.inputs))


def _evaluate(network: Network, inputs: Arrays) -> Any:
    return frameworks["reference"]().prepare(network).evaluate(inputs)


def _derive(wrt: Any, network: Network, inputs: Arrays) -> Any:
    derived = differentiate(network, LOSS, wrt).with_outputs([gradient_name(LOSS, n) for n in wrt])
    return _evaluate(derived, inputs)


def mutants(problems: Sequence[str] = tuple(BUILDERS)) -> list[Entry]:
    """Every mutant of the operators' source that runs and changes the result, with and without a ladder in turn."""
    return [entry for where in problems for entry in _entries(where)]


def rule_mutants(problems: Sequence[str] = GRADIENTS_OF, *, apart: bool = True) -> list[Entry]:
    """Every mutant of the gradient rules' source that runs and changes a gradient.

    Args:
        problems: Whose gradients.
        apart: Whether mutants are tried in another process: those of rules that slice may end it.
    """
    names = [f"{GRADIENTS}{of}" for of in problems]
    if not apart:
        return [entry for where in names for entry in _entries(where)]
    faults = faults_among(names)
    return [entry for where, keys in faults.items() for entry in _entries(where, frozenset(keys))]


def _entries(where: str, faulty: Collection[str] | None = None) -> list[Entry]:
    """The faults among the mutants of a problem; whose keys are known where trying one may end the process."""
    found = (c for c in candidates(where) if (c.is_fault() if faulty is None else c.key in faulty))
    return [Entry(f"{c.mutation}, in {where}", where, lambda c=c: c.subject, held_out=True) for c in found]


@dataclass(frozen=True, eq=False)
class Candidate:
    """A mutant that may be a fault.

    Args:
        mutation: The change.
        subject: The reference with it.
        precise: The same in float64.
        right: What is right in float64.
        own: What the reference gives in the problem's own element types.
    """

    mutation: Mutation
    subject: _Mutated
    precise: _Mutated
    right: Mapping[str, np.ndarray]
    own: Mapping[str, np.ndarray]

    @property
    def key(self) -> str:
        """Names it among the candidates of its problem."""
        return f"{self.mutation.function.__module__} {self.mutation.function.__qualname__} {self.mutation.number}"

    def is_fault(self) -> bool:
        """Whether it runs, and changes what the reference gives: in float64 by more than rounding, in its own types at all.

        Some rules have code of their own for float64.
        """
        return _changes(self.precise, self.right, _SMALLEST) and _changes(self.subject, self.own, 0.0)


def candidates(where: str) -> Iterator[Candidate]:
    """All mutants of what runs when a problem is solved."""
    posed, gradients = problem(where), where.startswith(GRADIENTS)
    if not gradients and len({n.op_type for n in posed.network.upgraded().nodes}) > 1:
        return
    run = partial(_derive, posed.pullback.wrt) if gradients else _evaluate
    network, wide = in_float64(posed.network, posed.inputs)
    for arrays in (posed.network.initializers, posed.inputs, network.initializers, wide):
        for array in arrays.values():
            array.flags.writeable = False  # a mutant may write where it should read
    with np.errstate(all="ignore"):
        own = {n: np.array(y) for n, y in run(posed.network, posed.inputs).items()}  # what this imports is not watched
    with watched() as ran, np.errstate(all="ignore"):
        right = {n: np.array(y) for n, y in run(network, wide).items()}
    found = list(_places(_RULES if gradients else _REFERENCE, ran))
    if gradients and len(found) > _MOST:
        found = random.Random(where).sample(found, _MOST)
    for function, number in found:
        changed = mutation(function, number)
        subject = _Mutated(run, posed.network, posed.inputs, changed, ladder=number % 2 == 0)
        yield Candidate(changed, subject, _Mutated(run, network, wide, changed, ladder=True), right, own)


def _places(prefix: str, ran: Collection[CodeType]) -> Iterator[tuple[FunctionType, int]]:
    """Where all functions of some modules that ran can be changed."""
    found = (f for code, f in functions_in(prefix).items() if code in ran)
    for function in sorted(found, key=lambda f: (f.__module__, f.__qualname__)):
        apart = any(f".{module}" in function.__module__ for module in _APART)
        if not apart or function.__qualname__.partition(".")[0] in _WINDOWS:
            yield from ((function, number) for number in range(places(function)))


def _changes(subject: _Mutated, right: Mapping[str, np.ndarray], share: float) -> bool:
    """Whether a mutant runs, and changes a result by more than this share of its largest element."""
    try:
        wrong = subject.outputs()
    except Exception:  # a mutant that crashes is found by anyone
        return False
    return any(_differ(wrong[n], y, share) for n, y in right.items())


def _differ(a: np.ndarray, b: np.ndarray, share: float) -> bool:
    if a.shape != b.shape or a.dtype.kind != b.dtype.kind:
        return True
    if not is_inexact(a.dtype):
        return not np.array_equal(a, b)
    a, b = a.astype(np.float64), b.astype(np.float64)
    if not np.array_equal(np.isfinite(a), np.isfinite(b)):
        return True
    with np.errstate(all="ignore"):
        largest = float(np.nanmax(np.abs(np.where(np.isfinite(b), b, 0)), initial=0.0)) or 1.0
        return float(np.nanmax(np.abs(np.where(np.isfinite(a - b), a - b, 0)), initial=0.0)) > share * largest
