"""One rank's part of the uniform numbers that are drawn for a whole batch, so that they are those of one process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from deep_bench.distributed.communicators.communicator import Communicator
from deep_bench.distributed.training.samplers import bounds
from deep_bench.training.form import TrainingForm


def rows_of_draws(
    form: TrainingForm,
    batch: Mapping[str, np.ndarray],
    seed: int,
    step: int,
    *,
    share: tuple[int, int],
    comm: Communicator,
) -> dict[str, np.ndarray]:
    """The rows of this rank's samples in what `TrainingForm.draw` draws for the batch of all ranks.

    Args:
        form: Says what is drawn.
        batch: This rank's samples.
        seed, step: Of the draws.
        share: How many samples this rank has, and how many all have.
        comm: The ranks, each of which has its part of the batch in their order.
    """
    local_count, total = share
    rows = form.data[0].shape[0] if form.data and form.data[0].shape else None
    begin = bounds(total, comm.size)[comm.rank]
    whole = {
        name: np.broadcast_to(np.zeros((), x.dtype), (total, *x.shape[1:])) if x.shape[:1] == (local_count,) else x
        for name, x in batch.items()
    }
    drawn = form.draw(whole, seed, step)
    return {spec.name: _part(drawn[spec.name], spec.shape, rows, begin, local_count) for spec in form.draws}


def _part(whole: np.ndarray, shape: Sequence[int | str], rows: Any, begin: int, count: int) -> np.ndarray:
    """Rows of what was drawn; the whole where it does not grow with the batch."""
    if not isinstance(rows, str) or rows not in shape:
        return whole
    return np.ascontiguousarray(whole.take(np.arange(begin, begin + count), axis=list(shape).index(rows)))
