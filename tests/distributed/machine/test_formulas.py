"""The formulas of what collectives cost beside a simulation of their algorithms, message by message; what those compute."""

from functools import partial

import numpy as np
import pytest

from deep_bench.distributed import loggp
from deep_bench.distributed.loggp import ALGORITHMS, LogGP, predictions
from deep_bench.errors import InvalidArgument, UnknownName
from deep_bench.reference.distributed import collective_algorithms as programs
from deep_bench.reference.distributed import loggp as loggp_module
from deep_bench.reference.distributed.loggp import LogGPParameters, Send, simulate

RANKS = range(2, 18)
MACHINES = {
    "network": {"L": 5.0, "o": 1.5, "g": 2.0, "G": 0.01, "gamma": 0.003},
    "slow wire": {"L": 0.5, "o": 0.25, "g": 4.0, "G": 0.2, "gamma": 0.5},
    "slow processor": {"L": 1.0, "o": 3.0, "g": 0.5, "G": 0.001, "gamma": 0.0},
}
ROW = 16
"""Elements of float64 in a row: a multiple of all powers of two that a vector of rows is cut by."""


def _vectors(p):
    """A vector on each rank, as rows."""
    return list(np.random.default_rng(p).integers(-9, 9, (p, p, ROW)).astype(np.float64))


def _same(found, expected):
    for one, other in zip(found, expected, strict=True):
        if other is None:
            assert one is None
        else:
            np.testing.assert_array_equal(np.reshape(one, np.shape(other)), other)


def _on_root(value, p):
    return [value] + [None] * (p - 1)


def _whole(p):
    return ROW * p * 8


def _row(p):
    return ROW * 8


def _copies(xs):
    return [xs[0]] * len(xs)


def _sums(xs):
    return [sum(xs)] * len(xs)


def _sum_on_root(xs):
    return _on_root(sum(xs), len(xs))


def _rows_on_root(xs):
    return _on_root(np.stack(xs), len(xs))


def _rows_everywhere(xs):
    return [np.stack(xs)] * len(xs)


def _turned(xs):
    return list(np.stack(xs).transpose(1, 0, 2))


def _first_of(xs):
    return list(xs[0])


def _parts(xs):
    return list(sum(xs))


def _rows(p):
    return [x[0] for x in _vectors(p)]


def _flat(p):
    return [x.reshape(-1) for x in _vectors(p)]


def _long(p):
    return list(np.random.default_rng(p).integers(-9, 9, (p, 4 * 512)).astype(np.float64))


def _in_four_pieces(p, n, m):
    whole, loggp.SEGMENT = loggp.SEGMENT, n // 4
    try:
        return loggp.chain_broadcast(p, n, m)
    finally:
        loggp.SEGMENT = whole


def _four(rank, size, x):
    return programs.chain_broadcast(rank, size, x, pieces=4)


CASES = {
    # program: formula, what ranks give, what they get, bytes of the formula, the ranks for which it is exact
    "linear_broadcast": (loggp.linear_broadcast, _vectors, _copies, _whole, "all"),
    "binomial_broadcast": (loggp.binomial_broadcast, _vectors, _copies, _whole, "powers of two"),
    "chain_broadcast": (_in_four_pieces, _long, _copies, lambda p: 4 * 4096, "all"),
    "scatter_allgather_broadcast": (loggp.scatter_allgather_broadcast, _vectors, _copies, _whole, "powers of two"),
    "linear_scatter": (loggp.linear_scatter, _vectors, _first_of, _row, "all"),
    "binomial_scatter": (loggp.binomial_scatter, _vectors, _first_of, _row, "powers of two"),
    "linear_gather": (loggp.linear_gather, _rows, _rows_on_root, _row, "all"),
    "binomial_gather": (loggp.binomial_gather, _rows, _rows_on_root, _row, "powers of two"),
    "linear_reduce": (loggp.linear_reduce, _vectors, _sum_on_root, _whole, "all"),
    "binomial_reduce": (loggp.binomial_reduce, _vectors, _sum_on_root, _whole, "powers of two"),
    "tree_allreduce": (loggp.tree_allreduce, _vectors, _sums, _whole, "powers of two"),
    "ring_allreduce": (loggp.ring_allreduce, _vectors, _sums, _whole, "all"),
    "doubling_allreduce": (loggp.doubling_allreduce, _vectors, _sums, _whole, "powers of two"),
    "rabenseifner_allreduce": (loggp.rabenseifner_allreduce, _flat, _sums, _whole, "powers of two"),
    "pairwise_reduce_scatter": (loggp.pairwise_reduce_scatter, _vectors, _parts, _whole, "all"),
    "ring_reduce_scatter": (loggp.pairwise_reduce_scatter, _vectors, _parts, _whole, "all"),
    "halving_reduce_scatter": (loggp.halving_reduce_scatter, _vectors, _parts, _whole, "no others"),
    "ring_allgather": (loggp.ring_allgather, _rows, _rows_everywhere, _row, "all"),
    "bruck_allgather": (loggp.bruck_allgather, _rows, _rows_everywhere, _row, "all"),
    "doubling_allgather": (loggp.doubling_allgather, _rows, _rows_everywhere, _row, "no others"),
    "pairwise_alltoall": (loggp.pairwise_alltoall, _vectors, _turned, _row, "all"),
    "bruck_alltoall": (loggp.bruck_alltoall, _vectors, _turned, _row, "all"),
    "posted_alltoall": (loggp.posted_alltoall, _vectors, _turned, _row, "all"),
}


