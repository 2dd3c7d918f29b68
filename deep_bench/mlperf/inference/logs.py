"""What LoadGen writes: ``mlperf_log_summary.txt``, ``…_detail.txt``, ``…_accuracy.json`` and ``…_trace.json``."""

from __future__ import annotations

import json
import re
from array import array
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deep_bench.errors import InvalidRecord
from deep_bench.mlperf.inference.scenario import SCENARIOS, Scenario

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
_KEPT = (
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
        elif key.startswith(_KEPT):
            values[key] = value
    return Detail(values, tuple(errors), tuple(warnings))


@dataclass(frozen=True)
class Answers:
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


def read_answers(folder: Path) -> Answers:
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
    return Answers(np.array(index, np.int64), tuple(data))


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
