"""Faults planted in real networks are found; the same system without them is right."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from _pytest.mark.structures import ParameterSet

from tests.real.conftest import network_file
from tests.real.table import REAL

from .entry import Entry
from .measure import measure
from .real import faultless, planted

pytestmark = pytest.mark.real


def needs(entry: Entry) -> None:
    """Skip, or fail in CI, where the network cannot be fetched."""
    network_file(next(r for r in REAL if r.name == entry.problem))


def thinned(entries: Iterable[Entry]) -> list[ParameterSet]:
    """All entries, of which every fourth runs in ``make test``."""
    return [
        pytest.param(entry, id=entry.name, marks=() if number % 4 == 0 else pytest.mark.full)
        for number, entry in enumerate(entries)
    ]


@pytest.mark.long
@pytest.mark.parametrize("entry", thinned(planted()))
def test_planted_fault_is_found_in_its_node(entry: Entry) -> None:
    needs(entry)
    (judged,) = measure([entry], fault=True)
    assert judged.judged_rightly, judged.verdict.reason
    assert entry.subject().node in [n.name for n in judged.verdict.worst_nodes]


@pytest.mark.long
@pytest.mark.parametrize("entry", list(faultless()), ids=lambda e: e.name)
def test_without_a_fault_it_is_right(entry: Entry) -> None:
    needs(entry)
    (judged,) = measure([entry], fault=False)
    assert judged.judged_rightly, judged.verdict.reason
