"""Features selected, joined, replaced and scaled."""

from __future__ import annotations

import numpy as np

from deep_bench.errors import InvalidInput
from deep_bench.reference.operators._arguments import check_choice
from deep_bench.reference.operators.ml._models import real
from deep_bench.tensor import is_float

__all__ = ["ArrayFeatureExtractor", "Binarizer", "FeatureVectorizer", "Imputer", "Normalizer", "Scaler"]


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
