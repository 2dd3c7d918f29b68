"""Flat buffers: the arrays of all parameters one after the other in NumPy memory, which is what communicators take.

Buckets go to a thread of their own as soon as they are complete, while gradients are still computed.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from functools import cached_property
from math import prod
from queue import SimpleQueue
from threading import Thread
from time import perf_counter_ns
from typing import Any, Generic, TypeVar

import numpy as np

from deep_bench.arrays import NUMPY, ArrayFunctions
from deep_bench.errors import InvalidArgument
from deep_bench.tensor import is_float

A = TypeVar("A")

_ALIGNED = 64
"""Bytes to a multiple of which memory begins: a line of the cache."""


@dataclass(frozen=True, slots=True)
class ParameterPlace:
    """Where a parameter lies.

    Args:
        name: The parameter's.
        shape: Its shape.
        dtype: Its element type; that of the buffer may be wider.
        flat: The number of the buffer.
        start, stop: Its elements there.
    """

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype
    flat: int
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class Bucket:
    """Parameters that lie beside each other and are sent in one message.

    Args:
        flat: The number of the buffer.
        start, stop: The elements there.
        names: The parameters.
    """

    flat: int
    start: int
    stop: int
    names: tuple[str, ...]


@dataclass(frozen=True)
class FlatLayout:
    """How parameters lie in flat buffers: one buffer for each element type, without gaps, in backward order.

    Backward order is the reverse of the parameters' order: gradients of the last layers are there first.

    Args:
        names: The parameters in their own order.
        places: Name to place, in backward order.
        dtypes: The element type of each buffer.
        sizes: The number of elements of each buffer.

    Example:
        >>> from deep_bench.arrays import NUMPY
        >>> layout = FlatLayout.of({"w": np.ones((2, 3)), "b": np.zeros(3)}, NUMPY)
        >>> [(p.name, p.start, p.stop) for p in layout.places.values()], layout.nbytes
        ([('b', 0, 3), ('w', 3, 9)], 72)
        >>> [bucket.names for bucket in layout.buckets(48)]
        [('b',), ('w',)]
    """

    names: tuple[str, ...]
    places: Mapping[str, ParameterPlace]
    dtypes: tuple[np.dtype, ...]
    sizes: tuple[int, ...]

    @classmethod
    def of(cls, arrays: Mapping[str, A], xp: ArrayFunctions[A], *, at_least: np.dtype | None = None) -> FlatLayout:
        """The layout of some arrays.

        Args:
            arrays: Name to native array.
            xp: Their functions.
            at_least: Floating-point types narrower than this one are held in it.
        """
        places: dict[str, ParameterPlace] = {}
        sizes: dict[np.dtype, int] = {}
        for name in reversed(list(arrays)):
            shape, dtype = xp.shape(arrays[name]), xp.dtype(arrays[name])
            held = at_least if at_least is not None and is_float(dtype) and dtype.itemsize < at_least.itemsize else dtype
            start = sizes.setdefault(held, 0)
            sizes[held] = start + prod(shape)
            places[name] = ParameterPlace(name, shape, dtype, list(sizes).index(held), start, sizes[held])
        return cls(tuple(arrays), places, tuple(sizes), tuple(sizes.values()))

    def fits(self, hosts: Mapping[str, np.ndarray]) -> bool:
        """Whether it is the layout of arrays with these names, shapes and element types."""
        forms = self._forms
        return len(hosts) == len(forms) and [forms.get(n) for n in hosts] == [(h.shape, h.dtype) for h in hosts.values()]

    @cached_property
    def _forms(self) -> dict[str, tuple[tuple[int, ...], np.dtype]]:
        return {name: (place.shape, place.dtype) for name, place in self.places.items()}

    @property
    def nbytes(self) -> int:
        """The bytes of all buffers."""
        return sum(size * dtype.itemsize for size, dtype in zip(self.sizes, self.dtypes, strict=True))

    def buckets(self, limit: int | None = None) -> tuple[Bucket, ...]:
        """The buffers cut into parts of whole parameters, in the order in which these are ready.

        Args:
            limit: The most bytes of each, unless a single parameter has more; ``None`` does not cut.
        """
        buckets: list[Bucket] = []
        open_at: dict[int, int] = {}
        for place in self.places.values():
            at = open_at.get(place.flat)
            last = None if at is None else buckets[at]
            size = self.dtypes[place.flat].itemsize
            if last is not None and (limit is None or (place.stop - last.start) * size <= limit):
                buckets[at] = Bucket(place.flat, last.start, place.stop, (*last.names, place.name))  # type: ignore[index]
            else:
                open_at[place.flat] = len(buckets)
                buckets.append(Bucket(place.flat, place.start, place.stop, (place.name,)))
        return tuple(buckets)


class Buffers:
    """Memory for a layout.

    Args:
        layout: How parameters lie in it.

    Attributes:
        layout: The same.
        flats: One flat array for each element type.
        parts: Name of each parameter to its part, of its shape; of the buffer's element type.

    Example:
        >>> from deep_bench.arrays import NUMPY
        >>> arrays = {"w": np.ones((2, 3)), "b": np.zeros(3)}
        >>> buffers = Buffers(FlatLayout.of(arrays, NUMPY))
        >>> buffers.pack(arrays, NUMPY, 0.5)
        >>> buffers.flats[0]
        array([0. , 0. , 0. , 0.5, 0.5, 0.5, 0.5, 0.5, 0.5])
        >>> buffers.native(NUMPY)["b"]
        array([0., 0., 0.])
    """

    def __init__(self, layout: FlatLayout) -> None:
        self.layout = layout
        pairs = [_aligned(size, dtype) for size, dtype in zip(layout.sizes, layout.dtypes, strict=True)]
        self._owners, self.flats = tuple(owner for owner, _ in pairs), tuple(flat for _, flat in pairs)
        self.parts = {p.name: self.flats[p.flat][p.start : p.stop].reshape(p.shape) for p in layout.places.values()}
        del pairs
        self._narrow = {p.name: p.dtype for p in layout.places.values() if layout.dtypes[p.flat] != p.dtype}
        self._watched = (*self._owners, *self.flats, *self.parts.values())
        self._unused = self._references()

    @property
    def idle(self) -> bool:
        """Whether nobody else refers to the memory: no array that was handed out, no message under way."""
        return self._references() == self._unused

    def _references(self) -> list[int]:
        return list(map(sys.getrefcount, self._watched))

    def part(self, bucket: Bucket) -> np.ndarray:
        """The elements of a bucket, flat."""
        return self.flats[bucket.flat][bucket.start : bucket.stop]

    def put(self, name: str, x: np.ndarray, weight: float | None = None) -> None:
        """Write one array, times a number; a weight of 0 writes zeros, whatever the array holds.

        Raises:
            InvalidArgument: It has another shape than the layout was made for, or is to be a part of whole numbers.
        """
        part = self.parts[name]
        if x.shape != part.shape:
            raise InvalidArgument(f"{name!r} of shape {list(x.shape)}", f"{list(part.shape)}, as in the layout")
        if weight is None or weight == 1:
            part[...] = x
        elif weight == 0:
            part[...] = 0
        elif part.dtype.kind in "biu":
            raise InvalidArgument(f"{name!r} of {part.dtype} times {weight}", "floating-point numbers")
        else:
            np.multiply(x, part.dtype.type(weight), out=part, dtype=part.dtype)

    def pack(self, arrays: Mapping[str, A], xp: ArrayFunctions[A], weight: float | None = None) -> None:
        """Write all arrays, times a number."""
        host = xp.host
        for name, array in arrays.items():
            self.put(name, host(array), weight)

    def native(self, xp: ArrayFunctions[A]) -> dict[str, A]:
        """The contents as native arrays in the parameters' own order and types.

        They have this memory where the framework can: it must not change while anyone may look at them (`idle`, `Pool`).
        """
        adopt, parts = xp.adopt, self.parts
        if not self._narrow:
            return {name: adopt(parts[name]) for name in self.layout.names}
        return {name: adopt(self._rounded(name)) for name in self.layout.names}

    def _rounded(self, name: str) -> np.ndarray:
        """A part in the parameter's own type."""
        return self.parts[name].astype(self._narrow.get(name, self.parts[name].dtype), copy=False)

    def write(self, arrays: Mapping[str, A], xp: ArrayFunctions[A]) -> None:
        """Overwrite native arrays with the contents; see `ArrayFunctions.write`."""
        for name, array in arrays.items():
            xp.write(array, self._rounded(name))


