"""Settings of the optimizer that change during a run, set from outside of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any

from deep_bench.errors import InvalidArgument, UnknownName, Unsupported
from deep_bench.events import Moment
from deep_bench.training.progress import Progress
from deep_bench.training.steps import SeparateStep


class Schedule:
    """Gives a setting of the optimizer a value before each step: any setting of any optimizer.

    A schedule of the learning rate inside the optimizer (``lr=…``) is traced into ONNX with it; this one is for all else,
    where the update stands apart from the gradients.

    Args:
        setting: Its name, such as ``"lr"`` or ``"momentum"``; ``"inner.lr"`` of an optimizer within another.
        values: From the number of steps done to the value; or from steps to the values that hold from there on.

    Raises:
        InvalidArgument: No values; and in a run, a value that the optimizer does not take.
        Unsupported: When the run begins: the whole step is one graph.
        UnknownName: When the run begins: the optimizer has no such setting.

    Example:
        >>> halved = Schedule("lr", {100: 0.05, 200: 0.025})
        >>> halved.value(99), halved.value(100), halved.value(500)
        (None, 0.05, 0.025)
    """

    moments = (Moment.BEFORE_RUN, Moment.BEFORE_STEP)

    def __init__(self, setting: str, values: Callable[[int], float] | Mapping[int, float]) -> None:
        if not callable(values) and not values:
            raise InvalidArgument(f"no values for {setting!r}", "a function of the step, or steps and values")
        self.setting = setting
        self._values = values
        self._set: Any = None

    def value(self, step: int) -> float | None:
        """The value in a step, counted from 0; ``None`` before the first that is stated."""
        if callable(self._values):
            return self._values(step)
        begun = [start for start in self._values if start <= step]
        return self._values[max(begun)] if begun else None

    def __call__(self, moment: Moment, index: int, time_ns: int, data: Progress) -> None:
        """Set it where it changes."""
        taker = data.trainer.taker
        if not isinstance(taker, SeparateStep):
            raise Unsupported(
                f"{self.setting!r} set from outside, where the whole step is one graph",
                "a framework with gradients and update apart",
                "give the optimizer itself a schedule: lr=…",
            )
        path = self.setting.split(".")
        if moment is Moment.BEFORE_RUN:
            _changed(taker.optimizer, path, None)
            return
        value = self.value(index)
        if value is not None and value != self._set:
            taker.optimizer = _changed(taker.optimizer, path, value)
            self._set = value


def _changed(optimizer: Any, path: list[str], value: float | None) -> Any:
    """An optimizer with another value of a setting; itself, once the setting was found, if that is ``None``."""
    names = [field.name for field in fields(optimizer)] if is_dataclass(optimizer) else []
    if path[0] not in names:
        raise UnknownName(f"setting of {type(optimizer).__name__}", path[0], names)
    if path[1:]:
        inner = _changed(getattr(optimizer, path[0]), path[1:], value)
        return optimizer if value is None else replace(optimizer, **{path[0]: inner})
    return optimizer if value is None else replace(optimizer, **{path[0]: value})
