"""Bytes of any length between ranks, trees of arrays as bytes, and whether all ranks train the same; nothing is pickled."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence

import ml_dtypes
import numpy as np
import onnx
from numpy.typing import NDArray

from deep_bench.arrays import Path, Tree, grown, leaves
from deep_bench.distributed.communicators.communicator import Communicator
from deep_bench.errors import CommunicationFailed, shortened
from deep_bench.graph import Network

_TAG = 701
_HEAD = np.dtype(np.int64).itemsize

Bytes = NDArray[np.uint8]


def as_bytes(tree: Tree) -> Bytes:
    """A tree of arrays as bytes: the length of a table of contents, the table, and the contents.

    Example:
        >>> of_bytes(as_bytes({"a": {"b": np.float32([1, 2])}, "c": {}}))
        {'a': {'b': array([1., 2.], dtype=float32)}, 'c': {}}
    """
    arrays = {path: np.ascontiguousarray(leaf).reshape(np.shape(leaf)) for path, leaf in leaves(tree).items()}
    table = [[list(path), array.dtype.name, array.shape] for path, array in arrays.items()]
    head = json.dumps({"leaves": table, "empty": empty_branches(tree)}).encode()
    parts = [np.array([len(head)], np.int64).view(np.uint8), np.frombuffer(head, np.uint8)]
    return np.concatenate([*parts, *(array.reshape(-1).view(np.uint8) for array in arrays.values())])


def of_bytes(content: Bytes) -> Tree:
    """The tree that `as_bytes` made bytes of."""
    end = _HEAD + int(content[:_HEAD].copy().view(np.int64)[0])
    table = json.loads(content[_HEAD:end].tobytes())
    by_path = {}
    for path, name, shape in table["leaves"]:
        dtype = _dtype(name)
        begin, end = end, end + dtype.itemsize * int(np.prod(shape, dtype=np.int64))
        by_path[tuple(path)] = content[begin:end].copy().view(dtype).reshape(shape)
    tree = grown(by_path)
    for path in table["empty"]:
        branch = tree
        for key in path:
            branch = branch.setdefault(key, {})
    return tree


def broadcast(comm: Communicator, content: Bytes | None) -> Bytes:
    """Rank 0's bytes on all ranks."""
    if comm.size == 1:
        assert content is not None
        return content
    length = comm.broadcast(np.array([0 if content is None else content.size], np.int64))
    return comm.broadcast(np.empty(int(length[0]), np.uint8) if content is None or comm.rank else content)


def gather(comm: Communicator, content: Bytes) -> list[Bytes] | None:
    """All ranks' bytes on rank 0, in the order of ranks; ``None`` elsewhere."""
    lengths = comm.gather(np.array([content.size], np.int64))
    if lengths is None:
        comm.send(content, 0, _TAG)
        return None
    contents = [content]
    for rank in range(1, comm.size):
        contents.append(np.empty(int(lengths[rank, 0]), np.uint8))
        comm.recv(contents[-1], rank, _TAG)
    return contents


def scatter(comm: Communicator, contents: Sequence[Bytes] | None) -> Bytes:
    """To each rank its own bytes, of those that rank 0 has."""
    if comm.rank:
        length = np.empty(1, np.int64)
        comm.recv(length, 0, _TAG)
        content = np.empty(int(length[0]), np.uint8)
        comm.recv(content, 0, _TAG)
        return content
    assert contents is not None
    for rank, content in enumerate(contents):
        if rank:
            comm.send(np.array([content.size], np.int64), rank, _TAG)
            comm.send(content, rank, _TAG)
    return contents[0]


def _dtype(name: str) -> np.dtype:
    return np.dtype(getattr(ml_dtypes, name)) if hasattr(ml_dtypes, name) else np.dtype(name)


def empty_branches(tree: Tree, at: Path = ()) -> list[Path]:
    """The paths of branches without leaves.

    Example:
        >>> empty_branches({"a": {"b": {}}, "c": {}, "d": {"e": 1}})
        [('a', 'b'), ('c',)]
    """
    paths: list[Path] = []
    for key, value in tree.items():
        if isinstance(value, Mapping):
            paths += [(*at, key)] if not value else empty_branches(value, (*at, key))
    return paths


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
