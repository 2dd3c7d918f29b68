"""How far an epoch is, on a terminal."""

from __future__ import annotations

from deep_bench.errors import Unsupported
from deep_bench.events import Moment
from deep_bench.measure.progress import Bars
from deep_bench.measure.units import significant
from deep_bench.training.progress import Progress

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
            self._bars.phase(f"epoch {data.epoch + 1}", _batches(data), "steps")
            self._open, done = True, data.position
        if self._bars.shown and time_ns >= self._next_ns:
            self._next_ns = time_ns + _REFRESH_NS
            self._bars.at(f"loss {significant(data.loss, 4)}{self._scores}")
        self._bars.advance(done)


def _batches(data: Progress) -> float:
    """The number of batches in an epoch; infinite where it has no end."""
    try:
        return len(data.trainer.loader)
    except (Unsupported, TypeError):
        return float("inf")
