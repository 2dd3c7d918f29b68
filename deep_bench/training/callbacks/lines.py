"""What happened, line by line in a file: as CSV and as JSON."""

from __future__ import annotations

import csv
import io
import json
import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from deep_bench.errors import InvalidArgument
from deep_bench.events import Moment
from deep_bench.measure.storage import replace
from deep_bench.training.history import PHASES, Evaluated, History
from deep_bench.training.progress import Progress

_EVERY_NS = 1_000_000_000
_LOSS = "training loss"


class _Lines(ABC):
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
            yield self.line(_evaluation(evaluated), self._scores)
            self._evaluations += 1
        yield from self._steps_until(history, len(history.losses))

    def _steps_until(self, history: History, end: int) -> Iterator[str]:
        width = len(PHASES) + 1
        for step in range(self._steps, end):
            self._samples += history.sizes[step]
            seconds = history.stamps[step * width + width - 1] / 1e9
            yield self.line(
                {"step": step + 1, "samples": self._samples, "seconds": seconds, _LOSS: history.losses[step]}, self._scores
            )
        self._steps = max(self._steps, end)

    def _append(self, text: str) -> None:
        def write() -> None:
            with open(self.path, "ab", buffering=0) as file:
                remaining = text.encode()
                while remaining:
                    remaining = remaining[file.write(remaining) :]

        if text:
            self._written(write)

    def _written(self, write: Any) -> None:
        try:
            write()
        except OSError as error:
            raise InvalidArgument(f"cannot write {self.path}: {error.strerror}", "a folder with space") from error


class CsvLines(_Lines):
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


class JsonLines(_Lines):
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


def _evaluation(evaluated: Evaluated) -> dict[str, Any]:
    seconds = evaluated.time_ns / 1e9
    return {
        "step": evaluated.step,
        "samples": evaluated.samples,
        "seconds": seconds,
        "scores": dict(evaluated.figures),
    }


def _csv(cells: list[Any]) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerow(cells)
    return out.getvalue()


def _plain(value: Any) -> Any:
    if not isinstance(value, float) or math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
