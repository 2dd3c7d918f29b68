"""Usual mistakes of distributed optimizers, made in the reference on purpose, to say which one explains a wrong result."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from deep_bench.reference.distributed.allreduce import AllReduce
from deep_bench.reference.distributed.scheme import Scheme
from deep_bench.testing.scheme_problem import Arrays, Problem, counts, trajectory

_CLOSE = 2.0**-16
"""How near to a mistake's result, relative to its largest element, the result must be for the mistake to explain it."""


def suspected(reference: Scheme, problem: Problem, held: Sequence[Arrays], step: int) -> str:
    """The mistake that leads to these parameters, in words; empty where none of the usual ones does.

    Args:
        reference: The scheme as it should be.
        problem: What it ran on.
        held: The parameters of all ranks after a step that is wrong.
        step: Its number, from 0.
    """
    short = replace(problem, gradients=problem.gradients[: step + 1], samples=problem.samples[: step + 1])
    for words, mistake in _mistakes(reference, short):
        if _near(held, mistake()):
            return f"as if {words}"
    return ""


def _near(held: Sequence[Arrays], mistaken: Sequence[Arrays]) -> bool:
    for mine, other in zip(held, mistaken, strict=True):
        for name, x in other.items():
            scale = float(np.max(np.abs(x), initial=0.0))
            if mine[name].shape != x.shape or not np.all(np.abs(mine[name] - x) <= _CLOSE * scale):
                return False
    return True


def _mistakes(reference: Scheme, problem: Problem) -> Iterator[tuple[str, Callable[[], Sequence[Arrays]]]]:
    size = problem.size

    def run(scheme: Scheme, **changed: Any) -> Callable[[], Sequence[Arrays]]:
        return lambda: trajectory(scheme, replace(problem, **changed))[-1]

    for rank in range(size if size > 1 else 0):
        yield f"rank {rank}'s gradient counted as 0", run(reference, gradients=_without(problem, rank))
        yield f"rank {rank}'s gradient were left out", run(reference, samples=_weightless(problem, rank))
    summed = tuple(tuple({n: size * g for n, g in one.items()} for one in of_ranks) for of_ranks in problem.gradients)
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
