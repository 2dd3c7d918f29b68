"""What a timeline found: where the time of a step goes, as text, as rows and as Chrome's trace events.

It is computed from the record alone.
"""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.table import Table
from rich.text import Text

from deep_bench.errors import FrameworkMissing, InvalidArgument
from deep_bench.measure.units import duration, duration_range, in_bytes, share, significant
from deep_bench.records.store import written
from deep_bench.records.table import data_frame, figure_columns, text_of
from deep_bench.training.timeline.phases import Phase, SpanRow, Spans, outside_rows, spans_of
from deep_bench.training.timeline.record import TimelineRecord, new_file, read, write
from deep_bench.training.timeline.stamps import DEVICE_MEMORY, DONE, EMPTY, LEFT, PEAK_MEMORY, RAISED, SAMPLES, SWITCHES

if TYPE_CHECKING:
    import pandas

    from deep_bench.training.plots import PhasePlotKind
    from deep_bench.training.timeline.phases import Epoch


class TimelineResult(Mapping[str, Phase]):
    """The phases of a timeline by name (``"training"``, unless the loop said otherwise), in order of appearance.

    Attributes:
        record: All raw stamps, and where they were taken.
        path: Where the record lies, if it was saved.
    """

    def __init__(self, record: TimelineRecord, path: Path | None = None) -> None:
        self.record = record
        self.path = path

    @cached_property
    def spans(self) -> Spans:
        """All epochs, steps and regions."""
        return spans_of(self.record.names, [(thread.codes, thread.values) for thread in self.record.threads])

    @cached_property
    def phases(self) -> dict[str, Phase]:
        """What this maps."""
        numbers = sorted({int(n) for n in self.spans.number[self.spans.of_kind("step")]})
        return {
            self.record.names[n].name: Phase(self.spans, n, self.record.warm_up, self.record.synchronize is not None)
            for n in numbers
        }

    @cached_property
    def outside(self) -> list[SpanRow]:
        """The regions that lie in no step, such as those of other threads; shares are of the whole timeline."""
        return outside_rows(self.spans, self.total_ns)

    @property
    def total_ns(self) -> int:
        """From the timeline's begin to its end; of a run that was killed, to its last event."""
        end = self.record.end_ns
        if end is None:
            ends = self.spans.begin + self.spans.duration
            end = int(ends.max(initial=self.record.start_ns))
        return end - self.record.start_ns

    def __getitem__(self, phase: str) -> Phase:
        """A phase.

        Raises:
            KeyError: There is none of this name, or it had no step.
        """
        return self.phases[phase]

    def __iter__(self) -> Iterator[str]:
        return iter(self.phases)

    def __len__(self) -> int:
        return len(self.phases)

    def as_text(self, width: int | None = None) -> str:
        """A table for each phase, and under it what else is worth knowing."""
        return text_of(_report(self), width)

    __str__ = as_text

    def report(self) -> None:
        """Print `as_text`."""
        print(self.as_text())

    def save(self, path: str | Path) -> Path:
        """Write the record to a new JSON file (or into a folder); more than 5,000 events go to an HDF5 file beside it.

        Raises:
            InvalidArgument: The file exists, or cannot be written.
        """
        self.path = write(self.record.model_copy(update={"journal": None}), new_file(path))
        return self.path

    def chrome_trace(self, path: str | Path) -> Path:
        """Write all spans as Chrome's trace events, which Perfetto (https://ui.perfetto.dev) and ``chrome://tracing`` show.

        Args:
            path: Where to, ending in ``.json`` or ``.json.gz``.

        Raises:
            InvalidArgument: The name ends otherwise, or the file cannot be written.

        Source:
            The Chromium project, Trace event format, 2016.
        """

        path = Path(path)
        if not path.name.endswith((".json", ".json.gz")):
            raise InvalidArgument(f"{path} for a trace", "a name that ends in .json or .json.gz")

        def fill(temporary: Path) -> None:
            opened = gzip.open if path.suffix == ".gz" else open
            with opened(temporary, "wt", encoding="utf-8") as file:
                file.write('{"displayTimeUnit": "ns", "traceEvents": [\n')
                for number, event in enumerate(_events(self)):
                    file.write((",\n" if number else "") + json.dumps(event))
                file.write("\n]}\n")

        return written(path, fill)

    def plot(self, path: str | Path, kind: PhasePlotKind = "steps", *, phase: str | None = None) -> Path:
        """Draw a picture.

        Args:
            path: Where to; the name's end tells the format.
            kind: ``"steps"``: how the time of a step was split, over all steps; ``"violin"``: the distribution of each
                region's time.
            phase: Which phase; by default the first.

        Raises:
            InvalidArgument: No such kind or phase, or the file cannot be written.
            FrameworkMissing: matplotlib is not installed.
        """
        try:
            from deep_bench.training.plots import plot_phase
        except ModuleNotFoundError as error:
            raise FrameworkMissing("plots need matplotlib", advice="pip install 'deep-bench[report]'") from error
        return plot_phase(self.phase(phase), Path(path), kind)

    def phase(self, name: str | None = None) -> Phase:
        """A phase, by default the first.

        Raises:
            InvalidArgument: There is none.
        """
        if not self.phases:
            raise InvalidArgument("this timeline has no step", "a loop over t.over(…), or with t.step()")
        if name is not None and name not in self.phases:
            raise InvalidArgument(f"phase {name!r}", f"one of {', '.join(self.phases)}")
        return self.phases[next(iter(self.phases)) if name is None else name]

    def rows(self) -> list[dict[str, Any]]:
        """Every span as a mapping; see `to_dataframe`."""

        spans, record = self.spans, self.record
        steps, epochs = (spans.within(spans.of_kind(kind), nearest=True) for kind in ("step", "epoch"))
        step_numbers, epoch_numbers = _running(spans, "step"), _running(spans, "epoch")
        entries = []
        for i in range(len(spans.number)):
            name, step, epoch = record.names[spans.number[i]], int(steps[i]), int(epochs[i])
            within = [record.names[n] for n in spans.paths[spans.path[i]]]
            outer = max(step, epoch)  # the later begun lies in the other
            entries.append(
                {
                    "kind": name.kind,
                    "name": name.name,
                    "path": "/".join(n.name for n in within if n.kind == "region"),
                    "phase": record.names[spans.number[outer]].name if outer >= 0 else None,
                    "epoch": int(epoch_numbers[epoch]) if epoch >= 0 else None,
                    "step": int(step_numbers[step]) if step > epoch else None,
                    "thread": record.threads[spans.thread[i]].name,
                    "begin": (int(spans.begin[i]) - record.start_ns) / 1e9,
                    "duration": int(spans.duration[i]) / 1e9,
                    "own": int(spans.own[i]) / 1e9,
                    "ending": ENDINGS[int(spans.ending[i])],
                }
            )
        return entries

    def to_dataframe(self) -> pandas.DataFrame:
        """Every span as a row: kind, name, path, phase, epoch and step (each counted from 0), thread, begin, duration and
        own time in seconds, and how it ended.

        Raises:
            FrameworkMissing: pandas is not installed.
        """
        return data_frame(self.rows(), "rows()")


