"""Results made of drawn times, for tests of what compares them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from deep_bench.measure.environment import Environment
from deep_bench.records.model import ErrorRecord, VerdictRecord
from deep_bench.results import Figure, Result

WHERE = Environment(
    hostname="node1", cpu_model="A CPU", governor="performance", packages={"torch": "2.9", "numpy": "2.4"},
    variables={"OMP_NUM_THREADS": "4", "SLURM_JOB_ID": "1"}, git={"commit": "a" * 40, "branch": "main", "dirty": False},
)  # fmt: skip


def blocks(
    random: np.random.Generator, level: float = 1.0, *, count: int = 12, noise: float = 0.01, walk: float = 0.0
) -> tuple[np.ndarray, ...]:
    """Blocks of samples around a level, which may wander from block to block."""
    levels = level * np.exp(np.cumsum(random.normal(0, walk, count)))
    return tuple(at * np.exp(np.abs(random.normal(0, noise, 20)) + random.normal(0, noise / 4)) for at in levels)


def figure(
    *launches: Sequence[np.ndarray], name: str = "forward", unit: str = "s", direction: Any = "lower", **more: Any
) -> Figure:
    """A figure of launches, each a row of blocks."""
    return Figure(name, unit, direction, tuple(map(tuple, launches)), **more)


def times(level: float = 1.0, seed: int = 0, count: int = 12, noise: float = 0.003) -> Figure:
    """A figure of one launch around a level, drawn by itself."""
    return figure(blocks(np.random.default_rng([seed, int(1000 * level)]), level, count=count, noise=noise))


def runs(
    *values: float, name: str = "time to target", unit: str = "s", direction: Any = "lower", censored: Sequence[bool] = ()
) -> Figure:
    """A figure with one value of each run."""
    return Figure(name, unit, direction, tuple((np.array([value]),) for value in values), censored=tuple(censored))


def result(
    *figures: Figure,
    file: str = "a.json",
    day: int = 0,
    verdict: str | None = "right",
    failed: str = "",
    where: Mapping[str, Any] | None = None,
    kind: Any = "network",
    **labels: str,
) -> Result:
    """A result of one system."""
    about = {"framework": "torch", "system": "torch", "network": "lenet", "kind": kind, "seed": "0", **labels}
    return Result(
        kind=kind,
        file=Path(file),
        created=datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days=day),
        labels={name: value for name, value in about.items() if value},
        figures={one.name: one for one in figures},
        verdict=None if verdict is None else VerdictRecord(verdict=verdict, reason=f"it is {verdict}"),
        errors=(ErrorRecord(kind="Oops", message=failed),) if failed else (),
        environment=WHERE.model_copy(update=dict(where or {})),
    )
