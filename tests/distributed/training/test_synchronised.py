"""Batch normalization over the samples of all ranks."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import deep_bench as db
from deep_bench.cli.train import command
from deep_bench.distributed.communicators.counting import Counting
from deep_bench.distributed.communicators.local import LocalCommunicator, run_local
from deep_bench.distributed.training.messages import RanksDiffer
from deep_bench.distributed.training.step import BY_ALL, SynchronisedNormalization, distributed_step_on, synchronised
from deep_bench.distributed.training.train import train
from deep_bench.errors import InvalidArgument, Unsupported
from deep_bench.reference.operators.normalization import BatchNormalization
from deep_bench.training.form import training_form
from deep_bench.training.validation import validate_training
from tests.distributed.launched import ROOT, launched
from tests.distributed.training.normalized import STEPS, Course, Recorded, course, digits, small
from tests.training.small import network

PROGRAM = Path(__file__).with_name("programs") / "normalized.py"
HOW = {"epsilon": 1e-5, "momentum": 0.9, "training_mode": 1}


def _judged(made: Any, courses: dict[str, Course], samples: int) -> dict[str, str]:
    model, batches = made
    on = {name: Recorded(found) for name, found in courses.items()}
    rule = db.optimizers["momentum"](lr=0.05)
    found = validate_training(model, rule, batches, on, steps=len(batches), samples=samples, progress=False)
    assert found.parts is None  # up to the last step, rounding explains no more than a part of the way
    return {name: found[name].word for name in courses}


@pytest.mark.long
def test_ranks_do_what_one_process_does(tmp_path: Path) -> None:
    """In each of 50 steps, with parts of unequal length, as far as rounding goes; without, from the first step on not."""
    for framework in ("torch", "onnxruntime", "tensorflow"):
        pytest.importorskip(framework)
    made, courses = small(), {}
    enough = (db.frameworks["tensorflow"]().calls_at_once or 2) >= 2
    graph = "tensorflow" if enough else "tensorflow:eager=true"  # of whose threads each rank needs one
    cases = [*(("reference", ranks) for ranks in (1, 2, 3, 4)), ("torch", 2), ("torch", 4), ("onnxruntime", 2), (graph, 2)]
    for on, ranks in cases:
        found = run_local(ranks, partial(course, on=on, made=made))
        courses[f"{on} {ranks}"] = found[0]
        for name, array in found[0].statistics.items():
            assert all(np.array_equal(array, other.statistics[name]) for other in found)
            np.testing.assert_allclose(array, courses["reference 1"].statistics[name], rtol=1e-5, atol=1e-6)
    courses["even"] = run_local(2, partial(course, on="reference", made=made, parts={2: [5, 5]}))[0]
    file = tmp_path / "course.npz"
    ended = launched(2, PROGRAM, str(file), environment={"PYTHONPATH": str(ROOT)})
    assert ended.returncode == 0, ended.stdout + ended.stderr
    with np.load(file) as kept:
        names = list(courses["even"].parameters[0])
        rows = [{name: kept[f"{step} {name}"] for name in names} for step in range(STEPS)]
        courses["overlapped"] = Course(kept["losses"].tolist(), rows, {})
    assert _judged(made, courses, 4) == dict.fromkeys(courses, "right")
    apart = run_local(3, partial(course, on="reference", made=(made[0], made[1][:1]), together=False))[0]
    assert _judged((made[0], made[1][:1]), {"apart": apart}, 2) == {"apart": "wrong"}


def test_normalizations_on_branches_of_a_convolutional_network() -> None:
    made = digits(2)
    found = run_local(3, partial(course, on="reference", made=made))
    assert all(np.array_equal(a, b) for a, b in zip(*(one.statistics.values() for one in found[::2]), strict=True))
    assert _judged(made, {"ranks": found[0]}, 2) == {"ranks": "right"}


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_the_kernel_is_the_reference_on_all_samples(dtype: str) -> None:
    """Also where the mean is far from zero beside the deviation; gradients by differences of the whole loss."""
    rng = np.random.default_rng(5)
    counts, channels = [1, 3, 2], 4
    offset = 100.0 if dtype == "float16" else 1000.0
    x = (rng.standard_normal((sum(counts), channels, 3, 2)) + offset).astype(dtype)
    scale, bias, variance = (1 + rng.random(channels).astype(dtype) for _ in range(3))
    mean = (offset + rng.standard_normal(channels)).astype(dtype)
    weights = rng.standard_normal(x.shape)
    ends = np.cumsum([0, *counts])

    def on_rank(comm: Any) -> Any:
        rows = slice(ends[comm.rank], ends[comm.rank + 1])
        kernel = SynchronisedNormalization(comm)
        kernel.samples = counts[comm.rank]
        inputs = (x[rows], scale, bias, mean, variance)
        outputs = kernel.forward(*inputs, **HOW)
        share = counts[comm.rank] / sum(counts)
        grads = ((weights[rows] / share).astype(dtype), None, None)  # of the mean over this rank's own samples
        return outputs, kernel.backward(grads, inputs, outputs, **HOW), share

    found = run_local(3, on_rank)
    wide = [a.astype(np.float64) for a in (x, scale, bias, mean, variance)]
    expected = BatchNormalization(*wide, **HOW)
    eps = np.finfo(dtype).eps
    tolerance = {"rtol": 4 * eps, "atol": 4 * offset * eps if dtype == "float64" else 40 * eps}
    np.testing.assert_allclose(np.concatenate([outputs[0] for outputs, _, _ in found]), expected[0], **tolerance)
    for place in (1, 2):
        assert all(np.array_equal(outputs[place], found[0][0][place]) for outputs, _, _ in found)
        np.testing.assert_allclose(found[0][0][place], expected[place], **tolerance)

    def loss(place: int, direction: np.ndarray, size: float) -> float:
        moved = [a + size * direction if i == place else a for i, a in enumerate(wide)]
        return float(np.sum(BatchNormalization(*moved, **HOW)[0] * weights))

    slopes = [np.concatenate([share * grads[0].astype(np.float64) for _, grads, share in found])]
    slopes += [sum(share * grads[place].astype(np.float64) for _, grads, share in found) for place in (1, 2)]
    assert all(a.dtype == dtype and g.dtype == dtype for (a, *_), (g, *_), _ in found)
    for place, slope in enumerate(slopes):
        direction = rng.standard_normal(slope.shape)
        differences = (loss(place, direction, 1e-4) - loss(place, direction, -1e-4)) / 2e-4
        np.testing.assert_allclose(np.sum(slope * direction), differences, rtol=1e-5 + 30 * np.finfo(dtype).eps)


def test_one_message_in_each_direction() -> None:
    def on_rank(comm: Any) -> Any:
        counted = Counting(comm)
        course(counted, "reference", (small()[0], small()[1][:1]), parts={2: [5, 5]})
        return counted.totals()["allreduce"], counted.totals()["split"].calls

    total, splits = run_local(2, on_rank)[0]
    plain = 4 * sum(a.size for a in network(dropout=False).parameters.values())
    assert (total.calls, splits) == (5, 1)  # gradients, the loss in the test, one in each direction, and what ranks hold
    assert total.payload == plain + 8 + 8 * 8 * (3 + 6) + 16


def test_what_cannot_be_synchronised() -> None:
    pytest.importorskip("tensorflow")
    form = training_form(network())
    assert synchronised(form, LocalCommunicator()) is form
    kernel = SynchronisedNormalization(LocalCommunicator())
    x = np.ones((2, 3), np.float32)
    with pytest.raises(InvalidArgument, match="by running statistics"):
        kernel.forward(x, x[0], x[0], x[0], x[0], **{**HOW, "training_mode": 0})
    assert kernel.backward((None, None, None), (x, *[x[0]] * 4), (), **HOW) == (None,) * 5

    def free(comm: Any) -> Any:
        return train("digits", "reference", over=comm, scheme="gossip", synchronise_normalization=True)

    with pytest.raises(Unsupported, match="whose ranks take steps each on their own"):
        run_local(2, free)

    def differing(comm: Any) -> Any:
        scheme = db.distributed_optimizers["allreduce"](db.optimizers["sgd"](lr=0.1), comm)
        framework = db.frameworks["reference"]()
        return distributed_step_on(framework, form, scheme, synchronise_normalization=comm.rank == 0)

    tensorflow = db.frameworks["tensorflow"]()
    calls = tensorflow.calls_at_once

    def waiting(comm: Any) -> Any:
        scheme = db.distributed_optimizers["allreduce"](db.optimizers["sgd"](lr=0.1), Counting(comm))
        return distributed_step_on(tensorflow, form, scheme, synchronise_normalization=True)

    with pytest.raises(Unsupported, match=f"of {calls + 1} ranks in one process on tensorflow, of which {calls} could wait"):
        run_local(calls + 1, waiting)
    assert db.frameworks["tensorflow"](eager=True).calls_at_once is None
    with pytest.raises(RanksDiffer, match="differ in their synchronised normalization: True and False"):
        run_local(2, differing)


def test_the_record_says_so(tmp_path: Path) -> None:
    def on_rank(comm: Any) -> Any:
        trainer = train("digits", "reference", over=comm, synchronise_normalization=True, seed=1)
        trainer.run(steps=1)
        return trainer.ranks.facts()

    facts = run_local(2, on_rank)[0]
    assert BY_ALL in facts.remarks
    assert not any("own part" in remark or "running statistics" in remark for remark in facts.remarks)
    words = ["digits", "--on", "reference", "--steps", "1", "--output", str(tmp_path), "--synchronise-normalization"]
    found = CliRunner().invoke(command, words)
    assert (found.exit_code, "--synchronise-normalization is of --distributed" in found.stderr) == (2, True)
