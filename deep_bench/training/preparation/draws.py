"""What chance gives each sample of a batch: a function of seed, epoch, step and the sample's number, and of nothing else."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from deep_bench.training.preparation.philox import philox

_PREPARATION = 1
"""Sets this stream apart from that of the samplers, which may have the same seed."""


@dataclass(frozen=True, slots=True)
class Draws:
    """The random numbers of one step for some samples.

    Args:
        seed: That of the preparation.
        epoch: The number of the epoch.
        step: The place of the step in its pipeline.
        numbers: The numbers of the samples, of shape (n,).

    Example:
        >>> both = Draws(0, 1, 2, np.array([5, 9])).uniform(3)
        >>> np.array_equal(Draws(0, 1, 2, np.array([9])).uniform(3)[0], both[1])
        True
    """

    seed: int
    epoch: int
    step: int
    numbers: NDArray[np.int64]

    def uniform(self, count: int) -> NDArray[np.float64]:
        """``count`` numbers from (0, 1) for each sample, in steps of 2**-32, of shape (n, count)."""
        blocks = -(-count // 4)
        counters = np.zeros((4, len(self.numbers), blocks), np.uint64)
        counters[0] = (self.numbers & 0xFFFFFFFF)[:, None]
        counters[1] = (self.numbers >> 32)[:, None]
        counters[2] = np.arange(blocks)
        words = np.moveaxis(philox(counters, self._key()), 0, -1).reshape(len(self.numbers), -1)[:, :count]
        return (words + 0.5) / 2**32

    def normal(self, count: int) -> NDArray[np.float64]:
        r"""``count`` numbers of the standard normal distribution for each sample, of shape (n, count).

        :math:`\sqrt{-2 \ln u} \cos(2 \pi v)` and the same with the sine, for uniform :math:`u` and :math:`v`. They
        are the same everywhere up to the last bits of logarithm and cosine.

        Source:
            Box and Muller, *A note on the generation of random normal deviates*, 1958.
        """
        half = -(-count // 2)
        u = self.uniform(2 * half)
        length, angle = np.sqrt(-2 * np.log(u[:, :half])), 2 * np.pi * u[:, half:]
        return np.concatenate([length * np.cos(angle), length * np.sin(angle)], axis=1)[:, :count]

    def _key(self) -> tuple[int, int]:
        sequence = np.random.SeedSequence(self.seed, spawn_key=(_PREPARATION, self.epoch, self.step))
        first, second = sequence.generate_state(2).tolist()
        return first, second
