"""Whether all ranks train the same."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping

import numpy as np
import onnx

from deep_bench.distributed.communicators.communicator import Communicator
from deep_bench.distributed.training.bytes import Bytes, broadcast, gather
from deep_bench.errors import CommunicationFailed, shortened
from deep_bench.graph import Network

_LONGEST = 200


class RanksDiffer(CommunicationFailed):
    """Ranks are not alike where they must be. It is raised on all of them: none is left to wait."""


def structure(network: Network) -> str:
    """The SHA-256 of a network without the contents of its initializers of real numbers, which are sent from rank to rank.

    Example:
        >>> import deep_bench as db
        >>> network = db.load("digits-cnn")
        >>> len(structure(network)), structure(network) == structure(network.copy())
        (64, True)
    """
    proto = onnx.ModelProto()
    proto.CopyFrom(network.without_kernels().to_proto())
    real = {onnx.TensorProto.FLOAT, onnx.TensorProto.DOUBLE, onnx.TensorProto.FLOAT16, onnx.TensorProto.BFLOAT16}
    for tensor in proto.graph.initializer:
        if tensor.data_type in real:
            for field in ("raw_data", "float_data", "double_data", "int32_data", "external_data"):
                tensor.ClearField(field)
    kernels = json.dumps({node: kernel.name for node, kernel in network.kernels.items()}, sort_keys=True)
    return hashlib.sha256(proto.SerializeToString(deterministic=True) + kernels.encode()).hexdigest()


def check_same(comm: Communicator, facts: Mapping[str, str]) -> None:
    """Compare facts of all ranks, which all call this together.

    Args:
        comm: The ranks.
        facts: What must be the same, by name.

    Raises:
        RanksDiffer: Something differs; on all ranks, with the ranks and what each has.

    Example:
        >>> from deep_bench.distributed.communicators.local import run_local
        >>> def on_rank(comm):
        ...     try:
        ...         check_same(comm, {"seed": str(comm.rank // 2)})
        ...     except RanksDiffer as error:
        ...         return error.came
        >>> run_local(3, on_rank)[2]
        'ranks 0-1 and 2 differ in their seed: 0 and 1'
    """
    if comm.size == 1:
        return
    mine = json.dumps(dict(facts), sort_keys=True).encode()
    digests = comm.allgather(np.frombuffer(hashlib.sha256(mine).digest(), np.uint8).copy())
    if (digests == digests[0]).all():
        return
    rows = gather(comm, np.frombuffer(mine, np.uint8).copy())
    message = None if rows is None else _encoded(_differences([json.loads(row.tobytes()) for row in rows]))
    raise RanksDiffer(
        broadcast(comm, message).tobytes().decode(),
        "the same on all ranks",
        "start all ranks with the same command, files and versions",
    )


def _differences(rows: list[dict[str, str]]) -> str:
    names = [n for n in dict.fromkeys(n for row in rows for n in row) if len({row.get(n) for row in rows}) > 1]
    return "; ".join(_difference(name, rows) for name in names)


def _difference(name: str, rows: list[dict[str, str]]) -> str:
    ranks: dict[str, list[int]] = {}
    for rank, row in enumerate(rows):
        ranks.setdefault(row.get(name, "none"), []).append(rank)
    groups = " and ".join(numbered(members) for members in ranks.values())
    return f"ranks {groups} differ in their {name}: {' and '.join(shortened(value, _LONGEST) for value in ranks)}"


def numbered(ranks: list[int]) -> str:
    """Ascending numbers in words.

    Example:
        >>> numbered([0, 1, 2, 5, 7, 8])
        '0-2, 5, 7-8'
    """
    runs: list[list[int]] = []
    for rank in ranks:
        if runs and rank == runs[-1][-1] + 1:
            runs[-1].append(rank)
        else:
            runs.append([rank])
    return ", ".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)


def _encoded(text: str) -> Bytes:
    return np.frombuffer(text.encode(), np.uint8).copy()
