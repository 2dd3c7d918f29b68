"""Correct functions of single elements by other formulas."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy import special

from ..patches import NormWise, in_double
from ..subjects import Patch
from .softmax import fast_exp


def _sigmoid_by_tanh(f: Any, x: Any, _: Any) -> Any:
    half = x[0].dtype.type(0.5)
    return half + half * np.tanh(half * x[0])


def _sigmoid_naive(f: Any, x: Any, _: Any) -> Any:
    return 1 / (1 + np.exp(-x[0]))


def _tanh_by_exp(f: Any, x: Any, _: Any) -> Any:
    e = np.expm1(-2 * np.abs(x[0]))
    return np.copysign(-e / (2 + e), x[0])


def _tanh_naive(f: Any, x: Any, _: Any) -> Any:
    return 1 - 2 / (np.exp(2 * x[0]) + 1)


def _gelu_by_cdf(f: Any, x: Any, _: Any) -> Any:
    return x[0] * special.ndtr(x[0])


def _gelu_half_last(f: Any, x: Any, _: Any) -> Any:
    return (x[0] * (1 + special.erf(x[0] * x[0].dtype.type(math.sqrt(0.5))))) * x[0].dtype.type(0.5)


def _elu_naive(f: Any, x: Any, a: Any) -> Any:
    alpha = x[0].dtype.type(a.get("alpha", 1))
    return np.where(x[0] > 0, x[0], alpha * (np.exp(np.minimum(x[0], 0)) - 1))


def _softplus_naive(f: Any, x: Any, _: Any) -> Any:
    return np.log(1 + np.exp(x[0]))


def _division_by_reciprocal(f: Any, x: Any, a: Any) -> Any:
    return x[0] * (1 / x[1])


def _exp_by_two(f: Any, x: Any, a: Any) -> Any:
    """Cody and Waite's reduction: the multiple of log(2) is taken off in two parts."""
    n = np.rint(x[0] * x[0].dtype.type(math.log2(math.e)))
    high = x[0].dtype.type(0.693359375)
    r = (x[0] - n * high) - n * x[0].dtype.type(math.log(2) - 0.693359375)
    return np.ldexp(np.exp(r), n.astype(np.int32))


def _pow_by_exp(f: Any, x: Any, a: Any) -> Any:
    return np.exp(x[1] * np.log(x[0]))


def _root_newton(f: Any, x: Any, a: Any) -> Any:
    y = (x[0] ** x[0].dtype.type(0.5)).astype(x[0].dtype)
    half = x[0].dtype.type(0.5)
    return half * (y + x[0] / y)


VARIANTS: Mapping[tuple[str, str], Patch | NormWise] = {
    ("Sigmoid", "Sigmoid by tanh"): _sigmoid_by_tanh,
    ("Sigmoid", "Sigmoid naive"): _sigmoid_naive,
    ("Tanh", "Tanh by expm1"): _tanh_by_exp,
    ("Tanh", "Tanh naive"): _tanh_naive,
    ("Erf", "Erf in float64"): in_double,
    ("Gelu", "Gelu by normal distribution"): _gelu_by_cdf,
    ("Gelu", "Gelu halved last"): _gelu_half_last,
    ("Elu", "Elu naive"): _elu_naive,
    ("Softplus", "Softplus naive"): _softplus_naive,
    ("Div", "Div by reciprocal"): _division_by_reciprocal,
    ("Exp", "Exp by Cody and Waite"): _exp_by_two,
    ("Pow", "Pow by exponential"): _pow_by_exp,
    ("Sqrt", "Sqrt by Newton"): _root_newton,
    ("Resize", "Resize in float64"): in_double,
    ("Exp", "Exp by a fast library"): NormWise(lambda f, x, a: fast_exp(x[0])),
    ("Sigmoid", "Sigmoid with a fast exponential"): lambda f, x, a: 1 / (1 + fast_exp(-x[0])),
}
