"""Samplers as a recipe names them: those of ``db.samplers``, each made from a set and the size of a batch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from inspect import signature
from types import MappingProxyType
from typing import Any

import numpy as np

from deep_bench import samplers
from deep_bench.errors import InvalidArgument
from deep_bench.training.dataset import Dataset, labels_of
from deep_bench.training.recipes.settings import complete
from deep_bench.training.sampler import Sampler
from deep_bench.training.samplers import Infinite, Weighted

GIVEN = ("samples", "batch_size", "seed")
"""What comes from elsewhere in the recipe."""


def weighted(
    samples: Dataset,
    batch_size: int,
    *,
    weights: str | Sequence[float] = "balanced",
    per_epoch: int | None = None,
    seed: int = 0,
    drop_last: bool = False,
) -> Sampler:
    """`Weighted`, its weights by class: a sample of class ``c`` is drawn with a probability in proportion to ``weights[c]``.

    Args:
        samples: The set.
        batch_size: Samples in a batch.
        weights: One for each class, or ``"balanced"``: one over the number of its samples, so that all classes are equally
            likely.
        per_epoch: Samples in an epoch; by default as many as the set has.
        seed: With the number of the epoch, it decides what is drawn.
        drop_last: Leave out a last batch that is smaller.

    Raises:
        InvalidArgument: Not one weight for each class, or weights that cannot be.
        Unsupported: The set has no classes.
    """
    labels = labels_of(samples)
    if isinstance(weights, str):
        if weights != "balanced":
            raise InvalidArgument(f"weights={weights!r} of the sampler weighted", "'balanced', or a number for each class")
        _, which, counts = np.unique(labels, return_inverse=True, return_counts=True)
        each = 1 / counts[which]
    else:
        if labels.min() < 0 or labels.max() >= len(weights):
            classes = f"classes from {labels.min()} to {labels.max()}"
            raise InvalidArgument(f"{len(weights)} weights of the sampler weighted for {classes}", "one for each class")
        each = np.asarray(weights, np.float64)[labels]
    return Weighted(each, batch_size, per_epoch=per_epoch, seed=seed, drop_last=drop_last)


def infinite(
    samples: Dataset, batch_size: int, *, batches: int, of: str = "shuffled", seed: int = 0, **settings: Any
) -> Sampler:
    """`Infinite`: the epochs of another sampler one after another, cut after so many batches.

    Args:
        samples: The set.
        batch_size: Samples in a batch.
        batches: Batches in an epoch.
        of: The other sampler, by its name.
        seed: Of that sampler.
        settings: Of that sampler.

    Raises:
        InvalidArgument: Less than one batch, ``infinite`` itself, or a setting that the other sampler does not have.
        UnknownName: No such sampler.
    """
    if of == "infinite":
        raise InvalidArgument("the sampler infinite of itself", "of=shuffled, or another sampler with an end")
    make = sampler_named(of)
    complete(make, settings, f"sampler infinite of {of}", given=GIVEN)
    return Infinite(make(samples, batch_size, **seeded(make, seed), **settings), batches)


_OWN: Mapping[str, Callable[..., Sampler]] = MappingProxyType({"infinite": infinite, "weighted": weighted})
"""Those that are made from something else than a set, as they are made from one here."""


def sampler_named(name: str) -> Callable[..., Sampler]:
    """What makes a sampler from a set and the size of a batch.

    Raises:
        UnknownName: No such sampler.
        InvalidArgument: One that is made from something else.
    """
    make: Callable[..., Sampler] = _OWN.get(name) or samplers[name]
    if tuple(signature(make).parameters)[:2] != GIVEN[:2]:
        raise InvalidArgument(f"the sampler {name} in a recipe", "one that is made from a set and the size of a batch")
    return make


def seeded(make: Callable[..., Sampler], seed: int) -> dict[str, int]:
    """The seed as an argument, for those that have one."""
    return {"seed": seed} if "seed" in signature(make).parameters else {}
