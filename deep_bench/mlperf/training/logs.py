"""Logs of MLPerf training: read from files that may come from anyone, written event by event, and in the tags of v0.5.

They hold events in lines of ``:::MLLOG``. The one file that imports MLPerf's own packages for such logs,
``mlperf_logging`` and ``mlperf_compliance``.
"""

from __future__ import annotations

import io
import json
import logging
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter_ns, time_ns
from types import MappingProxyType, SimpleNamespace, TracebackType
from typing import Any, Final, Literal, TypeAlias, TypeGuard
from unittest.mock import patch

import deep_bench
from deep_bench.errors import FrameworkMissing, InvalidArgument, InvalidRecord, shortened
from deep_bench.mlperf.system import UNKNOWN
from deep_bench.records.store import written
from deep_bench.training.scores import Direction

RULESET = "6.1.0"
"""Whose rules logs are checked by unless another round is named."""


_NAME = re.compile(r"[a-z0-9]+([._-][a-z0-9]+)*")
_LONGEST_NAME = 64

_STATUSES: Mapping[str, str] = MappingProxyType(
    {"on-premise": "onprem", "cloud": "cloud", "preview": "preview", "rdi": "research"}
)


def checked_name(name: str, what: str = "benchmark") -> str:
    """A name that becomes part of paths, which MLPerf's tools make of what a log says.

    Args:
        name: Small letters and digits, with single dots, dashes or underscores between.
        what: Is named so.

    Raises:
        InvalidArgument: Another one.

    Example:
        >>> checked_name("digits-cnn")
        'digits-cnn'
        >>> checked_name("../../tmp/rules")
        Traceback (most recent call last):
            ...
        deep_bench.errors.InvalidArgument: the benchmark '../../tmp/rules'
        Expected: at most 64 small letters and digits, with single dots, dashes or underscores between
    """
    if not isinstance(name, str) or len(name) > _LONGEST_NAME or not _NAME.fullmatch(name):
        raise InvalidArgument(
            f"the {what} {str(name)[:100]!r}",
            f"at most {_LONGEST_NAME} small letters and digits, with single dots, dashes or underscores between",
        )
    return name


def slug(text: str) -> str:
    """A name for paths made of any text.

    Example:
        >>> slug("8-Ball (2x V100)"), slug("…")
        ('8-ball-2x-v100', 'unknown')
    """
    return "-".join(re.findall(r"[a-z0-9]+", text.lower()))[:_LONGEST_NAME].strip("-") or UNKNOWN


@dataclass(frozen=True)
class Submission:
    """Who ran what.

    Args:
        benchmark: What was trained. The name of one of MLPerf's benchmarks claims that data, quality measure and target are
            those of MLPerf.
        org: The organization.
        platform: The system.
        status: Of the system: ``onprem``, ``cloud``, ``preview`` or ``research``.
        note: How it deviates from MLPerf's benchmarks; in the metadata of ``submission_benchmark``.

    Raises:
        InvalidArgument: A benchmark that `checked_name` refuses.
    """

    benchmark: str
    org: str = UNKNOWN
    platform: str = UNKNOWN
    status: str = UNKNOWN
    note: str = ""

    def __post_init__(self) -> None:
        checked_name(self.benchmark)

    @classmethod
    def of(cls, benchmark: str, facts: Mapping[str, str], note: str = "") -> Submission:
        """By what a user states of the system; see `deep_bench.mlperf.system`.

        Example:
            >>> Submission.of("digits", {"submitter": "A lab", "status": "rdi"}).status
            'research'
        """
        return cls(
            benchmark,
            facts.get("submitter", UNKNOWN),
            facts.get("system_name", UNKNOWN),
            _STATUSES.get(facts.get("status", ""), UNKNOWN),
            note,
        )


_ROOT = Path(deep_bench.__file__).parents[1]
_FIRST = 4

