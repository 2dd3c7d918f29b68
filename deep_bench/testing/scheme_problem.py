"""What schemes are compared on, and what the reference makes of it, give or take rounding."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from deep_bench.check.arithmetic import as_plain, disturb
from deep_bench.check.estimate import Expectation, pooled
from deep_bench.check.rounding import Rounding
from deep_bench.check.truth import SAMPLES
from deep_bench.reference.distributed.scheme import Scheme

Arrays: TypeAlias = "dict[str, np.ndarray]"

_SHAPES = {"kernel": (4, 3, 2), "bias": (7,), "scalar": (), "late": (5, 6)}


@dataclass(frozen=True, eq=False)
class Problem:
    """Seeded parameters, gradients and samples.

    Args:
        size: The number of ranks.
        steps: Steps with gradients.
        quiet: Steps with gradients of 0 after these.
        dtype: The working format.
        parameters: Where all ranks begin.
        gradients: Of each step and rank.
        samples: Of each step and rank; ``None`` for a step in which nobody says how many there are.
    """

    size: int
    steps: int
    quiet: int
    dtype: np.dtype
    parameters: Arrays
    gradients: tuple[tuple[Arrays, ...], ...]
    samples: tuple[tuple[int, ...] | None, ...]


def drawn_problem(
    size: int, steps: int, quiet: int, dtype: np.dtype, seed: int, *, contracts: bool, weighted: bool = False
) -> Problem:
    """A problem on which schemes differ.

    Numbers are those of float32 in either format. One parameter begins at 0, so that it is nothing but steps; elements have
    sizes of their own, and signs that mostly stay, so that what is left out for several steps adds up.

    Args:
        size: The number of ranks.
        steps: Steps with gradients.
        quiet: Steps without, where the scheme contracts.
        dtype: The working format.
        seed: Of what is drawn.
        contracts: Whether it does.
        weighted: Whether ranks say how many samples they have, which are uneven then.
    """
    rng = np.random.default_rng([seed, size])
    parameters = {n: _drawn(rng, s) if n != "late" else np.zeros(s, np.float32) for n, s in _SHAPES.items()}
    leaning = [{n: _drawn(rng, s, spread=1.0) for n, s in _SHAPES.items()} for _ in range(size)]
    gradients = [
        tuple({n: lean[n] * (0.5 + rng.random(s, np.float32)) for n, s in _SHAPES.items()} for lean in leaning)
        for _ in range(steps)
    ]
    quiet = quiet if contracts else 0
    gradients += [tuple({n: np.zeros(s, np.float32) for n, s in _SHAPES.items()} for _ in range(size))] * quiet
    uneven = [tuple(int(n) for n in rng.integers(1, 9, size)) for _ in gradients]
    return Problem(
        size,
        steps,
        quiet,
        dtype,
        {n: np.asarray(x, dtype) for n, x in parameters.items()},
        tuple(
            tuple({n: np.asarray(g, dtype) for n, g in rank_gradients.items()} for rank_gradients in of_ranks)
            for of_ranks in gradients
        ),
        tuple(uneven) if weighted else (None,) * len(gradients),
    )


def _drawn(rng: np.random.Generator, shape: tuple[int, ...], spread: float = 0.0) -> np.ndarray:
    sizes = 10.0 ** rng.uniform(-spread, spread, shape)
    return np.asarray(sizes * rng.standard_normal(shape), np.float32)


def expected(reference: Scheme, problem: Problem) -> list[list[Expectation]]:
    """What each rank's parameters may be after each step, as one vector: few elements are judged by their neighbours."""
    plain = trajectory(reference, problem)
    samples = []
    for number in range(SAMPLES["quick"]):
        rng = np.random.default_rng([number, problem.size])
        # Every second one makes the same errors in each step: where a step adds the same, it rounds alike.
        samples.append(trajectory(reference, problem, rng, alike=number % 2 == 1))
    return [
        [pooled(joined(x), [joined(s[step][rank]) for s in samples], problem.dtype) for rank, x in enumerate(of_ranks)]
        for step, of_ranks in enumerate(plain)
    ]


def joined(x: Arrays) -> np.ndarray:
    """All arrays one after the other, each row by row."""
    return np.concatenate([array.reshape(-1) for array in x.values()])


def trajectory(
    reference: Scheme, problem: Problem, rng: np.random.Generator | None = None, *, alike: bool = False
) -> list[list[Arrays]]:
    """Each rank's parameters after each step, in float64.

    Args:
        reference: The scheme.
        problem: What it runs on.
        rng: Where rounding errors are drawn from; none without it.
        alike: Draw the same ones in every step.
    """
    rounding = Rounding(problem.dtype, rng)
    start = {} if rng is None else rng.bit_generator.state
    held: list[Any] = [wide(problem.parameters, rounding) for _ in range(problem.size)]
    state, history = reference.init(held), []
    for gradients, samples in zip(problem.gradients, problem.samples, strict=True):
        if rng is not None and alike:
            rng.bit_generator.state = start
        slopes = [wide(arrays, rounding) for arrays in gradients]
        held, state = reference.step(slopes, counts(samples, problem.size), state, held)
        history.append([{name: np.asarray(as_plain(x)) for name, x in arrays.items()} for arrays in held])
    return history


def counts(samples: Sequence[int] | None, size: int) -> list[int]:
    """The samples of each rank: one each where nobody says."""
    return [1] * size if samples is None else list(samples)


def wide(x: Arrays, rounding: Rounding) -> dict[str, Any]:
    """Arrays in float64, which make rounding errors where these can be drawn."""
    if rounding.rng is None:
        return {name: array.astype(np.float64) for name, array in x.items()}
    return {name: disturb(array, rounding) for name, array in x.items()}
