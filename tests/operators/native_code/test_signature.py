"""Signatures as users write them."""

from __future__ import annotations

import pytest

from deep_bench.errors import InvalidArgument
from deep_bench.operators.native_code.signature import parse_signature


def kinds(text: str) -> list[str]:
    return [p.kind for p in parse_signature(text).parameters]


def test_the_kinds_of_parameters() -> None:
    text = (
        "const float *x, double* y, const void *any, int64_t n=x.size, int r = x.rank, size_t d = y.shape[-1], "
        "const int64_t * s = x.shape, float alpha, float beta = 1e-5, const char *mode, "
        "const int64_t *pads = attributes.pads, int64_t k = attributes.pads.size, cudaStream_t stream"
    )
    assert kinds(text) == [
        *["read", "written", "read"],
        *["value", "value", "value", "shape", "value", "value", "text", "list", "value", "stream"],
    ]


@pytest.mark.parametrize(
    ("text", "returns"),
    [
        ("const float *x", "nothing"),
        ("void (const float *x)", "nothing"),
        ("int gelu(const float *x)", "status"),
        ("const char *f(const float *x);", "text"),
        ("int(const __half *__restrict__ x, std::complex<float> *y)", "status"),
    ],
)
def test_what_a_function_returns(text: str, returns: str) -> None:
    assert parse_signature(text).returns == returns


def test_spaces_and_line_breaks_mean_nothing() -> None:
    assert parse_signature("const   float*x ,\n  float * y").names("written") == ("y",)


def test_a_function_may_take_nothing() -> None:
    assert parse_signature("").parameters == ()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("const float x y", "the parameter 'const float x y'"),
        ("flaot *x", "the type 'flaot'"),
        ("half alpha", "the type 'half'"),
        ("const float *x, float *x", "two parameters named 'x'"),
        ("const float *x, int64_t n = x.length", "the value 'x.length'"),
        ("const float *x, int64_t n = x.shape", "the value 'x.shape'"),
        ("const float *x, const float *s = x.shape", "the value 'x.shape'"),
        ("const float *x, , float *y", "the parameter ''"),
        ("float **x", "the parameter 'float **x'"),
    ],
)
def test_what_cannot_be_read_is_named(text: str, message: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        parse_signature(text)
    assert message in str(caught.value)
