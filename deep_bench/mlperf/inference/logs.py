"""What LoadGen writes: ``mlperf_log_summary.txt``, ``…_detail.txt``, ``…_accuracy.json`` and ``…_trace.json``.

Percentiles of latencies each have their definition, and need enough queries.
"""

from __future__ import annotations

import json
import re
from array import array
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import ceil, floor, isclose
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from deep_bench.errors import InvalidRecord
from deep_bench.measure.statistics import samples_needed
from deep_bench.mlperf.inference.settings import SCENARIOS, Scenario

SUMMARY, DETAIL, ACCURACY, TRACE = (
    f"mlperf_log_{name}" for name in ("summary.txt", "detail.txt", "accuracy.json", "trace.json")
)
PREFIX = ":::MLLOG "

_LARGEST_BYTES = MappingProxyType({SUMMARY: 2**20, DETAIL: 256 * 2**20, ACCURACY: 2**30, TRACE: 4 * 2**30})
_LONGEST_LINE = 64 * 2**20
_ANSWER = re.compile(rb'"seq_id"\s*:\s*(\d+).*?"qsl_idx"\s*:\s*(\d+).*?"data"\s*:\s*"([0-9A-Fa-f]*)"')
_SAMPLE = re.compile(
    rb'"name":"Sample".*?"ph":"b".*?"sample_seq":(\d+),"query_seq":(\d+),"sample_idx":(\d+),'
    rb'"issue_start_ns":(-?\d+),"complete_ns":(-?\d+)'
)
_KEPT_KEYS = (
    "result_",
    "effective_",
    "early_stopping",
    "generated_",
    "loadgen_version",
    "num_",
    "qsl_reported",
    "requested_",
)


@dataclass(frozen=True)
class Detail:
    """LoadGen's detailed log.

    Args:
        values: Key to value, of what says how the run was made and what it gave.
        errors: All that LoadGen calls an error.
        warnings: Likewise.
    """

    values: Mapping[str, Any] = field(default_factory=dict)
    errors: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def validity(self) -> str:
        """``"VALID"`` or ``"INVALID"``, as LoadGen says; empty where it says nothing, as of a run for accuracy alone."""
        return str(self.values.get("result_validity", ""))

    @property
    def rules(self) -> Scenario:
        """The scenario of the run.

        Raises:
            InvalidRecord: The log names none.
        """
        name = self.values.get("effective_scenario")
        if name not in SCENARIOS:
            raise InvalidRecord(f"a log of the scenario {name!r}", f"one of {', '.join(SCENARIOS)}")
        return SCENARIOS[name]  # type: ignore[index]

    @property
    def samples(self) -> int:
        """Queries times the samples of each: those that were made up, which may be more than the settings say.

        With ``sample_concatenate_permutation``, Offline's query has the whole data set so often that none is cut short.
        """
        return int(self.values.get("result_query_count", 0)) * int(self.values.get("generated_samples_per_query", 1))

    @property
    def result(self) -> float | None:
        """The scenario's metric, in its unit; ``None`` where LoadGen gives none, or 0 for none."""
        value = self.values.get(self.rules.result)
        if not isinstance(value, int | float) or isinstance(value, bool) or value <= 0:
            return None
        return value * 1e-9 if self.rules.unit == "s" else float(value)


def read_detail(folder: Path) -> Detail:
    """The detailed log in a folder.

    Raises:
        InvalidRecord: It is missing, too large, or a line of it cannot be read.
    """
    values: dict[str, Any] = {}
    errors, warnings = [], []
    for number, line in enumerate(_lines(folder / DETAIL), 1):
        if not line.startswith(PREFIX.encode()):
            continue
        try:
            entry = json.loads(line[len(PREFIX) :])
            key, value, flags = str(entry["key"]), entry["value"], entry.get("metadata", {})
            is_error, is_warning = flags.get("is_error"), flags.get("is_warning")
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise InvalidRecord(f"{folder / DETAIL}, line {number}: {error}", "a line that LoadGen wrote") from error
        if is_error:
            errors.append(f"{key}: {value}")
        elif is_warning:
            warnings.append(f"{key}: {value}")
        elif key.startswith(_KEPT_KEYS):
            values[key] = value
    return Detail(values, tuple(errors), tuple(warnings))


@dataclass(frozen=True)
class LoggedAnswers:
    """The answers that LoadGen logged.

    Args:
        index: Of the library, of each.
        data: The bytes of each.
    """

    index: NDArray[np.int64]
    data: tuple[bytes, ...]

    def by_index(self) -> dict[int, bytes]:
        """The last answer to each sample."""
        return dict(zip(self.index.tolist(), self.data, strict=True))


def read_answers(folder: Path) -> LoggedAnswers:
    """The accuracy log in a folder, LoadGen's list of answers.

    Raises:
        InvalidRecord: It is missing or too large, or an entry cannot be read.
    """
    index, data = [], []
    for number, line in enumerate(_lines(folder / ACCURACY), 1):
        match = _ANSWER.search(line)
        if match is None:
            if line.strip() not in (b"[", b"]", b"[]", b""):
                raise InvalidRecord(f"{folder / ACCURACY}, line {number}: {line[:80]!r}", "an entry that LoadGen wrote")
            continue
        if len(match[3]) % 2 or int(match[2]) > 2**62:
            raise InvalidRecord(f"{folder / ACCURACY}, line {number}", "hexadecimal digits in pairs, and an index")
        index.append(int(match[2]))
        data.append(bytes.fromhex(match[3].decode("ascii")))
    return LoggedAnswers(np.array(index, np.int64), tuple(data))


