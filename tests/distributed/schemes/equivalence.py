"""Training on several ranks beside one process with the whole batch, give or take rounding."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import numpy as np

import deep_bench as db
from deep_bench.arrays import NUMPY
from deep_bench.check.arithmetic import Rounding, as_plain, disturb
from deep_bench.check.estimate import Expectation, assess, pooled
from deep_bench.distributed.communicators.local import run_local

FEATURES, CLASSES, SAMPLES, STEPS = 6, 3, 24, 50
PARTS = {1: [24], 2: [17, 7], 3: [3, 11, 10], 4: [9, 2, 8, 5]}
"""The samples of each rank; uneven."""

EVEN = {ranks: [SAMPLES // ranks] * ranks for ranks in PARTS}

Arrays = Mapping[str, Any]
Make = Callable[[Any], Any]


def start(dtype: str = "float32") -> dict[str, np.ndarray]:
    """Parameters of a perceptron with one hidden layer, and of a temperature."""
    rng = np.random.default_rng(7)
    shapes: dict[str, tuple[int, ...]] = {"w1": (FEATURES, 8), "b1": (8,), "scale": (), "w2": (8, CLASSES), "b2": (CLASSES,)}
    return {
        name: np.asarray(1 + 0.5 * rng.standard_normal(shape), np.float32).astype(dtype) for name, shape in shapes.items()
    }


def batch(step: int, rows: slice) -> tuple[np.ndarray, np.ndarray]:
    """Some of the samples of a step, with one-hot labels; numbers of float32."""
    rng = np.random.default_rng([11, step])
    x = rng.standard_normal((SAMPLES, FEATURES)).astype(np.float32)
    label = rng.integers(0, CLASSES, SAMPLES)
    x += np.eye(CLASSES, FEATURES, dtype=np.float32)[label] * 2
    return x[rows], np.eye(CLASSES, dtype=np.float32)[label[rows]]


def loss_and_gradients(p: Arrays, x: Any, y: Any) -> tuple[Any, dict[str, Any]]:
    """Of the mean cross-entropy over some samples."""
    hidden = np.tanh(x @ p["w1"] + p["b1"])
    logits = (hidden @ p["w2"] + p["b2"]) * p["scale"]
    power = np.exp(logits)
    chance = power / np.sum(power, axis=1, keepdims=True)
    loss = -np.sum(y * np.log(chance)) / len(y)
    out = (chance - y) / len(y)
    scaled = out * p["scale"]
    inner = (scaled @ p["w2"].T) * (1 - hidden * hidden)
    slopes = {
        "w1": x.T @ inner,
        "b1": np.sum(inner, axis=0),
        "scale": np.sum(out * (hidden @ p["w2"] + p["b2"])),
        "w2": hidden.T @ scaled,
        "b2": np.sum(scaled, axis=0),
    }
    return loss, slopes


@cache
def alone(rule: Any, steps: int = STEPS, dtype: str = "float32") -> list[dict[str, Expectation]]:
    """What one process with the whole batch may arrive at after each step."""
    plain = _course(rule, steps, Rounding(np.dtype(dtype), None))
    others = [_course(rule, steps, Rounding(np.dtype(dtype), np.random.default_rng(k))) for k in range(4)]
    return [
        {name: pooled(value, [other[step][name] for other in others], np.dtype(dtype)) for name, value in held.items()}
        for step, held in enumerate(plain)
    ]


def _course(rule: Any, steps: int, rounding: Rounding) -> list[dict[str, np.ndarray]]:
    def wide(x: np.ndarray) -> Any:
        return x.astype(np.float64) if rounding.rng is None else disturb(x, rounding)

    held: Any = {name: wide(x) for name, x in start(str(rounding.format)).items()}
    state, found = rule.init(held, NUMPY), []
    for step in range(steps):
        x, y = map(wide, batch(step, slice(None)))
        slopes = loss_and_gradients(rule.prepare(held, state), x, y)[1]
        held, state = rule.update(slopes, state, held, NUMPY, evaluate=lambda p, x=x, y=y: loss_and_gradients(p, x, y))
        found.append({name: np.asarray(as_plain(w)) for name, w in held.items()})
    return found


def on_ranks(
    make: Make, ranks: int, framework: str = "reference", *, parts: Mapping[int, list[int]] = PARTS, steps: int = STEPS
) -> list[list[dict[str, np.ndarray]]]:
    """Each rank's parameters after each step.

    Args:
        make: From a communicator to the distributed optimizer.
        ranks: How many.
        framework: Whose arrays it gets.
        parts: The samples of each rank. Nobody tells their number where they are `EVEN`.
        steps: How many.
    """
    device = db.frameworks[framework]()
    return run_local(ranks, lambda comm: trained(make(comm), comm, device, parts, steps))


def trained(
    optimizer: Any, comm: Any, device: Any, parts: Mapping[int, list[int]], steps: int
) -> list[dict[str, np.ndarray]]:
    """This rank's parameters after each step."""
    xp, samples = device.xp, parts[comm.size]
    first = sum(samples[: comm.rank])
    rows = slice(first, first + samples[comm.rank])
    told = None if parts is EVEN else samples[comm.rank]
    held = {name: device.from_numpy(x) for name, x in start().items()}
    state, found = optimizer.init(held, xp), []
    for step in range(steps):
        x, y = batch(step, rows)

        def there(p: Arrays, x: np.ndarray = x, y: np.ndarray = y) -> tuple[Any, dict[str, Any]]:
            loss, slopes = loss_and_gradients({name: device.to_numpy(w) for name, w in p.items()}, x, y)
            return device.from_numpy(np.asarray(loss)), {n: device.from_numpy(np.asarray(g)) for n, g in slopes.items()}

        ready = optimizer.begin(told) if told is not None else None
        slopes = there(optimizer.prepare(held, state))[1]
        if ready is not None:
            for name in reversed(list(slopes)):
                ready(name, slopes[name])
        held, state = optimizer.update(slopes, state, held, xp, evaluate=there, samples=told)
        found.append({name: device.to_numpy(w) for name, w in held.items()})
    return found


