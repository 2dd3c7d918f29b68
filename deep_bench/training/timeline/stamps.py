"""What runs inside the user's loop: stamps, and nothing else. Every event is a pair of integers, a code and a value.

The loop may be the user's own, iterate a loader, or be owned by a framework that only calls back.

A code and a stamp are appended to a plain list, which is the fastest that Python can keep a number: appending to an
``array`` takes four times as long. The lists are packed by `deep_bench.training.timeline.record`.
"""

from __future__ import annotations

import resource
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from time import perf_counter_ns
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple, TypeVar

from deep_bench.errors import InvalidArgument
from deep_bench.registry import Registry

if TYPE_CHECKING:
    from deep_bench.training.timeline.live import Timeline

Kind = Literal["epoch", "step", "region", "counter"]

DONE, RAISED, LEFT, EMPTY = range(4)
"""How a span ended: at its end; by an exception; left early (``break``); or as a step that the loader had no batch for."""


SAMPLES, PEAK_MEMORY, SWITCHES, DEVICE_MEMORY = "samples", "peak memory", "context switches", "device memory"
"""The counters that a step may note."""


MOST_NAMES = 1_000


class Name(NamedTuple):
    """What a code stands for.

    Args:
        kind: A span (``"epoch"``, ``"step"`` or ``"region"``) or a ``"counter"``.
        name: The region's or counter's name; for epochs and steps, that of their phase.
    """

    kind: Kind
    name: str


class NameTable:
    """All names of one timeline, each with a running number.

    The begin of a span with number i has the code 4 i, its end ``~(4 i + ending)``; a counter with number i has 4 i.

    Example:
        >>> names = NameTable()
        >>> names.number("region", "forward"), names.number("region", "backward"), names.number("region", "forward")
        (0, 1, 0)
    """

    def __init__(self) -> None:
        self.table: list[Name] = []
        self._numbers: dict[Name, int] = {}
        self._lock = threading.Lock()

    def number(self, kind: Kind, name: str) -> int:
        """The number of a name, which is new or known.

        Raises:
            InvalidArgument: Not a name, or too many of them.
        """
        if not isinstance(name, str) or not name:
            raise InvalidArgument(f"{kind} {name!r}", "a name: a text that is not empty")
        entry = Name(kind, name)
        with self._lock:
            if entry not in self._numbers:
                if len(self.table) >= MOST_NAMES:
                    raise InvalidArgument(
                        f"{kind} {name!r} is name {MOST_NAMES + 1} of this timeline",
                        f"at most {MOST_NAMES} names",
                        "name what is done, not which one it is: the step's number is known anyway",
                    )
                self._numbers[entry] = len(self.table)
                self.table.append(entry)
            return self._numbers[entry]


Append = Callable[[int], None]
Settle = Callable[[], object]

_ASK_NS = 10_000_000
_RSS_UNIT = 1 if sys.platform == "darwin" else 1024


class Region:
    """The spans of one name in one thread; one object for all of them, since it holds nothing of any.

    Args:
        append: Takes the events of this thread.
        number: The name's number in `Names`.
        settle: Waits for the device before the end is stamped; None stamps at once.
    """

    __slots__ = ("_append", "_begin", "_done", "_raised", "_settle")

    def __init__(self, append: Append, number: int, settle: Settle | None) -> None:
        self._append = append
        self._settle = settle
        self._begin = 4 * number
        self._done = ~(4 * number + DONE)
        self._raised = ~(4 * number + RAISED)

    def __enter__(self) -> None:
        append = self._append
        append(self._begin)
        append(perf_counter_ns())

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._settle is not None:
            self._settle()
        timestamp = perf_counter_ns()
        append = self._append
        append(self._done if kind is None else self._raised)
        append(timestamp)

    def end(self, ending: int) -> None:
        """End a span that was begun with ``__enter__``, and say how."""
        if self._settle is not None:
            self._settle()
        timestamp = perf_counter_ns()
        self._append(~(~self._done + ending))
        self._append(timestamp)


class StepRegion:
    """The steps of one phase in one thread: a span that notes, at its end, how many samples it had and what memory it took.

    Asking the system takes microseconds, so it is asked again only after `_ASK_NS`.

    Args:
        append: Takes the events of this thread.
        names: Where counters find their numbers.
        number: The number of the phase's steps.
        settle: See `Region`.
        device_memory: The bytes in use on a device; None notes none.
    """

    __slots__ = ("_append", "_asked", "_device", "_device_memory", "_number", "_peak", "_samples", "_settle", "_switches",
                 "samples")  # fmt: skip

    def __init__(
        self, append: Append, names: NameTable, number: int, settle: Settle | None, device_memory: Callable[[], int] | None
    ) -> None:
        self._append = append
        self._number = 4 * number
        self._settle = settle
        self._device_memory = device_memory
        self._samples, self._peak, self._switches, self._device = (
            4 * names.number("counter", name) for name in (SAMPLES, PEAK_MEMORY, SWITCHES, DEVICE_MEMORY)
        )
        self._asked = -_ASK_NS
        self.samples: int | None = None

    def __enter__(self) -> None:
        self._append(self._number)
        self._append(perf_counter_ns())

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.end(DONE if kind is None else RAISED)

    def end(self, ending: int) -> None:
        """End the step and say how; the stamp comes first, the counters cost it nothing."""
        if self._settle is not None:
            self._settle()
        timestamp = perf_counter_ns()
        append = self._append
        if self.samples is not None:
            append(self._samples)
            append(self.samples)
        if timestamp - self._asked >= _ASK_NS:
            self._asked = timestamp
            usage = resource.getrusage(resource.RUSAGE_SELF)
            append(self._peak)
            append(usage.ru_maxrss * _RSS_UNIT)
            append(self._switches)
            append(usage.ru_nivcsw)
        if self._device_memory is not None:
            append(self._device)
            append(self._device_memory())
        append(~(self._number + ending))
        append(timestamp)


