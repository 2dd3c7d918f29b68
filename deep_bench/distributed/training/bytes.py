"""Bytes of any length between ranks, and trees of arrays as bytes; nothing is pickled."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from deep_bench.arrays import Path, Tree, grown, leaves
from deep_bench.distributed.communicators.communicator import Communicator

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
