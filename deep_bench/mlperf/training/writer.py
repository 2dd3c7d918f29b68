"""``RunLog``: the log of one run, written event by event."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter_ns, time_ns
from types import TracebackType
from typing import Any

from deep_bench.errors import InvalidArgument, shortened
from deep_bench.mlperf.training.events import ABORTED, END, POINT, START, SUCCESS, Event, Log, read_run
from deep_bench.mlperf.training.package import writer

_LONGEST = 300
"""Characters of an error."""


class RunLog:
    """The log of one run, as MLPerf's own package writes it. Each line is in the file when its call returns.

    Times come from a clock that does not jump, set once by that of the day.

    Args:
        path: A new file.

    Attributes:
        path: The file.
        ended: Whether nothing follows: ``run_stop`` is written, or a line could not be.

    Raises:
        FrameworkMissing: ``mlperf_logging`` is not installed.
        InvalidArgument: The file exists, or cannot be made.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._zero_ns = time_ns() - perf_counter_ns()
        self._events: list[Event] = []
        self._logger, self._handler = writer(self.path)
        self.ended = False

    @property
    def log(self) -> Log:
        """What is written so far."""
        return Log(tuple(self._events), self.path)

    def now_ms(self, ago_ns: int = 0) -> int:
        """The time, in milliseconds since 1970.

        Args:
            ago_ns: So many nanoseconds ago instead; never before what was written last.
        """
        timestamp = (self._zero_ns + perf_counter_ns() - ago_ns) // 1_000_000
        return max(timestamp, int(self._events[-1].time_ms)) if self._events else timestamp

    def event(self, key: str, value: Any = None, *, at: int | None = None, **metadata: Any) -> None:
        """Something that happened, ``at`` a time or now."""
        self._write(self._logger.event, POINT, key, value, at, metadata)

    def start(self, key: str, value: Any = None, *, at: int | None = None, **metadata: Any) -> None:
        """Something begins."""
        self._write(self._logger.start, START, key, value, at, metadata)

    def end(self, key: str, value: Any = None, *, at: int | None = None, **metadata: Any) -> None:
        """Something ends."""
        self._write(self._logger.end, END, key, value, at, metadata)

    def stop(self, success: bool, reason: str) -> None:
        """The run ends. A second time it does nothing.

        Args:
            success: Whether it reached its target.
            reason: Why it ended.
        """
        if not self.ended:
            self.end("run_stop", status=SUCCESS if success else ABORTED, reason=reason)
            self.ended = True
            self._handler.close()

    def _write(self, write: Any, kind: str, key: str, value: Any, at: int | None, metadata: dict[str, Any]) -> None:
        if self.ended:
            raise InvalidArgument(f"{key} in the log {self.path}, whose run has ended", "a log of its own for each run")
        event = Event(key, value, metadata, self.now_ms() if at is None else at, kind)
        try:
            write(key, value, metadata=metadata, time_ms=event.time_ms, stack_offset=3)
        except OSError as error:
            self.ended = True
            self._handler.close()
            raise _unwritable(self.path, error) from error
        self._events.append(event)

    def __enter__(self) -> RunLog:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """What has not ended by now is aborted."""
        self.stop(False, "the program went on without it" if error is None else told(error))


def close_unfinished(path: str | Path, reason: str) -> bool:
    """Write ``run_stop`` with the status ``aborted`` to the log of a run that did not come to write its own.

    Its time is that of the line before, the last sign of life: when the run ended nobody knows.

    Args:
        path: The file; one that is not there is left so, and one without an event.
        reason: Why the run ended.

    Returns:
        Whether it was written.

    Raises:
        InvalidRecord: The file cannot be read, or is too large.
        InvalidArgument: It cannot be written.
    """
    path = Path(path)
    if not path.exists():
        return False
    log = read_run(path)
    if log.status != "not ended" or not log.events:
        return False
    cut_off = not path.read_bytes().endswith(b"\n")
    last = max(event.time_ms for event in log.events)
    logger, handler = writer(path, append=True)
    try:
        metadata = {"status": ABORTED, "reason": f"{shortened(reason, _LONGEST)}; the time is that of its last sign of life"}
        logger.end("run_stop", metadata=metadata, time_ms=int(last), clear_line=cut_off)
    except OSError as error:
        raise _unwritable(path, error) from error
    finally:
        handler.close()
    return True


def told(error: BaseException) -> str:
    """An error in one line.

    Example:
        >>> told(ValueError("too long\\nby far"))
        'ValueError: too long by far'
    """
    return shortened(" ".join(f"{type(error).__name__}: {error}".split()), _LONGEST)


def _unwritable(path: Path, error: OSError) -> InvalidArgument:
    return InvalidArgument(f"cannot write the log {path}: {error.strerror}", "a folder with space that can be written")
