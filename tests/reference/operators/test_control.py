"""Control flow with plain Python callables as subgraphs."""

from __future__ import annotations

import numpy as np
import pytest

from deep_bench.errors import InvalidInput
from deep_bench.reference.operators.control import If, Loop, Scan
from deep_bench.tensor import TensorSpec


class Body:
    """A subgraph that doubles and records, and declares its outputs."""

    outputs = (
        TensorSpec("going", (), np.dtype(bool)),
        TensorSpec("carried", ("n",), np.dtype("float32")),
        TensorSpec("seen", ("n", 3), np.dtype("float16")),
    )

    def __call__(self, i, going, carried):
        return np.array(i < 2), carried * 2, np.full((len(carried), 3), i, np.float16)


def test_if_takes_one_branch_only():
    def never():
        raise AssertionError

    assert If(np.array([True]), then_branch=lambda: (1, 2), else_branch=never) == (1, 2)
    assert If(np.array(False), then_branch=never, else_branch=lambda: (3,)) == (3,)


def test_loop_stops_at_the_trip_count_or_the_condition():
    x = np.ones(2, np.float32)
    assert Loop(np.array(2), None, x, body=Body())[0].tolist() == [4, 4]
    assert Loop(None, np.array(True), x, body=Body())[0].tolist() == [8, 8]
    assert Loop(np.array(9), np.array(True), x, body=Body())[1].shape == (3, 2, 3)
    assert Loop(np.array(9), None, x, body=Body())[0].tolist() == [512, 512], "without a condition, the body's is ignored"


def test_loop_that_never_runs_has_the_declared_outputs():
    x = np.ones(2, np.float32)
    for count, going in ((0, True), (5, False)):
        carried, seen = Loop(np.array(count), np.array(going), x, body=Body())
        assert carried is x
        assert (seen.shape, seen.dtype) == ((0, 0, 3), np.float16)


def test_loop_that_never_runs_learns_undeclared_outputs_from_a_trial():
    x = np.ones(2, np.float32)
    carried, seen = Loop(np.array(0), None, x, body=lambda i, going, c: (going, c, c[np.newaxis]))
    assert carried is x
    assert (seen.shape, seen.dtype) == ((0, 1, 2), np.float32)


def test_loop_passes_the_iteration_as_int64():
    seen = Loop(np.array(3), None, body=lambda i, going: (going, i * 2))
    assert seen[0].tolist() == [0, 2, 4]
    assert seen[0].dtype == np.int64


def test_loop_without_an_end():
    with pytest.raises(InvalidInput, match="never end"):
        Loop(None, None, body=lambda i, going: (going,))


def cumulate(state, x):
    return state + x, state + x


def test_scan_backwards_along_another_axis():
    x = np.arange(6.0).reshape(2, 3)
    options = {"num_scan_inputs": 1, "scan_input_axes": (-1,), "scan_input_directions": (1,)}
    state, y = Scan(np.zeros(2), x, body=cumulate, scan_output_axes=(1,), scan_output_directions=(1,), **options)
    assert state.tolist() == [3, 12]
    assert np.array_equal(y, np.cumsum(x[:, ::-1], 1)[:, ::-1])
    _, forward = Scan(np.zeros(2), x, body=cumulate, scan_output_axes=(-1,), **options)
    assert np.array_equal(forward, np.cumsum(x[:, ::-1], 1))


def test_scan_over_nothing():
    state, y = Scan(np.zeros(2), np.zeros((2, 0)), body=cumulate, num_scan_inputs=1, scan_input_axes=(1,))
    assert state.tolist() == [0, 0]
    assert y.shape == (0, 2)
