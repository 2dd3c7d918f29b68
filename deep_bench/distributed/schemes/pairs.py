"""The sum over all ranks of arrays that are mostly zero, sent as pairs of index and value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deep_bench.distributed.communicators.communicator import Communicator

_TAG = 601
_HEAD = np.dtype(np.int64).itemsize
_DENSE = -1


@dataclass(frozen=True, slots=True)
class Pairs:
    """An array of which only some elements are stated; the others are zero.

    Args:
        size: The number of elements.
        indices: Those of the stated ones, ascending; ``None`` where all are stated.
        values: The stated ones.
    """

    size: int
    indices: NDArray[np.integer[Any]] | None
    values: np.ndarray

    def dense(self) -> np.ndarray:
        """The whole array; shares its memory where all elements are stated."""
        if self.indices is None:
            return self.values
        array = np.zeros(self.size, self.values.dtype)
        array[self.indices] = self.values
        return array

    def smallest(self) -> Pairs:
        """The same, with all elements stated where that takes no more bytes."""
        if self.indices is None or self.indices.nbytes + self.values.nbytes < self.size * self.values.itemsize:
            return self
        return Pairs(self.size, None, self.dense())

    def plus(self, other: Pairs) -> Pairs:
        """The sum, bit for bit the same in both orders."""
        if self.indices is None and other.indices is None:
            return Pairs(self.size, None, self.values + other.values)
        if self.indices is None:
            total = self.values.copy()
            total[other.indices] += other.values
            return Pairs(self.size, None, total)
        if other.indices is None:
            return other.plus(self)
        indices = np.concatenate([self.indices, other.indices])
        order = np.argsort(indices, kind="stable")
        indices, values = indices[order], np.concatenate([self.values, other.values])[order]
        again = indices[1:] == indices[:-1]
        twice = np.flatnonzero(again)
        values[twice] += values[twice + 1]
        mask = np.concatenate([[True], ~again])[: len(indices)]
        return Pairs(self.size, indices[mask], values[mask]).smallest()


def index_type(size: int) -> np.dtype:
    """The smallest type of indices that can name each of so many elements."""
    return np.dtype(np.uint32 if size <= 2**32 else np.int64)


def sum_of_pairs(comm: Communicator, mine: Pairs) -> Pairs:
    """The sum over all ranks, bit for bit the same on all of them.

    Ranks exchange what they have with the one 1, 2, 4, … away, and add. Where their number is no power of two, those above
    the largest one hand theirs to a partner first, and get the sum from it. As soon as pairs would take more bytes than all
    elements, all elements are sent; the values are the same either way.

    Args:
        comm: The ranks.
        mine: This rank's; of the same size and element type on all.

    Example:
        >>> from deep_bench.distributed.communicators.local import run_local
        >>> def on_rank(comm):
        ...     mine = Pairs(9, np.uint32([0, comm.rank + 1]), np.float32([1, 10]))
        ...     return sum_of_pairs(comm, mine).dense().tolist()
        >>> run_local(3, on_rank)[2]
        [3.0, 10.0, 10.0, 10.0, 0.0, 0.0, 0.0, 0.0, 0.0]

    Source:
        Renggli, Ashkboos, Aghagolzadeh, Alistarh and Hoefler, *SparCML: high-performance sparse communication for machine
        learning*, SC 2019, section 5 (recursive doubling, and the switch).
    """
    total = mine.smallest()
    paired = 1 << (comm.size.bit_length() - 1)
    if comm.rank >= paired:
        comm.send(_packed(total), comm.rank - paired, _TAG)
        return _received(comm, comm.rank - paired, total)
    extra = comm.rank + paired
    if extra < comm.size:
        total = total.plus(_received(comm, extra, total))
    distance = 1
    while distance < paired:
        total = total.plus(_exchanged(comm, comm.rank ^ distance, total))
        distance *= 2
    if extra < comm.size:
        comm.send(_packed(total), extra, _TAG)
    return total


def _packed(pairs: Pairs) -> NDArray[np.uint8]:
    """One message: how many pairs (or that all elements are there), the indices, the values."""
    count = np.array([_DENSE if pairs.indices is None else len(pairs.indices)], np.int64)
    parts = [count, *([] if pairs.indices is None else [pairs.indices]), pairs.values]
    return np.concatenate([np.ascontiguousarray(part).view(np.uint8) for part in parts])


def _unpacked(message: NDArray[np.uint8], like: Pairs) -> Pairs:
    count = int(message[:_HEAD].view(np.int64)[0])
    content, dtype = message[_HEAD:], like.values.dtype
    if count == _DENSE:
        return Pairs(like.size, None, content.view(dtype))
    kind = index_type(like.size)
    indices = content[: count * kind.itemsize].copy().view(kind)
    return Pairs(like.size, indices, content[count * kind.itemsize :].copy().view(dtype))


def _room(like: Pairs) -> NDArray[np.uint8]:
    return np.empty(_HEAD + like.size * like.values.itemsize, np.uint8)


def _received(comm: Communicator, source: int, like: Pairs) -> Pairs:
    room = _room(like)
    return _unpacked(room[: comm.recv(room, source, _TAG).elements], like)


def _exchanged(comm: Communicator, peer: int, mine: Pairs) -> Pairs:
    room = _room(mine)
    return _unpacked(room[: comm.sendrecv(_packed(mine), peer, room, peer, _TAG).elements], mine)
