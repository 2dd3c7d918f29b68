"""Every benchmark's operation is right for 2 to 5 ranks and several types, and every fault in a result is found."""

import ml_dtypes
import numpy as np
import pytest

from deep_bench.distributed.collectives.operations import (
    KINDS,
    OperationSetting,
    algorithm_bandwidth,
    bus_bandwidth,
    contribution,
    largest_exact,
    operation,
    sum_of_contributions,
)
from deep_bench.distributed.collectives.settings import BenchmarkSettings, sizes_of
from deep_bench.distributed.communicators.local import run_local
from deep_bench.distributed.loggp import ALGORITHMS
from deep_bench.errors import InvalidArgument, UnknownName

DTYPES = [np.dtype(t) for t in (np.float32, np.int8, np.float16, ml_dtypes.bfloat16)]


def _wrong(comm, name, dtype, elements, spoil=None):
    made = operation(name, OperationSetting(comm, elements, dtype, pair=(0, comm.size - 1)))
    made.prepare(comm.rank, comm.size, seed=5)
    if spoil is not None:
        spoil(made, comm)
    return made.wrong(seed=5)


@pytest.mark.parametrize("name", KINDS)
def test_right_results_are_right(name):
    for ranks in (2, 3, 5):
        for dtype, elements in zip(DTYPES, (1, 7, 12, 30), strict=True):
            assert run_local(ranks, lambda comm: _wrong(comm, name, dtype, elements)) == [0] * ranks  # noqa: B023


@pytest.mark.parametrize("name", [name for name in KINDS if KINDS[name].sized])
def test_wrong_results_are_found(name):
    def flipped(made, comm):
        """One element of what is read, on the first rank that reads anything."""
        read = made.read
        expected = made.expected(5)
        if expected is not None and (comm.rank == 0 or name in ("scatter", "broadcast", "bandwidth")):

            def spoilt(found):
                array = np.array(read(found))
                array.flat[array.size // 2] += 1
                return array

            made.read = spoilt

    assert sum(run_local(3, lambda comm: _wrong(comm, name, np.dtype("float32"), 9, flipped))) >= 1


def test_an_operation_that_does_nothing_is_wrong():
    def undone(made, comm):
        made.call = lambda: made.out if made.out is not None else made.give

    for name in ("allreduce", "allgather", "alltoall", "reduce-scatter", "scatter", "reduce", "gather"):
        assert sum(run_local(3, lambda comm: _wrong(comm, name, np.dtype("int32"), 9, undone))) >= 9, name  # noqa: B023


def test_data_differ_by_rank_place_and_seed_and_sums_are_exact():
    dtype = np.dtype("float16")
    xs = [contribution(rank, 60, 1000, dtype, 1) for rank in range(60)]
    assert len({x.tobytes() for x in xs}) == 60
    assert (xs[0] != contribution(0, 60, 1000, dtype, 2)).any()
    np.testing.assert_array_equal(sum_of_contributions(60, 1000, dtype, 1), np.sum(np.array(xs, np.int64), axis=0))
    for ranks in (2, 200, 1000):
        for kind in (np.dtype("int8"), np.dtype(ml_dtypes.bfloat16)):
            exact = sum(contribution(rank, ranks, 50, kind, 0).astype(np.int64) for rank in range(ranks))
            assert exact.max() < largest_exact(kind)


def test_bandwidths_are_those_of_nccl_tests():
    """Source: nccl-tests, doc/PERFORMANCE.md."""
    n, size, t = 4, 1000, 1e-6
    factors = {name: bus_bandwidth(KINDS[name], n, size, t) / algorithm_bandwidth(KINDS[name], n, size, t) for name in KINDS
               if KINDS[name].sized}  # fmt: skip
    assert factors["allreduce"] == pytest.approx(2 * (n - 1) / n)
    for name in ("allgather", "reduce-scatter", "alltoall", "gather", "scatter"):
        assert factors[name] == pytest.approx((n - 1) / n)
    for name in ("broadcast", "reduce", "latency", "bandwidth"):
        assert factors[name] == 1
    assert algorithm_bandwidth(KINDS["allgather"], n, size, t) == pytest.approx(n * size / t)
    assert algorithm_bandwidth(KINDS["barrier"], n, 0, t) is None
    assert set(KINDS) == set(ALGORITHMS)


def test_sizes_and_settings_that_are_refused():
    float32 = np.dtype("float32")
    assert sizes_of("8:4Mi", float32) == tuple(2**i for i in range(3, 23))
    assert sizes_of("deepbench/allreduce", np.dtype("float64"))[-1] == 64_500_000 * 8
    assert sizes_of("100:200", float32) == (128,)
    for text in ("", "8:", "9:10", "a", "8,,9", "0", "-8", "8:4:2", "1:4", "6"):
        with pytest.raises(InvalidArgument):
            sizes_of(text, float32)
    twice = ("allreduce", "allreduce")
    for wrong in ({"budget": 0.0}, {"ci_width": 1.0}, {"seed": -1}, {"dtype": "str"}, {"dtype": "nothing"},
                  {"collectives": ()}, {"collectives": twice}):  # fmt: skip
        with pytest.raises(InvalidArgument):
            BenchmarkSettings(**wrong)
    with pytest.raises(UnknownName, match="allreduce"):
        BenchmarkSettings(collectives=("allreduc",))
    for ranks, pair in ((1, (0, 1)), (2, (0, 2)), (2, (1, 1))):
        with pytest.raises(InvalidArgument):
            BenchmarkSettings(pair=pair).check_ranks(ranks)
    assert BenchmarkSettings(collectives=("barrier", "latency"), sizes="8,16").cases() == [
        (KINDS["barrier"], 0), (KINDS["latency"], 8), (KINDS["latency"], 16),
    ]  # fmt: skip
