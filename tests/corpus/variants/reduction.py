"""Correct reductions: in every order, by blocks, compensated, scaled against overflow."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy import special

from ..patches import NormWise, algorithm, in_double
from ..subjects import Patch


def _mean_by_reciprocal(f: Any, x: Any, a: Any) -> Any:
    axes = tuple(int(v) for v in x[1])
    count = math.prod(x[0].shape[k] for k in axes)
    return x[0].sum(axes, keepdims=True) * x[0].dtype.type(1 / count)


def _mean_nested(f: Any, x: Any, a: Any) -> Any:
    y = x[0]
    for k in x[1]:
        y = y.mean(int(k), keepdims=True)
    return y


def _sequential(f: Any, x: Any, a: Any) -> Any:
    return np.add.accumulate(x[0], axis=1)[:, -1:]


def _sorted(f: Any, x: Any, a: Any) -> Any:
    return np.sort(x[0], axis=1).sum(1, keepdims=True)


def _lanes(f: Any, x: Any, a: Any) -> Any:
    """As 32 threads add, which then add each other's by shuffles."""
    parts = [np.add.accumulate(x[0][:, k::32], axis=1)[:, -1:] for k in range(32)]
    while len(parts) > 1:
        parts = [p + q for p, q in zip(parts[: len(parts) // 2], parts[len(parts) // 2 :], strict=True)]
    return parts[0]


def _atomics(f: Any, x: Any, a: Any) -> Any:
    """Blocks of 128 that are added in the order in which they happen to end."""
    blocks = np.split(x[0], np.arange(128, x[0].shape[1], 128), axis=1)
    order = np.random.default_rng(2).permutation(len(blocks))
    total = np.zeros_like(x[0][:, :1])
    for k in order:
        total = total + blocks[k].sum(1, keepdims=True)
    return total


def _by_product(f: Any, x: Any, a: Any) -> Any:
    return np.matmul(x[0], np.ones((x[0].shape[1], 1), x[0].dtype))


def _pool_sequential(f: Any, x: Any, a: Any) -> Any:
    flat = x[0].reshape(*x[0].shape[:2], -1)
    y = np.add.accumulate(flat, axis=-1)[..., -1] / x[0].dtype.type(flat.shape[-1])
    return y[..., None, None]


def _pool_nested(f: Any, x: Any, a: Any) -> Any:
    return x[0].mean(3, keepdims=True).mean(2, keepdims=True)


def _logsumexp(f: Any, x: Any, a: Any) -> Any:
    return special.logsumexp(x[0].astype(np.float64), axis=1, keepdims=True).astype(x[0].dtype)


def _logsumexp_online(f: Any, x: Any, a: Any) -> Any:
    top, total = np.full_like(x[0][:, :1], -np.inf), np.zeros_like(x[0][:, :1])
    for k in range(x[0].shape[1]):
        new = np.maximum(top, x[0][:, k : k + 1])
        total = total * np.exp(top - new) + np.exp(x[0][:, k : k + 1] - new)
        top = new
    return top + np.log(total)


def _norm_scaled(f: Any, x: Any, a: Any) -> Any:
    top = np.abs(x[0]).max(1, keepdims=True)
    return top * np.sqrt(((x[0] / top) ** 2).sum(1, keepdims=True))


def _product_by_tree(f: Any, x: Any, a: Any) -> Any:
    y = x[0]
    while y.shape[1] > 1:
        half = y.shape[1] // 2
        y = np.concatenate((y[:, :half] * y[:, half : 2 * half], y[:, 2 * half :]), axis=1)
    return y


def _product_in_reverse(f: Any, x: Any, a: Any) -> Any:
    return np.multiply.accumulate(x[0][:, ::-1], axis=1)[:, -1:]


def _scan_by_blocks(f: Any, x: Any, a: Any) -> Any:
    """Running sums of blocks of 16, then what came before each block is added."""
    blocks = np.split(x[0], x[0].shape[1] // 16, axis=1)
    inner = [np.add.accumulate(b, axis=1) for b in blocks]
    carry = np.zeros_like(x[0][:, :1])
    parts = []
    for block in inner:
        parts.append(block + carry)
        carry = carry + block[:, -1:]
    return np.concatenate(parts, axis=1)


def _scan_by_doubling(f: Any, x: Any, a: Any) -> Any:
    """Hillis and Steele's scan."""
    y, step = x[0], 1
    while step < y.shape[1]:
        y = np.concatenate((y[:, :step], y[:, step:] + y[:, :-step]), axis=1)
        step *= 2
    return y


def _max_by_sorting(f: Any, x: Any, a: Any) -> Any:
    return np.sort(x[0], axis=1)[:, -1:]


def _pool_by_reciprocal(f: Any, x: Any, a: Any) -> Any:
    """Sums of windows, times one over their counts, both by a product with ones."""
    total = f(x[0], **{**a, "count_include_pad": 1}) * x[0].dtype.type(9)
    share = f(np.ones_like(x[0]), **{**a, "count_include_pad": 1}) * x[0].dtype.type(9)
    return total * (1 / share)


_METHODS = ("blocked", "compensated", "pairwise", "sequential")
_REDUCED = ("ReduceSum", "ReduceSum positive", "ReduceMean", "ReduceL1", "ReduceL2", "ReduceSumSquare")

VARIANTS: Mapping[tuple[str, str], Patch | NormWise] = {
    **{
        (where, f"{where.split(' ')[0]} by the algorithm {m}"): algorithm(where.split(" ")[0], m)
        for where in _REDUCED
        for m in _METHODS
    },
    ("ReduceMean", "ReduceMean by reciprocal"): _mean_by_reciprocal,
    ("ReduceMean", "ReduceMean nested"): _mean_nested,
    **{
        (where, f"ReduceSum {name}"): patch
        for where in ("ReduceSum", "ReduceSum positive")
        for name, patch in (
            ("sequential", _sequential),
            ("sorted", _sorted),
            ("in 32 threads", _lanes),
            ("by blocks in any order", _atomics),
            ("by a product", _by_product),
            ("in float64", in_double),
        )
    },
    ("ReduceLogSumExp", "ReduceLogSumExp in float64"): _logsumexp,
    ("ReduceLogSumExp", "ReduceLogSumExp online"): _logsumexp_online,
    ("ReduceL2", "ReduceL2 scaled"): _norm_scaled,
    ("ReduceProd", "ReduceProd by a tree"): _product_by_tree,
    ("ReduceProd", "ReduceProd in reverse"): _product_in_reverse,
    ("ReduceLogSum", "ReduceLogSum in float64"): in_double,
    ("ReduceMax", "ReduceMax by sorting"): _max_by_sorting,
    ("CumSum", "CumSum by blocks"): _scan_by_blocks,
    ("CumSum", "CumSum by doubling"): _scan_by_doubling,
    ("CumSum", "CumSum in float64"): in_double,
    ("GlobalAveragePool", "GlobalAveragePool sequential"): _pool_sequential,
    ("GlobalAveragePool", "GlobalAveragePool nested"): _pool_nested,
    ("AveragePool", "AveragePool by reciprocals"): _pool_by_reciprocal,
    ("AveragePool", "AveragePool in float64"): in_double,
}
