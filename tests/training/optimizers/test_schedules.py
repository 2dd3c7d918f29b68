"""Schedules against torch's, and traced."""

from __future__ import annotations

import numpy as np
import pytest

import deep_bench as db
from deep_bench.arrays import NUMPY
from deep_bench.errors import InvalidArgument
from deep_bench.network import traced_update
from deep_bench.training import Cosine, OneCycle, Polynomial, StepDecay, WarmUp
from deep_bench.training.optimizer import rate_at

SCHEDULES = {
    "step": StepDecay(0.5, every=3, factor=0.2),
    "cosine": Cosine(0.5, steps=8, last=0.125),
    "polynomial": Polynomial(0.5, steps=8, power=1.5),
    "one-cycle": OneCycle(0.5, steps=10),
    "warm-up": WarmUp(0.5, steps=4),
}


def theirs(name: str) -> list[float]:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    made = torch.optim.SGD([torch.zeros(1)], lr=0.5)
    of = torch.optim.lr_scheduler
    scheduler = {
        "step": lambda: of.StepLR(made, 3, 0.2),
        "cosine": lambda: of.CosineAnnealingLR(made, 8, 0.125),
        "polynomial": lambda: of.PolynomialLR(made, 8, 1.5),
        "one-cycle": lambda: of.OneCycleLR(made, 0.5, total_steps=10, cycle_momentum=False),
        "warm-up": lambda: of.LinearLR(made, 0.25, 1.0, 3),
    }[name]()
    rates = []
    for _ in range(8):
        rates.append(scheduler.get_last_lr()[0])
        made.step()
        scheduler.step()
    return rates


@pytest.mark.parametrize("name", SCHEDULES)
def test_a_schedule_is_that_of_torch(name: str) -> None:
    mine = [float(rate_at(SCHEDULES[name], NUMPY.array(t), NUMPY)) for t in range(8)]
    np.testing.assert_allclose(mine, theirs(name), rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("name", SCHEDULES)
def test_a_schedule_is_traced_and_runs_on_every_device(name: str) -> None:
    rule, w = db.optimizers["sgd"](lr=SCHEDULES[name]), {"w": np.float32([1, -2])}
    step = traced_update(rule, w)
    run, held = db.frameworks["reference"]().prepare(step.network), step.initial
    frameworks = [n for n in ("torch", "tensorflow") if not db.frameworks.missing(n)]
    devices = {n: db.frameworks[n]() for n in frameworks}
    theirs = {n: ({"w": d.from_numpy(w["w"])}, rule.init({"w": d.from_numpy(w["w"])}, d.xp)) for n, d in devices.items()}
    mine, state = w, rule.init(w, NUMPY)
    for _ in range(12):
        slope = {"w": np.float32([1, 1])}
        mine, state = rule.update(slope, state, mine, NUMPY)
        held = step.next(run({**held, "gradient of w": slope["w"]}))
        np.testing.assert_array_almost_equal_nulp(held["w"], mine["w"], 2)
        for n, d in devices.items():
            theirs[n] = rule.update({"w": d.from_numpy(slope["w"])}, theirs[n][1], theirs[n][0], d.xp)
            np.testing.assert_array_almost_equal_nulp(d.to_numpy(theirs[n][0]["w"]), mine["w"], 2)


@pytest.mark.parametrize(
    ("made", "named"),
    [
        (lambda: StepDecay(-1.0, 3), "step decay with lr=-1.0"),
        (lambda: Cosine(1.0, steps=0), "cosine with steps=0"),
        (lambda: Polynomial(1.0, steps=3, power=0), "polynomial with power=0"),
        (lambda: WarmUp("x", steps=3), "warm-up with then='x'"),  # type: ignore[arg-type]
        (lambda: OneCycle(1.0, steps=2), "one-cycle over 2 steps"),
    ],
)
def test_what_is_no_schedule_is_refused(made, named: str) -> None:
    with pytest.raises(InvalidArgument, match=named):
        made()
