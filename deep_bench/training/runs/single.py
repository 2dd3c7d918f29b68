"""The record of a run that somebody made with a trainer of their own."""

from __future__ import annotations

import os
import sys
from typing import Any

import deep_bench
from deep_bench.measure.environment import capture
from deep_bench.measure.record import Recipe
from deep_bench.training.callbacks import TargetReached
from deep_bench.training.record import TargetRecord, TrainingRecord
from deep_bench.training.runs.one import kept
from deep_bench.training.runs.result import Runs
from deep_bench.training.trainer import INTERRUPTED, Trainer


def recorded(trainer: Trainer[Any], *, label: str = "") -> Runs:
    """A trainer's run until now, as `several` gives several: printing it shows the report, `Runs.save` writes the record.

    Args:
        trainer: The trainer; its target is that of its `TargetReached`, if it has one.
        label: What it runs on, beginning with the framework's name.

    Example:
        >>> import deep_bench as db
        >>> network = db.load("digits-cnn").with_loss("SoftmaxCrossEntropyLoss", output="logits", target="label")
        >>> digits = db.datasets["digits"]("train")
        >>> sampler = db.samplers["shuffled"](digits, batch_size=64, seed=1)
        >>> trainer = Trainer.on(
        ...     db.frameworks["reference"](), network, db.optimizers["sgd"](lr=0.01), dataset=digits, sampler=sampler)
        >>> _ = trainer.run(steps=2)
        >>> print(recorded(trainer, label="reference").report().splitlines()[0])
        digits-cnn on digits/train
    """
    run = kept(trainer, label=label)
    target = next((c for c in trainer.callbacks if isinstance(c, TargetReached)), None)
    facts = run.scores.get(target.score) if target is not None else None
    record = TrainingRecord(
        deep_bench=deep_bench.__version__,
        command=[os.path.basename(sys.argv[0]), *sys.argv[1:]],
        recipe=Recipe(options={"label": label}, seeds={"run 0": run.seed}),
        environment=capture(),
        runs=[run],
        interrupted=run.stopped_because == INTERRUPTED,
        complete=run.stopped_because not in ("", INTERRUPTED),
    )
    if target is not None and facts is not None:
        record.target = TargetRecord(score=target.score, value=target.target, direction=facts.direction)
    return Runs(record)
