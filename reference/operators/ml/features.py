"""Categories as numbers, and back; dictionaries as tensors, and back."""

from __future__ import annotations

import numpy as np

from deep_bench.errors import InvalidInput
from deep_bench.reference.operators._arguments import check_choice
from deep_bench.reference.operators.ml.models import class_labels, real
from deep_bench.tensor import STRING, is_float

__all__ = [
    "ArrayFeatureExtractor",
    "Binarizer",
    "CastMap",
    "CategoryMapper",
    "DictVectorizer",
    "FeatureVectorizer",
    "Imputer",
    "LabelEncoder",
    "Normalizer",
    "OneHotEncoder",
    "Scaler",
    "ZipMap",
]

_NAN = "a NaN, which equals no key of a dictionary, itself included"


def _array(values, dtype, shape):
    """An array of any element type; ``np.array`` alone would give strings a fixed width."""
    flat = np.empty(len(values), dtype=dtype)
    flat[:] = values
    return flat.reshape(shape)


def _plain(values):
    """The elements as Python values, in order."""
    return np.ravel(values).tolist() if isinstance(values, np.ndarray) else list(values)


def _key(value):
    return _NAN if value != value else value


def _looked_up(x, table, default, dtype):
    return _array([table.get(_key(v), default) for v in _plain(x)], dtype, x.shape)


def CategoryMapper(x, *, cats_int64s=(), cats_strings=(), default_int64=-1, default_string="_Unused"):
    """Strings as integers or integers as strings, by two lists in parallel. Source: ONNX CategoryMapper, ai.onnx.ml 1."""
    if len(cats_int64s) != len(cats_strings):
        raise InvalidInput(f"{len(cats_int64s)} integers and {len(cats_strings)} strings", "as many of both")
    if x.dtype == np.int64:
        return _looked_up(x, dict(zip(cats_int64s, cats_strings, strict=True)), default_string, object)
    return _looked_up(x, dict(zip(cats_strings, cats_int64s, strict=True)), default_int64, np.int64)


def LabelEncoder(
    x,
    *,
    classes_strings=None,
    default_float=-0.0,
    default_int64=-1,
    default_string="_Unused",
    default_tensor=None,
    keys_floats=None,
    keys_int64s=None,
    keys_strings=None,
    keys_tensor=None,
    values_floats=None,
    values_int64s=None,
    values_strings=None,
    values_tensor=None,
):
    """The value that stands beside each element in two lists in parallel, or the default if it is no key.

    NaN is a key like any other; of equal keys the last one counts. In version 1 the keys or the values are the positions
    in ``classes_strings``.

    Source:
        ONNX LabelEncoder, ai.onnx.ml 4, 2 and 1.
    """
    if classes_strings is not None:
        positions = range(len(classes_strings))
        if x.dtype == np.int64:
            keys_int64s, values_strings = positions, classes_strings
        else:
            keys_strings, values_int64s = classes_strings, positions
    keys = _only("keys", keys_tensor, keys_strings, keys_int64s, keys_floats)
    values = _only("values", values_tensor, values_strings, values_int64s, values_floats)
    if len(keys) != len(values):
        raise InvalidInput(f"{len(keys)} keys and {len(values)} values", "as many of both")
    dtype, default = _value_format(values_tensor, values_strings, values_int64s)
    if default_tensor is not None:
        (default,) = _plain(default_tensor)
    elif values_tensor is None:
        default = {"f": default_float, "i": default_int64, "O": default_string}[dtype.kind]
    return _looked_up(x, dict(zip(map(_key, keys), values, strict=True)), default, dtype)


def _only(kind, *candidates):
    lists = [c for c in candidates if c is not None and len(c)]
    if len(lists) != 1:
        raise InvalidInput(f"LabelEncoder with {len(lists)} lists of {kind}", f"one attribute {kind}_*")
    return _plain(lists[0])


def _value_format(tensor, strings, integers):
    """The element type of the values, and the default that the standard has for it."""
    if tensor is not None:
        dtype = STRING if tensor.dtype.kind in "OUST" else tensor.dtype
    else:
        dtype = STRING if strings else np.dtype(np.int64 if integers else np.float32)
    return dtype, {"f": -0.0, "i": -1, "O": "_Unused"}[dtype.kind]