def check_equivalent(
    runs: list[list[dict[str, np.ndarray]]], expected: list[dict[str, Expectation]], after: tuple[int, ...] = (1, STEPS)
) -> None:
    """Whether all ranks hold the same, bit by bit, and what one process may hold."""
    for step in range(len(runs[0])):
        for other in runs[1:]:
            assert list(other[step]) == list(runs[0][step])
            for name, w in other[step].items():
                np.testing.assert_array_equal(w, runs[0][step][name])
    for step in after:
        for name, expectation in expected[step - 1].items():
            opinion = assess(runs[0][step - 1][name], expectation)
            assert opinion.level == "clear", f"{name} after {step} steps {opinion.reason}"


SCHEMES = ("allreduce", "parameter-server", "sharded-state", "hierarchical")
"""Those that promise what one process does."""


def table(framework: str = "torch") -> str:
    """Significant bits of the worst parameter beside one process, uneven shards, after 1 and 50 steps; Markdown."""
    rule = db.optimizers["momentum"](lr=0.05)
    expected = alone(rule)
    rows = ["| scheme | after | " + " | ".join(f"N = {ranks}" for ranks in PARTS) + " |", "|---|---|" + "---|" * len(PARTS)]
    for scheme in SCHEMES:
        kind = db.distributed_optimizers[scheme]
        runs = {ranks: on_ranks(lambda comm, kind=kind: kind(rule, comm), ranks, framework) for ranks in PARTS}
        for step in (1, STEPS):
            cells = []
            for found in runs.values():
                opinions = [assess(found[0][step - 1][name], wanted) for name, wanted in expected[step - 1].items()]
                word = "equal" if all(o.level == "clear" for o in opinions) else "not equal"
                cells.append(f"{word}, {min(o.bits for o in opinions):.1f} bits")
            rows.append(f"| {scheme} | {step} | " + " | ".join(cells) + " |")
    return "\n".join(rows)


if __name__ == "__main__":
    print(table())
