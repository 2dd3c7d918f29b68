"""Records of every kind, made once."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from socket import gethostname

import numpy as np
import pytest

import deep_bench as db
from deep_bench.distributed.collectives.settings import BenchmarkSettings
from deep_bench.distributed.collectives.study import study
from deep_bench.distributed.communicators.local import run_local
from deep_bench.distributed.loggp import LogGP
from deep_bench.distributed.machine import Link, Machine, Segment
from deep_bench.distributed.scaling.record import MeasuredRecord, RanksPointRecord, ScalingRecord
from deep_bench.measure.environment import Environment, capture
from deep_bench.training import several, train


@pytest.fixture(scope="session")
def records(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a record of each kind in folders of their own; tests copy what they change."""
    folder = tmp_path_factory.mktemp("records")
    for name in ("network", "operators", "training", "communication", "scaling"):
        (folder / name).mkdir()
    db.run("digits-cnn", on=["reference"], budget=0.3, twin=False, progress=False, output=folder / "network")
    cases = [db.Case.of("Gelu", (4, 8)), db.Case.of("Gelu", (8, 8))]
    quick = {"budget": 0.2, "twin": False, "dispatch": False, "progress": False}
    db.operators.study("reference", cases, **quick, output=folder / "operators")
    _train(folder / "training")
    _communicate(folder / "communication")
    prediction().save(folder / "scaling")
    return folder


def _train(folder: Path) -> None:
    runs = several(
        lambda seed, callbacks: train("digits", "reference", seed=seed, callbacks=callbacks, stop_at_target=False),
        seeds=[1, 2],
        target=("accuracy", 0.2),
        every=64,
        steps=3,
        label="reference",
        progress=False,
    )
    runs.record.recipe.options["cell"] = {"recipe": "widths", "id": "0a1b2c3d", "factors": {"width": 16, "seed": 1}}
    runs.save(folder)


def _communicate(folder: Path) -> None:
    settings = BenchmarkSettings(collectives=("allreduce", "barrier"), sizes="8,16", budget=0.02, ci_width=0.5)
    parameters = LogGP(L=1e-6, o=1e-6, g=1e-6, G=1e-9)
    segments = [Segment(parameters=parameters)]
    link = Link(system="local", between="one node", pair=(0, 1), hosts=("a", "a"), segments=segments)
    machine = Machine(deep_bench=db.__version__, environment=Environment(), hosts=[gethostname()] * 2, links=[link])
    run_local(2, lambda comm: study({"local": comm}, settings, machine=machine, progress=False, output=folder))
    machine.save(folder / "machine.json")


def prediction() -> ScalingRecord:
    """A small one, of two numbers of ranks, one of which was measured as well."""
    shared = {"low": 0.9, "high": 1.1, "least": 0.8, "most": 1.2, "sent_least": 1.0, "sent_most": 2.0}
    points = [
        RanksPointRecord(ranks=ranks, batch=8, mean=1.0, computing=0.75, communicating=0.25, **shared) for ranks in (2, 4)
    ]
    beside = MeasuredRecord(
        file="two.json", ranks=2, batch=8, hosts=1, steps=np.array([1.0, 1.5, 2.0]), mean=1.5, median=1.5, least=1.0,
        most=2.0, computing=1.0, predicted=1.0, predicted_computing=0.75, predicted_own=1.25,
    )  # fmt: skip
    return ScalingRecord(
        created=datetime(2026, 1, 2, tzinfo=UTC), deep_bench=db.__version__, environment=capture(), scheme="allreduce",
        framework="torch:threads=1", scaling="strong", whole_batch=16, machine="as stated", alone=1.5, points=points,
        measured=[beside], recipe={"name": "digits", "network": {"name": "lenet"}}, assumptions=["rounds are alike"],
    )  # fmt: skip
