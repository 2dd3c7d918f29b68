"""A small problem of least squares, whose samples are spread unevenly, and steps of ranks on it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import deep_bench as db
from deep_bench.arrays import mapped
from deep_bench.distributed.communicators.local import run_local
from deep_bench.training.checkpoint import read_checkpoint, write_checkpoint

SAMPLES = {1: [24], 2: [17, 7], 3: [3, 11, 10], 4: [9, 2, 8, 5]}

Arrays = Mapping[str, Any]
Make = Callable[[Any], Any]


def start(dtype: str = "float64") -> dict[str, np.ndarray]:
    """Parameters: a matrix, a vector, and two of one element."""
    rng = np.random.default_rng(3)
    shapes: dict[str, tuple[int, ...]] = {"w": (5, 4), "b": (4,), "shift": (), "one": (1,)}
    return {name: np.asarray(rng.standard_normal(shape), np.float32).astype(dtype) for name, shape in shapes.items()}


def data(rank: int, size: int) -> tuple[np.ndarray, np.ndarray]:
    """A rank's samples, so that all ranks together always have the same 24."""
    rng = np.random.default_rng(5)
    x = rng.standard_normal((24, 5))
    y = x @ rng.standard_normal((5, 4)) + 0.5 * rng.standard_normal((24, 4))
    first = sum(SAMPLES[size][:rank])
    rows = slice(first, first + SAMPLES[size][rank])
    return x[rows], y[rows]


def loss_and_gradients(p: Arrays, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Half the mean square error of ``x w + b + shift + one``, with a little decay."""
    miss = (x @ p["w"] + p["b"] + p["shift"] + p["one"] - y) / len(x)
    slopes = {"w": x.T @ miss, "b": miss.sum(axis=0), "shift": miss.sum(), "one": miss.sum().reshape(1)}
    loss = 0.5 * np.sum(miss * miss) * len(x) + 0.005 * sum(np.sum(np.square(w)) for w in p.values())
    return loss, {name: np.asarray(g + 0.01 * p[name], p[name].dtype) for name, g in slopes.items()}


def whole_loss(p: Arrays, size: int = 1) -> float:
    """The mean over so many ranks, each with its own samples; with one rank, over all samples."""
    wide = {name: np.asarray(w, np.float64) for name, w in p.items()}
    return float(np.mean([loss_and_gradients(wide, *data(rank, size))[0] for rank in range(size)]))


@cache
def best_loss(size: int = 1) -> float:
    """The least that there is of it."""
    p = start()
    for _ in range(1000):
        slopes = [loss_and_gradients(p, *data(rank, size))[1] for rank in range(size)]
        p = {name: w - 0.2 * sum(one[name] for one in slopes) / size for name, w in p.items()}
    return whole_loss(p, size)


def check_neighbourhood(found: list[dict[str, np.ndarray]], size: int) -> None:
    """Whether the mean of all ranks' parameters is near the best of the mean of their losses, and they near it."""
    mean = {name: np.asarray(np.mean([one[name] for one in found], axis=0)) for name in found[0]}
    assert whole_loss(mean, size) < best_loss(size) * 1.05
    assert max(np.abs(one[name] - mean[name]).max() for one in found for name in mean) < 0.1


def stepped(
    optimizer: Any,
    steps: int,
    *,
    device: Any = None,
    dtype: str = "float64",
    begin: tuple[Arrays, Any] | None = None,
    told: bool = True,
) -> tuple[list[dict[str, np.ndarray]], Any]:
    """This rank's parameters after each step, and its state in the end.

    Args:
        optimizer: The distributed optimizer.
        steps: How many.
        device: Whose arrays it gets.
        dtype: Their type.
        begin: Parameters and state to go on from, as NumPy arrays.
        told: Whether it is told of the number of samples.
    """
    device = device or db.frameworks["reference"]()
    xp, comm = device.xp, optimizer.comm
    x, y = data(comm.rank, comm.size)
    held = mapped(device.from_numpy, start(dtype) if begin is None else begin[0])
    state = optimizer.init(held, xp)
    if begin is not None:
        state = optimizer.restored(mapped(device.from_numpy, begin[1]), held)
    found = []
    for _ in range(steps):
        if told:
            optimizer.begin(len(x))
        slopes = loss_and_gradients(mapped(device.to_numpy, optimizer.prepare(held, state)), x, y)[1]
        given = mapped(device.from_numpy, slopes)
        held, state = optimizer.update(given, state, held, xp, samples=len(x) if told else None)
        found.append(mapped(device.to_numpy, held))
    return found, mapped(device.to_numpy, state)


def check_frameworks(make: Callable[[Any, Any], Any], ranks: int = 3, steps: int = 5) -> None:
    """Whether arrays of torch, and torch's rules that work in place, come to what NumPy's arrays do.

    Args:
        make: From a rule and a communicator to the distributed optimizer.
        ranks: How many.
        steps: How many.
    """
    pytest.importorskip("torch", reason="torch is not installed")
    torch = db.frameworks["torch"]()
    mine = db.optimizers["momentum"](lr=0.1, momentum=0.5)
    native = db.optimizers["torch.sgd"](lr=0.1, momentum=0.5)
    for dtype, tolerance in (("float32", 2e-5), ("float64", 1e-12)):
        wanted = run_local(ranks, lambda comm, dtype=dtype: stepped(make(mine, comm), steps, dtype=dtype)[0])
        for rule in (mine, native):
            found = run_local(
                ranks, lambda comm, rule=rule, dtype=dtype: stepped(make(rule, comm), steps, device=torch, dtype=dtype)[0]
            )
            for rank in range(ranks):
                check_close(found[rank], wanted[rank], tolerance)


def check_close(found: list[dict[str, np.ndarray]], wanted: list[dict[str, np.ndarray]], tolerance: float = 1e-12) -> None:
    """Whether parameters after each step are the same, but for rounding."""
    assert len(found) == len(wanted)
    for got, right in zip(found, wanted, strict=True):
        assert list(got) == list(right)
        for name in right:
            assert (got[name].dtype, got[name].shape) == (right[name].dtype, right[name].shape)
            np.testing.assert_allclose(got[name], right[name], rtol=tolerance, atol=tolerance)


def check_resumes(make: Make, folder: Path, ranks: int = 3, steps: int = 6) -> None:
    """Whether a run that goes on from a checkpoint is, bit by bit, one that was not interrupted."""

    def both(comm: Any) -> None:
        whole, _ = stepped(make(comm), steps)
        half, state = stepped(make(comm), steps // 2)
        file = write_checkpoint(folder / f"{comm.rank}.h5", {"parameters": half[-1], "optimizer": state})
        tree = read_checkpoint(file)
        on, _ = stepped(make(comm), steps - steps // 2, begin=(tree["parameters"], tree["optimizer"]))
        for got, right in zip([*half, *on], whole, strict=True):
            for name in right:
                np.testing.assert_array_equal(got[name], right[name])

    run_local(ranks, both)
