"""Conversions: rounded once, between any two element types."""

from __future__ import annotations

import itertools

import ml_dtypes
import numpy as np
import pytest

from deep_bench.reference.operators import find
from deep_bench.tensor import STRING
from deep_bench.testing.generated.problem import code_of, dtypes

NARROW = ("bfloat16", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float6_e2m3fn", "float4_e2m1fn")
TYPES = [dtype for dtype in dtypes("Cast") if dtype != STRING]


def cast(x: np.ndarray, dtype: np.dtype, **attributes: object) -> np.ndarray:
    return find("", "Cast")(x, to=code_of(np.dtype(dtype)), **attributes)


@pytest.mark.parametrize("name", NARROW)
def test_float64_is_rounded_once(name: str) -> None:
    """Just above the middle of 1 and the next number, and just under the middle after that."""
    dtype = np.dtype(getattr(ml_dtypes, name))
    step = float(ml_dtypes.finfo(dtype).eps)
    x = np.array([1 + step / 2 + 2.0**-40, 1 + 1.5 * step - 2.0**-40])
    np.testing.assert_array_equal(cast(x, dtype).astype(np.float64), [1 + step, 1 + step])


@pytest.mark.parametrize("sign", [1, -1])
def test_int64_is_rounded_once(sign: int) -> None:
    x = np.array([2**54 + 2**46 + 1, 2**54 + 2**46 - 1, 2**54 + 2**46]) * sign
    expected = np.array([2**54 + 2**47, 2**54, 2**54]) * sign
    np.testing.assert_array_equal(cast(x, ml_dtypes.bfloat16).astype(np.float64), expected)


def test_what_is_no_number_or_beyond_all_stays_so() -> None:
    x = np.array([np.nan, np.inf, -np.inf, 1e300, -0.0])
    with np.errstate(over="ignore"):
        found = cast(x, ml_dtypes.bfloat16).astype(np.float64)
    np.testing.assert_array_equal(found, [np.nan, np.inf, -np.inf, np.inf, -0.0])


@pytest.mark.parametrize(("source", "target"), list(itertools.product(TYPES, TYPES)), ids=str)
def test_one_is_one_in_every_type(source: np.dtype, target: np.dtype) -> None:
    found = cast(np.ones(2, np.float32).astype(source), target)
    assert found.dtype == target
    np.testing.assert_array_equal(found.astype(np.float32), [1, 1])


def test_narrow_integers_lose_their_upper_bits() -> None:
    x = np.array([-3, 7, 2, -8], np.int8).astype(ml_dtypes.int4)
    assert cast(x, ml_dtypes.uint4).astype(int).tolist() == [13, 7, 2, 8]
    assert cast(x, ml_dtypes.uint2).astype(int).tolist() == [1, 3, 2, 0]
    assert cast(x, ml_dtypes.int2).astype(int).tolist() == [1, -1, -2, 0]
