"""Messages of ``torch.distributed``, whose receiver learns how long they are.

gloo wants a receive to be as long as what was sent, and does not say how long that was. So each message is preceded by one
of four numbers: elements, tag of the contents, bytes of an element, checksum of the type's name.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Thread
from typing import Any
from zlib import crc32

import numpy as np
import torch
import torch.distributed as dist

from deep_bench.distributed.communicators.communicator import Received, Request
from deep_bench.errors import CommunicationFailed

_FIRST_TAG, _TAGS = 2**24, 2**24
_HEAD = 4


def memory(array: np.ndarray) -> torch.Tensor:
    """The memory of a contiguous array, as bytes; a copy if it may not be written, which torch has no tensors for."""
    flat = array.reshape(-1).view(np.uint8)
    return torch.from_numpy(flat if flat.flags.writeable else flat.copy())


class _Awaited(Request):
    """A request whose library cannot be asked whether it is done: a thread waits for it."""

    def __init__(self) -> None:
        self._thread: Thread | None = None
        self._error: BaseException | None = None
        self._done = False
        self._received: Received | None = None

    def wait(self) -> Received | None:
        """Return when it is done."""
        if self._thread is not None:
            self._thread.join()
        self._finish()
        if self._error is not None:
            raise self._error
        return self._received

    def test(self) -> bool:
        """Whether it is done."""
        self.go_on()
        return self._done

    def go_on(self) -> None:
        """Do what is left to do while the caller does something else."""
        if self._thread is None and not self._done:
            self._thread = Thread(target=self._finish, daemon=True)
            self._thread.start()

    def _finish(self) -> None:
        if self._done:
            return
        try:
            self._received = self._awaited()
        except RuntimeError as error:
            self._error = CommunicationFailed(f"torch.distributed failed: {error}")
        except CommunicationFailed as error:
            self._error = error
        self._done = True

    def _awaited(self) -> Received | None:
        raise NotImplementedError


class Sending(_Awaited):
    """A message that is being sent.

    Args:
        array: It, contiguous.
        to: The rank in the world.
        group: torch's group.
        tag: Its tag.
        number: Of the messages from here to there so far.
    """

    def __init__(self, array: np.ndarray, to: int, group: Any, tag: int, number: int) -> None:
        super().__init__()
        inner = _FIRST_TAG + number % _TAGS
        self._kept = [torch.tensor([array.size, inner, array.itemsize, _checksum(array.dtype)]), memory(array)]
        self._works: list[Any] = [dist.isend(self._kept[0], to, group=group, tag=tag)]
        if array.nbytes:
            self._works.append(dist.isend(self._kept[1], to, group=group, tag=inner))

    def _awaited(self) -> None:
        for work in self._works:
            work.wait()
        self._kept.clear()


class Receiving(_Awaited):
    """A message that is being received.

    Args:
        out: Where it goes.
        source: The rank in the world; ``None`` for whoever sends first.
        group: torch's group.
        tag: Its tag.
        named: The rank in the world, and ours, for a rank in torch's group.
    """

    def __init__(
        self, out: np.ndarray, source: int | None, group: Any, tag: int, named: Callable[[int], tuple[int, int]]
    ) -> None:
        super().__init__()
        self._out, self._group, self._tag, self._named = out, group, tag, named
        self._head = torch.zeros(_HEAD, dtype=torch.int64)
        self._work: Any = dist.irecv(self._head, source, group=group, tag=tag)

    def _awaited(self) -> Received:
        self._work.wait()
        world, ours = self._named(self._work._source_rank())
        elements, inner, itemsize, checksum = self._head.tolist()
        out = self._out
        fits = elements <= out.size and checksum == _checksum(out.dtype)
        direct = fits and out.flags.c_contiguous
        buffer = out.reshape(-1).view(np.uint8)[: elements * itemsize] if direct else np.empty(elements * itemsize, np.uint8)
        if buffer.size:
            dist.recv(torch.from_numpy(buffer), world, group=self._group, tag=inner)
        if not fits:
            raise CommunicationFailed(
                f"rank {ours} sent {elements} elements of {itemsize} bytes", f"at most {out.size} of {out.dtype}"
            )
        if not direct:
            out.flat[:elements] = buffer.view(out.dtype)
        return Received(ours, self._tag, elements)


def _checksum(dtype: np.dtype) -> int:
    return crc32(f"{dtype.name} {dtype.str}".encode())


class Working(Request):
    """A collective operation under way.

    Args:
        work: torch's.
        after: Called once, when it is done.
    """

    def __init__(self, work: Any, after: Callable[[], object]) -> None:
        self._work, self._after = work, after

    def wait(self) -> None:
        """Return when it is done."""
        if self._work is not None:
            try:
                self._work.wait()
            except RuntimeError as error:
                raise CommunicationFailed(f"torch.distributed failed: {error}") from error
            self._work = None
            self._after()

    def test(self) -> bool:
        """Whether it is done."""
        if self._work is not None and self._work.is_completed():
            self.wait()
        return self._work is None
