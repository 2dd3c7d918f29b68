"""Selecting, joining, replacing and scaling features, against ONNX Runtime and at the edges."""

from __future__ import annotations

import numpy as np
import pytest

from deep_bench.errors import InvalidInput, Unsupported
from deep_bench.reference.operators.ml.features import (
    ArrayFeatureExtractor,
    Binarizer,
    FeatureVectorizer,
    Imputer,
    Normalizer,
    Scaler,
)

RNG = np.random.default_rng(3)
NUMBERS = [np.float32, np.float64, np.int64, np.int32]


def random(*shape, dtype=np.float32):
    return (5 * RNG.standard_normal(shape)).astype(dtype)


@pytest.mark.parametrize("dtype", [*NUMBERS, object])
@pytest.mark.parametrize("shape", [(4,), (3, 4), (2, 3, 4), (0, 4)])
def test_features_are_extracted(judge, dtype, shape) -> None:
    x = random(*shape).astype(str).astype(object) if dtype is object else random(*shape, dtype=dtype)
    judge("ArrayFeatureExtractor", [x, np.array([[3, 0, 0]])])


@pytest.mark.parametrize("index", [-1, 4])
def test_features_that_are_not_there(index) -> None:
    with pytest.raises(InvalidInput, match=f"index {index} into 4 features"):
        ArrayFeatureExtractor(random(3, 4), np.array([0, index]))


@pytest.mark.parametrize("threshold", [0.0, 1.5])
def test_binarizer(judge, threshold) -> None:
    x = np.array([[0.0, 1.5, -0.0], [2.0, np.inf, -np.inf]], np.float32)
    judge("Binarizer", [x], threshold=threshold)


def test_binarizer_of_other_types_and_of_nothing_known() -> None:
    assert Binarizer(np.array([np.nan, 1.0])).tolist() == [0, 1]
    assert Binarizer(np.array([1, 3], np.int32), threshold=2.5).dtype == np.int32


@pytest.mark.parametrize("dtype", NUMBERS)
@pytest.mark.parametrize("widths", [[3, 2], [2, 4]])
def test_features_are_joined(judge, dtype, widths) -> None:
    judge("FeatureVectorizer", [random(4, 3, dtype=dtype), random(4, 2, dtype=dtype)], inputdimensions=widths)
    judge("FeatureVectorizer", [random(3, dtype=dtype), random(2, dtype=dtype)], inputdimensions=widths)


def test_features_are_joined_as_they_are_by_default() -> None:
    assert FeatureVectorizer(np.ones((2, 1)), np.zeros((2, 2))).tolist() == [[1, 0, 0], [1, 0, 0]]
    with pytest.raises(InvalidInput, match="1 inputdimensions for 2 inputs"):
        FeatureVectorizer(np.ones((2, 1)), np.zeros((2, 2)), inputdimensions=(1,))


@pytest.mark.parametrize("replaced", [np.nan, 0.0, np.inf])
@pytest.mark.parametrize("values", [[7.0], [1.0, 2.0, 3.0]])
def test_imputer(judge, replaced, values) -> None:
    x = np.array([[np.nan, 0, -0.0], [1, np.inf, np.nan]], np.float32)
    for rows in (x, x[0], x[:0]):
        judge("Imputer", [rows], imputed_value_floats=values, replaced_value_float=replaced)
    if replaced == 0:
        judge("Imputer", [np.array([[0, 1, 0]])], imputed_value_int64s=[int(v) for v in values], replaced_value_int64=0)


def test_imputer_of_the_other_types() -> None:
    assert Imputer(np.array([0, 4], np.int32), imputed_value_int64s=(5,)).dtype == np.int32
    assert Imputer(np.array([0.0, 4.0]), imputed_value_floats=(5.0,)).tolist() == [5, 4]
    with pytest.raises(InvalidInput, match="2 imputed values"):
        Imputer(random(2, 3), imputed_value_floats=(1.0, 2.0))
    with pytest.raises(InvalidInput, match="0 imputed values"):
        Imputer(random(2, 3), imputed_value_int64s=(1,))


@pytest.mark.parametrize("dtype", NUMBERS)
@pytest.mark.parametrize("norm", ["MAX", "L1", "L2"])
def test_normalizer(judge, norm, dtype) -> None:
    x = random(5, 4, dtype=dtype)
    x[1] = 0
    x[2] = [-3, -1, -2, -1]
    for rows in (x, x[0], x[:0], x[:, :0]):
        judge("Normalizer", [rows], norm=norm)


def test_normalizer_divides_by_magnitudes_that_are_far_apart() -> None:
    assert Normalizer(np.array([[100_000, -7]], np.int32), norm="L2") == pytest.approx(np.array([[1, -7e-5]]))
    assert Normalizer(np.array([[1e100, -1e100]]), norm="L1").tolist() == [[0.5, -0.5]]
    with pytest.raises(Unsupported, match="L3"):
        Normalizer(random(2, 2), norm="L3")


@pytest.mark.parametrize("dtype", NUMBERS)
@pytest.mark.parametrize("size", [1, 3])
def test_scaler(judge, dtype, size) -> None:
    offset, scale = random(size).tolist(), random(size).tolist()
    for x in (random(4, 3, dtype=dtype), random(3, dtype=dtype), random(0, 3, dtype=dtype)):
        judge("Scaler", [x], offset=offset, scale=scale, atol=1e-5)


def test_scaler_with_one_of_the_two() -> None:
    assert Scaler(np.array([[1, 2]]), scale=(2.0,)).tolist() == [[2, 4]]
    assert Scaler(np.array([[1, 2]]), offset=(1.0, 2.0)).tolist() == [[0, 0]]
    with pytest.raises(InvalidInput, match="3 elements of scale"):
        Scaler(random(2, 2), scale=(1.0, 2.0, 3.0))
