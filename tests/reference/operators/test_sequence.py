"""Sequences and optional values at their edges."""

from __future__ import annotations

import numpy as np
import pytest

from deep_bench.errors import InvalidInput
from deep_bench.reference.operators.sequence import (
    ConcatFromSequence,
    Optional,
    OptionalGetElement,
    OptionalHasElement,
    SequenceAt,
    SequenceConstruct,
    SequenceEmpty,
    SequenceErase,
    SequenceInsert,
    SequenceLength,
    SequenceMap,
    SplitToSequence,
)

A, B, C = (np.full(2, float(i)) for i in range(3))


def test_positions_count_from_both_ends():
    sequence = SequenceConstruct(A, B, C)
    assert SequenceAt(sequence, np.array(-3)) is A
    assert SequenceErase(sequence, np.array([-2])) == [A, C]
    assert SequenceErase(sequence) == [A, B]
    assert SequenceInsert([A, B], C, np.array(-1)) == [A, C, B]
    assert SequenceInsert([A, B], C, np.array(2)) == [A, B, C]
    assert SequenceInsert(SequenceEmpty(), C) == [C]
    assert SequenceLength(sequence) == 3
    assert len(sequence) == 3


@pytest.mark.parametrize("position", [3, -4])
def test_positions_outside_are_refused(position):
    with pytest.raises(InvalidInput, match="a sequence of 3"):
        SequenceAt([A, B, C], np.array(position))
    with pytest.raises(InvalidInput, match="a sequence of 3"):
        SequenceErase([A, B, C], np.array(position))


def test_map_passes_tensors_every_time():
    sums, products = SequenceMap([A, B], [B, C], C, body=lambda x, y, z: (x + y + z, x * y * z), n_outputs=2)
    assert [s.tolist() for s in sums] == [[3, 3], [5, 5]]
    assert [p.tolist() for p in products] == [[0, 0], [4, 4]]
    assert SequenceMap([], body=lambda x: (x, x), n_outputs=2) == ([], [])


def test_split_and_concat():
    x = np.arange(10.0).reshape(2, 5)
    assert [p.shape for p in SplitToSequence(x, np.array(2), axis=-1)] == [(2, 2), (2, 2), (2, 1)]
    assert [p.shape for p in SplitToSequence(x, np.array([0, 5]), axis=1, keepdims=0)] == [(2, 0), (2, 5)]
    assert [p.shape for p in SplitToSequence(x, keepdims=0)] == [(5,), (5,)]
    assert np.array_equal(ConcatFromSequence(SplitToSequence(x, axis=1, keepdims=0), axis=-1, new_axis=1), x)
    assert SplitToSequence(np.zeros((0, 2))) == []
    with pytest.raises(InvalidInput, match="sum to 2"):
        SplitToSequence(x, np.array([1]))


def test_optional():
    assert Optional(A) is A
    assert Optional() is None
    assert OptionalHasElement(A)
    assert OptionalHasElement([])
    assert not OptionalHasElement(None)
    assert OptionalHasElement().dtype == np.bool_
    with pytest.raises(InvalidInput, match="empty optional"):
        OptionalGetElement(None)
