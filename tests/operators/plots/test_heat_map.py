"""Heat maps of errors."""

from __future__ import annotations

import numpy as np
import pytest

from deep_bench.errors import InvalidArgument
from deep_bench.operators.checks import ErrorMap
from deep_bench.operators.plots import plot_heat_map
from deep_bench.records.pictures import shrunk


@pytest.mark.parametrize("shape", [(), (1,), (700,), (3, 4), (2, 3, 4, 5), (1000, 900), (1, 1)])
def test_every_shape_is_drawn(tmp_path, shape) -> None:
    ratio = np.abs(np.random.default_rng(0).standard_normal(shape))
    file = plot_heat_map([ErrorMap("Mine, Gemm, output Y", np.asarray(ratio))], tmp_path / "errors.png")
    assert file.stat().st_size > 5_000


def test_wild_values_are_drawn(tmp_path) -> None:
    ratio = np.array([[0.0, 1e300], [np.inf, 3.0]])
    assert plot_heat_map([ErrorMap("a", ratio), ErrorMap("b", np.zeros((4, 4)))], tmp_path / "errors.svg").exists()


def test_no_error_is_lost_in_a_small_picture() -> None:
    array = np.zeros((1001, 777))
    array[503, 301] = 7
    small = shrunk(array, 200)
    assert small.shape == (200, 200)
    assert (small.max(), int(np.sum(small > 0))) == (7, 1)


def test_nothing_to_show_is_refused(tmp_path) -> None:
    with pytest.raises(InvalidArgument, match="no errors to show"):
        plot_heat_map([ErrorMap("empty", np.zeros((0, 3)))], tmp_path / "errors.png")
    with pytest.raises(InvalidArgument, match="cannot be written"):
        plot_heat_map([ErrorMap("a", np.ones(3))], tmp_path / "missing" / "errors.png")
    with pytest.raises(InvalidArgument, match="cannot be written"):
        plot_heat_map([ErrorMap("a", np.ones(3))], tmp_path / "errors.xyz")
