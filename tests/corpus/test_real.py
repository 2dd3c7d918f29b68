"""Faults planted in real networks are found; the same system without them is right."""

from __future__ import annotations

from functools import cache

import pytest

import deep_bench as db
from deep_bench.check import Truth, establish, judge
from tests.real.conftest import network_file
from tests.real.table import REAL, sizes

from .measure import ACCUSING
from .problems import Problem
from .real import PLANTED, Planted
from .subjects import Patched

pytestmark = pytest.mark.real


@cache
def posed(name: str) -> tuple[Problem, Truth]:
    real = next(r for r in REAL if r.name == name)
    inputs = real.inputs()
    network = db.load(network_file(real))
    problem = Problem(name, network.with_sizes(sizes(network, inputs)), inputs)
    return problem, establish(problem.network, problem.inputs)


@pytest.mark.parametrize("planted", PLANTED, ids=str)
def test_planted_fault_is_found(planted: Planted) -> None:
    problem, truth = posed(planted.network)
    subject = planted.subject(problem)
    verdict = judge(truth, subject)
    assert verdict.word in ACCUSING, verdict.reason
    assert subject.node in [n.name for n in verdict.worst_nodes]


@pytest.mark.parametrize("name", sorted({p.network for p in PLANTED}))
def test_without_a_fault_it_is_right(name: str) -> None:
    problem, truth = posed(name)
    verdict = judge(truth, Patched(problem, {}))
    assert verdict.word == "right", verdict.reason
