"""Arrays to tensors and back."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

torch = pytest.importorskip("torch")

from deep_bench.adapters.torch.arrays import TYPES, to_array, to_native, to_numpy, to_tensor  # noqa: E402 (after the skip)


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("shape", [(), (0, 2), (2, 3)], ids=str)
def test_round_trip(dtype: np.dtype, shape: tuple[int, ...]) -> None:
    array = (np.arange(np.prod(shape, dtype=int)) % 2).reshape(shape).astype(dtype)
    if dtype == np.dtype(ml_dtypes.float8_e8m0fnu):
        array = np.ones(shape, dtype)  # it has no zero
    back = to_array(to_tensor(array))
    assert back.dtype == dtype
    assert back.shape == shape
    assert (back == array).all()


def test_signs_of_small_integers() -> None:
    array = np.array([-8, -1, 7], np.int8).astype(ml_dtypes.int4)
    tensor = to_tensor(array)
    assert tensor.view(torch.int8).tolist() == [-8, -1, 7]
    assert to_array(tensor).astype(np.int8).tolist() == [-8, -1, 7]


def test_nothing_is_shared() -> None:
    array = np.zeros((2, 3), np.float32)
    tensor = to_tensor(array)
    back = to_array(tensor)
    tensor += 1
    assert not array.any()
    assert not back.any()


def test_awkward_layouts() -> None:
    wide = np.arange(12.0).reshape(3, 4)
    wide.flags.writeable = False
    for view in (wide.T, wide[::-1, ::2], wide.astype(">f8").astype("f8")):
        assert (to_tensor(view).numpy() == view).all()


def test_sequences_and_nothing() -> None:
    array = np.ones(2, np.float32)
    (tensor, none) = to_native([array, None], "cpu")
    assert torch.is_tensor(tensor)
    assert none is None
    assert (to_numpy([tensor])[0] == array).all()
    words = np.array(["a"], object)
    assert to_native(words, "cpu") is words
