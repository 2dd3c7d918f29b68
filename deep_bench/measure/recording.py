"""The beginning and the end of everything that keeps a record."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

import psutil

from deep_bench.measure.environment import StealMeter
from deep_bench.measure.progress import Bars


class Ending(Protocol):
    """What a record of any kind says of how it came about."""

    steal: float | None
    load_after: float | None
    interrupted: bool
    complete: bool


@contextmanager
def recording(record: Ending, bars: Bars) -> Iterator[Path]:
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
