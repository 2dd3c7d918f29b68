"""How far the parameters of ranks are apart, and their mean."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from zlib import crc32

import numpy as np

from deep_bench.arrays import ArrayFunctions
from deep_bench.distributed.communicators.communicator import Communicator
from deep_bench.distributed.training.same import RanksDiffer, numbered
from deep_bench.distributed.training.step import mean_over_ranks


def check_equal(comm: Communicator, parameters: Mapping[str, Any], xp: ArrayFunctions[Any], scheme: str) -> None:
    """Whether all ranks hold the same parameters, bit for bit; all call it together.

    Raises:
        RanksDiffer: They do not; on all ranks.

    Example:
        >>> from deep_bench.arrays import NUMPY
        >>> from deep_bench.distributed.communicators.local import run_local
        >>> def on_rank(comm):
        ...     try:
        ...         check_equal(comm, {"w": np.ones(2) * (comm.rank == 2)}, NUMPY, "allreduce")
        ...     except RanksDiffer as error:
        ...         return error.came
        >>> run_local(3, on_rank)[0]
        'allreduce promises equal parameters on all ranks: those of ranks 2 are not those of rank 0'
    """
    checksum = 0
    for array in parameters.values():
        checksum = crc32(np.ascontiguousarray(xp.host(array)).view(np.uint8).reshape(-1).data, checksum)
    sums = comm.allgather(np.array([checksum], np.int64)).reshape(-1)
    deviating = np.flatnonzero(sums != sums[0]).tolist()
    if deviating:
        raise RanksDiffer(
            f"{scheme} promises equal parameters on all ranks: those of ranks {numbered(deviating)} are not those of rank 0",
            "the same gradients and the same update everywhere",
            "look for ranks with another processor or another number of threads, or for a fault of the scheme",
        )


def mean_and_drift(
    comm: Communicator, parameters: Mapping[str, Any], xp: ArrayFunctions[Any]
) -> tuple[dict[str, np.ndarray], float]:
    r"""The mean :math:`\bar x` of all ranks' parameters in float64, and :math:`\max_i \lVert x_i - \bar x \rVert_2`.

    All call it together.

    Example:
        >>> from deep_bench.arrays import NUMPY
        >>> from deep_bench.distributed.communicators.local import run_local
        >>> run_local(2, lambda comm: mean_and_drift(comm, {"w": np.array([6.0, 8.0]) * comm.rank}, NUMPY))[0]
        ({'w': array([3., 4.])}, 5.0)
    """
    mean = mean_over_ranks(comm, parameters, xp)
    squared = sum(float(np.sum((np.asarray(xp.host(x), np.float64) - mean[name]) ** 2)) for name, x in parameters.items())
    return mean, float(np.sqrt(comm.allreduce(np.array([squared]), "max")[0]))
