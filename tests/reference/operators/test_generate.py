"""Constants, ranges, windows, and random numbers by their distribution."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import onnx
import pytest

from deep_bench.errors import InvalidInput, Unsupported
from deep_bench.reference.operators.generate import (
    Bernoulli,
    BlackmanWindow,
    Constant,
    ConstantOfShape,
    EyeLike,
    HammingWindow,
    HannWindow,
    Multinomial,
    RandomNormal,
    RandomNormalLike,
    RandomUniform,
    RandomUniformLike,
    Range,
)

DOUBLE, FLOAT16, BFLOAT16 = onnx.TensorProto.DOUBLE, onnx.TensorProto.FLOAT16, onnx.TensorProto.BFLOAT16


@pytest.mark.parametrize(
    ("value", "dtype", "shape"),
    [
        ({"value": np.ones((2, 0), np.int8)}, np.int8, (2, 0)),
        ({"value_float": 1.5}, np.float32, ()),
        ({"value_floats": (1.5, 2.0)}, np.float32, (2,)),
        ({"value_int": 2**40}, np.int64, ()),
        ({"value_ints": ()}, np.int64, (0,)),
        ({"value_string": "é"}, object, ()),
        ({"value_strings": ("a", "bc")}, object, (2,)),
    ],
)
def test_constant(value, dtype, shape):
    y = Constant(**value)
    assert (y.dtype, y.shape) == (dtype, shape)


def test_constant_refuses_other_values():
    with pytest.raises(InvalidInput, match="no value"):
        Constant()
    with pytest.raises(Unsupported, match="sparse_value"):
        Constant(sparse_value=object())


def test_constant_of_shape():
    assert ConstantOfShape(np.array([], np.int64)).shape == ()
    assert ConstantOfShape(np.array([2, 0])).dtype == np.float32
    y = ConstantOfShape(np.array([2]), value=np.array([3], ml_dtypes.bfloat16))
    assert (y.dtype, y.tolist()) == (ml_dtypes.bfloat16, [3, 3])
    assert ConstantOfShape(np.array([1]), value=np.array(["a"], object)).tolist() == ["a"]


@pytest.mark.parametrize(
    ("start", "limit", "delta", "expected"),
    [(0, 0, 1, []), (5, 0, 1, []), (10, 4, -2, [10, 8, 6]), (10, 3, -2, [10, 8, 6, 4]), (0, 5, 2, [0, 2, 4])],
)
@pytest.mark.parametrize("dtype", [np.int16, np.int64, np.float32, np.float64, np.float16, ml_dtypes.bfloat16])
def test_range(start, limit, delta, expected, dtype):
    y = Range(*(np.array(v).astype(dtype) for v in (start, limit, delta)))
    assert y.dtype == dtype
    assert y.tolist() == expected


def test_range_of_large_integers_is_exact():
    assert len(Range(np.array(0), np.array(2**24 + 1), np.array(2**12 + 1))) == -(-(2**24 + 1) // (2**12 + 1))
    assert Range(np.array(2**62), np.array(2**62 + 3), np.array(1)).tolist() == [2**62, 2**62 + 1, 2**62 + 2]


def test_range_has_as_many_elements_in_any_precision():
    single = [np.float32(v) for v in (2.5, 0.3, -0.1)]
    assert len(Range(*single)) == len(Range(*(v.astype(np.float64) for v in single))) == 22


def test_range_in_bfloat16_does_not_stand_still():
    y = Range(*(np.array(v).astype(ml_dtypes.bfloat16) for v in (0, 512, 1)))
    assert y[-1] == 512
    assert y[300] == 300


def test_eye_like_off_the_diagonal():
    y = EyeLike(np.zeros((2, 3), np.float16), k=-1)
    assert (y.dtype, y.tolist()) == (np.float16, [[0, 0, 0], [1, 0, 0]])
    assert EyeLike(np.zeros((2, 3)), k=5, dtype=BFLOAT16).dtype == ml_dtypes.bfloat16


def test_random_numbers_follow_their_distribution():
    shape = (200, 100)
    normal = RandomNormal(shape=shape, mean=3.0, scale=2.0, seed=1.0, dtype=DOUBLE)
    assert normal.dtype == np.float64
    assert abs(normal.mean() - 3) < 0.1
    assert abs(normal.std() - 2) < 0.1
    uniform = RandomUniformLike(np.zeros(shape, np.float32), low=-1.0, high=3.0, seed=1.0)
    assert uniform.dtype == np.float32
    assert -1 <= uniform.min() < -0.9
    assert 2.9 < uniform.max() <= 3
    draws = Bernoulli(np.full(shape, 0.25), seed=1.0, dtype=onnx.TensorProto.BOOL)
    assert draws.dtype == np.bool_
    assert abs(draws.mean() - 0.25) < 0.02


def test_multinomial_draws_by_unnormalised_log_probability():
    logits = np.log(np.array([[1.0, 2.0, 5.0], [1.0, 0.0, 0.0]]) + 1e-30) + 7
    y = Multinomial(logits, sample_size=20_000, seed=3.0)
    assert y.dtype == np.int32
    assert np.allclose(np.bincount(y[0]) / 20_000, [0.125, 0.25, 0.625], atol=0.02)
    assert not y[1].any()


def test_seeds_repeat():
    draw = [RandomNormal(shape=(4,), seed=s).tolist() for s in (1.0, 1.0, 1.5)]
    assert draw[0] == draw[1] != draw[2]
    assert RandomUniform(shape=(4,)).tolist() != RandomUniform(shape=(4,)).tolist()
    assert RandomNormalLike(np.zeros(2), dtype=FLOAT16).dtype == np.float16


@pytest.mark.parametrize("window", [HannWindow, HammingWindow, BlackmanWindow])
def test_windows(window):
    symmetric = window(np.array(9), periodic=0, output_datatype=DOUBLE)
    assert np.allclose(symmetric, symmetric[::-1])
    assert symmetric[4] == pytest.approx(1)
    assert np.array_equal(window(np.array(8), output_datatype=DOUBLE), symmetric[:-1])
    assert window(np.array(0)).shape == (0,)
    assert window(np.array(1), periodic=0).shape == (1,)
