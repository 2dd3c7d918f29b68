"""Steps of a loop that a framework owns, and that only calls back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from deep_bench.registry import Registry
from deep_bench.training.timeline.codes import DONE, EMPTY, LEFT
from deep_bench.training.timeline.over import count_samples
from deep_bench.training.timeline.region import Region

if TYPE_CHECKING:
    from deep_bench.training.timeline.live import Timeline

BETWEEN = "between batches"

callbacks = Registry(
    "callback",
    "deep_bench.timeline_callbacks",
    builtin={
        "keras": "deep_bench.adapters.tensorflow.timeline:keras_callback",
        "lightning": "deep_bench.adapters.torch.timeline:lightning_callback",
    },
    requires={"keras": ("keras",), "lightning": ("torch",)},
    extras={"keras": "deep-bench[tensorflow]", "lightning": "lightning"},
)
"""Functions of a timeline and a phase that give a framework's callback."""


class Driven:
    """Turns the hooks of one phase into an epoch and its steps.

    A step lasts from the end of the batch before to the end of its own: it begins with the region ``between batches``, in
    which the framework fetches the data and calls other callbacks.

    Args:
        timeline: Where it is stamped.
        phase: The name of the epochs and steps.
    """

    def __init__(self, timeline: Timeline, phase: str) -> None:
        self._timeline, self._phase = timeline, phase
        self._part: Region | None = None
        self._in_epoch = False
        self._samples: int | None = None

    def begin_epoch(self) -> None:
        """The framework begins to fetch batches."""
        self.abandon()
        self._timeline.epoch(self._phase).__enter__()
        self._in_epoch = True
        self._begin_step()

    def begin_batch(self, part: str, batch: Any = None) -> None:
        """A batch is there, and the first part of the work on it begins."""
        if self._part is None:
            self._begin_step()
        self._samples = count_samples(batch)
        self.part(part)

    def part(self, name: str) -> None:
        """The next part of the step begins."""
        self._end_part(DONE)
        self._part = self._timeline.region(name)
        self._part.__enter__()

    def end_batch(self) -> None:
        """The step is done, and the next begins."""
        self._end_part(DONE)
        self._timeline.step(self._samples, phase=self._phase).end(DONE)
        self._begin_step()

    def pause(self) -> None:
        """Something else comes in between, such as validation: what was begun is no step."""
        if self._part is not None:
            self._end_part(DONE)
            self._timeline.step(phase=self._phase).end(EMPTY)

    def end_epoch(self) -> None:
        """There are no more batches."""
        if self._in_epoch:
            self.pause()
            self._timeline.epoch(self._phase).end(DONE)
            self._in_epoch = False

    def abandon(self) -> None:
        """The loop ended by an exception."""
        if self._part is not None:
            self._end_part(LEFT)
            self._timeline.step(phase=self._phase).end(LEFT)
        if self._in_epoch:
            self._timeline.epoch(self._phase).end(LEFT)
            self._in_epoch = False

    def _begin_step(self) -> None:
        self._timeline.step(phase=self._phase).__enter__()
        self._part = self._timeline.region(BETWEEN)
        self._part.__enter__()

    def _end_part(self, ending: int) -> None:
        if self._part is not None:
            self._part.end(ending)
            self._part = None
