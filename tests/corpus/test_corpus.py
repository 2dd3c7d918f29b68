"""A sample of the corpus; ``python -m tests.corpus`` measures all of it."""

from __future__ import annotations

import pytest

from .faults import faults
from .measure import measure
from .variants import Entry, variants

_EVERY = 6
_OWN = [v for v in variants() if not v.native]


@pytest.mark.parametrize("entry", list(faults())[::_EVERY], ids=lambda e: e.name)
def test_fault_is_found(entry: Entry) -> None:
    (judged,) = measure([entry], fault=True)
    assert judged.judged_rightly, (judged.verdict.word, judged.verdict.reason)


@pytest.mark.parametrize("entry", _OWN[1::_EVERY], ids=lambda e: e.name)
def test_correct_variant_is_right(entry: Entry) -> None:
    (judged,) = measure([entry], fault=False)
    assert judged.judged_rightly, (judged.verdict.word, judged.verdict.reason)


@pytest.mark.full
@pytest.mark.parametrize("entry", [*faults()], ids=lambda e: e.name)
def test_every_fault_is_found(entry: Entry) -> None:
    (judged,) = measure([entry], fault=True)
    assert judged.judged_rightly, (judged.verdict.word, judged.verdict.reason)


@pytest.mark.full
@pytest.mark.parametrize("entry", _OWN, ids=lambda e: e.name)
def test_every_correct_variant_is_right(entry: Entry) -> None:
    (judged,) = measure([entry], fault=False)
    assert judged.judged_rightly, (judged.verdict.word, judged.verdict.reason)


def test_corpus_is_large_enough() -> None:
    assert len(list(faults())) >= 40
    assert len(_OWN) >= 40
    names = [e.name for e in (*faults(), *variants())]
    assert len(set(names)) == len(names)
