"""Parameters and gradients that bring out what tells update rules apart."""

from __future__ import annotations

import numpy as np

Arrays = dict[str, np.ndarray]


def drawn_parameters(dtype: np.dtype, seed: int) -> Arrays:
    """A matrix, a vector that is half zeros, and a matrix of zeros.

    A parameter that starts at 0 is, after a step, nothing but that step, with all its digits.
    """
    rng = np.random.default_rng([seed, 0])
    vector = rng.standard_normal(24)
    vector[::2] = 0
    parameters = {
        "matrix": rng.standard_normal((6, 8)),
        "vector": vector,
        "faint": np.zeros((5, 8)),
    }
    return {name: np.asarray(x, dtype) for name, x in parameters.items()}


def drawn_gradients(parameters: Arrays, steps: int, dtype: np.dtype, seed: int) -> list[Arrays]:
    """Gradients from 1e-7 to 10, each element with its own size; some are always 0, some constant, and some die out.

    Those of a parameter that is all zeros are of about 1e-14, where the smallest epsilons show.
    """
    rng = np.random.default_rng([seed, 1])
    sizes = {name: _sizes(x, rng) for name, x in parameters.items()}
    kinds = {name: rng.integers(0, 8, x.shape) for name, x in parameters.items()}
    by_step = []
    for step in range(steps):
        drawn = {}
        for name, size in sizes.items():
            kind, noise = kinds[name], rng.standard_normal(size.shape)
            noise = np.where(kind == 0, 0.0 if size.size > 8 else noise, noise)
            noise = np.where(kind == 1, 1.0, noise)
            noise = np.where(kind == 2, noise * 0.5**step, noise)
            drawn[name] = np.asarray(size * noise, dtype)
        by_step.append(drawn)
    return by_step


def _sizes(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    exponents = rng.uniform(-7, 1, x.shape)
    faint = x.ndim > 1 and not x.any()
    return np.asarray(10.0 ** (exponents / 8 - 14 if faint else exponents))
