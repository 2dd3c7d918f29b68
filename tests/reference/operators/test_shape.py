"""What the standard's own cases leave out of the operators on shapes."""

from __future__ import annotations

import numpy as np
import pytest

from deep_bench.errors import InvalidInput, Unsupported
from deep_bench.reference.operators.shape import (
    CenterCropPad,
    Concat,
    DepthToSpace,
    Expand,
    Flatten,
    Pad,
    Reshape,
    Shape,
    Size,
    Slice,
    SpaceToDepth,
    Split,
    Squeeze,
    Tile,
    Transpose,
    Unsqueeze,
)

X = np.arange(24, dtype=np.float64).reshape(2, 3, 4)


def ints(*values):
    return np.array(values, dtype=np.int64)


def test_reshape_of_an_empty_tensor():
    x = np.zeros((0, 3), np.float16)
    assert Reshape(x, ints(-1, 3)).shape == (0, 3)
    assert Reshape(x, ints(3, 0), allowzero=1).shape == (3, 0)
    assert Reshape(x, ints(0, 0)).shape == (0, 3)


def test_reshape_refuses_what_has_no_answer():
    with pytest.raises(InvalidInput, match="-1 stands for one number only"):
        Reshape(np.zeros((0, 3)), ints(0, -1))


def test_reshape_of_a_transposed_view_is_in_row_major_order():
    assert Reshape(X.transpose(2, 0, 1), ints(-1)).tolist() == X.transpose(2, 0, 1).copy().ravel().tolist()


def test_squeeze_and_unsqueeze_count_axes_from_the_back():
    assert Unsqueeze(X, ints(-1, 0)).shape == (1, 2, 3, 4, 1)
    assert Squeeze(Unsqueeze(X, ints(-1, 0)), ints(-1)).shape == (1, 2, 3, 4)
    assert Squeeze(np.ones((1, 0, 1))).shape == (0,)
    with pytest.raises(ValueError, match="not equal to one"):
        Squeeze(X, ints(0))


@pytest.mark.parametrize(("axis", "expected"), [(0, (1, 24)), (3, (24, 1)), (-1, (6, 4)), (-3, (1, 24))])
def test_flatten(axis, expected):
    assert Flatten(X, axis=axis).shape == expected


def test_flatten_a_scalar():
    assert Flatten(np.float32(3), axis=0).shape == (1, 1)


@pytest.mark.parametrize(
    ("size", "parts", "expected"), [(7, 3, [3, 3, 1]), (5, 4, [2, 2, 1, 0]), (0, 2, [0, 0]), (4, 4, [1, 1, 1, 1])]
)
def test_split_into_equal_parts(size, parts, expected):
    x = np.zeros((2, size))
    assert [y.shape[1] for y in Split(x, axis=-1, num_outputs=parts)] == expected
    assert [y.shape[1] for y in Split(x, axis=1, n_outputs=parts)] == expected


def test_split_into_sizes_that_do_not_fit():
    assert [y.shape for y in Split(X, ints(0, 3), axis=1)] == [(2, 0, 4), (2, 3, 4)]
    with pytest.raises(InvalidInput, match="sum to 3"):
        Split(X, ints(1, 1), axis=1)


@pytest.mark.parametrize(
    ("start", "end", "step", "expected"),
    [
        (0, 2**63 - 1, 1, [0, 1, 2, 3, 4]),
        (-1, -(2**63), -1, [4, 3, 2, 1, 0]),
        (-100, -200, -1, [0]),
        (100, 0, -2, [4, 2]),
        (3, 1, 1, []),
        (-2, 100, 1, [3, 4]),
        (-100, 2, 1, [0, 1]),
    ],
)
def test_slice_moves_limits_to_the_ends(start, end, step, expected):
    x = np.arange(5)
    assert Slice(x, ints(start), ints(end), ints(-1), ints(step)).tolist() == expected


def test_slice_of_an_empty_axis():
    assert Slice(np.zeros((2, 0)), ints(0), ints(-(2**63)), ints(1), ints(-1)).shape == (2, 0)


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("reflect", [1, 2, 1, 0, 1, 2, 1, 0, 1]),
        ("edge", [0, 0, 0, 0, 1, 2, 2, 2, 2]),
        ("wrap", [0, 1, 2, 0, 1, 2, 0, 1, 2]),
        ("constant", [7, 7, 7, 0, 1, 2, 7, 7, 7]),
    ],
)
def test_pad_by_more_than_the_tensor_has(mode, expected):
    y = Pad(np.arange(3, dtype=np.float32), ints(3, 3), np.float32(7), mode=mode)
    assert y.dtype == np.float32
    assert y.tolist() == expected


def test_pad_removes_first_and_then_repeats_what_is_left():
    assert Pad(np.arange(5), ints(-2, 2), mode="wrap").tolist() == [2, 3, 4, 2, 3]
    assert Pad(np.arange(5), ints(-2, 2), mode="reflect").tolist() == [2, 3, 4, 3, 2]
    assert Pad(np.arange(5), ints(-3, -4)).tolist() == []


def test_pad_by_default_with_the_zero_of_the_type():
    assert Pad(np.array(["a"], object), ints(1, 0)).tolist() == ["", "a"]
    assert Pad(np.array([True]), ints(1, 0)).tolist() == [False, True]
    assert Pad(np.ones((2, 0)), ints(1, 1), axes=ints(-1)).tolist() == [[0, 0], [0, 0]]


def test_pad_refuses_an_unknown_mode():
    with pytest.raises(Unsupported, match="mode='symmetric'"):
        Pad(X, ints(0, 0, 0, 0, 0, 0), mode="symmetric")


def test_expand_is_a_copy_of_its_own():
    y = Expand(np.ones((3, 1)), ints(2, 1, 4))
    assert y.shape == (2, 3, 4)
    assert y.flags.writeable
    assert Expand(np.ones((3, 4)), ints(1)).shape == (3, 4)
    assert Expand(np.ones((1, 4)), ints(0, 1)).shape == (0, 4)


def test_tile_zero_times():
    assert Tile(X, ints(1, 0, 2)).shape == (2, 0, 8)


def test_shape_limits_beyond_the_rank():
    assert Shape(X, start=-100, end=100).tolist() == [2, 3, 4]
    assert Shape(X, start=2, end=1).tolist() == []
    assert Shape(np.float32(0)).dtype == np.int64
    assert Size(np.zeros((3, 0))) == 0


@pytest.mark.parametrize("mode", ["DCR", "CRD"])
def test_space_to_depth_is_the_inverse(mode):
    x = np.arange(2 * 12 * 2 * 3).reshape(2, 12, 2, 3)
    y = DepthToSpace(x, blocksize=2, mode=mode)
    assert y.shape == (2, 3, 4, 6)
    assert np.array_equal(SpaceToDepth(y, blocksize=2, mode=mode), x)


def test_center_crop_pad_of_odd_differences():
    assert CenterCropPad(np.arange(1, 6), ints(2)).tolist() == [2, 3]
    assert CenterCropPad(np.arange(1, 3), ints(5)).tolist() == [0, 1, 2, 0, 0]


def test_concat_and_transpose_keep_narrow_types():
    x = np.ones((1, 2), np.float16)
    assert Concat(x, x, axis=-2).dtype == np.float16
    assert Transpose(x).shape == (2, 1)
