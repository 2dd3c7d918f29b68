"""MLflow's runs."""

from __future__ import annotations

import re
import time

from deep_bench.errors import InvalidArgument
from deep_bench.training.timeline.hooks import Scalars, Target

_MOST_AT_ONCE = 1_000
"""What MLflow takes in one request."""


def log(target: Target, scalars: Scalars) -> None:
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
    metrics = [Metric(_allowed(name), value, timestamp, step) for step, values in scalars for name, value in values.items()]
    for start in range(0, len(metrics), _MOST_AT_ONCE):
        client.log_batch(run_id, metrics=metrics[start : start + _MOST_AT_ONCE])


def _allowed(name: str) -> str:
    """The name with what MLflow does not allow in one replaced."""
    return re.sub(r"[^\w\-. /]", "_", name)