def OneHotEncoder(x, *, cats_int64s=None, cats_strings=None, zeros=1):
    """A new last axis with a 1 at the category's position; all zeros for an unknown one, or an error without ``zeros``.

    Numbers are cut off to integers first.

    Source: ONNX OneHotEncoder, ai.onnx.ml 1.
    """
    categories = class_labels(cats_int64s, cats_strings).tolist()
    values = _plain(x if cats_strings else x.astype(np.int64))
    position = {category: i for i, category in enumerate(categories)}
    unknown = [v for v in values if v not in position]
    if unknown and not zeros:
        raise InvalidInput(f"the unknown category {unknown[0]!r}", f"one of {categories}")
    y = np.zeros((len(values), len(categories)), dtype=np.float32)
    for row, value in zip(y, values, strict=True):
        if value in position:
            row[position[value]] = 1
    return y.reshape(*x.shape, len(categories))


def DictVectorizer(x, *, int64_vocabulary=None, string_vocabulary=None):
    """The values of a dictionary in the order of the vocabulary, zero or the empty string for a key that it lacks.

    Python's ``float`` stands for float32; NumPy's scalars keep their type.

    Source:
        ONNX DictVectorizer, ai.onnx.ml 1; ONNX Runtime for the shape, which is a row.
    """
    vocabulary = class_labels(int64_vocabulary, string_vocabulary).tolist()
    unknown = [key for key in x if key not in vocabulary]
    if unknown:
        raise InvalidInput(f"the key {unknown[0]!r}, which is not in the vocabulary", f"one of {vocabulary}")
    dtype = _map_dtype(x)
    absent = "" if dtype == STRING else 0
    return _array([x.get(word, absent) for word in vocabulary], dtype, (1, -1))


def _map_dtype(x):
    first = next(iter(x.values()), 0.0)
    if isinstance(first, str):
        return STRING
    return getattr(first, "dtype", np.dtype(np.int64 if isinstance(first, int) else np.float32))


def CastMap(x, *, cast_to="TO_FLOAT", map_form="DENSE", max_map=1):
    """The values of a dictionary in the order of its integer keys, as a row.

    ``SPARSE``: the key is the position, of ``max_map``; positions without one are zero.

    Source:
        ONNX CastMap, ai.onnx.ml 1; ONNX Runtime for how numbers and absent ones are written as strings.
    """
    check_choice("CastMap", "map_form", map_form, ("DENSE", "SPARSE"))
    casts = {"TO_FLOAT": (np.float32, float), "TO_INT64": (np.int64, _integer), "TO_STRING": (object, _written)}
    check_choice("CastMap", "cast_to", cast_to, casts)
    dtype, cast = casts[cast_to]
    if map_form == "DENSE":
        return _array([cast(x[key]) for key in sorted(x)], dtype, (1, -1))
    outside = [key for key in x if not 0 <= key < max_map]
    if outside:
        raise InvalidInput(f"key {outside[0]} in a sparse map of {max_map}", f"0 to {max_map - 1}")
    absent = "0.f" if cast_to == "TO_STRING" else 0
    return _array([cast(x[i]) if i in x else absent for i in range(max_map)], dtype, (1, -1))


def _integer(value):
    return int(value) if isinstance(value, str) else int(np.trunc(value))


def _written(value):
    return value if isinstance(value, str) else f"{value:f}"


def ZipMap(x, *, classlabels_int64s=None, classlabels_strings=None):
    """A list with one dictionary per row, from label to value. Source: ONNX ZipMap, ai.onnx.ml 1."""
    labels = class_labels(classlabels_int64s, classlabels_strings).tolist()
    table = x.reshape(1, -1) if x.ndim < 2 else x
    if table.shape[1] != len(labels):
        raise InvalidInput(f"{table.shape[1]} columns for {len(labels)} labels", "one label for each column")
    return [dict(zip(labels, row, strict=True)) for row in table.tolist()]


