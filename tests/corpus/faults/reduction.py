"""Faults of reductions, running sums, pools and searches."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ..patches import after, attributes, bfloat16, float16, on_input, rounded_inputs, times
from ..subjects import Patch


def _zero_padded(f: Any, x: Any, a: Any) -> Any:
    """A maximum pool that pads with zeros."""
    pads = a.pop("pads")
    padded = np.pad(x[0], ((0, 0), (0, 0), (pads[0], pads[2]), (pads[1], pads[3])))
    return f(padded, **a)


def _mean_less_one(f: Any, x: Any, a: Any) -> Any:
    count = math.prod(x[0].shape[int(k)] for k in x[1])
    return f(*x, **a) * x[0].dtype.type(count / (count - 1))


def _added_in(to: Callable[[Any], Any], before: Callable[[Any], Any] = lambda x: x) -> Patch:
    """A sum along rows that is kept in a narrower format."""

    def patch(f: Any, x: Any, a: Any) -> Any:
        total = np.zeros_like(x[0][:, :1])
        for k in range(x[0].shape[1]):
            total = to(total + before(x[0][:, k : k + 1]))
        return total

    return patch


def _short(f: Any, x: Any, a: Any) -> Any:
    """The last element of each row left out."""
    return f(x[0][:, :-1], *x[1:], **a)


def _whole_tiles(f: Any, x: Any, a: Any) -> Any:
    """Only whole tiles of 64 are added; what is left over at the end is not."""
    return f(x[0][:, : x[0].shape[1] // 64 * 64], *x[1:], **a)


def _tile_twice(f: Any, x: Any, a: Any) -> Any:
    """Neighbouring tiles share an element."""
    middle = x[0].shape[1] // 2
    return f(np.concatenate((x[0], x[0][:, middle : middle + 1]), 1), *x[1:], **a)


def _stale_first(f: Any, x: Any, a: Any) -> Any:
    """The accumulator is cleared for the first row only."""
    return np.add.accumulate(f(*x, **a), axis=0)


def _one_axis(f: Any, x: Any, a: Any) -> Any:
    """The mean over two axes divided by the length of one."""
    return f(*x, **a) * x[0].dtype.type(x[0].shape[1])


def _restarted(f: Any, x: Any, a: Any) -> Any:
    """A running sum by blocks whose carry is lost."""
    half = x[0].shape[1] // 2
    return np.concatenate((f(x[0][:, :half], x[1], **a), f(x[0][:, half:], x[1], **a)), 1)


_HALF_POOL = attributes(pads=(0, 0, 2, 2))

FAULTS: Mapping[tuple[str, str], Patch] = {
    ("ReduceMean", "ReduceMean over one less"): _mean_less_one,
    ("ReduceMean", "ReduceMean divided by one axis"): _one_axis,
    ("ReduceMean", "ReduceMean in bfloat16"): after(bfloat16),
    ("ReduceMean", "ReduceMean of bfloat16"): rounded_inputs(bfloat16),
    ("ReduceMean", "ReduceMean with a stale accumulator"): _stale_first,
    ("ReduceSum", "ReduceSum without the last term"): _short,
    ("ReduceSum", "ReduceSum with a term added twice"): _tile_twice,
    ("ReduceSum", "ReduceSum in float16"): _added_in(float16),
    ("ReduceSum", "ReduceSum in bfloat16"): _added_in(bfloat16),
    ("ReduceSum", "ReduceSum with a stale accumulator"): _stale_first,
    ("ReduceSum positive", "ReduceSum without the last term"): _short,
    ("ReduceSum positive", "ReduceSum of whole tiles only"): _whole_tiles,
    ("ReduceSum positive", "ReduceSum in bfloat16"): _added_in(bfloat16),
    ("ReduceSum positive", "ReduceSum in float16"): _added_in(float16),
    ("ReduceSum positive", "ReduceSum scaled by 1.0001"): after(times(1.0001)),
    ("ReduceSumSquare", "ReduceSumSquare of whole tiles only"): _whole_tiles,
    ("ReduceSumSquare", "ReduceSumSquare of bfloat16"): rounded_inputs(bfloat16),
    ("ReduceSumSquare", "ReduceSumSquare in float16"): _added_in(float16, np.square),
    ("ReduceL1", "ReduceL1 with signs"): lambda f, x, a: x[0].sum(1, keepdims=True),
    ("ReduceL1", "ReduceL1 of whole tiles only"): _whole_tiles,
    ("ReduceL1", "ReduceL1 in bfloat16"): _added_in(bfloat16, np.abs),
    ("ReduceL2", "ReduceL2 without the root"): after(np.square),
    ("ReduceL2", "ReduceL2 with an epsilon"): after(lambda y: np.sqrt(y * y + y.dtype.type(1e-2))),
    ("ReduceL2", "ReduceL2 without the last term"): _short,
    ("ReduceProd", "ReduceProd without the last factor"): _short,
    ("ReduceProd", "ReduceProd in bfloat16"): after(bfloat16),
    ("ReduceProd", "ReduceProd by short logarithms"): lambda f, x, a: np.exp(float16(np.log(x[0])).sum(1, keepdims=True)),
    ("ReduceMax", "ReduceMax without the last tile"): lambda f, x, a: f(x[0][:, :96], *x[1:], **a),
    ("ReduceMax", "ReduceMax from zero"): lambda f, x, a: np.minimum(f(*x, **a), x[0].dtype.type(2)),
    ("ReduceMax", "ReduceMax of sizes"): lambda f, x, a: f(np.abs(x[0]), *x[1:], **a),
    ("ReduceLogSum", "ReduceLogSum with an epsilon"): after(lambda y: np.log(np.exp(y) + y.dtype.type(1e-2))),
    ("ReduceLogSum", "ReduceLogSum to base 2"): after(times(1.4426950)),
    ("ReduceLogSumExp", "ReduceLogSumExp without the last term"): _short,
    ("ReduceLogSumExp", "ReduceLogSumExp of a mean"): after(lambda y: y - y.dtype.type(math.log(96))),
    ("ReduceLogSumExp", "ReduceLogSumExp as its maximum"): lambda f, x, a: x[0].max(1, keepdims=True),
    ("ReduceLogSumExp", "ReduceLogSumExp of float16"): rounded_inputs(float16),
    ("CumSum", "CumSum exclusive"): attributes(exclusive=1),
    ("CumSum", "CumSum in reverse"): attributes(reverse=1),
    ("CumSum", "CumSum without carry"): _restarted,
    ("CumSum", "CumSum along the other axis"): on_input(1, lambda k: k - k),
    ("GlobalAveragePool", "GlobalAveragePool over one less"): after(times(3136 / 3135)),
    ("GlobalAveragePool", "GlobalAveragePool of bfloat16"): rounded_inputs(bfloat16),
    ("AveragePool", "AveragePool counting the padding"): attributes(count_include_pad=1),
    ("AveragePool", "AveragePool with shifted windows"): _HALF_POOL,
    ("AveragePool", "AveragePool in bfloat16"): after(bfloat16),
    ("MaxPool", "MaxPool padding with zeros"): _zero_padded,
    ("MaxPool", "MaxPool with shifted windows"): _HALF_POOL,
    ("MaxPool", "MaxPool with windows one short"): lambda f, x, a: f(
        x[0], **{**a, "kernel_shape": (2, 2), "pads": (1, 1, 0, 0)}
    ),
    ("ArgMax", "ArgMax of the last tie"): attributes(select_last_index=1),
    ("ArgMax", "ArgMax of the smallest"): lambda f, x, a: f(-x[0], **a),
    ("ArgMax", "ArgMax without the last tile"): lambda f, x, a: f(x[0][:, :24], **a),
    ("TopK", "TopK of the smallest"): attributes(largest=0),
    ("TopK", "TopK in reverse"): lambda f, x, a: tuple(y[:, ::-1] for y in f(*x, **a)),
    ("TopK", "TopK of float16"): rounded_inputs(float16),
}
