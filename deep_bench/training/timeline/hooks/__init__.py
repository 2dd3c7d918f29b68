"""Sending the steps of a timeline to a tracker of experiments."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from deep_bench.registry import Registry

if TYPE_CHECKING:
    from deep_bench.training.timeline.phase import Phase
    from deep_bench.training.timeline.result import TimelineResult

Target = Any
"""Where to: what it may be depends on the tracker."""

Scalars = Iterator[tuple[int, dict[str, float]]]
"""The number of a step within its phase, and its figures by name."""

trackers = Registry(
    "tracker",
    "deep_bench.timeline_trackers",
    builtin={
        "mlflow": "deep_bench.training.timeline.hooks.mlflow:log",
        "tensorboard": "deep_bench.training.timeline.hooks.tensorboard:log",
        "wandb": "deep_bench.training.timeline.hooks.wandb:log",
    },
    requires={"mlflow": ("mlflow",), "wandb": ("wandb",)},
    extras={"mlflow": "mlflow-skinny", "wandb": "wandb"},
)
"""Functions of a target and an iterator of `Scalars`."""


def send(result: TimelineResult, kind: str, target: Target, sent: Mapping[str, int]) -> dict[str, int]:
    """Send those steps of each phase that were not sent yet.

    Args:
        result: What is known so far.
        kind: The tracker's name.
        target: Where to.
        sent: How many steps of each phase were sent before.

    Returns:
        How many steps of each phase are sent now.

    Raises:
        UnknownName: There is no such tracker.
        FrameworkMissing: It is not installed.
        InvalidArgument: It cannot take the target.
    """
    log = trackers[kind]
    log(target, (row for name, phase in result.items() for row in scalars(phase, sent.get(name, 0))))
    return {name: phase.n_steps for name, phase in result.items()}


def scalars(phase: Phase, skip: int = 0) -> Scalars:
    """The seconds of each step and of the regions directly in it, and its samples a second.

    Args:
        phase: Its steps that count; the first has the number of steps that are kept apart.
        skip: How many of them to leave out.
    """
    columns = {f"{phase.name}/step": phase.durations_ns / 1e9}
    columns |= {f"{phase.name}/{name}": times / 1e9 for name, times in phase.split_ns().items()}
    if phase.samples is not None:
        columns[f"{phase.name}/samples per second"] = phase.samples / (phase.durations_ns / 1e9)
    for i in range(skip, phase.n_steps):
        yield i + len(phase.warm_up), {name: float(column[i]) for name, column in columns.items()}
