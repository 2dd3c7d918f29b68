"""Losses whose minima and trajectories are known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Squares:
    """Least squares: the mean of (a·w + c - y)²/2 over samples, cut into uneven shards that agree on the minimum."""

    size: int
    samples: tuple[int, ...]
    inputs: np.ndarray
    answers: np.ndarray

    @classmethod
    def of(cls, size: int, seed: int = 0) -> Squares:
        rng = np.random.default_rng(seed)
        samples = tuple(int(n) for n in rng.integers(4, 12, size))
        inputs = rng.standard_normal((sum(samples), 6))
        return cls(size, samples, inputs, inputs @ np.arange(1.0, 7.0).reshape(6, 1) @ np.ones((1, 3)) + 0.5)

    @property
    def start(self) -> dict[str, np.ndarray]:
        return {"w": np.zeros((6, 3)), "c": np.zeros(3)}

    def gradients(self, x: dict[str, np.ndarray], rank: int | None = None) -> dict[str, np.ndarray]:
        """Of the mean loss of one rank's samples; of all."""
        edges = np.cumsum((0, *self.samples))
        part = slice(None) if rank is None else slice(edges[rank], edges[rank + 1])
        inputs = self.inputs[part]
        error = inputs @ x["w"] + x["c"] - self.answers[part]
        return {"w": inputs.T @ error / len(inputs), "c": error.mean(axis=0)}

    def loss(self, x: dict[str, np.ndarray]) -> float:
        return float(np.mean((self.inputs @ x["w"] + x["c"] - self.answers) ** 2))


def run(scheme: Any, problem: Squares, steps: int) -> tuple[list[dict[str, np.ndarray]], dict[str, Any]]:
    """All ranks' parameters and the state after some steps on their own shards."""
    x = [problem.start for _ in range(problem.size)]
    state = scheme.init(x)
    for _ in range(steps):
        slopes = [problem.gradients(one, rank) for rank, one in enumerate(x)]
        x, state = scheme.step(slopes, list(problem.samples), state, x)
    return x, state


def scalars(values: Any) -> list[dict[str, np.ndarray]]:
    """A parameter with one element on each rank."""
    return [{"x": np.array([float(value)])} for value in values]


def numbers(x: Any) -> np.ndarray:
    """Back from `scalars`."""
    return np.array([float(one["x"][0]) for one in x])
