"""Samples drawn with the statistics of a real set, where that itself cannot be had or is too large."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from deep_bench.errors import InvalidArgument, Unsupported
from deep_bench.training.dataset import Dataset, labels_of
from deep_bench.training.samplers.draws import natural
from deep_bench.training.sets.arrays import ArrayDataset
from deep_bench.training.sets.description import Description, description_of

_LABEL = "label"
_STREAM = 2
"""Sets this stream apart from those of samplers and preparations with the same seed."""
_AT_ONCE = 256


def synthetic(like: Dataset, samples: int, *, seed: int = 0, measured: int = 1000) -> ArrayDataset:
    r"""Samples drawn at random that resemble those of another set; ``description.synthetic`` says that they are.

    - ``label``: each class as often as in the set, to the nearest whole sample.
    - Arrays of real numbers, and of bytes (images): normal, with the mean of each element in the sample's class and the
      covariance of all elements within classes: :math:`x = \mu_c + \sum_i g_i (x_i - \mu_{c_i}) / \sqrt{n - C}` over the
      :math:`n` measured samples :math:`x_i` of :math:`C` classes, with :math:`g_i` standard normal. Bytes are rounded and
      limited.
    - Other whole numbers: each element drawn from those at its place in the measured samples.

    Args:
        like: The set to measure.
        samples: How many to draw.
        seed: Decides what is drawn.
        measured: The most samples of ``like`` to measure, chosen at random.

    Raises:
        InvalidArgument: A number that cannot be; or fewer measured samples than classes and one more.
        Unsupported: Arrays of objects, or of sizes that vary.
        InvalidData: A sample that cannot be read.

    Example:
        >>> import deep_bench as db
        >>> drawn = synthetic(db.datasets["digits"]("train"), 500, seed=1)
        >>> drawn.description.synthetic, drawn.description.name, drawn[[0]]["image"].shape
        (True, 'synthetic/digits/train', (1, 1, 8, 8))
    """
    count = natural("samples", samples, 1)
    _check(like)
    draws = np.random.default_rng(np.random.SeedSequence(natural("seed", seed), spawn_key=(_STREAM,)))
    chosen = np.sort(draws.permutation(len(like))[: natural("measured", measured, 2)])
    batch = like[chosen]
    classes, measured_class, drawn_class = _classes(like, chosen, count, draws)
    if len(chosen) <= len(classes):
        raise InvalidArgument(f"{len(chosen)} measured samples of {len(classes)} classes", "more than that: measured=…")
    arrays = {}
    for name, values in batch.items():
        if name == _LABEL and values.ndim == 1:
            arrays[name] = classes[drawn_class].astype(values.dtype)
        elif values.dtype.kind == "f" or values.dtype == np.uint8:
            arrays[name] = _normal(values, measured_class, drawn_class, len(classes), draws)
        else:
            arrays[name] = _from_each_place(values, count, draws)
    whole = description_of(like)
    described = Description(f"synthetic/{whole.name}", f"drawn like: {whole.source}", whole.licence, synthetic=True)
    return ArrayDataset(arrays, description=described)


def _check(like: Dataset) -> None:
    for spec in like.specs:
        if spec.dtype.kind not in "fiub" or spec.open_dimensions:
            raise Unsupported(f"drawing samples like {spec}", "numbers in arrays of one size", "prepare the set first")


def _classes(
    like: Dataset, chosen: NDArray[np.int64], count: int, draws: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """The classes, and which of them each measured and each drawn sample is of."""
    if not any(spec.name == _LABEL and spec.rank == 0 for spec in like.specs):
        return np.zeros(1, np.int64), np.zeros(len(chosen), np.int64), np.zeros(count, np.int64)
    classes, place, sizes = np.unique(labels_of(like), return_inverse=True, return_counts=True)
    ends = np.rint(np.cumsum(sizes) / len(like) * count).astype(np.int64)
    drawn = np.repeat(np.arange(len(classes)), np.diff(ends, prepend=0))
    return classes, place[chosen], draws.permutation(drawn)


def _normal(
    values: np.ndarray,
    measured_class: NDArray[np.int64],
    drawn_class: NDArray[np.int64],
    classes: int,
    draws: np.random.Generator,
) -> np.ndarray:
    flat = values.reshape(len(values), -1).astype(np.float64)
    sizes = np.bincount(measured_class, minlength=classes)
    means = np.zeros((classes, flat.shape[1]))
    np.add.at(means, measured_class, flat)
    means /= np.maximum(sizes, 1)[:, None]
    means[sizes == 0] = flat.mean(axis=0)  # a class so rare that no measured sample is of it
    deviations = (flat - means[measured_class]) / np.sqrt(len(flat) - np.count_nonzero(sizes))
    drawn = np.empty((len(drawn_class), *values.shape[1:]), values.dtype)
    for start in range(0, len(drawn), _AT_ONCE):
        block = drawn_class[start : start + _AT_ONCE]
        x = means[block] + draws.standard_normal((len(block), len(flat))) @ deviations
        if values.dtype == np.uint8:
            x = np.rint(x).clip(0, 255)
        drawn[start : start + _AT_ONCE] = x.reshape(-1, *values.shape[1:])
    return drawn


def _from_each_place(values: np.ndarray, count: int, draws: np.random.Generator) -> np.ndarray:
    rows = draws.integers(len(values), size=(count, *values.shape[1:]))
    return np.take_along_axis(values, rows, axis=0)
