"""Callbacks that show a training run: a bar on a terminal, curves as a picture, lines of CSV or JSON in a file."""

from __future__ import annotations

import csv
import io
import json
import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter_ns
from typing import Any

from deep_bench.errors import InvalidArgument, Unsupported
from deep_bench.events import Moment
from deep_bench.measure.progress import Bars
from deep_bench.measure.units import significant
from deep_bench.records.store import replace
from deep_bench.training.run_state import PHASES, History, Progress

_REFRESH_NS = 500_000_000


class ProgressBar:
    """A bar for each epoch on standard error, with the loss and the last scores; nothing where that is no terminal.

    The loss is read twice a second at most, since reading it waits for the device.

    Args:
        visible: False hides it on a terminal too.
    """

    moments = (Moment.AFTER_STEP, Moment.AFTER_EVALUATION, Moment.AFTER_EPOCH, Moment.AFTER_RUN)

    def __init__(self, visible: bool = True) -> None:
        self._bars = Bars(visible)
        self._open = False
        self._next_ns = 0
        self._scores = ""

    def __call__(self, moment: Moment, index: int, time_ns: int, data: Progress) -> None:
        """Begin a bar, move it on, or take it away."""
        if moment is Moment.AFTER_STEP:
            self._step(time_ns, data)
        elif moment is Moment.AFTER_EVALUATION and data.evaluated is not None:
            self._scores = "".join(f", {name} {significant(value, 4)}" for name, value in data.evaluated.figures.items())
        elif moment in (Moment.AFTER_EPOCH, Moment.AFTER_RUN):
            self._bars.close()
            self._open = False

    def _step(self, time_ns: int, data: Progress) -> None:
        done = 1
        if not self._open:
            try:
                batches: float = len(data.trainer.loader)
            except (Unsupported, TypeError):  # an epoch has no end
                batches = math.inf
            self._bars.phase(f"epoch {data.epoch + 1}", batches, "steps")
            self._open, done = True, data.position
        if self._bars.shown and time_ns >= self._next_ns:
            self._next_ns = time_ns + _REFRESH_NS
            self._bars.at(f"loss {significant(data.loss, 4)}{self._scores}")
        self._bars.advance(done)


_REST = 9
"""Between two pictures, so many times as long as one takes."""


class Curves:
    """A picture of the loss of each step and of all scores, drawn anew after each epoch and at the end.

    Where epochs are short, some are passed over, so that drawing takes at most a tenth of the time.
    Where there are many steps, the loss is that of neighbours together: their median, and a band from lowest to highest.
    The file is replaced as a whole, so that it can be looked at any time.

    Args:
        file: Where; its end tells the format: ``.png``, ``.pdf``, ``.svg``.

    Raises:
        InvalidArgument: No such folder, or no such format.
        Unsupported: matplotlib is not installed.
    """

    moments = (Moment.AFTER_EPOCH, Moment.AFTER_RUN)

    def __init__(self, file: str | Path) -> None:
        self.file = Path(file)
        try:
            from matplotlib.backends.backend_agg import FigureCanvasAgg
        except ImportError as error:
            raise Unsupported("a picture without matplotlib", advice="pip install deep-bench[report]") from error
        extensions = FigureCanvasAgg.get_supported_filetypes()
        if self.file.suffix[1:] not in extensions:
            raise InvalidArgument(f"a picture in {self.file.name}", f"a name that ends in {', '.join(sorted(extensions))}")
        if not self.file.parent.is_dir():
            raise InvalidArgument(f"no folder {str(self.file.parent)!r} for {self.file.name}", "an existing folder")

        self._next_ns = 0

    def __call__(self, moment: Moment, index: int, time_ns: int, data: Progress) -> None:
        """Draw it."""
        if moment is Moment.AFTER_EPOCH and time_ns < self._next_ns:
            return
        data.trainer.read_losses()
        scores = data.trainer.evaluation.scores if data.trainer.evaluation is not None else {}
        from deep_bench.training.plots import history_figure

        figure = history_figure(data.history, scores, data.trainer.taker.loss)
        form = self.file.suffix[1:]
        replace(self.file, lambda temporary: figure.savefig(temporary, format=form, dpi=150))
        end = perf_counter_ns()
        self._next_ns = end + _REST * (end - time_ns)


_EVERY_NS = 1_000_000_000
_LOSS = "training loss"