class Pool(Generic[A]):
    """Buffers of one layout that are used again once nobody refers to them any more.

    An optimizer's state may keep the gradients that it was given, and so may a callback: then there are new buffers.

    Args:
        limit: See `Layout.buckets`.
        at_least: See `Layout.of`.

    Attributes:
        layout: The layout of the last arrays; ``None`` before any.
        buckets: Its buckets.
    """

    layout: FlatLayout | None = None
    buckets: tuple[Bucket, ...] = ()

    def __init__(self, limit: int | None = None, at_least: np.dtype | None = None) -> None:
        self._limit, self._at_least = limit, at_least
        self._made: list[Buffers] = []

    def prepare(self, arrays: Mapping[str, A], xp: ArrayFunctions[A]) -> FlatLayout:
        """The layout of these arrays; that of the last ones if they are alike."""
        return self._prepared({name: xp.host(array) for name, array in arrays.items()})

    def _prepared(self, hosts: Mapping[str, np.ndarray]) -> FlatLayout:
        if self.layout is None or not self.layout.fits(hosts):
            self.layout = FlatLayout.of(hosts, NUMPY, at_least=self._at_least)
            self.buckets = self.layout.buckets(self._limit)
            self._made.clear()
        return self.layout

    def take(self) -> Buffers:
        """Buffers with any contents, which nobody else has or looks at.

        Raises:
            InvalidArgument: `prepare` was not called.
        """
        if self.layout is None:
            raise InvalidArgument("buffers before the arrays are known", "prepare(arrays, xp) first")
        buffers = self._made
        for index in range(len(buffers)):
            if _references(buffers, index) == _ALONE and buffers[index].idle:
                return buffers[index]
        buffers.append(Buffers(self.layout))
        del buffers[:-_KEPT]
        return buffers[-1]

    def packed(self, arrays: Mapping[str, Any], xp: ArrayFunctions[Any], weight: float | None = None) -> Buffers:
        """Buffers with these arrays, times a number."""
        host = xp.host
        hosts = {name: host(array) for name, array in arrays.items()}
        self._prepared(hosts)
        buffers = self.take()
        buffers.pack(hosts, NUMPY, weight)
        return buffers


