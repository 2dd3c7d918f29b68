"""What a timeline found: where the time of a step goes, with the statistics of level 0. Computed from the record alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deep_bench.errors import FrameworkMissing, InvalidArgument
from deep_bench.training.timeline.phase import Phase, Row, outside_rows
from deep_bench.training.timeline.record import TimelineRecord
from deep_bench.training.timeline.spans import Spans, spans_of
from deep_bench.training.timeline.storage import new_file, read, write

if TYPE_CHECKING:
    import pandas

    from deep_bench.training.timeline.plots import Kind


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
    def outside(self) -> list[Row]:
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
        from deep_bench.training.timeline.report import as_text

        return as_text(self, width)

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
        from deep_bench.training.timeline.chrome import write_trace

        return write_trace(self, Path(path))

    def plot(self, path: str | Path, kind: Kind = "steps", *, phase: str | None = None) -> Path:
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
            from deep_bench.training.timeline.plots import plot
        except ModuleNotFoundError as error:
            raise FrameworkMissing("plots need matplotlib", advice="pip install 'deep-bench[report]'") from error
        return plot(self.phase(phase), Path(path), kind)

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
        from deep_bench.training.timeline.frame import rows

        return rows(self)

    def to_dataframe(self) -> pandas.DataFrame:
        """Every span as a row: kind, name, path, phase, epoch and step (each counted from 0), thread, begin, duration and
        own time in seconds, and how it ended.

        Raises:
            FrameworkMissing: pandas is not installed.
        """
        try:
            import pandas
        except ImportError as error:
            raise FrameworkMissing(
                "to_dataframe needs pandas, which is not installed here",
                advice="pip install pandas; rows() gives the same as mappings",
            ) from error
        return pandas.DataFrame(self.rows())


def load(path: str | Path) -> TimelineResult:
    """Read a timeline that was saved, or what one whose process was killed had written.

    Raises:
        InvalidRecord: It is no timeline, or was damaged.
    """
    return TimelineResult(read(path), Path(path))