def read_trace(folder: Path, last: int) -> dict[str, NDArray[np.int64]]:
    """What LoadGen traced of each sample, in the order of its number.

    Args:
        folder: Of the log.
        last: How many samples the performance phase had, or the last run of a search: those before are left out.

    Returns:
        ``traced_query``, the number of its query; ``delay_ns``, from when it was scheduled until LoadGen issued it;
        ``latency_ns``, from when it was scheduled until the answer: what LoadGen's own figures are of.

    Raises:
        InvalidRecord: It is missing or too large.
    """
    values = array("q")
    for line in _lines(folder / TRACE):
        if match := _SAMPLE.search(line):
            values.extend(map(int, match.groups()))
    table = np.array(values, np.int64).reshape(-1, 5)[-last:]
    table = table[np.argsort(table[:, 0], kind="stable")]
    return {"traced_query": table[:, 1], "delay_ns": table[:, 3], "latency_ns": table[:, 4]}


def read_summary(folder: Path) -> str:
    """LoadGen's summary.

    Raises:
        InvalidRecord: It is missing or too large.
    """
    return b"".join(_lines(folder / SUMMARY)).decode("utf-8", errors="replace")


def _lines(path: Path) -> Iterator[bytes]:
    try:
        size = path.stat().st_size
        if size > _LARGEST_BYTES[path.name]:
            raise InvalidRecord(f"{path} has {size} bytes", f"at most {_LARGEST_BYTES[path.name]}")
        with open(path, "rb") as file:
            while line := file.readline(_LONGEST_LINE):
                yield line
    except OSError as error:
        raise InvalidRecord(f"cannot read {path}: {error.strerror}", "a log that LoadGen wrote") from error


SHARES = (0.5, 0.9, 0.95, 0.97, 0.99, 0.999)
"""Those that LoadGen prints."""


EARLY_CONFIDENCE = 0.99
"""Of early stopping, in the rules."""


LOADGEN = "the element floor(n p), counted from 0, of the n sorted latencies"
OURS = "the smallest latency that at least a share p of all does not exceed: element ceil(n p) - 1"
BOUND = "the order statistic that is not below the percentile with 95 % confidence"
EARLY = "the highest latency that is left when as many are discarded as still let p hold with 99 % confidence"


@dataclass(frozen=True)
class LatencyPercentile:
    """One percentile of n latencies, in the same unit.

    Args:
        share: Of the latencies that are not above it.
        loadgen: By LoadGen's definition, `LOADGEN`.
        ours: By `OURS`.
        bound: `BOUND`; ``None`` where n is below ``needed``: the percentile is then no more than the largest seen.
        needed: The fewest latencies that bound it.
    """

    share: float
    loadgen: float
    ours: float
    bound: float | None
    needed: int


def percentiles(latencies: NDArray[np.int64], looked_at: float = 0.99) -> list[LatencyPercentile]:
    """All that LoadGen prints, and the one that it looks at; none of no latencies.

    Args:
        latencies: Of queries.
        looked_at: A share.

    Example:
        >>> p90 = percentiles(np.arange(1, 101))[1]
        >>> p90.loadgen, p90.ours, p90.bound
        (91.0, 90.0, 96.0)
    """
    n, ordered = len(latencies), np.sort(latencies)
    if not n:
        return []
    entries = []
    extra = (looked_at,) if 0 < looked_at < 1 and not any(isclose(looked_at, share) for share in SHARES) else ()
    for share in sorted((*SHARES, *extra)):
        needed = samples_needed(share)
        rank = int(stats.binom.ppf(0.95, n, share))
        bound = float(ordered[rank]) if n >= needed and rank < n else None
        place = ordered[min(floor(n * share), n - 1)]
        entries.append(LatencyPercentile(share, float(place), float(ordered[ceil(round(n * share, 6)) - 1]), bound, needed))
    return entries


def early_stopping(latencies: NDArray[np.int64], share: float) -> float | None:
    r"""The estimate that the rules take for the percentile, in the latencies' unit.

    With :math:`t` of :math:`n` latencies discarded as too long, the claim that a share p is shorter holds with confidence c
    as long as :math:`P(X \le t) \le 1 - c` for X binomial of n and 1 - p; the estimate is the longest of the rest, with the
    largest such t, less one, discarded.

    Args:
        latencies: Of queries.
        share: p.

    Returns:
        The estimate; ``None`` where there are too few latencies for any (64 for p = 0.9, 662 for p = 0.99).

    Example:
        >>> early_stopping(np.arange(1, 65), 0.9), early_stopping(np.arange(1, 64), 0.9)
        (64.0, None)

    Source:
        MLPerf Inference rules, appendix on early stopping.
    """
    n = len(latencies)
    low, high = 0, n
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if stats.binom.cdf(middle, n, 1 - share) < 1 - EARLY_CONFIDENCE else (low, middle - 1)
    return None if low < 1 else float(np.partition(latencies, n - low)[n - low])
