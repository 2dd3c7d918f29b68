"""A timeline while its loop runs, and the devices that it waits for."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from time import perf_counter_ns
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any

import psutil

from deep_bench.errors import InvalidArgument
from deep_bench.measure.environment import Environment, StealMeter, provenance
from deep_bench.registry import Registry
from deep_bench.training.timeline.record import (
    Journal,
    StampKeeper,
    ThreadRecord,
    TimelineRecord,
    looking_cost,
    new_file,
    write,
)
from deep_bench.training.timeline.result import TimelineResult
from deep_bench.training.timeline.stamps import B, NameTable, Region, Samples, Settle, StepRegion, WatchedLoader
from deep_bench.training.timeline.trackers import Target, send

if TYPE_CHECKING:
    import pandas

    from deep_bench.training.plots import PhasePlotKind

devices = Registry(
    "device to wait for",
    "deep_bench.timeline_devices",
    builtin={
        "tensorflow": "deep_bench.adapters.tensorflow.profile:TensorFlowDevice",
        "torch": "deep_bench.adapters.torch.profile:TorchDevice",
    },
    requires={"tensorflow": ("tensorflow",), "torch": ("torch",)},
    extras={"tensorflow": "deep-bench[tensorflow]", "torch": "deep-bench[torch]"},
)
"""Classes with the static functions ``synchronizer``, ``memory`` and ``asynchronous``."""


_ALWAYS_ASYNCHRONOUS = {"jax": "every device, the CPU too", "cupy": "CUDA"}


def _function(choice: Any, purpose: str, of_device: Callable[[Any], Any]) -> Any:
    """A function or None as it is; of the name of a device, what it has for a purpose.

    Raises:
        InvalidArgument: Neither a name nor a function.
        UnknownName: A name that is not known.
    """
    if choice is None or callable(choice):
        return choice
    if not isinstance(choice, str):
        raise InvalidArgument(f"{purpose}={choice!r}", f"one of {', '.join(devices)}, a function, or None")
    return of_device(devices[choice])


PHASE = "training"


class _ThreadState(threading.local):
    """What one thread has: its log, and the objects that it re-uses."""

    def __init__(self, keeper: StampKeeper) -> None:
        self.append = keeper.log().pending.append
        self.regions: dict[str, Region] = {}
        self.epochs: dict[str, Region] = {}
        self.steps: dict[str, StepRegion] = {}


class Timeline:
    """Stamps the epochs, steps and regions of a loop; made by `timeline`. It ends with its ``with`` block, or by `close`."""

    def __init__(
        self,
        synchronize: str | Settle | None,
        device_memory: str | Callable[[], int] | None,
        save: str | Path | None,
        warm_up: int,
        limit: int,
        environment: Environment | None = None,
    ) -> None:
        if warm_up < 0 or limit < 1:
            raise InvalidArgument(f"warm_up={warm_up}, limit={limit}", "warm_up of 0 or more, a limit of 1 or more")
        self._names = NameTable()
        self._settle = _function(synchronize, "synchronize", lambda device: device.synchronizer())
        self._device_memory = _function(device_memory, "device_memory", lambda device: device.memory)
        if self._device_memory is not None and not isinstance(value := self._device_memory(), int):
            raise InvalidArgument(f"device_memory gave {value!r}", "a whole number of bytes")
        self.path = new_file(save) if save is not None else None
        self._journal = None if self.path is None else Journal(self.path.with_suffix(".stamps.jsonl"))
        named = synchronize if isinstance(synchronize, str) else getattr(synchronize, "__name__", "a function")
        self._record = TimelineRecord(
            **provenance(environment),
            warm_up=warm_up,
            synchronize=None if synchronize is None else named,
            journal=None if self._journal is None else self._journal.path.name,
            start_ns=perf_counter_ns(),
        )
        if self.path is not None:
            write(self._record, self.path)
        self._steal = StealMeter()
        self._keeper = StampKeeper(self._names, self._journal, limit)
        self._here: _ThreadState | None = _ThreadState(self._keeper)
        self._sent: dict[tuple[str, str], dict[str, int]] = {}
        self._final: TimelineResult | None = None

    def region(self, name: str) -> Region:
        """A part of the loop: ``with t.region("forward"): …``.

        Regions nest, a name may be entered again and again, also within itself, and every thread has its own. In a hot inner
        loop the object can be kept: ``forward = t.region("forward")``, then ``with forward:``, in the thread that asked for
        it.

        Raises:
            InvalidArgument: Not a name, too many names, or the timeline has ended.
        """
        try:
            return self._here.regions[name]  # type: ignore[union-attr]
        except (KeyError, TypeError, AttributeError):
            thread_state = self._open()
            number = self._names.number("region", name)
            return thread_state.regions.setdefault(name, Region(thread_state.append, number, self._settle))

    def over(
        self, loader: Iterable[B], name: str = "data", *, samples: Samples = None, phase: str = PHASE
    ) -> WatchedLoader[B]:
        """Iterate a loader: each time is an epoch, each batch a step, and the time the loop waits for a batch is a region.

        Args:
            loader: Anything that can be iterated.
            name: The region of the waiting.
            samples: How many samples a batch has: a number, or a function of the batch. By default the first axis of the
                first array in it; batches without an array have no count.
            phase: The name under which these epochs and steps are reported: give evaluation one of its own.
        """
        self.region(name)  # refused here, not in the loop
        return WatchedLoader(self, loader, name, samples, phase)

    def epoch(self, phase: str = PHASE) -> Region:
        """One epoch of a loop that does not iterate a loader: ``with t.epoch(): …``; `over` does it by itself."""
        thread_state = self._open()
        if phase not in thread_state.epochs:
            thread_state.epochs[phase] = Region(thread_state.append, self._names.number("epoch", phase), self._settle)
        return thread_state.epochs[phase]

    def step(self, samples: int | None = None, *, phase: str = PHASE) -> StepRegion:
        """One step of a loop that does not iterate a loader: ``with t.step(samples=32): …``; `over` does it by itself."""
        thread_state = self._open()
        if phase not in thread_state.steps:
            number = self._names.number("step", phase)
            thread_state.steps[phase] = StepRegion(
                thread_state.append, self._names, number, self._settle, self._device_memory
            )
        thread_state.steps[phase].samples = samples
        return thread_state.steps[phase]

    def flush(self) -> None:
        """Write what was stamped so far to the file of ``save``; happens every second by itself."""
        self._keeper.pack()

    def close(self) -> None:
        """End the timeline; with ``save``, its file is complete when this returns."""
        if self._here is None:
            return
        self._here = None
        self._record.end_ns = perf_counter_ns()
        self._keeper.stop()
        scratch = Timeline(None, None, None, 0, 1 << 40, self._record.environment)
        self._record.cost = looking_cost(scratch)
        scratch._keeper.stop()
        self._record.complete = True
        self._final = self._result()
        if self.path is not None and self._journal is not None:
            self._final.record.journal = None
            write(self._final.record, self.path)
            self._journal.remove()
            self._final.path = self.path

    def __enter__(self) -> Timeline:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if kind is not None:
            self._record.error = f"{kind.__name__}: {error}"
        self.close()

    def result(self) -> TimelineResult:
        """All that is known so far; within the loop too."""
        return self._result() if self._final is None else self._final

    def report(self, file: IO[str] | None = None) -> None:
        """Print where the time of a step goes; see `TimelineResult.as_text`.

        Args:
            file: Where to; standard output by default.
        """
        print(self.result().as_text(), file=file)

    def save(self, path: str | Path) -> Path:
        """Write the record to a new file; see `TimelineResult.save`."""
        return self.result().save(path)

    def chrome_trace(self, path: str | Path) -> Path:
        """Write a trace for Perfetto or ``chrome://tracing``; see `TimelineResult.chrome_trace`."""
        return self.result().chrome_trace(path)

    def plot(self, path: str | Path, kind: PhasePlotKind = "steps", *, phase: str | None = None) -> Path:
        """Draw a picture; see `TimelineResult.plot`."""
        return self.result().plot(path, kind, phase=phase)

    def to_dataframe(self) -> pandas.DataFrame:
        """Every span as a row; see `TimelineResult.to_dataframe`."""
        return self.result().to_dataframe()

    def log_to(self, kind: str, target: Target = None) -> int:
        """Send the steps to a tracker: those that were not sent there before, so it may be called again and again.

        Args:
            kind: ``"tensorboard"``, ``"mlflow"`` or ``"wandb"``.
            target: TensorBoard: a folder, or a writer; MLflow: a run's ID, by default the active run; Weights & Biases: a
                run, by default the active one.

        Returns:
            How many steps were sent.

        Raises:
            UnknownName: Another kind.
            FrameworkMissing: The tracker is not installed.
            InvalidArgument: There is no run or folder to send them to.
        """
        place = (kind, str(target))
        before = self._sent.get(place, {})
        self._sent[place] = send(self.result(), kind, target, before)
        return sum(self._sent[place].values()) - sum(before.values())

    def callback(self, kind: str, *, phase: str = PHASE) -> Any:
        """A callback for a framework that owns the loop.

        Args:
            kind: ``"keras"``: for ``model.fit(callbacks=[…])``; ``"lightning"``: for ``Trainer(callbacks=[…])``.
            phase: The name of its epochs and steps; validation gets ``"validation"``.

        Raises:
            UnknownName: Another kind.
            FrameworkMissing: The framework is not installed.
        """
        from deep_bench.training.timeline.stamps import callbacks

        self._open()
        return callbacks[kind](self, phase)

    def _open(self) -> _ThreadState:
        if self._here is None:
            raise InvalidArgument("this timeline has ended", "a timeline that runs", "make a new one: db.timeline()")
        return self._here

    def _result(self) -> TimelineResult:
        threads = [ThreadRecord.of(log, events) for log, events in self._keeper.events()]
        loaded = {name: devices[name].asynchronous() for name in devices if name in sys.modules}
        asynchronous = {name: where for name, where in _ALWAYS_ASYNCHRONOUS.items() if name in sys.modules}
        asynchronous |= {name: where for name, where in loaded.items() if where is not None}
        fields: dict[str, Any] = {
            "names": list(self._names.table),
            "threads": [thread for thread in threads if thread.n],
            "asynchronous": asynchronous,
            "steal": self._steal.share(),
            "load_after": psutil.getloadavg()[0],
            "lost": self._keeper.lost,
            "notes": list(self._keeper.notes),
        }
        return TimelineResult(self._record.model_copy(update=fields))