_ALL = ("0.6", "0.7", "1.0", "1.1", "2.0", "2.1", "3.0", "3.1", "4.0", "4.1", "5.0", "5.1", "6.0", "6.1")
"""Rounds of training, all of whose benchmarks have names that are taken."""


def package_folder() -> Path:
    """Where the package lies.

    Raises:
        FrameworkMissing: It is not installed.
    """
    spec = find_spec("mlperf_logging")
    if spec is None or spec.origin is None:
        raise FrameworkMissing(
            "mlperf_logging is not installed", advice="pip install 'deep-bench[mlperf]', or pip install mlperf-logging"
        )
    return Path(spec.origin).parent


class _LogFile(logging.FileHandler):
    """A new file, to which each line is written at once; what cannot be written is an error, and not a remark."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: ARG002 (the base class's)
        raise

    def close(self) -> None:
        """Close the file; what could not be written was told when it was tried."""
        with suppress(OSError):
            super().close()


def package_writer(path: Path, *, append: bool = False) -> tuple[Any, logging.Handler]:
    """The package's logger, writing to a file; and what to close in the end.

    Args:
        path: A new file, or
        append: one that is there already.

    Raises:
        FrameworkMissing: The package is not installed.
        InvalidArgument: The file exists, or cannot be made.
    """
    package_folder()
    from mlperf_logging.mllog import mllog

    try:
        handler = _LogFile(path, mode="a" if append else "x", encoding="utf-8")
    except OSError as error:
        advice = "logs are never written over: name another folder, or move it away" if path.exists() else ""
        raise InvalidArgument(f"the log {path}: {error.strerror}", "a file that can be written", advice) from error
    logger = logging.Logger("deep_bench.mlperf", logging.INFO)  # of its own: nobody else's settings change it
    logger.addHandler(handler)
    return mllog.MLLogger(logger, default_stack_offset=2, root_dir=re.escape(str(_ROOT))), handler


def official_benchmarks(ruleset: str | None = None) -> frozenset[str]:
    """The names of MLPerf's benchmarks of training.

    Args:
        ruleset: Of this round; of all by default.

    Raises:
        FrameworkMissing: The package is not installed.
        InvalidArgument: There was no such round.

    Example:
        >>> "resnet" in official_benchmarks(), "resnet" in official_benchmarks("6.1.0")
        (True, False)
    """
    package_folder()
    from mlperf_logging.benchmark_meta import get_allowed_benchmarks

    if ruleset is not None and ruleset not in rulesets():
        raise InvalidArgument(f"the ruleset {ruleset!r}", f"one of {', '.join(rulesets())}")
    chosen = [ruleset] if ruleset is not None else _ALL
    return frozenset(name for round_name in chosen for name in get_allowed_benchmarks("training", round_name))


def rulesets() -> tuple[str, ...]:
    """The rounds of training whose rules logs are checked by: from 4.0.0, as those before count training in epochs only.

    Raises:
        FrameworkMissing: The package is not installed.
    """
    folder = package_folder() / "compliance_checker"
    rounds = (file.parent.name.partition("_")[2] for file in folder.glob("training_*/open_common.yaml"))
    return tuple(sorted(round_name for round_name in rounds if int(round_name.partition(".")[0]) >= _FIRST))


TOKEN = ":::MLLOG "

POINT, START, END = "POINT_IN_TIME", "INTERVAL_START", "INTERVAL_END"
"""The kinds of events."""


SUCCESS: Final = "success"
ABORTED: Final = "aborted"
"""How a run ended, by its ``run_stop``."""


_LARGEST_BYTES = 64 * 2**20
_LONGEST_LINE = 2**20

Status: TypeAlias = Literal["success", "aborted", "not ended"]


@dataclass(frozen=True)
class Event:
    """One event.

    Args:
        key: What happened.
        value: Of any kind that JSON has.
        metadata: What belongs to it.
        time_ms: Since 1970.
        kind: One of ``POINT_IN_TIME``, ``INTERVAL_START`` and ``INTERVAL_END``.
    """

    key: str
    value: Any = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    time_ms: float = 0
    kind: str = POINT


@dataclass(frozen=True, eq=False)
class Log:
    """The log of one run.

    Args:
        events: In their order.
        path: The file.
        broken: What is wrong with lines that are no events.
    """

    events: tuple[Event, ...]
    path: Path | None = None
    broken: tuple[str, ...] = ()

    def all(self, key: str) -> list[Event]:
        """The events of a key."""
        return [event for event in self.events if event.key == key]

    def value(self, key: str) -> Any:
        """The value of a key's first event; ``None`` without one."""
        return next((event.value for event in self.events if event.key == key), None)

    @property
    def benchmark(self) -> str:
        """What it says that it is a run of; empty if it does not say."""
        value = self.value("submission_benchmark")
        return value if isinstance(value, str) else ""

    @property
    def status(self) -> Status:
        """How the run ended. One that was killed did not end; what is neither success nor abortion is none."""
        stops = self.all("run_stop")
        if not stops:
            return "not ended"
        return SUCCESS if len(stops) == 1 and stops[0].metadata.get("status") == SUCCESS else ABORTED

    @property
    def direction(self) -> Direction:
        """Whether a score that is ``"lower"`` or ``"higher"`` than the target reaches it."""
        return "lower" if any(e.metadata.get("direction") == "lower" for e in self.all("eval_target")[:1]) else "higher"

    @property
    def reason(self) -> str:
        """Why it was aborted, if the log says so."""
        return next((str(event.metadata.get("reason", "")) for event in self.all("run_stop")), "")

    @property
    def seconds(self) -> float | None:
        """From ``run_start`` to ``run_stop``; ``None`` where one of them is missing."""
        starts, stops = self.all("run_start"), self.all("run_stop")
        return (stops[0].time_ms - starts[0].time_ms) / 1000 if starts and stops else None

    @cached_property
    def last(self) -> Event | None:
        """The last ``eval_accuracy``."""
        evaluations = self.all("eval_accuracy")
        return evaluations[-1] if evaluations else None

    def converged_at(self, unit: Literal["epoch_num", "samples_count"]) -> float | None:
        """How much training the last evaluation came after, if the run was a success."""
        if self.status != SUCCESS or self.last is None:
            return None
        value = self.last.metadata.get(unit)
        return float(value) if is_number(value) else None


