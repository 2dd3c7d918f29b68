"""The nodes of networks that people use, as cases: all of them are there, and run."""

from __future__ import annotations

from math import prod
from pathlib import Path

import numpy as np
import pytest

import deep_bench as db
from deep_bench.graph.node import is_standard, subgraphs

from .table import Real, sizes

pytestmark = pytest.mark.real

LARGEST = 1_000_000
"""Elements of an input up to which a case is run here."""


def test_every_node_is_a_case(real: Real, path: Path) -> None:
    network = db.load(path).upgraded()
    inputs = real.inputs()
    suite = db.operators.cases_of(network, inputs, sizes(network, inputs))
    nodes = [n for n in network.nodes if not subgraphs(n) and not (is_standard(n) and n.op_type == "Constant")]
    held = [note for note in suite.notes if "it holds a graph" not in note and "sequence" not in note]
    assert held == []
    assert sum(case.count for case in suite) >= len(nodes) - sum("sequence" in note for note in suite.notes)
    reference = db.frameworks["reference"]()
    for case in suite:
        if max((prod(a.shape) for a in case.arguments if a is not None), default=0) <= LARGEST:
            with np.errstate(all="ignore"):
                found = reference.prepare(case.network())(case.arrays())
            assert [(a.dtype, a.ndim) for a in found.values()] == [(r.dtype, r.rank) for r in case.results], case.name