@pytest.mark.parametrize("name", CASES)
def test_formula_is_what_the_messages_take(name):
    formula, given, expected, size, exact = CASES[name]
    program = _four if name == "chain_broadcast" else getattr(programs, name)
    for p in RANKS:
        is_power = p & (p - 1) == 0
        if exact == "no others" and not is_power:
            continue
        arguments = given(p)
        for machine in MACHINES.values():
            results, ends = simulate(program, arguments, LogGPParameters(**machine))
            _same(results, expected(arguments))
            predicted = formula(p, size(p), LogGP(**machine))
            if exact == "all" or is_power:
                assert predicted == pytest.approx(max(ends), rel=1e-9), (p, machine)
            else:
                assert max(ends) <= predicted * (1 + 1e-9), (p, machine)
                below = formula(2 ** (p.bit_length() - 1), size(p), LogGP(**machine))
                assert max(ends) >= 0.5 * below, (p, machine)


@pytest.mark.parametrize("machine", MACHINES)
def test_barrier_neighbours_and_windows(machine):
    costs, parameters = LogGP(**MACHINES[machine]), LogGPParameters(**MACHINES[machine])
    answer = np.zeros(loggp.ANSWER, np.int8)
    for p in RANKS:
        results, ends = simulate(programs.dissemination_barrier, [np.zeros(1, np.int8)] * p, parameters)
        assert results == [(p - 1).bit_length()] * p
        assert loggp.dissemination_barrier(p, 0, costs) == pytest.approx(max(ends))
        xs = _rows(p)
        results, ends = simulate(programs.ring_neighbours, xs, parameters)
        for rank, found in enumerate(results):
            assert {source: x.tolist() for source, x in found.items()} == {
                other: xs[other].tolist() for other in {(rank + 1) % p, (rank - 1) % p}
            }
        assert ALGORITHMS["neighbours"]["posted"](p, ROW * 8, costs) == pytest.approx(max(ends))
    for size in (1, 8, 4096):
        x = np.zeros(size, np.int8)
        one_way = partial(programs.window, messages=loggp.WINDOW, answer=answer)
        both = partial(programs.window_both_ways, messages=loggp.WINDOW, answer=answer)
        assert loggp.window(size, costs) == pytest.approx(max(simulate(one_way, [x, x], parameters)[1]))
        assert loggp.window_both_ways(size, costs) == pytest.approx(max(simulate(both, [x, x], parameters)[1]))


def test_the_simulation_by_hand():
    """Two messages of 11 bytes in a row, L=5, o=1, g=2, G=0.5: the second leaves g + 10 G after the first."""

    def two(rank, size, x):
        if rank == 0:
            yield Send(1, x)
            yield Send(1, x)
            return
        for _ in range(2):
            yield loggp_module.Receive(0)

    x = np.zeros(11, np.int8)
    _, ends = simulate(two, [x, x], LogGPParameters(L=5, o=1, g=2, G=0.5))
    assert ends == [8.0, 19.0]  # 7 + o; 7 + o + L + 10 G + o
    with pytest.raises(RuntimeError, match="ranks \\[0, 1\\] wait"):
        simulate(lambda rank, size, x: (yield loggp_module.Receive(1 - rank)), [x, x], LogGPParameters(1, 1, 1, 1))


def test_predictions_are_of_known_collectives_and_cheapest_first():
    machine = LogGP(**MACHINES["network"])
    for collective in ALGORITHMS:
        for p in (2, 3, 4):
            found = [one.seconds for one in predictions(collective, p, 4096, machine)]
            assert found == sorted(found)
            assert min(found) > 0
    assert "recursive doubling" not in {one.algorithm for one in predictions("allgather", 3, 8, machine)}
    with pytest.raises(UnknownName, match="allreduce"):
        predictions("all-reduce", 2, 8, machine)
    with pytest.raises(InvalidArgument):
        predictions("allreduce", 1, 8, machine)
