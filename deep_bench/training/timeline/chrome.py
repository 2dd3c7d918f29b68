"""Spans as trace events of Chrome, which Perfetto reads."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from deep_bench.errors import InvalidArgument
from deep_bench.measure.storage import written
from deep_bench.training.timeline.codes import DEVICE_MEMORY, EMPTY, PEAK_MEMORY, SAMPLES
from deep_bench.training.timeline.frame import ENDINGS

if TYPE_CHECKING:
    from deep_bench.training.timeline.result import TimelineResult


def write_trace(result: TimelineResult, path: Path) -> Path:
    """See `TimelineResult.chrome_trace`."""
    if not path.name.endswith((".json", ".json.gz")):
        raise InvalidArgument(f"{path} for a trace", "a name that ends in .json or .json.gz")

    def fill(temporary: Path) -> None:
        opened = gzip.open if path.suffix == ".gz" else open
        with opened(temporary, "wt", encoding="utf-8") as file:
            _write(file, result)

    return written(path, fill)


def _write(file: IO[str], result: TimelineResult) -> None:
    file.write('{"displayTimeUnit": "ns", "traceEvents": [\n')
    for number, event in enumerate(_events(result)):
        file.write((",\n" if number else "") + json.dumps(event))
    file.write("\n]}\n")


def _events(result: TimelineResult) -> Iterator[dict[str, Any]]:
    record, pid = result.record, os.getpid()
    name = " ".join(record.command) or "deep_bench"
    yield {"ph": "M", "pid": pid, "tid": 0, "name": "process_name", "args": {"name": name}}
    for number, thread in enumerate(record.threads):
        yield {"ph": "M", "pid": pid, "tid": number, "name": "thread_name", "args": {"name": thread.name}}
    yield from _spans(result, pid)
    yield from _counters(result, pid)


def _spans(result: TimelineResult, pid: int) -> Iterator[dict[str, Any]]:
    """Complete events (``X``), which must nest; those that do not are pairs (``b``, ``e``) on tracks of their own."""
    spans, record = result.spans, result.record
    columns = (spans.number, spans.thread, spans.begin - record.start_ns, spans.duration, spans.ending, spans.straddling)
    for i, (number, thread, begin, length, ending, straddling) in enumerate(
        zip(*(c.tolist() for c in columns), strict=True)
    ):
        name = record.names[number]
        label = name.name if name.kind == "region" else f"{name.kind} ({name.name})"
        if ending == EMPTY:
            label = f"end of the loader ({name.name})"
        event = {"name": label, "cat": name.kind, "pid": pid, "tid": thread, "ts": begin / 1e3}
        if straddling:
            yield {**event, "ph": "b", "id": i}
            yield {**event, "ph": "e", "id": i, "ts": (begin + length) / 1e3}
        else:
            args = {"args": {"ended": ENDINGS[ending]}} if ending else {}
            yield {**event, "ph": "X", "dur": length / 1e3, **args}


def _counters(result: TimelineResult, pid: int) -> Iterator[dict[str, Any]]:
    """Memory, and samples a second, at the steps' ends."""
    spans, record = result.spans, result.record
    for number, (places, values) in spans.counters.items():
        name = record.names[number].name
        if name not in (SAMPLES, PEAK_MEMORY, DEVICE_MEMORY):
            continue
        for place, value in zip(places.tolist(), values.tolist(), strict=True):
            if place >= 0:
                length = int(spans.duration[place])
                end = (int(spans.begin[place]) - record.start_ns + length) / 1e3
                if name == SAMPLES:
                    shown, label = {"samples/s": value / max(length, 1) * 1e9}, "throughput"
                else:
                    shown, label = {"MiB": value / 2**20}, name
                yield {"ph": "C", "pid": pid, "tid": 0, "name": label, "ts": end, "args": shown}
