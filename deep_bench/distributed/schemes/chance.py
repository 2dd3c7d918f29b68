"""Random numbers that are a function of seed, rank and step, so that nothing has to be remembered."""

from __future__ import annotations

import numpy as np

from deep_bench.training.optimizer import Allowed

SEED = Allowed("a whole number of at least 0", lambda seed: isinstance(seed, int) and 0 <= seed < 2**64)


def drawn(seed: int, step: int, rank: int) -> np.random.Generator:
    """What draws for one rank in one step.

    Args:
        seed: Of the run.
        step: How many steps were done before.
        rank: Whose.

    Example:
        >>> bool(drawn(0, 1, 2).random() == drawn(0, 1, 2).random())
        True

    Source:
        Salmon, Moraes, Dror and Shaw, *Parallel random numbers: as easy as 1, 2, 3*, SC 2011 (Philox). The key is seed and
        rank, and the counter's highest word the step, so that no two streams meet.
    """
    key, counter = np.array([seed, rank], np.uint64), np.array([0, 0, 0, step], np.uint64)
    return np.random.Generator(np.random.Philox(key=key, counter=counter))
