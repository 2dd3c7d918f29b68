"""A preparation: a list of steps, as data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import JsonValue, ValidationError

from deep_bench.errors import InvalidArgument, UnknownName
from deep_bench.training.dataset import BadSample
from deep_bench.training.preparation import chance, images, labels, values
from deep_bench.training.preparation.draws import Draws
from deep_bench.training.preparation.step import BadRow, Step
from deep_bench.training.samplers.draws import natural

STEPS: Mapping[str, type[Step]] = {
    kind.name: kind
    for kind in (
        images.Decode,
        images.Resize,
        images.Crop,
        images.Transpose,
        images.Colour,
        values.Scale,
        values.Normalise,
        values.Cast,
        values.Rename,
        chance.Flip,
        chance.RandomCrop,
        chance.Noise,
        chance.Brightness,
        labels.Offset,
        labels.ArgMax,
        labels.TopK,
        labels.OneHot,
    )
}
"""Name to step; a step's fields are its parameters."""

Batch = dict[str, np.ndarray]


class Preparation:
    """What is done with a batch, step by step; the same for a sample in whatever batch, thread or process it comes.

    Args:
        steps: Each a mapping with its name under ``step`` and its parameters, or a `Step`.
        seed: With epoch, place of the step and number of the sample, it decides what is left to chance.

    Raises:
        UnknownName: No such step.
        InvalidArgument: A parameter that the step does not have, lacks or cannot use; named with its step.

    Example:
        >>> import deep_bench as db
        >>> prepare = Preparation([
        ...     {"step": "random_crop", "size": [8, 8], "padding": 1, "layout": "CHW"},
        ...     {"step": "normalise", "mean": [0.3], "std": [0.4], "layout": "CHW"},
        ... ], seed=7)
        >>> numbers = np.array([4, 2])
        >>> prepare(db.datasets["digits"]()[numbers], numbers, epoch=0)["image"].shape
        (2, 1, 8, 8)
        >>> prepare.to_json()["steps"][1]
        {'step': 'normalise', 'field': 'image', 'mean': [0.3], 'std': [0.4], 'layout': 'CHW'}
    """

    def __init__(self, steps: Sequence[Mapping[str, Any] | Step], *, seed: int = 0) -> None:
        self.steps = tuple(
            step if isinstance(step, Step) else _built(place, step) for place, step in enumerate(steps, start=1)
        )
        self.seed = natural("seed", seed)

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> Preparation:
        """The preparation that `to_json` gave.

        Raises:
            InvalidArgument: It is something else.
            UnknownName: No such step.
        """
        if set(plain) != {"seed", "steps"}:
            raise InvalidArgument(f"a preparation with {', '.join(map(repr, plain)) or 'nothing'}", "'seed' and 'steps'")
        return cls(plain["steps"], seed=plain["seed"])

    def to_json(self) -> dict[str, JsonValue]:
        """What a record keeps: all parameters of all steps, defaults included."""
        steps: list[JsonValue] = [{"step": step.name, **step.model_dump(mode="json")} for step in self.steps]
        return {"seed": self.seed, "steps": steps}

    def __call__(self, batch: Batch, numbers: NDArray[np.int64], epoch: int = 0) -> Batch:
        """What is made of a batch; the batch itself is left as it is.

        Args:
            batch: Name to array, samples along the first axis.
            numbers: The numbers of its samples.
            epoch: The number of the epoch.

        Raises:
            InvalidArgument: A step names an array that is not there.
            InvalidData: A sample that a step cannot be done on, or samples of different sizes at the end; named.
        """
        batch = dict(batch)
        for place, step in enumerate(self.steps, start=1):
            if step.field not in batch:
                came = f"step {place} ({step.name}) on {step.field!r}"
                raise InvalidArgument(came, f"one of {', '.join(batch)}", "name the array: field=…")
            try:
                changed = step.apply(batch.pop(step.field), Draws(self.seed, epoch, place, numbers))
            except BadRow as bad:
                where = f"sample {numbers[bad.row]}, {step.field!r}: step {place} ({step.name})"
                error = BadSample(f"{where} got {bad.reason}")
                error.sample = int(numbers[bad.row])
                raise error from bad.__cause__
            batch[step.target] = changed
        return batch

    def __repr__(self) -> str:
        return f"Preparation([{', '.join(step.name for step in self.steps)}], seed={self.seed})"


def _built(place: int, plain: Mapping[str, Any]) -> Step:
    if not isinstance(plain, Mapping) or not isinstance(plain.get("step"), str):
        raise InvalidArgument(f"step {place} is {plain!r}", "a mapping with the name of a step under 'step'")
    name = plain["step"]
    if name not in STEPS:
        raise UnknownName("step of a preparation", name, STEPS)
    kind = STEPS[name]
    try:
        return kind(**{key: value for key, value in plain.items() if key != "step"})
    except ValidationError as error:
        faults = "; ".join(_worded(fault) for fault in error.errors())
        raise InvalidArgument(f"step {place} ({name}): {faults}", f"parameters {', '.join(kind.model_fields)}") from None


def _worded(fault: Any) -> str:
    where = ".".join(map(str, fault["loc"]))
    message = fault["msg"].removeprefix("Value error, ")
    return f"{where}: {message}" if where else message