def load(path: str | Path) -> TimelineResult:
    """Read a timeline that was saved, or what one whose process was killed had written.

    Raises:
        InvalidRecord: It is no timeline, or was damaged.
    """
    return TimelineResult(read(path), Path(path))


_FIGURES = ("median (95 % interval)", "p90", "p99", "share", "own")
_LISTED_EPOCHS = 12
_DRIFTS, _WEIGHTY, _MANY_STEPS = 0.02, 0.05, 40


def _report(result: TimelineResult) -> Iterator[Table | Text | str]:
    """Each phase as a table and sentences; then what holds of all."""
    for phase in result.values():
        counted = _counted(phase.n_steps + len(phase.warm_up), "step")
        title = f"{phase.name}: {_counted(len(phase.epochs), 'epoch')}, {counted}"
        if not phase.n_steps:
            yield Text(f"{title}: too few to say more")
        else:
            yield _table(title, "a step", phase.rows, lambda row: "–" if row.per_step is None else significant(row.per_step))
        yield from _about_phase(phase)
        if 1 < len(phase.epochs) <= _LISTED_EPOCHS:
            yield _epoch_table(phase.epochs)
        yield ""
    if result.outside:
        title = "regions outside of steps; shares are of the whole timeline"
        yield _table(title, "calls", result.outside, lambda row: f"{row.n + row.raised}")
        yield from (line for row in result.outside for line in _about_row(row))
    yield from _about_all(result)


