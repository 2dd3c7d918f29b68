"""Clocks that are ahead and drift are found, over messages; stamps of all ranks become those of one clock."""

from itertools import count

import numpy as np
import pytest

from deep_bench.distributed.collectives.timing import ClockReading, RankClocks, common_origin, fitted_clock
from deep_bench.distributed.communicators.local import run_local

AHEAD = (0, 5_000_000, -300_000)
DRIFT = (0.0, 2e-5, -1e-5)


def _compared(comm, moments):
    """Clocks of a made-up world: each look at any of them takes 10 ns of common time."""
    clocks = RankClocks(comm, lambda: round(AHEAD[comm.rank] + (1 + DRIFT[comm.rank]) * 10 * next(moments)))
    for _ in range(5):
        clocks.compare(round_trips=20)
        for _ in range(10_000 if comm.rank == 0 else 0):
            next(moments)
        comm.barrier()
    return clocks.models() if comm.rank == 0 else None


def test_offset_and_drift_are_found():
    moments = count(1000)
    models, *_ = run_local(3, lambda comm: _compared(comm, moments))
    for rank, clock in enumerate(models):
        if rank:
            assert clock.drift == pytest.approx(DRIFT[rank], abs=5e-6)
            at_origin = AHEAD[rank] + DRIFT[rank] * clock.origin
            assert clock.ahead == pytest.approx(at_origin, abs=clock.skew + 1)
            assert 0 < clock.skew < 200
    moment = models[1].origin + 12_345
    stamps = [np.array([round(a + (1 + d) * moment)]) for a, d in zip(AHEAD, DRIFT, strict=True)]
    common = [c.on_rank_0(stamp)[0] for c, stamp in zip(common_origin(models), stamps, strict=True)]
    assert np.ptp(common) < 2 * max(clock.skew for clock in models)


def test_disturbed_readings_do_not_count_and_one_gives_an_offset():
    good = [ClockReading(at, 100, 50) for at in (0, 1000, 2000)]
    assert fitted_clock([*good, ClockReading(1500, 9000, 20_000)]) == fitted_clock(good)
    alone = fitted_clock([ClockReading(10, 100, 50)])
    assert (alone.ahead, alone.drift, alone.error) == (100.0, 0.0, 25.0)
