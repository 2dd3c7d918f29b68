"""The callbacks of a training run, told of its moments."""

from __future__ import annotations

from collections.abc import Iterable
from time import perf_counter_ns
from typing import Any

from deep_bench.errors import InvalidArgument, Unsupported
from deep_bench.events import Callback, Moment
from deep_bench.training.progress import Progress

TRAINING = (
    Moment.BEFORE_RUN,
    Moment.BEFORE_EPOCH,
    Moment.BEFORE_STEP,
    Moment.AFTER_GRADIENTS,
    Moment.AFTER_STEP,
    Moment.AFTER_EVALUATION,
    Moment.AFTER_EPOCH,
    Moment.AFTER_RUN,
)
"""The moments of a training run."""


class Listeners:
    """Callbacks by moment. Nobody who asked for a moment costs nothing at it.

    Args:
        callbacks: Those that have an attribute ``moments`` are told of these only.
        tells_gradients: Whether gradients can be had before the update.

    Attributes:
        spent_ns: What callbacks took since `forget`, in nanoseconds.

    Raises:
        InvalidArgument: Something that cannot be called.
        Unsupported: A callback asks for gradients that are not to be had.
    """

    def __init__(self, callbacks: Iterable[Callback], *, tells_gradients: bool) -> None:
        self.all = tuple(callbacks)
        self.spent_ns = 0
        self._by_moment: dict[Moment, list[Callback]] = {}
        for callback in self.all:
            for moment in _moments(callback, tells_gradients):
                self._by_moment.setdefault(moment, []).append(callback)

    def __contains__(self, moment: Moment) -> bool:
        return moment in self._by_moment

    def tell(self, moment: Moment, index: int, progress: Progress) -> None:
        """Tell those that asked for a moment; one that returns ``True`` stops the run."""
        if moment not in self._by_moment:
            return
        start = perf_counter_ns()
        for callback in self._by_moment[moment]:
            try:
                stops = callback(moment, index, perf_counter_ns(), progress)
            except Exception as error:
                error.add_note(f"raised by the callback {name_of(callback)}, {moment.value}")
                raise
            if stops:
                progress.stop(f"{name_of(callback)} asked to")
        self.spent_ns += perf_counter_ns() - start

    def forget(self) -> int:
        """What callbacks took since this was called last."""
        spent, self.spent_ns = self.spent_ns, 0
        return spent

    def keepers(self) -> dict[str, Any]:
        """Callbacks with a state of their own (``snapshot`` and ``restore``), by name."""
        stateful = [c for c in dict.fromkeys(self.all) if hasattr(c, "snapshot")]
        return {f"{number} {type(c).__name__}": c for number, c in enumerate(stateful)}


def name_of(callback: Callback) -> str:
    """What to call a callback: the name of its function, or of its class."""
    return getattr(callback, "__name__", type(callback).__name__)


def _moments(callback: Any, tells_gradients: bool) -> Iterable[Moment]:
    if not callable(callback):
        raise InvalidArgument(f"a {type(callback).__name__} as a callback", "something that can be called")
    moments = getattr(callback, "moments", None)
    if moments is None:
        return TRAINING
    if Moment.AFTER_GRADIENTS in moments and not tells_gradients:
        raise Unsupported(
            f"{name_of(callback)} asks for gradients, and here the whole step is one graph",
            "a framework with gradients and update apart",
            "train in the reference, torch or TensorFlow, or leave this callback out",
        )
    return tuple(moments)
