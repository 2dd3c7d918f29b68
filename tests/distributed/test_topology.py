"""Graphs of ranks and their weights."""

from __future__ import annotations

from math import cos, pi

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deep_bench.distributed.schemes.neighbours import TOPOLOGIES, Topology, complete, exponential, ring, topology, torus
from deep_bench.errors import InvalidArgument, UnknownName


@given(st.sampled_from(sorted(TOPOLOGIES)), st.integers(1, 40))
def test_weights_keep_the_mean_and_pull_together(name: str, size: int) -> None:
    graph = topology(name, size)
    w = graph.weights()
    assert graph.size == size
    np.testing.assert_allclose(w.sum(axis=0), 1)
    np.testing.assert_allclose(w.sum(axis=1), 1)
    assert np.all(w >= 0)
    assert np.all(np.diag(w) > 0)
    assert [[other for other in range(size) if w[rank, other] and other != rank] for rank in range(size)] == [
        list(graph.sources(rank)) for rank in range(size)
    ]
    assert 0 < graph.spectral_gap <= 1 + 1e-12


def test_neighbours() -> None:
    assert [ring(size).to for size in (1, 2, 3)] == [((),), ((1,), (0,)), ((1, 2), (0, 2), (0, 1))]
    assert torus(6).to[0] == (1, 2, 3)
    assert torus(9).to[4] == (1, 3, 5, 7)
    assert torus(7) == ring(7)
    assert exponential(8).to[3] == (4, 5, 7)
    assert exponential(8).sources(3) == (1, 2, 7)
    assert complete(4).to[2] == (0, 1, 3)
    assert [TOPOLOGIES[name](8).symmetric for name in sorted(TOPOLOGIES)] == [True, False, True, True]


@pytest.mark.parametrize("size", [3, 4, 5, 16])
def test_spectral_gaps_are_those_of_the_books(size: int) -> None:
    """The eigenvalues of a ring's matrix are (1 + 2 cos(2 pi k / n)) / 3."""
    largest = max(abs(1 + 2 * cos(2 * pi * k / size)) / 3 for k in range(1, size))
    np.testing.assert_allclose(ring(size).spectral_gap, 1 - largest)
    np.testing.assert_allclose(complete(size).spectral_gap, 1)


def test_exponential_graphs_pull_together_faster_than_rings() -> None:
    """The gap of a ring falls with the square of the size, that of an exponential graph with its logarithm."""
    assert ring(64).spectral_gap < 0.01
    np.testing.assert_allclose(exponential(64).spectral_gap, 2 / (1 + 6))


def test_any_symmetric_graph_has_weights() -> None:
    star = Topology(((1, 2, 3), (0,), (0,), (0,)))
    np.testing.assert_allclose(star.weights()[1], [1 / 4, 3 / 4, 0, 0])
    np.testing.assert_allclose(star.weights().sum(axis=0), 1)


def test_what_is_no_topology_is_refused() -> None:
    for to in [((0,),), ((1, 1), (0,)), ((2,), (0,))]:
        with pytest.raises(InvalidArgument, match="sends to"):
            Topology(to)
    with pytest.raises(InvalidArgument, match="more ranks than they send to"):
        Topology(((1, 2), (2,), (0,))).weights()
    for make in TOPOLOGIES.values():
        with pytest.raises(InvalidArgument, match="0 ranks"):
            make(0)
    with pytest.raises(UnknownName, match="did you mean 'ring'"):
        topology("rnig", 3)