def _table(title: str, first: str, rows: Iterable[SpanRow], first_of: Callable[[SpanRow], str]) -> Table:
    table = Table("region", *figure_columns(first, *_FIGURES), title=Text(title))
    for row in rows:
        indent = 0 if row.path == ("step",) else 2 * len(row.path)
        summary = row.summary
        exclusive = share(row.own_share) if row.own_share != row.share else ""
        figures = ["–"] * 3
        if summary is not None:
            bounds, tails = summary.interval, (summary.percentiles["p90"], summary.percentiles["p99"])
            interval = "too few" if bounds is None else duration_range(bounds.low / 1e9, bounds.high / 1e9)
            figures = [f"{duration(summary.median / 1e9)} ({interval})"]
            figures += ["too few" if tail is None else duration(tail.value / 1e9) for tail in tails]
        table.add_row(Text(" " * indent + row.name), first_of(row), *figures, share(row.share), exclusive)
    return table


def _epoch_table(epochs: list[Epoch]) -> Table:
    table = Table("epoch", *figure_columns("steps", "time", "its first step", "samples/s"))
    for number, epoch in enumerate(epochs):
        rate = "–" if epoch.samples is None else significant(epoch.samples / epoch.seconds)
        how = "" if epoch.ending == DONE else " (left early)" if epoch.ending == LEFT else " (exception)"
        table.add_row(f"{number}{how}", str(epoch.n_steps), duration(epoch.seconds), duration(epoch.first_step), rate)
    return table


def _about_phase(phase: Phase) -> Iterable[str]:
    yield from _about_warm_up(phase)
    if phase.throughput is not None:
        yield f"throughput: {significant(phase.throughput)} samples a second (all samples over all steps' time)"
    elif phase.n_steps:
        rate = phase.n_steps / (phase.durations_ns.sum() / 1e9)
        yield f"throughput: {significant(rate)} steps a second; batches did not say how many samples they had"
    for row in phase.rows:
        if row.share >= _WEIGHTY or row.raised:
            yield from _about_row(row)
    longest, total = int(phase.durations_ns.max(initial=0)), int(phase.durations_ns.sum())
    if phase.n_steps >= _MANY_STEPS and longest > _WEIGHTY * total:
        yield f"the longest step took {duration(longest / 1e9)}, {share(longest / total)} of all steps' time"
    if phase.left or phase.raised:
        yield f"not counted: {_counted(phase.left, 'step')} left early, {_counted(phase.raised, 'step')} whose batch failed"
    if len(phase.epochs) > _LISTED_EPOCHS:
        times = [epoch.seconds for epoch in phase.epochs if epoch.ending == DONE]
        if times:
            yield f"epochs: median {duration(float(np.median(times)))}, {duration_range(min(times), max(times))}"
    for name, label in ((PEAK_MEMORY, "peak memory of the process"), (DEVICE_MEMORY, "device memory in use at steps' ends")):
        readings = phase.noted(name)
        if len(readings):
            yield f"{label}: {in_bytes(float(readings.max()))} ({in_bytes(float(readings[0]))} after the first step)"
    switches = phase.noted(SWITCHES)
    if len(switches) > 1 and (switch_count := int(switches[-1] - switches[0])):
        yield f"other processes took a CPU {switch_count:,} times between the first step's end and the last; all steps count"


def _about_warm_up(phase: Phase) -> Iterable[str]:
    if phase.warm_up and phase.rows and phase.rows[0].summary is not None:
        which = "first step" if len(phase.warm_up) == 1 else f"first {len(phase.warm_up)} steps"
        times = ", ".join(duration(t) for t in phase.warm_up[:5])
        ratio = phase.warm_up[0] * 1e9 / phase.rows[0].summary.median
        yield f"{which}, kept apart: {times} ({significant(ratio)} times the median)"
        firsts = [e.first_step * 1e9 for e in phase.epochs[1:] if e.first_step is not None]
        if firsts and (ratio := float(np.median(firsts)) / phase.rows[0].summary.median) > 1.5:
            yield f"the first step of a later epoch takes {significant(ratio)} times the median; it counts"


