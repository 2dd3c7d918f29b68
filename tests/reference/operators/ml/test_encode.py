"""Categories and dictionaries, against ONNX Runtime and at the edges."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import numpy_helper

from deep_bench.errors import InvalidInput, Unsupported
from deep_bench.reference.operators.ml.features import (
    CastMap,
    CategoryMapper,
    DictVectorizer,
    LabelEncoder,
    OneHotEncoder,
    ZipMap,
)

WORDS = ["ape", "bear", "", "Ünal"]


def strings(*values):
    return np.array(values, dtype=object)


def test_category_mapper(judge) -> None:
    stated = {"cats_int64s": [3, -1, 7, 9], "cats_strings": WORDS}
    judge("CategoryMapper", [strings("bear", "no", "", "Ünal")], **stated, default_int64=-5)
    judge("CategoryMapper", [np.array([[7, 3], [0, -1]])], **stated, default_string="none")
    judge("CategoryMapper", [np.empty((0, 2), np.int64)], **stated)
    with pytest.raises(InvalidInput, match="1 integers and 0 strings"):
        CategoryMapper(np.array([1]), cats_int64s=(1,))


KEYS = {
    "strings": (strings("bear", "no", "", "Ünal"), {"keys_strings": WORDS}),
    "int64s": (np.array([[3, 0], [9, -1]]), {"keys_int64s": [3, -1, 7, 9]}),
    "floats": (np.array([0.5, np.nan, np.inf, -0.0], np.float32), {"keys_floats": [0.5, np.nan, 0.0, -np.inf]}),
}
VALUES = {
    "strings": ({"values_strings": ["b", "a", "", "a"]}, {"default_string": "none"}),
    "int64s": ({"values_int64s": [5, 2**40, -3, 5]}, {"default_int64": 77}),
    "floats": ({"values_floats": [0.1, np.nan, np.inf, 2.0]}, {"default_float": 0.3}),
}


@pytest.mark.parametrize("values", VALUES)
@pytest.mark.parametrize("keys", KEYS)
def test_label_encoder(judge, keys, values) -> None:
    x, stated = KEYS[keys]
    value, default = VALUES[values]
    # In version 2 ONNX Runtime finds no NaN, which that version says is found.
    for version in (4,) if keys == "floats" else (2, 4):
        judge("LabelEncoder", [x], version=version, **stated, **value)
        judge("LabelEncoder", [x], version=version, **stated, **value, **default)
        judge("LabelEncoder", [x[:0]], version=version, **stated, **value)


@pytest.mark.parametrize(("key", "value"), [("f8", "f8"), ("i8", "i8"), ("O", "i2"), ("i8", "O"), ("f4", "f4")])
def test_label_encoder_with_tensors(judge, key, value) -> None:
    def tensor(numbers, dtype):
        return np.array(numbers).astype(str).astype(object) if dtype == "O" else np.array(numbers, dtype)

    stated = {"keys_tensor": numpy_helper.from_array(tensor([3, 1, 8], key))}
    stated |= {"values_tensor": numpy_helper.from_array(tensor([7, 6, 5], value))}
    x = tensor([[1, 2], [3, 8]], key)
    stated["default_tensor"] = numpy_helper.from_array(tensor([4], value))
    judge("LabelEncoder", [x], version=4, **stated)


@pytest.mark.parametrize(("values", "default"), [(np.array([1.0, 2.0]), 0.0), (np.array([1, 2], "i4"), -1)])
def test_label_encoder_with_the_defaults_of_tensors(values, default) -> None:
    y = LabelEncoder(np.array([5, 6], np.int32), keys_tensor=np.array([6, 7], np.int32), values_tensor=values)
    assert (y.dtype, y.tolist()) == (values.dtype, [default, 1])


def test_label_encoder_takes_the_last_of_equal_keys() -> None:
    assert LabelEncoder(np.array([1]), keys_int64s=(1, 1), values_int64s=(2, 3)).tolist() == [3]


def test_label_encoder_of_version_1(judge) -> None:
    judge("LabelEncoder", [strings("bear", "no", "Ünal")], classes_strings=WORDS, default_int64=9)
    judge("LabelEncoder", [np.array([3, 0, 4, -1])], classes_strings=WORDS, default_string="none")


def test_what_a_label_encoder_needs() -> None:
    with pytest.raises(InvalidInput, match="2 keys and 1 values"):
        LabelEncoder(np.array([1]), keys_int64s=(1, 2), values_int64s=(2,))
    with pytest.raises(InvalidInput, match="2 lists of keys"):
        LabelEncoder(np.array([1]), keys_int64s=(1,), keys_floats=(1.0,), values_int64s=(2,))


@pytest.mark.parametrize("dtype", [np.int64, np.float32, np.float64])
def test_one_hot_of_numbers(judge, dtype) -> None:
    x = np.array([[1.9, -1.9, 5], [0, 7, -0.5]]).astype(dtype)
    for values in (x, x[0], x[:0]):
        judge("OneHotEncoder", [values], cats_int64s=[7, -1, 0, 1])


def test_one_hot_of_strings(judge) -> None:
    judge("OneHotEncoder", [strings("bear", "no", "Ünal")], cats_strings=WORDS)
    with pytest.raises(InvalidInput, match="unknown category 'no'"):
        OneHotEncoder(strings("bear", "no"), cats_strings=tuple(WORDS), zeros=0)
    assert OneHotEncoder(np.array([2], np.int32), cats_int64s=(1, 2), zeros=0).tolist() == [[0, 1]]


@pytest.mark.parametrize(
    ("values", "dtype", "absent"),
    [
        ([1, 2], np.int64, 0),
        ([0.5, 2.0], np.float32, 0),
        ([np.float64(0.1), np.float64(3)], np.float64, 0),
        (["x", "y"], object, ""),
    ],
)
def test_dictionaries_as_rows(values, dtype, absent) -> None:
    y = DictVectorizer(dict(zip("ab", values, strict=True)), string_vocabulary=("b", "c", "a"))
    assert (y.dtype, y.tolist()) == (dtype, [[values[1], absent, values[0]]])
    y = DictVectorizer(dict(zip((5, 6), values, strict=True)), int64_vocabulary=(6, 5))
    assert y.tolist() == [[values[1], values[0]]]


def test_dictionaries_of_onnx_runtime(judge) -> None:
    judge("DictVectorizer", [{"a": 0.5, "z": 2.0}], string_vocabulary=["b", "z", "a"])
    judge("DictVectorizer", [{2: 0.5, 1: 2.0}], int64_vocabulary=[7, 1, 2])


@pytest.mark.parametrize("cast", ["TO_FLOAT", "TO_INT64", "TO_STRING"])
def test_cast_maps_of_onnx_runtime(judge, cast) -> None:
    x = {3: 0.5, 1: -2.75}
    judge("CastMap", [x], cast_to=cast)
    judge("CastMap", [x], cast_to=cast, map_form="SPARSE", max_map=5)


def test_dictionaries_with_unknown_keys() -> None:
    with pytest.raises(InvalidInput, match="the key 'd'"):
        DictVectorizer({"d": 1.0}, string_vocabulary=("a",))
    assert DictVectorizer({}, string_vocabulary=("a",)).tolist() == [[0]]


def test_cast_map() -> None:
    numbers, words = {4: 1.75, 1: -2.5}, {4: "3", 1: "-2"}
    assert CastMap(numbers).tolist() == [[-2.5, 1.75]]
    assert CastMap(numbers, cast_to="TO_INT64").tolist() == [[-2, 1]]
    assert CastMap(numbers, cast_to="TO_STRING").tolist() == [["-2.500000", "1.750000"]]
    assert CastMap(words).dtype == np.float32
    assert CastMap(words, map_form="SPARSE", max_map=5, cast_to="TO_INT64").tolist() == [[0, -2, 0, 0, 3]]
    assert CastMap(words, map_form="SPARSE", max_map=5, cast_to="TO_STRING").tolist() == [["0.f", "-2", "0.f", "0.f", "3"]]
    with pytest.raises(InvalidInput, match="key 4 in a sparse map of 3"):
        CastMap(numbers, map_form="SPARSE", max_map=3)
    with pytest.raises(Unsupported, match="LOOSE"):
        CastMap(numbers, map_form="LOOSE")


def test_zip_map(judge) -> None:
    x = np.array([[0.5, 0.25], [1.5, -1]], np.float32)
    judge("ZipMap", [x], classlabels_int64s=[3, 4])
    judge("ZipMap", [x[0]], classlabels_strings=["a", "b"])
    assert ZipMap(x, classlabels_int64s=(3, 4)) == [{3: 0.5, 4: 0.25}, {3: 1.5, 4: -1.0}]
    assert ZipMap(x[0], classlabels_strings=("a", "b")) == [{"a": 0.5, "b": 0.25}]
    assert ZipMap(x[:0], classlabels_strings=("a", "b")) == []
    with pytest.raises(InvalidInput, match="2 columns for 3 labels"):
        ZipMap(x, classlabels_int64s=(3, 4, 5))