B = TypeVar("B")
Samples = int | Callable[[Any], int | None] | None
_END: Any = object()


class WatchedLoader(Generic[B]):
    """A loader that is watched. Each time it is iterated is an epoch; each batch begins a step, which the next one ends.

    What the loop's body does is not seen: if it is left by ``break``, ``return`` or an exception, its step is marked left.

    Args:
        timeline: Where it is stamped.
        loader: What is iterated.
        name: The region in which the loop waits for the loader.
        samples: How many samples a batch has: a number, or a function of the batch; None counts them (`count_samples`).
        phase: The name of its epochs and steps.
    """

    def __init__(self, timeline: Timeline, loader: Iterable[B], name: str, samples: Samples, phase: str) -> None:
        self._timeline, self._loader, self._name, self._phase = timeline, loader, name, phase
        self._count = samples if callable(samples) else count_samples if samples is None else lambda _: samples

    def __len__(self) -> int:
        """The loader's length, if it has one."""
        return len(self._loader)  # type: ignore[arg-type]

    def __iter__(self) -> Iterator[B]:
        epoch, step = self._timeline.epoch(self._phase), self._timeline.step(phase=self._phase)
        waiting = self._timeline.region(self._name)
        epoch.__enter__()
        ending = RAISED
        try:
            iterator = iter(self._loader)
            while True:
                step.__enter__()
                closing, count = RAISED, None
                try:
                    with waiting:
                        batch = next(iterator, _END)
                    if batch is _END:
                        closing, ending = EMPTY, DONE
                        return
                    count = self._count(batch)
                    closing = LEFT
                    yield batch
                    closing = DONE
                finally:
                    step.samples = count  # only now: the body may have iterated another loader in the same phase
                    step.end(closing)
        except GeneratorExit:
            ending = LEFT
            raise
        finally:
            epoch.end(ending)


def count_samples(batch: Any) -> int | None:
    """The first axis of the first array in a batch; None where there is none, since the length of a tuple is not a count.

    Example:
        >>> import numpy as np
        >>> image, label = np.zeros((32, 1, 8, 8)), np.zeros(32)
        >>> count_samples(image), count_samples((image, label)), count_samples({"x": [image]}), count_samples(["a", "b"])
        (32, 32, 32, None)
    """
    for _ in range(4):
        shape = getattr(batch, "shape", None)
        if shape is not None:
            return int(shape[0]) if len(shape) and shape[0] is not None else None
        inside = batch.values() if isinstance(batch, dict) else batch if isinstance(batch, tuple | list) else ()
        batch = next(iter(inside), None)
    return None


BETWEEN = "between batches"

callbacks = Registry(
    "callback",
    "deep_bench.timeline_callbacks",
    builtin={
        "keras": "deep_bench.adapters.tensorflow.profile:keras_callback",
        "lightning": "deep_bench.adapters.torch.profile:lightning_callback",
    },
    requires={"keras": ("keras",), "lightning": ("torch",)},
    extras={"keras": "deep-bench[tensorflow]", "lightning": "lightning"},
)
"""Functions of a timeline and a phase that give a framework's callback."""


class DrivenPhase:
    """Turns the hooks of one phase into an epoch and its steps.

    A step lasts from the end of the batch before to the end of its own: it begins with the region ``between batches``, in
    which the framework fetches the data and calls other callbacks.

    Args:
        timeline: Where it is stamped.
        phase: The name of the epochs and steps.
    """

    def __init__(self, timeline: Timeline, phase: str) -> None:
        self._timeline, self._phase = timeline, phase
        self._part: Region | None = None
        self._in_epoch = False
        self._samples: int | None = None

    def begin_epoch(self) -> None:
        """The framework begins to fetch batches."""
        self.abandon()
        self._timeline.epoch(self._phase).__enter__()
        self._in_epoch = True
        self._begin_step()

    def begin_batch(self, part: str, batch: Any = None) -> None:
        """A batch is there, and the first part of the work on it begins."""
        if self._part is None:
            self._begin_step()
        self._samples = count_samples(batch)
        self.part(part)

    def part(self, name: str) -> None:
        """The next part of the step begins."""
        self._end_part(DONE)
        self._part = self._timeline.region(name)
        self._part.__enter__()

    def end_batch(self) -> None:
        """The step is done, and the next begins."""
        self._end_part(DONE)
        self._timeline.step(self._samples, phase=self._phase).end(DONE)
        self._begin_step()

    def pause(self) -> None:
        """Something else comes in between, such as validation: what was begun is no step."""
        if self._part is not None:
            self._end_part(DONE)
            self._timeline.step(phase=self._phase).end(EMPTY)

    def end_epoch(self) -> None:
        """There are no more batches."""
        if self._in_epoch:
            self.pause()
            self._timeline.epoch(self._phase).end(DONE)
            self._in_epoch = False

    def abandon(self) -> None:
        """The loop ended by an exception."""
        if self._part is not None:
            self._end_part(LEFT)
            self._timeline.step(phase=self._phase).end(LEFT)
        if self._in_epoch:
            self._timeline.epoch(self._phase).end(LEFT)
            self._in_epoch = False

    def _begin_step(self) -> None:
        self._timeline.step(phase=self._phase).__enter__()
        self._part = self._timeline.region(BETWEEN)
        self._part.__enter__()

    def _end_part(self, ending: int) -> None:
        if self._part is not None:
            self._part.end(ending)
            self._part = None
