"""Iterating a loader, with an epoch around it and a step around each batch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from deep_bench.training.timeline.codes import DONE, EMPTY, LEFT, RAISED

if TYPE_CHECKING:
    from deep_bench.training.timeline.live import Timeline

B = TypeVar("B")
Samples = int | Callable[[Any], int | None] | None
_END: Any = object()


class Over(Generic[B]):
    """A loader that is watched. Each time it is iterated is an epoch; each batch begins a step, which the next one ends.

    What the loop's body does is not seen: if it is left by ``break``, ``return`` or an exception, its step is marked left.

    Args:
        timeline: Where it is stamped.
        loader: What is iterated.
        name: The region in which the loop waits for the loader.
        samples: How many samples a batch has: a number, or a function of the batch; None counts them (`count_samples`).
        phase: The name of its epochs and steps.
    """

    def __init__(self, timeline: Timeline, loader: Iterable[B], name: str, samples: Samples, phase: str) -> None:
        self._timeline, self._loader, self._name, self._phase = timeline, loader, name, phase
        self._count = samples if callable(samples) else count_samples if samples is None else lambda _: samples

    def __len__(self) -> int:
        """The loader's length, if it has one."""
        return len(self._loader)  # type: ignore[arg-type]

    def __iter__(self) -> Iterator[B]:
        epoch, step = self._timeline.epoch(self._phase), self._timeline.step(phase=self._phase)
        waiting = self._timeline.region(self._name)
        epoch.__enter__()
        ending = RAISED
        try:
            iterator = iter(self._loader)
            while True:
                step.__enter__()
                closing, count = RAISED, None
                try:
                    with waiting:
                        batch = next(iterator, _END)
                    if batch is _END:
                        closing, ending = EMPTY, DONE
                        return
                    count = self._count(batch)
                    closing = LEFT
                    yield batch
                    closing = DONE
                finally:
                    step.samples = count  # only now: the body may have iterated another loader in the same phase
                    step.end(closing)
        except GeneratorExit:
            ending = LEFT
            raise
        finally:
            epoch.end(ending)


def count_samples(batch: Any) -> int | None:
    """The first axis of the first array in a batch; None where there is none, since the length of a tuple is not a count.

    Example:
        >>> import numpy as np
        >>> image, label = np.zeros((32, 1, 8, 8)), np.zeros(32)
        >>> count_samples(image), count_samples((image, label)), count_samples({"x": [image]}), count_samples(["a", "b"])
        (32, 32, 32, None)
    """
    for _ in range(4):
        shape = getattr(batch, "shape", None)
        if shape is not None:
            return int(shape[0]) if len(shape) and shape[0] is not None else None
        inside = batch.values() if isinstance(batch, dict) else batch if isinstance(batch, tuple | list) else ()
        batch = next(iter(inside), None)
    return None
