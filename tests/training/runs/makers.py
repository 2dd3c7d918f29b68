"""What makes trainers in the tests of several runs; importable from another process."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import deep_bench as db
from deep_bench.training.callbacks import GradientNorm
from deep_bench.training.scores import Accuracy, MeanOutput
from deep_bench.training.trainer import Trainer
from tests.training import small


def make(seed: int, callbacks: Sequence[Any], on: str = "reference", lr: float = 0.03) -> Trainer[Any]:
    """A trainer of the small network."""
    points = small.data()
    return Trainer.on(
        db.frameworks[on](),
        small.network(seed=seed),
        db.optimizers["adam"](lr=lr),
        dataset=points,
        sampler=db.samplers["shuffled"](points, batch_size=16, seed=seed),
        seed=seed,
        scores=[lambda: Accuracy("logits", "label"), lambda: MeanOutput("loss")],
        held_out=small.data(20, seed=4),
        callbacks=[*callbacks, GradientNorm()],
    )


def some_fail(seed: int, callbacks: Sequence[Any]) -> Trainer[Any]:
    """One whose run of seed 3 does not learn, and of seed 4 breaks."""

    def breaks(moment: Any, index: int, time_ns: int, data: Any) -> None:
        if seed == 4 and index == 2:
            raise ZeroDivisionError("broken in step 2")

    return make(seed, [*callbacks, breaks], lr=1e-9 if seed == 3 else 0.03)


def dies(seed: int, callbacks: Sequence[Any], lr: float) -> Trainer[Any]:
    """One whose process ends at once for seed 2."""
    if seed == 2:
        os._exit(3)
    return make(seed, callbacks, lr=lr)