_KEPT = 4
"""So many buffers are looked through for one that is idle; older ones live as long as somebody refers to them."""


def _references(held: list[Any], index: int) -> int:
    return sys.getrefcount(held[index])


_ALONE = _references([object()], 0)
"""What it is for something that only its list holds."""


def _aligned(size: int, dtype: np.dtype) -> tuple[np.ndarray, np.ndarray]:
    """Memory of its own, and the elements in it that begin where a line of the cache does."""
    owner = np.empty(size * dtype.itemsize + _ALIGNED, np.uint8)
    skipped = -owner.ctypes.data % _ALIGNED
    return owner, owner[skipped : skipped + size * dtype.itemsize].view(dtype)


Work = Callable[[], None]


class SendingThread:
    """One thread that does what it is given, in order.

    It is a daemon: a message that never comes, because another rank has died, does not keep this process alive.

    Example:
        >>> done = []
        >>> SendingThread().give(lambda: done.append(1)).result()
        >>> done
        [1]
    """

    def __init__(self) -> None:
        self._todo: SimpleQueue[tuple[Work, Future[None]] | None] = SimpleQueue()
        Thread(target=_work_off, args=(self._todo,), name="progress", daemon=True).start()
        self._end = weakref.finalize(self, self._todo.put, None)

    def give(self, work: Work) -> Future[None]:
        """Have something done; what it raises is raised by the future's ``result``."""
        future: Future[None] = Future()
        self._todo.put((work, future))
        return future


def _work_off(todo: SimpleQueue[tuple[Work, Future[None]] | None]) -> None:
    while (task := todo.get()) is not None:
        work, future = task
        failure: BaseException | None = None
        try:
            work()
        except BaseException as error:
            failure = error
        del task, work  # before anyone is told that it is done: from then on its buffers are not in use
        if failure is None:
            future.set_result(None)
        else:
            future.set_exception(failure)
        del future, failure


class Flight:
    """The gradients of one step on their way.

    Buckets are sent in the layout's order on all ranks, whatever the order in which a rank completes them.

    Args:
        buffers: Where gradients are gathered; they become the sums.
        buckets: Of its layout.
        weight: The number that gradients are multiplied with, asked for when the first one is there.
        host: From a native array to its contents.
        send: Sums a part of the buffers over all ranks, in place.
        progress: The thread.
    """

    def __init__(
        self,
        buffers: Buffers,
        buckets: tuple[Bucket, ...],
        *,
        weight: Callable[[], float],
        host: Callable[[Any], np.ndarray],
        send: Callable[[np.ndarray], None],
        progress: SendingThread,
    ) -> None:
        self._buffers, self._buckets = buffers, buckets
        self._weight, self._host, self._send, self._progress = weight, host, send, progress
        self._of = {name: index for index, bucket in enumerate(buckets) for name in bucket.names}
        self._missing = [set(bucket.names) for bucket in buckets]
        self._sent: list[Future[None]] = []

    def ready(self, name: str, gradient: Any) -> None:
        """Take a gradient that is final.

        Raises:
            InvalidArgument: It was told before, or is none of the layout's.
        """
        missing = self._missing[self._of[name]] if name in self._of else set()
        if name not in missing:
            raise InvalidArgument(f"the gradient {name!r} twice, or of no parameter", "each parameter's once")
        self._buffers.put(name, self._host(gradient), self._weight())
        missing.remove(name)
        while len(self._sent) < len(self._buckets) and not self._missing[len(self._sent)]:
            part = self._buffers.part(self._buckets[len(self._sent)])
            self._sent.append(self._progress.give(lambda part=part: self._send(part)))  # type: ignore[misc]

    def land(self) -> tuple[Buffers, int]:
        """Wait until all are summed.

        Returns:
            The buffers, and how many nanoseconds this thread waited.

        Raises:
            InvalidArgument: Some gradients were never told.
        """
        lacking = sorted(name for names in self._missing for name in names)
        if lacking:
            raise InvalidArgument(f"no gradient of {', '.join(lacking)} was told", "on_ready called with each of them")
        start = perf_counter_ns()
        self.wait()
        return self._buffers, perf_counter_ns() - start

    def wait(self) -> None:
        """Wait for what is under way."""
        for future in self._sent:
            future.result()
