"""Progress bars on a terminal, and the beginning and the end of everything that keeps a record."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import psutil
from tqdm import tqdm

from deep_bench.measure.environment import StealMeter

if TYPE_CHECKING:
    from deep_bench.measure.session import SessionProgress


class Bars:
    """Shows what a run is doing, on standard error, if that is a terminal.

    Args:
        visible: False hides the bars on a terminal too.
        delay: A bar appears after so many seconds.
    """

    def __init__(self, visible: bool = True, delay: float = 0.0) -> None:
        self._delay = delay
        self._disable = None if visible else True  # None lets tqdm look whether it writes to a terminal
        self._bar: Any = None

    def phase(self, name: str, total: float, unit: str) -> None:
        """Begin a part of the run; one without end has an infinite total."""
        self.close()
        form = "{desc}: {percentage:3.0f}%|{bar}| {n:.0f}/{total:.0f} {unit}{postfix}"
        if total == float("inf"):
            form = "{desc}: {n:.0f} {unit}{postfix}"
        self._bar = tqdm(
            desc=name, total=total, unit=unit, disable=self._disable, leave=False, bar_format=form, delay=self._delay
        )

    @property
    def shown(self) -> bool:
        """Whether there is a bar to be seen."""
        return self._bar is not None and not self._bar.disable

    def at(self, what: str) -> None:
        """Say what is being worked on now."""
        if self._bar is not None:
            self._bar.set_postfix_str(what)

    def begin(self, step: str) -> None:
        """Say that a step begins, and count it."""
        self.at(step)
        self.advance()

    def advance(self, amount: float = 1) -> None:
        """A step is done."""
        if self._bar is not None:
            self._bar.update(amount)

    def measured(self, progress: SessionProgress) -> None:
        """A block was measured."""
        if self._bar is not None:
            width = "" if progress.width is None else f", widest interval ±{progress.width:.1%}"
            self.at(f"{progress.label} {progress.quantity}{width}")
            self.advance(progress.elapsed_s - self._bar.n)

    def close(self) -> None:
        """Take the bar off the screen."""
        if self._bar is not None:
            self._bar.close()
            self._bar = None


class RecordEnding(Protocol):
    """What a record of any kind says of how it came about."""

    steal: float | None
    load_after: float | None
    interrupted: bool
    complete: bool


@contextmanager
def recording(record: RecordEnding, bars: Bars) -> Iterator[Path]:
    """While it lasts, something is measured; its end, or Ctrl-C, completes the record.

    Ctrl-C ends what is within and goes no further: the record says so.

    Args:
        record: What is known so far.
        bars: Closed at the end.

    Yields:
        A folder for this time only.
    """
    steal = StealMeter()
    try:
        with tempfile.TemporaryDirectory(prefix="deep_bench_") as folder:
            yield Path(folder)
    except KeyboardInterrupt:
        record.interrupted = True
    finally:
        bars.close()
    record.steal = steal.share()
    record.load_after = psutil.getloadavg()[0]
    record.complete = not record.interrupted
