"""Loss and scores as a picture."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter_ns
from typing import Any

import numpy as np

from deep_bench.errors import InvalidArgument, Unsupported
from deep_bench.events import Moment
from deep_bench.measure.storage import replace
from deep_bench.training.history import History
from deep_bench.training.progress import Progress
from deep_bench.training.scores import Direction, Score

_MOST_POINTS = 400
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
        figure = draw(data.history, scores, data.trainer.taker.loss)
        form = self.file.suffix[1:]
        replace(self.file, lambda temporary: figure.savefig(temporary, format=form, dpi=150))
        end = perf_counter_ns()
        self._next_ns = end + _REST * (end - time_ns)


def draw(history: History, scores: dict[str, Score], loss: str) -> Any:
    """The figure of a run.

    Args:
        history: The run.
        scores: What was evaluated; those with the same unit and direction share a panel.
        loss: Name of the loss; a score of this name is drawn beside that of training.
    """
    from deep_bench.measure import pictures

    panels: dict[tuple[str, Direction], list[str]] = {}
    for name, score in scores.items():
        if name != loss:
            panels.setdefault((score.unit, score.direction), []).append(name)
    figure = pictures.new_figure(2.6 * (1 + len(panels)))
    axes = figure.subplots(1 + len(panels), 1, sharex=True, squeeze=False)[:, 0]
    _loss(axes[0], history, loss if loss in scores else None)
    for panel, ((unit, direction), names) in zip(axes[1:], panels.items(), strict=True):
        for number, name in enumerate(names):
            _score(panel, history, name, number + 1)
        label = names[0] if len(names) == 1 else "scores"
        panel.set_ylabel(f"{label}{f' ({unit})' if unit else ''}, {direction} is better", fontsize=pictures.SMALL + 1)
        if len(names) > 1:
            panel.legend(frameon=False)
        pictures.tidy(panel)
    axes[-1].set_xlabel("steps")
    pictures.whole_ticks(axes[-1])
    return figure


def _loss(axes: Any, history: History, score: str | None) -> None:
    from deep_bench.measure import pictures

    steps, low, middle, high = _windows(np.array(history.losses))
    if len(history.losses) > len(steps):
        axes.fill_between(steps, low, high, color=pictures.colour(0), alpha=0.2, linewidth=0)
    mark = "." if len(steps) < 60 else ""
    axes.plot(steps, middle, color=pictures.colour(0), linewidth=1, marker=mark, label="training")
    if score is not None:
        _score(axes, history, score, 1, "evaluated")
    axes.set_ylabel("loss")
    if len(history.losses):
        axes.legend(frameon=False)
    pictures.tidy(axes)


def _score(axes: Any, history: History, name: str, number: int, label: str = "") -> None:
    from deep_bench.measure import pictures

    evaluations = [e for e in history.evaluations if name in e.figures]
    values = [e.figures[name] for e in evaluations]
    style = {"color": pictures.colour(number), "marker": pictures.marker(number), "markersize": 4, "linewidth": 1.2}
    axes.plot([e.step for e in evaluations], values, label=label or name, **style)


def _windows(losses: np.ndarray) -> tuple[np.ndarray, ...]:
    """Steps, and the lowest, median and highest loss of each group of neighbours."""
    parts = np.array_split(np.arange(len(losses)), min(len(losses), _MOST_POINTS) or 1)
    parts = [part for part in parts if len(part)]
    steps = np.array([part.mean() + 1 for part in parts])
    statistics = [[f(losses[part]) for part in parts] for f in (np.min, np.median, np.max)]
    return steps, *map(np.array, statistics)