def timeline(
    *,
    synchronize: str | Settle | None = None,
    device_memory: str | Callable[[], int] | None = None,
    save: str | Path | None = None,
    warm_up: int = 1,
    limit: int = 50_000_000,
) -> Timeline:
    """Time the epochs, steps and regions of a loop that is already there, in any framework.

    A region costs less than half a microsecond more than an empty ``with`` block; what it cost is measured at the end and
    reported. Nothing is computed before the report. An event (a region has two) takes 12 bytes.

    Args:
        synchronize: Wait for a device at the end of each region and step, so that times are of finished work: ``"torch"``,
            ``"tensorflow"``, or a function without arguments. Without it, on a device that works asynchronously, times are
            of launching, and the report says so.
        device_memory: Note the bytes in use on a device at each step's end: ``"torch"``, ``"tensorflow"``, or a function.
        save: A new JSON file, or a folder for one. What was stamped is written beside it every second, so that a run that is
            killed leaves a record that can be loaded, and the memory taken does not grow.
        warm_up: How many of a phase's first steps are kept apart.
        limit: The most events kept in memory; later ones are counted, and the report says that they are missing.

    Returns:
        The timeline, which has begun; use it in a ``with`` block, or end it with ``close()``.

    Raises:
        InvalidArgument: A name that is not known, a file that exists, or numbers out of range.
        FrameworkMissing: The framework to synchronise is not installed.

    Example:
        >>> import deep_bench as db
        >>> with db.timeline() as t:
        ...     for batch in t.over([[1.0, 2.0], [3.0]] * 10, "data"):
        ...         with t.region("forward"):
        ...             loss = sum(batch)
        >>> found = t.result()
        >>> found["training"].n_steps, [row.name for row in found["training"].rows]
        (19, ['step', 'data', 'forward', 'not in any region'])
    """
    return Timeline(synchronize, device_memory, save, warm_up, limit)
