"""Where does the time of a step go? A perceptron in NumPy on the digits that ship, with a timeline around its loop.

python examples/timeline_numpy.py
"""

from __future__ import annotations

from collections.abc import Iterator

import h5py
import numpy as np

import deep_bench as db
from deep_bench.data import path_of

EPOCHS, BATCH = 3, 64


def batches(images: np.ndarray, labels: np.ndarray, rng: np.random.Generator) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    order = rng.permutation(len(images))
    for begin in range(0, len(order) - BATCH + 1, BATCH):
        chosen = order[begin : begin + BATCH]
        yield images[chosen], labels[chosen]


