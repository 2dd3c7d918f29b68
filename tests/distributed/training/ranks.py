"""Trainers on several ranks of one process, on small data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import deep_bench as db
from deep_bench.distributed.communicators.communicator import Communicator
from deep_bench.distributed.communicators.counting import Counting
from deep_bench.distributed.training.samplers import Sharded
from deep_bench.distributed.training.step import distributed_step_on, with_arithmetic
from deep_bench.distributed.training.together import Together
from deep_bench.distributed.training.train import scheme_of
from deep_bench.training.scores import Accuracy
from deep_bench.training.trainer import Trainer
from tests.training.small import data, network

BATCH = 10
EVERY_FRAMEWORK = ("reference", "torch", "tensorflow", "onnxruntime")


def alone(on: str = "reference", rule: str = "momentum", callbacks: Sequence[Any] = (), **options: Any) -> Trainer[Any]:
    """One process on whole batches."""
    dataset = data()
    return Trainer.on(
        with_arithmetic(db.frameworks[on]()),
        network(normalized=False),
        db.optimizers[rule](lr=0.1),
        dataset=dataset,
        sampler=db.samplers["shuffled"](dataset, BATCH, seed=1),
        callbacks=callbacks,
        seed=4,
        scores=[lambda: Accuracy("logits", "label")],
        held_out=data(30, seed=9),
        **options,
    )


def together(
    comm: Communicator,
    scheme: str = "allreduce",
    on: str = "reference",
    rule: str = "momentum",
    callbacks: Sequence[Any] = (),
    *,
    normalized: bool = False,
    model: Any = None,
    dataset: Any = None,
    **options: Any,
) -> Trainer[Any]:
    """This rank's part of the same."""
    dataset = data() if dataset is None else dataset
    made = scheme_of(scheme)(db.optimizers[rule](lr=0.1), Counting(comm))
    workers = comm.size - (made.dedicated and comm.size > 1)
    whole = db.samplers["shuffled"](dataset, BATCH, seed=1)
    return Trainer.on(
        with_arithmetic(db.frameworks[on]()),
        network(normalized=normalized) if model is None else model,
        made,
        dataset=dataset,
        sampler=Sharded(whole, max(comm.rank - (comm.size - workers), 0), workers),
        callbacks=callbacks,
        seed=4,
        scores=[lambda: Accuracy("logits", "label")],
        held_out=data(30, seed=9),
        ranks=Together(made),
        make_step=distributed_step_on,
        **options,
    )
