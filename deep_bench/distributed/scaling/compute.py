"""How long one rank computes: measured or taken from a record, sample by sample, since a step waits for the slowest."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from time import perf_counter_ns
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deep_bench.arrays import NUMPY
from deep_bench.distributed.communicators.communicator import Communicator
from deep_bench.distributed.communicators.local import LocalCommunicator
from deep_bench.distributed.flat import Layout
from deep_bench.distributed.optimizer import DistributedOptimizer
from deep_bench.distributed.scaling.record import TimesRecord
from deep_bench.distributed.scaling.trace import Scheme, end_if_interrupted
from deep_bench.distributed.training.scheme import scheme_of
from deep_bench.distributed.training.train import train
from deep_bench.errors import InvalidArgument
from deep_bench.events import Moment
from deep_bench.training.optimizer import Optimizer
from deep_bench.training.recipes import Recipe
from deep_bench.training.record import RankRecord, RunRecord

Seconds = NDArray[np.float64]

LEAST = 30
"""Steps that are measured at least, besides those of the warm-up."""

_FEWEST = LEAST // 2
"""Of them with the batch that is asked for; in epochs of one whole batch every other step has another"""

_WARM = 5
_NEVER = 2**62


def measured_times(recipe: Recipe, on: str, scheme: Scheme, batch: int, budget: float) -> TimesRecord:
    """Train on one rank with batches of one size, and keep how long each step took.

    What the scheme does besides its messages (packing, its own arithmetic on one rank) is part of it.

    Args:
        recipe: What is trained.
        on: A framework.
        scheme: What keeps ranks together.
        batch: Samples of a rank in a step.
        budget: Seconds for measuring, as far as `LEAST` steps do not take longer.

    Raises:
        InvalidArgument: Too few steps had so many samples, of which no prediction is made.
        KeyboardInterrupt: Ctrl-C or SIGTERM ended the run.
    """
    stop = _Stop(budget)
    stamps: list[dict[str, int]] = []
    trainer = train(
        recipe.changed(f"sampler.batch={batch}", "evaluation.every=0"),
        on=on,
        over=LocalCommunicator(),
        scheme=_stamped(scheme, stamps) if scheme.overlaps else scheme.traced,
        callbacks=[stop],
        stop_at_target=False,
    )
    trainer.every = _NEVER
    trainer.run(epochs=_NEVER)
    end_if_interrupted(trainer)
    facts = trainer.ranks.facts()
    assert facts is not None
    times = _of_rank(facts.ranks[0], np.array(trainer.history.stamps), batch, skipped=_WARM)
    if len(times.gradients) < _FEWEST:
        raise InvalidArgument(
            f"{len(times.gradients)} of {trainer.history.steps} steps had {batch} samples ({trainer.ending})",
            f"at least {_FEWEST}: from fewer nobody knows the slowest of many",
            "a smaller batch (sampler.batch=…), or more samples: the last batch of an epoch is shorter and does not count",
        )
    times.source = f"measured on one rank, {trainer.history.steps} steps with {on}"
    if scheme.overlaps:
        arrays = {name: NUMPY.host(trainer.taker.device.to_numpy(x)) for name, x in trainer.taker.parameters.items()}
        times.ready = _ready(scheme, arrays, stamps)
    return times


class _Stop:
    """Ends a run after some time."""

    moments = (Moment.AFTER_STEP,)

    def __init__(self, budget: float) -> None:
        self._budget, self._begun = budget, 0

    def __call__(self, moment: Moment, index: int, time_ns: int, data: Any) -> bool:
        """Whether it is time."""
        del moment, data
        if index == _WARM:
            self._begun = time_ns
        return index >= LEAST + _WARM and time_ns - self._begun > self._budget * 1e9


def of_record(run: RunRecord, batch: int) -> TimesRecord:
    """The times of steps with so many samples of a rank, in a record of `deep-bench train --distributed`.

    Of several ranks all samples count, without what they spent in messages.

    Raises:
        InvalidArgument: The record has none.
    """
    ranks = [] if run.ranks is None else run.ranks.ranks
    parts = [_of_rank(rank, np.asarray(rank.stamps), batch, skipped=_WARM) for rank in ranks]
    parts = [part for part in parts if len(part.gradients)]
    if not parts:
        sizes = sorted({int(size) for rank in ranks for size in rank.samples})
        raise InvalidArgument(
            f"no steps with {batch} samples of a rank in the record (it has {sizes or 'no ranks'})",
            "a record of deep-bench train --distributed … with such batches",
            "leave the record out: they are measured then",
        )
    return TimesRecord(
        batch=batch, source=f"from a record of {len(ranks)} ranks", before=np.concatenate([part.before for part in parts]),
        gradients=np.concatenate([part.gradients for part in parts]), update=np.concatenate([part.update for part in parts]),
    )  # fmt: skip


def _of_rank(rank: RankRecord, stamps: NDArray[Any], batch: int, skipped: int) -> TimesRecord:
    """Loading, gradients and update of each step with so many samples, without messages."""
    overlapped = np.maximum(rank.communicating - rank.exposed, 0)
    gradients, update = rank.computing - overlapped, np.maximum(rank.updating - rank.exposed, 0)
    rows = stamps.reshape(-1, 5)[-len(gradients) :] if len(gradients) else np.zeros((0, 5))
    mask = (np.asarray(rank.samples) == batch) & (np.arange(len(gradients)) >= skipped)
    before = (rows[:, 1] - rows[:, 0]) if len(rows) == len(gradients) else np.zeros(len(gradients))
    seconds = [np.asarray(x, np.float64)[mask] / 1e9 for x in (before, gradients, update)]
    return TimesRecord(batch=batch, source="", before=seconds[0], gradients=seconds[1], update=seconds[2])


def _stamped(scheme: Scheme, into: list[dict[str, int]]) -> Callable[[Optimizer[Any, Any], Communicator], Any]:
    """The scheme, which notes when each gradient is there."""
    around = scheme_of(scheme.traced)

    def make(inner: Optimizer[Any, Any], comm: Communicator) -> DistributedOptimizer[Any, Any]:
        optimizer = around(inner, comm)
        begin = optimizer.begin

        def noting(samples: int | None) -> Callable[[str, Any], None]:
            begin(samples)
            into.append({"": perf_counter_ns()})
            return lambda name, _: into[-1].__setitem__(name, perf_counter_ns())

        object.__setattr__(optimizer, "begin", noting)
        return optimizer

    return make


def _ready(scheme: Scheme, arrays: Mapping[str, Any], stamps: Sequence[Mapping[str, int]]) -> list[float]:
    """When each bucket is complete, as a share of the time of gradients: the median over the steps."""
    layout = Layout.of(arrays, NUMPY)
    names = [bucket.names for bucket in layout.buckets(getattr(scheme.made, "bucket", None))]
    rows = []
    for step in stamps[_WARM:]:
        if all(name in step for bucket in names for name in bucket):
            begin = step[""]
            last = max(step.values()) - begin
            rows.append([max(step[name] - begin for name in bucket) / max(last, 1) for bucket in names])
    return [float(value) for value in np.median(rows, axis=0)] if rows else [1.0] * len(names)


# The slowest of many


def slowest(samples: Seconds, ranks: int, draws: int, rng: np.random.Generator) -> Seconds:
    r"""Draws of the largest of so many independent draws from the samples: :math:`F^{-1}(U^{1/p})`, with :math:`F` that of
    the samples.

    Example:
        >>> found = slowest(np.array([1.0, 1.0, 1.0, 9.0]), 100, 1000, np.random.default_rng(0))
        >>> float(found.min()), float(slowest(np.array([1.0, 3.0]), 1, 10_000, np.random.default_rng(0)).mean().round(1))
        (9.0, 2.0)
    """
    ordered = np.sort(samples)
    at = np.ceil(rng.random(draws) ** (1 / ranks) * len(ordered)).astype(int) - 1
    return ordered[np.maximum(at, 0)]


def expected_slowest(samples: Seconds, ranks: int) -> float:
    r"""The mean of the largest of :math:`p` draws: :math:`\sum_k x_{(k)} [(k / n)^p - ((k - 1) / n)^p]`.

    Example:
        >>> expected_slowest(np.array([1.0, 3.0]), 1), expected_slowest(np.array([1.0, 3.0]), 2)
        (2.0, 2.5)
    """
    ordered = np.sort(samples)
    steps = (np.arange(len(ordered) + 1) / len(ordered)) ** ranks
    return float(ordered @ np.diff(steps))


def resampled(times: TimesRecord, count: int, rng: np.random.Generator) -> list[tuple[Seconds, Seconds]]:
    """Loading with update, and gradients, of as many steps drawn with replacement: so many times."""
    n = len(times.gradients)
    apart = times.before + times.update
    rows = rng.integers(n, size=(count, n))
    return [(apart[row], times.gradients[row]) for row in rows]
