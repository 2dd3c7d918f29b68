"""To stop at NaN or infinity, with the step that gave it."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np

from deep_bench.errors import InvalidArgument
from deep_bench.events import Moment
from deep_bench.training.checkpoint import write_checkpoint
from deep_bench.training.progress import Progress
from deep_bench.training.steps import SeparateStep, Tree


class NonFinite:
    """Stops a run at a loss or gradient that is NaN or infinite, and saves the step.

    The file has all that is needed to look into it, readable with `read_checkpoint`: ``step``, ``epoch`` and ``seed``,
    ``indices`` and ``batch``, and with ``gradients`` also ``gradients``, and ``parameters`` and ``statistics`` as they were
    when these were computed (``parameters`` is missing where an optimizer that works in place has changed them already).

    Looking costs: one number is read from the device in each step, which waits for it.

    Args:
        folder: Where the file goes, ``non_finite_step_0000000012.h5``; made if it is missing.
        gradients: Whether to look at gradients, before the update; else at the loss only. Must be off where the whole
            step is one graph.

    Attributes:
        file: The file, once there is one.

    Raises:
        InvalidArgument: The folder cannot be made.
    """

    def __init__(self, folder: str | Path, *, gradients: bool = True) -> None:
        self.moments = (Moment.AFTER_GRADIENTS, Moment.AFTER_STEP) if gradients else (Moment.AFTER_STEP,)
        self.folder = Path(folder)
        self.file: Path | None = None
        self._before: Tree = {}
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InvalidArgument(f"cannot make the folder {self.folder}: {error.strerror}", "another folder") from error

    def __call__(self, moment: Moment, index: int, time_ns: int, data: Progress) -> None:
        """Look at the gradients, or at the loss."""
        if moment is Moment.AFTER_GRADIENTS:
            self._gradients(index, data)
        else:
            before, self._before = self._before, {}
            loss = data.loss
            if not isfinite(loss) and self.file is None:
                self._save(index, before, f"the loss of step {index} is {loss}", data)

    def _gradients(self, step: int, data: Progress) -> None:
        taker = data.trainer.taker
        self._before = {"gradients": dict(data.gradients), "statistics": dict(taker.statistics)}
        bad = _bad(data.gradients, taker.device)
        if bad:
            self._save(step, {**self._before, "parameters": dict(taker.parameters)}, f"in step {step} the {bad}", data)
        elif not (isinstance(taker, SeparateStep) and taker.optimizer.in_place):
            self._before["parameters"] = dict(taker.parameters)

    def _save(self, step: int, native: Tree, reason: str, data: Progress) -> None:
        device = data.trainer.taker.device
        copies = {part: {n: np.array(device.to_numpy(a)) for n, a in arrays.items()} for part, arrays in native.items()}
        numbers = {"step": np.int64(step), "epoch": np.int64(data.epoch), "seed": np.int64(data.trainer.seed)}
        tree = {**copies, **numbers, "indices": data.indices, "batch": dict(data.batch)}
        self.file = write_checkpoint(self.folder / f"non_finite_step_{step:010d}.h5", tree)
        data.stop(f"{reason}; the step is in {self.file}")


def _bad(gradients: Mapping[str, Any], device: Any) -> str:
    """What is wrong with gradients, or nothing; a single number is read as long as all are finite."""
    xp = device.xp
    marks = {name: xp.sum(g * 0) for name, g in gradients.items()}  # NaN and infinity times 0 are NaN
    if isfinite(sum(float(device.to_numpy(m)) for m in marks.values())):
        return ""
    wrong = [name for name, mark in marks.items() if not isfinite(float(device.to_numpy(mark)))]
    suffix = f" and {len(wrong) - 1} more" if len(wrong) > 1 else ""
    return f"gradient of {wrong[0]!r}{suffix} is not finite"