def is_number(value: Any) -> TypeGuard[float]:
    """Whether a value of JSON is a finite number."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def read_log(path: str | Path) -> Log:
    """Read the log of a run.

    Args:
        path: The file.

    Raises:
        InvalidRecord: It cannot be read, is too large, or holds not a single event.
    """
    log = read_run(path)
    if not log.events:
        raise InvalidRecord(f"{path} has {log.broken[0]}", "the log of a run, such as result_0.txt")
    return log


def read_run(path: str | Path) -> Log:
    """Read the log of a run that may have failed before it wrote anything: one without an event says so in ``broken``.

    Args:
        path: The file.

    Raises:
        InvalidRecord: It cannot be read, or is too large.
    """
    path = Path(path)
    try:
        size = path.stat().st_size
        if not path.is_file() or size > _LARGEST_BYTES:
            raise InvalidRecord(f"{path}: no file, or one of {size} bytes", f"a log of at most {_LARGEST_BYTES}")
        with open(path, encoding="utf-8", errors="replace") as file:
            log = log_of(file, path)
    except OSError as error:
        raise InvalidRecord(f"cannot read {path}: {error.strerror}", "the log of a run, such as result_0.txt") from error
    return log if log.events else Log((), path, (f"no line of {TOKEN.strip()} that is an event",))


def log_of(lines: Iterable[str], path: Path | None = None) -> Log:
    """The log that lines hold; those without ``:::MLLOG`` are passed over.

    Example:
        >>> log = log_of(['noise', ':::MLLOG {"time_ms": 5, "key": "seed", "value": 1, "metadata": {}}', ':::MLLOG {'])
        >>> log.value("seed"), log.status, log.broken
        (1, 'not ended', ('line 3 is no event: it is no JSON, or cut off',))
    """
    events: list[Event] = []
    broken: list[str] = []
    for number, line in enumerate(lines, 1):
        if TOKEN not in line:
            continue
        try:
            events.append(_event(line.rpartition(TOKEN)[2]))
        except ValueError as error:
            broken.append(f"line {number} is no event: {error}")
    return Log(tuple(events), path, tuple(broken))


def _event(text: str) -> Event:
    """The event of a line.

    Raises:
        ValueError: It is none.
    """
    if len(text) > _LONGEST_LINE:
        raise ValueError(f"it has {len(text)} characters, at most {_LONGEST_LINE} may be")
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        raise ValueError("it is no JSON, or cut off") from None
    if not isinstance(content, dict) or not {"time_ms", "key", "value", "metadata"} <= set(content):
        raise ValueError("it lacks one of time_ms, key, value and metadata")
    key, metadata, kind = content["key"], content["metadata"], content.get("event_type", POINT)
    if not is_number(content["time_ms"]) or not isinstance(key, str) or not isinstance(metadata, dict):
        raise ValueError("its time_ms is no number, its key no text, or its metadata no object")
    return Event(key, content["value"], metadata, content["time_ms"], kind if isinstance(kind, str) else POINT)


_MOST_FOLDERS = 1000


def result_folders(folder: str | Path) -> list[Path]:
    """The folders of logs: those of a submission, or the folder itself.

    Raises:
        InvalidRecord: There are too many.
    """
    root = Path(folder)
    folders = sorted({path.parent for path in root.glob("results/*/*/result_*.txt")}) or [root]
    if len(folders) > _MOST_FOLDERS:
        raise InvalidRecord(f"{len(folders)} folders of logs in {root}", f"at most {_MOST_FOLDERS}")
    return folders


def result_files(folder: str | Path) -> list[Path]:
    """The logs of runs in a folder, by their numbers.

    Raises:
        InvalidRecord: There is none.
    """
    files = [p for p in Path(folder).glob("result_*.txt") if re.fullmatch(r"result_\d+\.txt", p.name)]
    if not files:
        raise InvalidRecord(
            f"no result_0.txt, result_1.txt, … in {folder}",
            "the folder of the logs of some runs, or a submission's with results/SYSTEM/BENCHMARK",
        )
    return sorted(files, key=lambda path: int(path.stem.rpartition("_")[2]))


def read_runs(folder: str | Path) -> tuple[Log, ...]:
    """The logs of the runs of a folder. A file that holds no event is the log of a run that failed.

    Raises:
        InvalidRecord: There is none, or one cannot be read or is too large.
    """
    return tuple(read_run(path) for path in result_files(folder))


_LONGEST_ERROR = 300
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
        self._logger, self._handler = package_writer(self.path)
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
        self.stop(False, "the program went on without it" if error is None else error_line(error))


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
    logger, handler = package_writer(path, append=True)
    try:
        until = f"{shortened(reason, _LONGEST_ERROR)}; the time is that of its last sign of life"
        logger.end("run_stop", metadata={"status": ABORTED, "reason": until}, time_ms=int(last), clear_line=cut_off)
    except OSError as error:
        raise _unwritable(path, error) from error
    finally:
        handler.close()
    return True


def error_line(error: BaseException) -> str:
    """An error in one line.

    Example:
        >>> error_line(ValueError("too long\\nby far"))
        'ValueError: too long by far'
    """
    return shortened(" ".join(f"{type(error).__name__}: {error}".split()), _LONGEST_ERROR)


def _unwritable(path: Path, error: OSError) -> InvalidArgument:
    return InvalidArgument(f"cannot write the log {path}: {error.strerror}", "a folder with space that can be written")


Tag: TypeAlias = tuple[str, Any]

_PLAIN: Mapping[str, str] = MappingProxyType(
    {
        "run_start": "RUN_START",
        "seed": "RUN_SET_RANDOM_SEED",
        "train_samples": "INPUT_SIZE",
        "global_batch_size": "INPUT_BATCH_SIZE",
        "opt_name": "OPT_NAME",
        "opt_base_learning_rate": "OPT_LR",
        "opt_learning_rate_warmup_steps": "OPT_LR_WARMUP_STEPS",
        "opt_momentum": "OPT_MOMENTUM",
        "opt_weight_decay": "OPT_WEIGHT_DECAY",
        "opt_adam_beta_1": "OPT_HP_ADAM_BETA1",
        "opt_adam_beta_2": "OPT_HP_ADAM_BETA2",
        "opt_adam_epsilon": "OPT_HP_ADAM_EPSILON",
        "eval_samples": "EVAL_SIZE",
        "eval_target": "EVAL_TARGET",
    }
)
"""Key of an event to the tag of the same value. Epochs count from 1 in both."""


def write_tags(log: Log, path: str | Path) -> Path:
    """Write a log in the tags of v0.5; what these have no tag for is left out.

    Args:
        log: The log of a run.
        path: The file; what is there is replaced.

    Raises:
        FrameworkMissing: ``mlperf_compliance`` is not installed.
        InvalidRecord: The log has lines that are no events.
        InvalidArgument: It names a benchmark that no line may have, or the file cannot be written.

    Source:
        ``mlperf_compliance`` 0.0.10, which has the tags and writes the lines.
    """
    if find_spec("mlperf_compliance") is None:
        raise FrameworkMissing("mlperf_compliance is not installed", advice="pip install 'deep-bench[mlperf]'")
    if log.broken:
        raise InvalidRecord(f"{log.path}: {log.broken[0]}", "a log in which each line is an event")
    text = _text(log)
    return written(Path(path), lambda temporary: temporary.write_text(text, encoding="utf-8"))


def _text(log: Log) -> str:
    """All lines."""
    from mlperf_compliance import mlperf_log, tags

    benchmark = checked_name(log.benchmark)
    now, out = 0.0, io.StringIO()
    handler = logging.StreamHandler(out)
    saved_handlers = mlperf_log.LOGGER.handlers[:]  # it prints to standard output from when it is imported
    try:
        mlperf_log.LOGGER.handlers[:] = [handler]
        with patch.object(mlperf_log, "time", SimpleNamespace(time=lambda: now)):
            for event in log.events:
                now = event.time_ms / 1000
                for name, value in _tags(event):
                    mlperf_log._mlperf_print(  # those for users are each for one of MLPerf's benchmarks
                        getattr(tags, name),
                        value,
                        benchmark=benchmark,
                        tag_set=tags.ALL_USED_TAGS,
                        root_dir=re.escape(str(_ROOT)),
                    )
    finally:
        mlperf_log.LOGGER.handlers[:] = saved_handlers
    return out.getvalue()


def _tags(event: Event) -> Iterator[Tag]:
    """Name and value of the tags of an event."""
    epoch, key = event.metadata.get("epoch_num"), event.key
    if key in _PLAIN:
        yield _PLAIN[key], event.value
    elif key == "cache_clear" and event.value:
        yield "RUN_CLEAR_CACHES", None
    elif key == "epoch_start":
        if epoch == 1:
            yield "TRAIN_LOOP", None
        yield "TRAIN_EPOCH", epoch
    elif key in ("eval_start", "eval_stop"):
        yield key.upper(), epoch
    elif key == "eval_accuracy":
        yield "EVAL_ACCURACY", {"epoch": epoch, "value": event.value}
    elif key == "run_stop":
        yield "RUN_STOP", {"success": event.metadata.get("status") == SUCCESS}
        yield "RUN_FINAL", None