def _about_row(row: SpanRow) -> Iterable[str]:
    if row.raised:
        yield f"{row.name}: {row.raised} of {row.n + row.raised} ended by an exception; their times are in the shares only"
    if row.summary is None:
        return
    if abs(row.summary.drift) > _DRIFTS:
        yield f"{row.name}: drifted by {share(row.summary.drift)} during the run"
    if len(row.summary.modes) > 1:
        yield f"{row.name}: times cluster at {', '.join(duration(m / 1e9) for m in row.summary.modes)}"
    if row.threads > 1:
        yield f"{row.name}: in {row.threads} threads, whose times add up"


def _about_all(result: TimelineResult) -> Iterable[str]:
    record, spans = result.record, result.spans
    if record.synchronize is not None:
        yield f"times are of finished work: {record.synchronize} waited for the device at the end of each region and step"
    elif record.asynchronous:
        devices = "; ".join(f"{name}: {where}" for name, where in record.asynchronous.items())
        yield (
            "times are of launching, not of finished work, where the loop uses what works asynchronously here "
            f"({devices}): give timeline() synchronize="
        )
    else:
        yield "times are of finished work on the CPU; no device that works asynchronously was seen"
    for phase in result.values():
        if (cost := record.cost) is not None and phase.n_steps:
            regions = sum(row.per_step or 0 for row in phase.rows[1:-1])
            spent = cost.step + max(regions - 1, 0) * cost.region  # the region of waiting is in the cost of a step
            part = spent / (phase.durations_ns.sum() / phase.n_steps)
            yield (
                f"looking cost {significant(100 * part, 2)} % of a step of {phase.name} ({duration(spent / 1e9)}: "
                f"{duration(cost.region / 1e9)} a region, {duration(cost.step / 1e9)} a step)"
            )
    if spans.open:
        yield f"{_counted(spans.open, 'span')} had not ended: they are in no figure"
    if spans.straddling.any():
        names = sorted({record.names[n].name for n in spans.number[spans.straddling]})
        yield f"{', '.join(names)}: ended after the region they began in, whose own time is therefore too small"
    if record.lost:
        yield f"the last {record.lost} events were beyond the limit and are missing: give timeline() save= or limit="
    if record.error is not None:
        yield f"the loop ended with {record.error}"
    if not record.complete:
        yield "this run did not finish, or goes on: the figures are of what was written until then"
    yield from record.notes
    if result.path is not None:
        yield f"record: {result.path}"


def _counted(n: int, noun: str) -> str:
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


ENDINGS = {DONE: "done", RAISED: "raised", LEFT: "left", EMPTY: "empty"}


def _running(spans: Spans, kind: str) -> np.ndarray:
    """The running number of each epoch or step within its phase, by its begin; -1 for other spans."""
    numbers = np.full(len(spans.number), -1)
    for number in np.unique(spans.number[spans.of_kind(kind)]):
        members = np.flatnonzero((spans.number == number) & (spans.ending != EMPTY))
        members = members[np.argsort(spans.begin[members], kind="stable")]
        numbers[members] = np.arange(len(members))
    return numbers


def _events(result: TimelineResult) -> Iterator[dict[str, Any]]:
    record, pid = result.record, os.getpid()
    command = " ".join(record.command) or "deep_bench"
    yield {"ph": "M", "pid": pid, "tid": 0, "name": "process_name", "args": {"name": command}}
    for number, thread in enumerate(record.threads):
        yield {"ph": "M", "pid": pid, "tid": number, "name": "thread_name", "args": {"name": thread.name}}
    spans = result.spans
    # Complete events (X) must nest; those that do not are pairs (b, e) on tracks of their own.
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
    # Memory, and samples a second, at the steps' ends.
    for number, (places, values) in spans.counters.items():
        counter = record.names[number].name
        if counter not in (SAMPLES, PEAK_MEMORY, DEVICE_MEMORY):
            continue
        for place, value in zip(places.tolist(), values.tolist(), strict=True):
            if place >= 0:
                length = int(spans.duration[place])
                end = (int(spans.begin[place]) - record.start_ns + length) / 1e3
                if counter == SAMPLES:
                    shown, label = {"samples/s": value / max(length, 1) * 1e9}, "throughput"
                else:
                    shown, label = {"MiB": value / 2**20}, counter
                yield {"ph": "C", "pid": pid, "tid": 0, "name": label, "ts": end, "args": shown}
