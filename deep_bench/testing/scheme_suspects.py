"""Usual mistakes of distributed optimizers, made in the reference on purpose, to say which one explains a wrong result."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import ml_dtypes
import numpy as np

from deep_bench.reference.distributed.allreduce import AllReduce
from deep_bench.reference.distributed.scheme import Scheme
from deep_bench.testing.scheme_problem import Arrays, Problem, counts, trajectory

_CLOSE = 2.0**-16
"""How near to a mistake's result, relative to its largest element, the result must be for the mistake to explain it."""

_NEARER = 8.0
"""So many times nearer than to the right result: a mistake that changes nothing explains nothing."""


def suspected(reference: Scheme, problem: Problem, held: Sequence[Arrays], step: int) -> str:
    """The mistake that leads to these parameters, in words; the size of the error where none of the usual ones does.

    Args:
        reference: The scheme as it should be.
        problem: What it ran on.
        held: The parameters of all ranks after a step that is wrong.
        step: Its number, from 0.
    """
    short = replace(problem, gradients=problem.gradients[: step + 1], samples=problem.samples[: step + 1])
    error = _distance(held, trajectory(reference, short)[-1])
    for words, mistake in _mistakes(reference, short):
        distance = _distance(held, mistake())
        if distance <= _CLOSE and distance * _NEARER < error:
            return f"as if {words}"
    rounding = float(ml_dtypes.finfo(problem.dtype).eps) / 2
    return f"off by up to {error:.2g} of a parameter's largest element, where {problem.dtype} rounds by {rounding:.1g}"


def _distance(held: Sequence[Arrays], targets: Sequence[Arrays]) -> float:
    """The largest difference of an element, relative to the largest element of its parameter."""
    largest = 0.0
    for mine, target in zip(held, targets, strict=True):
        for name, x in target.items():
            off, scale = float(np.max(np.abs(mine[name] - x), initial=0.0)), float(np.max(np.abs(x), initial=0.0))
            largest = max(largest, off / scale if scale else np.inf if off else 0.0)
    return largest


def _mistakes(reference: Scheme, problem: Problem) -> Iterator[tuple[str, Callable[[], Sequence[Arrays]]]]:
    size = problem.size

    def run(scheme: Scheme, **changed: Any) -> Callable[[], Sequence[Arrays]]:
        return lambda: trajectory(scheme, replace(problem, **changed))[-1]

    for rank in range(size if size > 1 else 0):
        yield f"rank {rank}'s gradient counted as 0", run(reference, gradients=_without(problem, rank))
        yield f"rank {rank}'s gradient were left out", run(reference, samples=_weightless(problem, rank))
    summed = tuple(
        tuple({n: size * g for n, g in rank_gradients.items()} for rank_gradients in of_ranks)
        for of_ranks in problem.gradients
    )
    if size > 1:
        yield "gradients were added up without a mean", run(reference, gradients=summed)
        yield "all ranks had equally many samples", run(reference, samples=(None,) * len(problem.samples))
        if not isinstance(reference, AllReduce):
            yield "gradients were averaged and nothing else", run(AllReduce(reference.inner))
    state = reference.init([problem.parameters] * size)
    for part in state:
        if part != "steps":
            yield f"the scheme's {part!r} were forgotten after each step", run(_Forgetful(reference.inner, reference, part))


def _without(problem: Problem, rank: int) -> tuple[tuple[Arrays, ...], ...]:
    return tuple(
        tuple(g if i != rank else {n: np.zeros_like(x) for n, x in g.items()} for i, g in enumerate(of_ranks))
        for of_ranks in problem.gradients
    )


def _weightless(problem: Problem, rank: int) -> tuple[tuple[int, ...], ...]:
    return tuple(
        tuple(n if i != rank else 0 for i, n in enumerate(counts(samples, problem.size))) for samples in problem.samples
    )


@dataclass(frozen=True)
class _Forgetful(Scheme):
    """A scheme that begins each step with a part of its state as it was at first."""

    scheme: Scheme
    part: str

    def init(self, parameters: list[Arrays]) -> dict[str, Any]:
        return self.scheme.init(parameters)

    def step(
        self, gradients: list[Arrays], samples: list[int], state: dict[str, Any], parameters: list[Arrays]
    ) -> tuple[list[Arrays], dict[str, Any]]:
        forgotten = {**state, self.part: self.scheme.init(parameters)[self.part]}
        return self.scheme.step(gradients, samples, forgotten, parameters)
