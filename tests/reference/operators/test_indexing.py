"""What the standard's own cases leave out of the operators that index."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from deep_bench.errors import Unsupported
from deep_bench.reference.operators.indexing import (
    Compress,
    Gather,
    GatherElements,
    GatherND,
    NonZero,
    OneHot,
    ReverseSequence,
    ScatterElements,
    ScatterND,
    TensorScatter,
    Trilu,
    Unique,
)

X = np.arange(12, dtype=np.float64).reshape(3, 4)


@pytest.mark.parametrize("axis", [0, -1])
def test_gather_of_one_string_is_an_array_of_it(axis: int) -> None:
    words = np.array(["a", "long"], object)
    for found in (Gather(words, np.array(-1), axis=axis), GatherND(words, np.array([1]))):
        assert (found.dtype, found.shape, found.item()) == (np.dtype(object), (), "long")


def test_gather_with_an_index_outside():
    assert Gather(X, np.array([[-3], [2]]), axis=0)[:, 0, 0].tolist() == [0, 8]
    with pytest.raises(IndexError):
        Gather(X, np.array(4), axis=1)


def test_gather_nothing_from_nothing():
    assert Gather(np.zeros((0, 3)), np.zeros((0, 2), np.int64), axis=0).shape == (0, 2, 3)


def test_gather_elements_of_a_part_of_the_tensor():
    indices = np.array([[3, -1]])
    assert GatherElements(X, indices, axis=1).tolist() == [[3, 3]]
    assert GatherElements(X.T, indices.T, axis=0).tolist() == [[3], [3]]


def test_gather_nd_of_single_elements_gives_an_array():
    y = GatherND(X, np.array([2, -1]))
    assert isinstance(y, np.ndarray)
    assert y == 11


def test_gather_nd_in_batches():
    x = np.arange(24).reshape(2, 3, 4)
    indices = np.array([[[0], [2]], [[1], [1]]])
    expected = [[x[b, i[0]].tolist() for i in indices[b]] for b in range(2)]
    assert GatherND(x, indices, batch_dims=1).tolist() == expected


@pytest.mark.parametrize(("reduction", "expected"), [("add", 8), ("mul", 12), ("max", 3), ("min", 1)])
@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16, np.int8, np.uint64])
def test_scatter_combines_all_updates_of_an_element(reduction, expected, dtype):
    x = np.array([2, 9]).astype(dtype)
    updates = np.array([1, 2, 3]).astype(dtype)
    by_element = ScatterElements(x, np.array([0, 0, -2]), updates, reduction=reduction)
    by_index = ScatterND(x, np.array([[0], [0], [-2]]), updates, reduction=reduction)
    assert by_element.dtype == dtype
    assert by_element.tolist() == by_index.tolist() == [expected, 9]
    assert x.tolist() == [2, 9]


def test_scatter_whole_slices_and_nothing():
    y = ScatterND(X, np.array([[1]]), np.full((1, 4), -1.0))
    assert y[1].tolist() == [-1] * 4
    assert np.array_equal(ScatterElements(X, np.zeros((0, 4), int), np.zeros((0, 4))), X)


def test_scatter_refuses_an_unknown_reduction():
    with pytest.raises(Unsupported, match="reduction='mean'"):
        ScatterND(X, np.array([[1]]), np.zeros((1, 4)), reduction="mean")


def test_non_zero_of_a_scalar():
    assert NonZero(np.float32(3)).shape == (0, 1)
    assert NonZero(np.float32(0)).shape == (0, 0)
    assert NonZero(np.array([0.0, np.nan, -0.0])).tolist() == [[1]]


def test_one_hot_of_classes_outside():
    y = OneHot(np.array([-3, -1, 0, 2, 3, -4]), np.array([3]), np.array([5, 7], np.int8), axis=0)
    assert y.dtype == np.int8
    assert ((y == 7).argmax(0) * (y == 7).any(0)).tolist() == [0, 2, 0, 2, 0, 0]
    assert (y == 7).sum(0).tolist() == [1, 1, 1, 1, 0, 0]


def test_one_hot_of_strings():
    assert OneHot(np.array(1), np.array(2), np.array(["no", "yes"], object)).tolist() == ["no", "yes"]


def test_compress_with_a_short_condition():
    assert Compress(X, np.array([False, True]), axis=-1).tolist() == [[1], [5], [9]]
    assert Compress(X, np.array([False, True])).tolist() == [1]


def test_unique_in_order_of_appearance():
    y, first, inverse, counts = Unique(np.array(["b", "a", "b"], object), sorted=0)
    assert y.tolist() == ["b", "a"]
    assert (first.tolist(), inverse.tolist(), counts.tolist()) == ([0, 1], [0, 1, 0], [2, 1])


@pytest.mark.parametrize("dtype", [object, np.float16, ml_dtypes.bfloat16, bool])
def test_unique_slices_of_any_type(dtype):
    x = np.array([[1, 0], [0, 1], [1, 0]]).astype(dtype)
    y, first, inverse, counts = Unique(x, axis=-2)
    assert y.dtype == dtype
    assert y.tolist() == x[[1, 0]].tolist()
    assert (first.tolist(), inverse.tolist(), counts.tolist()) == ([1, 0], [1, 0, 1], [1, 2])


def test_trilu_beyond_the_matrix():
    x = np.ones((2, 3), bool)
    assert not Trilu(x, np.array(5)).any()
    assert Trilu(x, np.array(5), upper=0).all()
    assert Trilu(np.ones((0, 3, 3))).shape == (0, 3, 3)


def test_trilu_drops_what_is_not_a_number():
    assert Trilu(np.full((2, 2), np.nan))[1, 0] == 0


def test_reverse_sequence_of_length_zero():
    x = np.arange(6).reshape(3, 2)
    assert ReverseSequence(x, np.array([0, 3])).tolist() == [[0, 5], [2, 3], [4, 1]]
    assert ReverseSequence(x.T, np.array([0, 3]), time_axis=1, batch_axis=0).tolist() == [[0, 2, 4], [5, 3, 1]]


def test_tensor_scatter_around_the_end():
    past, update = np.zeros((2, 4, 1)), np.ones((2, 3, 1))
    y = TensorScatter(past, update, np.array([3, 0]), mode="circular")
    assert y[..., 0].tolist() == [[1, 1, 0, 1], [1, 1, 1, 0]]
    with pytest.raises(IndexError):
        TensorScatter(past, update, np.array([3, 0]))
