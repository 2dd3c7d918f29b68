"""Whether all ranks of a pipeline were given the same batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from zlib import crc32

import numpy as np

from deep_bench.distributed.communicators.communicator import Communicator
from deep_bench.distributed.training.same import RanksDiffer
from deep_bench.tensor import STRING, TensorSpec, is_float

_MOST = 2**18
"""Elements of an input that are looked at, at the same places of every sample: a large one takes long to read."""
_ABSENT = -1


def check_same_batch(
    comm: Communicator, samples: int, inputs: Sequence[TensorSpec], batch: Mapping[str, np.ndarray]
) -> None:
    """Compare the sizes of all ranks' batches, and each input among the ranks that have it; all call this together.

    Args:
        comm: The ranks.
        samples: How many this rank was given.
        inputs: Of the whole network.
        batch: What this rank was given of them.

    Raises:
        RanksDiffer: On all ranks.

    Example:
        >>> from deep_bench.distributed.communicators.local import run_local
        >>> spec = TensorSpec("x", ("n",), np.dtype(np.float32))
        >>> def on_rank(comm):
        ...     try:
        ...         check_same_batch(comm, 2, [spec], {"x": np.array([1, comm.rank // 2])})
        ...     except RanksDiffer as error:
        ...         return error.came
        >>> run_local(3, on_rank)[1]
        "ranks 0 and 2 of a pipeline were given different batches: other values of 'x'"
    """
    sums = [checksum(batch[spec.name], spec) if spec.name in batch else _ABSENT for spec in inputs]
    rows = comm.allgather(np.array([samples, *sums], np.int64))
    for place, column in enumerate(rows.T):
        having = np.flatnonzero(column != _ABSENT)
        differing = having[column[having] != column[having[:1]]]
        if len(differing):
            first, second = int(having[0]), int(differing[0])
            difference = (
                f"other values of {inputs[place - 1].name!r}" if place else f"{column[first]} and {column[second]} samples"
            )
            raise RanksDiffer(
                f"ranks {first} and {second} of a pipeline were given different batches: {difference}",
                "the same whole batch on all ranks, of which each takes what its stage needs",
                "a sampler that is not sharded, with the same seed on all ranks; "
                "for a part of the batch on each rank: a scheme, such as allreduce",
            )


def checksum(x: np.ndarray, spec: TensorSpec) -> int:
    """The CRC-32 of an input, of some elements of each sample where it is large; the same where a framework has fewer bits.

    Example:
        >>> spec = TensorSpec("x", ("n",), np.dtype(np.int64))
        >>> one, same, other = np.array([1, 2]), np.array([1, 2], np.int32), np.array([2, 1])
        >>> checksum(one, spec) == checksum(same, spec) != checksum(other, spec)
        True
    """
    rows = x.reshape(len(x), -1) if x.ndim and x.size else x.reshape(1, -1)
    sample = rows[:, :: -(-x.size // _MOST) or 1]
    if spec.dtype == STRING:
        contents = repr(sample.tolist()).encode()
    else:
        with np.errstate(over="ignore"):
            contents = sample.astype(np.float32 if is_float(spec.dtype) else spec.dtype).tobytes()
    return crc32(contents, crc32(repr(x.shape).encode()))
