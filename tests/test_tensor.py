"""Descriptions of tensors and questions about element types."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from deep_bench.tensor import TensorSpec, is_float, is_inexact, is_integer, significand_bits, unit_roundoff

BITS = {
    "float64": 53,
    "float32": 24,
    "float16": 11,
    "bfloat16": 8,
    "float8_e4m3fn": 4,
    "float8_e5m2": 3,
    "complex64": 24,
    "complex128": 53,
}


def dtype_of(name: str) -> np.dtype:
    return np.dtype(getattr(ml_dtypes, name, name))


def test_spec_reads_as_one_line() -> None:
    spec = TensorSpec("x", ("batch", 3, "width"), np.dtype("float32"))
    assert str(spec) == "x: float32[batch, 3, width]"
    assert spec.rank == 3
    assert spec.open_dimensions == ("batch", "width")


def test_scalar_has_rank_zero() -> None:
    spec = TensorSpec("x", (), dtype_of("bfloat16"))
    assert (spec.rank, spec.open_dimensions, str(spec)) == (0, (), "x: bfloat16[]")


@pytest.mark.parametrize("name", BITS)
def test_precision_is_that_of_the_format(name: str) -> None:
    assert significand_bits(dtype_of(name)) == BITS[name]
    assert unit_roundoff(dtype_of(name)) == 2.0 ** -BITS[name]


@pytest.mark.parametrize("name", [n for n in BITS if not n.startswith("complex")])
def test_half_a_unit_is_lost_beside_one(name: str) -> None:
    one = np.ones((), dtype_of(name))
    u = unit_roundoff(one.dtype)
    assert (one + np.asarray(u, one.dtype)).astype(one.dtype) == one
    assert (one + np.asarray(2 * u, one.dtype)).astype(one.dtype) > one


KINDS = {  # float, inexact, integer
    "float64": (True, True, False),
    "float16": (True, True, False),
    "bfloat16": (True, True, False),
    "float8_e4m3fnuz": (True, True, False),
    "float8_e8m0fnu": (True, True, False),
    "float4_e2m1fn": (True, True, False),
    "float6_e2m3fn": (True, True, False),
    "float6_e3m2fn": (True, True, False),
    "complex64": (False, True, False),
    "int64": (False, False, True),
    "uint8": (False, False, True),
    "int4": (False, False, True),
    "uint2": (False, False, True),
    "bool": (False, False, False),
    "object": (False, False, False),
}


@pytest.mark.parametrize("name", KINDS)
def test_kind_of_an_element_type(name: str) -> None:
    dtype = dtype_of(name)
    assert (is_float(dtype), is_inexact(dtype), is_integer(dtype)) == KINDS[name]