def ArrayFeatureExtractor(x, y):
    """The elements of ``x`` along its last axis at the indices ``y``; those of a vector as a matrix of one row.

    Source: ONNX ArrayFeatureExtractor, ai.onnx.ml 1.
    """
    indices = np.ravel(y)
    outside = indices[(indices < 0) | (indices >= x.shape[-1])]
    if outside.size:
        raise InvalidInput(f"index {outside[0]} into {x.shape[-1]} features", f"0 to {x.shape[-1] - 1}")
    selected = np.take(x, indices, axis=-1)
    return np.expand_dims(selected, 0) if x.ndim == 1 else selected


def Binarizer(x, *, threshold=0.0):
    """1 where ``x > threshold``, else 0. Source: ONNX Binarizer, ai.onnx.ml 1."""
    return (x > threshold).astype(x.dtype)


def FeatureVectorizer(*inputs, inputdimensions=None):
    """The inputs side by side, as float32. Source: ONNX FeatureVectorizer, ai.onnx.ml 1.

    Each has as many columns as ``inputdimensions`` says: further ones are dropped, missing ones are zero.
    """
    parts = [real(x).reshape(1, -1) if x.ndim < 2 else real(x).reshape(len(x), -1) for x in inputs]
    widths = [p.shape[1] for p in parts] if inputdimensions is None else inputdimensions
    if len(widths) != len(parts):
        raise InvalidInput(f"{len(widths)} inputdimensions for {len(parts)} inputs", "one for each input")
    cut = [p[:, :w] for p, w in zip(parts, widths, strict=True)]
    filled = [np.pad(p, ((0, 0), (0, w - p.shape[1]))) for p, w in zip(cut, widths, strict=True)]
    return np.concatenate(filled, axis=1).astype(np.float32)


def Imputer(x, *, imputed_value_floats=None, imputed_value_int64s=None, replaced_value_float=0.0, replaced_value_int64=0):
    """The imputed value where ``x`` is the one to be replaced, which may be NaN; one for each column, or one for all.

    Source: ONNX Imputer, ai.onnx.ml 1.
    """
    if is_float(x.dtype):
        values, replaced = imputed_value_floats, replaced_value_float
    else:
        values, replaced = imputed_value_int64s, replaced_value_int64
    if not values or len(values) not in (1, *x.shape[-1:]):
        raise InvalidInput(f"{len(values or ())} imputed values for {x.dtype}{list(x.shape)}", "one, or one per column")
    missing = np.isnan(x) if np.isnan(replaced) else x == replaced
    return np.where(missing, np.asarray(values, dtype=x.dtype), x)


def Normalizer(x, *, norm="MAX"):
    """Each row divided by its largest element (``MAX``), by its sum of magnitudes (``L1``) or by its length (``L2``).

    A row whose divisor is zero stays as it is.

    Source:
        ONNX Normalizer, ai.onnx.ml 1. Its formulas for L1 and L2 lack the magnitude and lose the sign; norms have both.
    """
    check_choice("Normalizer", "norm", norm, ("MAX", "L1", "L2"))
    if not x.size:
        return x.astype(np.float32)
    x = real(x)
    if norm == "MAX":
        divisor = np.max(x, axis=-1, keepdims=True)
    elif norm == "L1":
        divisor = np.sum(np.abs(x), axis=-1, keepdims=True)
    else:
        divisor = np.sqrt(np.sum(np.square(x), axis=-1, keepdims=True))
    return (x / np.where(divisor == 0, 1, divisor)).astype(np.float32)


def Scaler(x, *, offset=None, scale=None):
    """``(x - offset) * scale``, one of each for every column or for all. Source: ONNX Scaler, ai.onnx.ml 1."""
    x = real(x)
    for name, values in (("offset", offset), ("scale", scale)):
        if values and len(values) not in (1, *x.shape[-1:]):
            raise InvalidInput(f"{len(values)} elements of {name} for {list(x.shape)}", "one, or one per column")
    shift = np.asarray(offset or 0, dtype=x.dtype)
    return ((x - shift) * np.asarray(scale or 1, dtype=x.dtype)).astype(np.float32)
