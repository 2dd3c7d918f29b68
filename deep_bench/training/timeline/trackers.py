"""Sending the steps of a timeline to a tracker of experiments: MLflow, TensorBoard, Weights & Biases."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from deep_bench.errors import FrameworkMissing, InvalidArgument
from deep_bench.registry import Registry

if TYPE_CHECKING:
    from deep_bench.training.timeline.phases import Phase
    from deep_bench.training.timeline.result import TimelineResult

Target = Any
"""Where to: what it may be depends on the tracker."""


Scalars = Iterator[tuple[int, dict[str, float]]]
"""The number of a step within its phase, and its figures by name."""


trackers = Registry(
    "tracker",
    "deep_bench.timeline_trackers",
    builtin={
        "mlflow": "deep_bench.training.timeline.trackers:log_mlflow",
        "tensorboard": "deep_bench.training.timeline.trackers:log_tensorboard",
        "wandb": "deep_bench.training.timeline.trackers:log_wandb",
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


_MOST_AT_ONCE = 1_000
"""What MLflow takes in one request."""


def log_mlflow(target: Target, scalars: Scalars) -> None:
    """Log metrics, many at once.

    Args:
        target: A run's ID, or None for the active run. MLflow's own settings say where its server is.
        scalars: What to log.
    """
    import mlflow
    from mlflow.entities import Metric

    run = mlflow.active_run()
    if target is None and run is None:
        raise InvalidArgument("no MLflow run", "a run's ID, or an active run", "call it within mlflow.start_run()")
    run_id = target if target is not None else run.info.run_id
    timestamp, client = int(time.time() * 1e3), mlflow.MlflowClient()
    metrics = [
        Metric(_mlflow_name(name), value, timestamp, step) for step, values in scalars for name, value in values.items()
    ]
    for start in range(0, len(metrics), _MOST_AT_ONCE):
        client.log_batch(run_id, metrics=metrics[start : start + _MOST_AT_ONCE])


def _mlflow_name(name: str) -> str:
    """The name with what MLflow does not allow in one replaced."""
    return re.sub(r"[^\w\-. /]", "_", name)


_writers = Registry(
    "writer of TensorBoard files",
    "deep_bench.tensorboard_writers",
    builtin={
        "tensorboardX": "tensorboardX:SummaryWriter",
        "torch": "deep_bench.adapters.torch.profile:summary_writer",
    },
    requires={"tensorboardX": ("tensorboardX",), "torch": ("torch", "tensorboard")},
)


def log_tensorboard(target: Target, scalars: Scalars) -> None:
    """Write scalars.

    Args:
        target: A folder, or a writer with ``add_scalar``, which stays open.
        scalars: What to write.
    """
    if hasattr(target, "add_scalar"):
        _add(target, scalars)
        return
    if target is None:
        raise InvalidArgument("no target for TensorBoard", "a folder, or a SummaryWriter")
    name = next((name for name in _writers if not _writers.missing(name)), None)
    if name is None:
        with_torch = " (or tensorboard, since PyTorch is installed)" if find_spec("torch") else ""
        raise FrameworkMissing("TensorBoard's files need a writer", advice=f"pip install tensorboardX{with_torch}")
    writer = _writers[name](str(target))
    try:
        _add(writer, scalars)
    finally:
        writer.close()


def _add(writer: Any, scalars: Scalars) -> None:
    for step, values in scalars:
        for name, value in values.items():
            writer.add_scalar(name, value, step)


def log_wandb(target: Target, scalars: Scalars) -> None:
    """Log figures over a step of their own, so that the order in which others log does not matter.

    Args:
        target: A run, or None for the active one.
        scalars: What to log.
    """
    import wandb

    run = wandb.run if target is None else target
    if run is None or not hasattr(run, "define_metric"):
        raise InvalidArgument(
            f"no run of Weights & Biases: {target!r}", "a run, or an active one", "wandb.init(…), then t.log_to('wandb')"
        )
    for step, values in scalars:
        phase = next(iter(values)).partition("/")[0]
        axis = f"{phase}/number"
        run.define_metric(axis, hidden=True)
        run.define_metric(f"{phase}/*", step_metric=axis)
        run.log({axis: step, **values})
