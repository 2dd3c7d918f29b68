"""A network with batch normalization trained on several ranks, step by step, and judged beside the oracle's training."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

import deep_bench as db
from deep_bench.distributed.communicators.communicator import Communicator
from deep_bench.distributed.training.step import distributed_step_on
from deep_bench.operators.operator import Host
from deep_bench.training.form import training_form
from deep_bench.training.steps import StepTaker
from deep_bench.variant import Variant
from tests.training.small import data, network

BATCH, STEPS = 10, 50
PARTS = {1: [10], 2: [7, 3], 3: [1, 2, 7], 4: [3, 1, 4, 2]}
"""The samples of each rank; uneven."""

Batches = Sequence[Mapping[str, np.ndarray]]


class Course(NamedTuple):
    """What one rank had: the loss and the parameters after each step, and the last running statistics."""

    losses: list[float]
    parameters: list[dict[str, np.ndarray]]
    statistics: dict[str, np.ndarray]


def small() -> tuple[Any, Batches]:
    """A perceptron, and its batches."""
    points = data(BATCH * 5)
    return network(dropout=False), [points[np.arange(BATCH) + BATCH * (k % 5)] for k in range(STEPS)]


def digits(steps: int) -> tuple[Any, Batches]:
    """A convolutional network whose normalizations lie on branches, and its batches."""
    made = db.load("digits-cnn").with_loss("SoftmaxCrossEntropyLoss", output="logits", target="label")
    images = db.datasets["digits"]("train")
    return made, [images[np.arange(BATCH * k, BATCH * (k + 1))] for k in range(steps)]


def course(
    comm: Communicator,
    on: str,
    made: tuple[Any, Batches],
    *,
    parts: Mapping[int, list[int]] = PARTS,
    together: bool = True,
    **settings: Any,
) -> Course:
    """Train by allreduce and momentum.

    Args:
        comm: The ranks.
        on: The framework.
        made: Network and batches.
        parts: The samples of each rank; nobody tells their number where they are equal.
        together: Whether normalizations are synchronised.
        **settings: Of the scheme.
    """
    model, batches = made
    scheme = db.distributed_optimizers["allreduce"](db.optimizers["momentum"](lr=0.05), comm, **settings)
    form = training_form(model)
    step = distributed_step_on(Variant.parse(on).create(), form, scheme, synchronise_normalization=together)
    first, own = sum(parts[comm.size][: comm.rank]), parts[comm.size][comm.rank]
    step.samples = None if len(set(parts[comm.size])) == 1 else own
    found = Course([], [], {})
    for batch in batches:
        inputs = {spec.name: step.device.from_numpy(batch[spec.name][first : first + own]) for spec in form.data}
        loss = float(step.device.to_numpy(step(inputs)["loss"])) * own / BATCH
        found.losses.append(float(comm.allreduce(np.array([loss]))[0]))
        found.parameters.append(step.snapshot()["parameters"])
    found.statistics.update(step.snapshot()["statistics"])
    assert any("all ranks' samples" in remark for remark in step.remarks) == (together and comm.size > 1)
    assert any("rank's own part" in remark for remark in step.remarks) == (not together and comm.size > 1)
    return found


class Recorded(StepTaker[np.ndarray]):
    """Takes the steps of a course."""

    def __init__(self, found: Course) -> None:
        self.device, self.loss = Host(), "loss"
        self._found, self._step = found, -1

    def __call__(
        self, inputs: Mapping[str, np.ndarray], told: Callable[[dict[str, np.ndarray]], Any] | None = None
    ) -> dict[str, np.ndarray]:
        self._step += 1
        return {"loss": np.array(self._found.losses[self._step])}

    @property
    def parameters(self) -> Mapping[str, np.ndarray]:
        return self._found.parameters[self._step]

    @property
    def statistics(self) -> Mapping[str, np.ndarray]:
        return self._found.statistics

    def snapshot(self) -> dict[str, Any]:
        raise NotImplementedError

    def restore(self, snapshot: dict[str, Any]) -> None:
        raise NotImplementedError
