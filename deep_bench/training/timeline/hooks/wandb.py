"""Runs of Weights & Biases."""

from __future__ import annotations

from deep_bench.errors import InvalidArgument
from deep_bench.training.timeline.hooks import Scalars, Target


def log(target: Target, scalars: Scalars) -> None:
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
