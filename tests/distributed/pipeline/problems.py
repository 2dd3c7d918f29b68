"""Networks with batches, what their gradients may be, and pipelines of them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple

import numpy as np

import deep_bench as db
from deep_bench.check.judge import assess_whole
from deep_bench.check.oracle import Truth
from deep_bench.distributed import Pipeline, run_local
from deep_bench.network.gradient import gradient_name
from deep_bench.network.gradient.pullback import Pullback
from deep_bench.training.networks import mlp, transformer

SAMPLES = 7

Arrays = Mapping[str, np.ndarray]


class Problem(NamedTuple):
    """A network with a loss, and a batch."""

    network: db.Network
    batch: Arrays


@cache
def problem(name: str) -> Problem:
    """``"cnn"``, whose normalizations have given statistics; ``"mlp"``; ``"transformer"``."""
    rng = np.random.default_rng(5)
    if name == "transformer":
        network = transformer(vocabulary=11, length=5, layers=1, width=8, heads=2)
        shape: tuple[int, ...] = (SAMPLES, 5)
        batch = {"input": rng.integers(0, 11, shape), "label": rng.integers(0, 11, shape)}
    else:
        network = db.load("digits-cnn") if name == "cnn" else mlp(hidden=(16, 8))
        image = rng.standard_normal((SAMPLES, 1, 8, 8)).astype(np.float32)
        batch = {"image": image, "label": rng.integers(0, 10, SAMPLES)}
    return Problem(network.with_loss("SoftmaxCrossEntropyLoss", output="logits", target="label"), batch)


@cache
def truth(name: str) -> Truth:
    """What is known of the gradients with respect to all parameters, for the whole batch."""
    network, batch = problem(name)
    return Pullback(network, batch, list(network.parameters), "loss").truth()


def assert_right(name: str, gradients: Arrays) -> None:
    """Rounding explains how gradients differ from the true ones, and none is missing."""
    known = truth(name)
    found = {gradient_name("loss", parameter): array for parameter, array in gradients.items()}
    whole = assess_whole(known, found, known.outputs, known.samples)
    assert whole.clear, whole.reason


class Rank(NamedTuple):
    """What a pipeline gave on one rank."""

    outputs: Arrays
    gradients: Arrays
    pipeline: Any


def on_ranks(adapter: Any, name: str, stages: int, *, order: Any = None, **options: Any) -> list[Rank]:
    """The gradients of a batch by a pipeline."""
    network, batch = problem(name)

    def on_rank(comm: Any) -> Rank:
        pipeline = Pipeline(adapter, network, comm, **options)
        outputs, gradients = pipeline.gradients(native(adapter, batch), "loss")
        return Rank(host(adapter, outputs), host(adapter, gradients), pipeline)

    return run_local(stages, on_rank, order=order)


def native(adapter: Any, arrays: Arrays) -> dict[str, Any]:
    return {name: adapter.from_numpy(array) for name, array in arrays.items()}


def host(adapter: Any, arrays: Mapping[str, Any]) -> dict[str, np.ndarray]:
    return {name: adapter.to_numpy(array) for name, array in arrays.items()}