class _LineFile(ABC):
    """A file that grows by a line for each step and each evaluation.

    Its lines follow from the history alone. So when a run is resumed the file is first made what it was at that step, and no
    step is in it twice, nor missing.
    """

    moments = (Moment.BEFORE_RUN, Moment.AFTER_STEP, Moment.AFTER_EVALUATION, Moment.AFTER_RUN)

    def __init__(self, path: str | Path, *, overwrite: bool = False) -> None:
        self.path, self.overwrite = Path(path), overwrite
        if not self.path.parent.is_dir():
            raise InvalidArgument(f"no folder {str(self.path.parent)!r} for {self.path.name}", "an existing folder")
        self._scores: tuple[str, ...] = ()
        self._steps = self._evaluations = self._samples = 0
        self._last_ns = 0
        self._history: History | None = None

    @abstractmethod
    def head(self, scores: tuple[str, ...]) -> str:
        """What the file begins with."""

    @abstractmethod
    def line(self, row: dict[str, Any], scores: tuple[str, ...]) -> str:
        """One line, with its end."""

    def __call__(self, moment: Moment, index: int, time_ns: int, data: Progress) -> None:
        """Write the lines that are due: all at evaluations and the end, else those since a second ago."""
        if moment is Moment.BEFORE_RUN:
            self._begin(data)
        elif moment is not Moment.AFTER_STEP or time_ns - self._last_ns >= _EVERY_NS:
            self._last_ns = time_ns
            data.trainer.read_losses()
            self._append("".join(self._due(data.history)))

    def _begin(self, data: Progress) -> None:
        if self._history is data.history:
            return
        self._history = data.history
        self._steps = self._evaluations = self._samples = 0
        self._scores = tuple(data.trainer.evaluation.scores) if data.trainer.evaluation is not None else ()
        text = self.head(self._scores) + "".join(self._due(data.history))
        content = self.path.read_text(encoding="utf-8", errors="replace") if self.path.exists() else ""
        whole = content[: content.rfind("\n") + 1]
        resumed = data.step > 0 and (whole.startswith(text) or text.startswith(whole))
        if content and not resumed and not self.overwrite:
            raise InvalidArgument(
                f"{self.path} exists, and is not of this run",
                "a file that is not there yet",
                "name another, or overwrite=True",
            )
        self._written(lambda: replace(self.path, lambda temporary: temporary.write_text(text, encoding="utf-8")))

    def _due(self, history: History) -> Iterator[str]:
        """The lines of all steps and evaluations since the last call, in their order."""
        for evaluated in history.evaluations[self._evaluations :]:
            yield from self._steps_until(history, evaluated.step)
            seconds, scores = evaluated.time_ns / 1e9, dict(evaluated.figures)
            row = {"step": evaluated.step, "samples": evaluated.samples, "seconds": seconds, "scores": scores}
            yield self.line(row, self._scores)
            self._evaluations += 1
        yield from self._steps_until(history, len(history.losses))

    def _steps_until(self, history: History, end: int) -> Iterator[str]:
        width = len(PHASES) + 1
        for step in range(self._steps, end):
            self._samples += history.sizes[step]
            seconds = history.stamps[step * width + width - 1] / 1e9
            row = {"step": step + 1, "samples": self._samples, "seconds": seconds, _LOSS: history.losses[step]}
            yield self.line(row, self._scores)
        self._steps = max(self._steps, end)

    def _append(self, text: str) -> None:
        def write() -> None:
            remaining = text.encode()
            with open(self.path, "ab", buffering=0) as file:
                while remaining:
                    remaining = remaining[file.write(remaining) :]

        if text:
            self._written(write)

    def _written(self, write: Any) -> None:
        try:
            write()
        except OSError as error:
            raise InvalidArgument(f"cannot write {self.path}: {error.strerror}", "a folder with space") from error


class CsvLines(_LineFile):
    """A CSV file of a training run: a line for each step, and one for each evaluation, in their order.

    The columns are ``step`` (how many are done), ``samples`` (how many were seen), ``seconds`` (since the data were first
    touched), ``training loss`` (in lines of steps), and one for each score (in lines of evaluations). Lines are whole at any
    moment, even if the run is killed. A resumed run goes on with the same file.

    Args:
        path: The file.
        overwrite: Whether one that exists, and is not of this run, may be replaced.

    Raises:
        InvalidArgument: No such folder; and when the run begins, that the file exists or cannot be written.
    """

    def head(self, scores: tuple[str, ...]) -> str:
        """The names of the columns."""
        return _csv(["step", "samples", "seconds", _LOSS, *scores])

    def line(self, row: dict[str, Any], scores: tuple[str, ...]) -> str:
        """A line; empty where there is no value."""
        values = {**row, **row.get("scores", {})}
        return _csv([values.get(name, "") for name in ("step", "samples", "seconds", _LOSS, *scores)])


class JsonLines(_LineFile):
    """A file of JSON objects, one in each line: as `CsvLines`, with ``"scores"`` as an object in lines of evaluations.

    Numbers that JSON does not have are the strings ``"NaN"``, ``"Infinity"`` and ``"-Infinity"``.

    Args:
        path: The file.
        overwrite: Whether one that exists, and is not of this run, may be replaced.

    Raises:
        InvalidArgument: No such folder; and when the run begins, that the file exists or cannot be written.
    """

    def head(self, scores: tuple[str, ...]) -> str:
        """Nothing."""
        return ""

    def line(self, row: dict[str, Any], scores: tuple[str, ...]) -> str:
        """An object in a line."""
        plain = {k: {n: _plain(v) for n, v in x.items()} if isinstance(x, dict) else _plain(x) for k, x in row.items()}
        return json.dumps(plain, ensure_ascii=False, allow_nan=False) + "\n"


def _csv(cells: list[Any]) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerow(cells)
    return out.getvalue()


def _plain(value: Any) -> Any:
    if not isinstance(value, float) or math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
