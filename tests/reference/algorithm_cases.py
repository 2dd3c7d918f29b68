"""Problems of every size for the operators that have several algorithms."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st

Arrays = list[np.ndarray | None]


@dataclass(frozen=True)
class Posed:
    """The inputs of an operator, in float64, and its attributes."""

    inputs: Arrays
    attributes: dict[str, Any]


def numbers(draw: Callable[..., Any], *shape: int) -> np.ndarray:
    """Normal numbers; hypothesis draws their seed."""
    rng = np.random.default_rng([draw(st.integers(0, 9)), *shape])
    return rng.standard_normal(shape)


@st.composite
def convolutions(draw: Any) -> Posed:
    rank, group = draw(st.integers(1, 3)), draw(st.integers(1, 2))
    kernel = draw(st.lists(st.integers(1, 4 if rank < 3 else 3), min_size=rank, max_size=rank))
    strides = draw(st.just([1] * rank) | st.lists(st.integers(1, 3), min_size=rank, max_size=rank))
    dilations = draw(st.just([1] * rank) | st.lists(st.integers(1, 2), min_size=rank, max_size=rank))
    spans = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    sizes = [span + draw(st.integers(0, 6)) for span in spans]
    attributes: dict[str, Any] = {"group": group, "strides": tuple(strides), "dilations": tuple(dilations)}
    padding = draw(st.sampled_from(["none", "NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"]))
    if padding == "NOTSET":
        attributes["pads"] = tuple(draw(st.lists(st.integers(0, 2), min_size=2 * rank, max_size=2 * rank)))
    elif padding != "none":
        attributes["auto_pad"] = padding
    channels, maps = draw(st.integers(1, 3)), group * draw(st.integers(1, 3))
    x = numbers(draw, draw(st.integers(0, 2)), group * channels, *sizes)
    bias = numbers(draw, maps) if draw(st.booleans()) else None
    return Posed([x, numbers(draw, maps, channels, *kernel), bias], attributes)


_side = st.integers(0, 7) | st.integers(30, 70)


@st.composite
def matmuls(draw: Any) -> Posed:
    m, k, n = (draw(_side) for _ in range(3))
    lead = draw(st.sampled_from([((), ()), ((2,), ()), ((1, 2), (3, 1)), ((), (2,))]))
    a = numbers(draw, k) if draw(st.integers(0, 4)) == 0 else numbers(draw, *lead[0], m, k)
    b = numbers(draw, k) if draw(st.integers(0, 4)) == 0 else numbers(draw, *lead[1], k, n)
    return Posed([a, b], {})


@st.composite
def gemms(draw: Any) -> Posed:
    m, k, n = (draw(_side) for _ in range(3))
    trans_a, trans_b = draw(st.integers(0, 1)), draw(st.integers(0, 1))
    a, b = numbers(draw, *((k, m) if trans_a else (m, k))), numbers(draw, *((n, k) if trans_b else (k, n)))
    c = draw(st.sampled_from([None, (n,), (m, 1), (m, n), ()]))
    scales = {name: draw(st.sampled_from([1.0, 0.5, -1.25])) for name in ("alpha", "beta")}
    return Posed([a, b, None if c is None else numbers(draw, *c)], {"transA": trans_a, "transB": trans_b, **scales})


@st.composite
def softmaxes(draw: Any) -> Posed:
    shape = draw(st.lists(st.integers(0, 6), min_size=1, max_size=3))
    axis = draw(st.integers(-len(shape), len(shape) - 1))
    return Posed([numbers(draw, *shape) * draw(st.sampled_from([1.0, 30.0]))], {"axis": axis})


@st.composite
def layer_normalizations(draw: Any) -> Posed:
    shape = [*draw(st.lists(st.integers(0, 3), min_size=1, max_size=2)), draw(st.integers(8, 40))]
    axis = draw(st.sampled_from([-1, len(shape) - 1, -2 if shape[-2] else -1]))
    normalized = shape[axis:]
    bias = numbers(draw, *normalized) if draw(st.booleans()) else None
    return Posed(
        [numbers(draw, *shape), numbers(draw, *normalized), bias], {"axis": axis, "n_outputs": draw(st.integers(1, 3))}
    )


@st.composite
def reductions(draw: Any) -> Posed:
    shape = draw(st.lists(st.integers(1, 5), min_size=1, max_size=3))
    shape[draw(st.integers(0, len(shape) - 1))] *= draw(st.sampled_from([1, 40]))  # several blocks
    axes = draw(st.none() | st.lists(st.integers(-len(shape), -1), unique=True))
    given = None if axes is None else np.array(axes, np.int64)
    flags = {name: draw(st.integers(0, 1)) for name in ("keepdims", "noop_with_empty_axes")}
    return Posed([numbers(draw, *shape), given], flags)


@st.composite
def attentions(draw: Any) -> Posed:
    batch, shared, groups, width = (draw(st.integers(1, 2)) for _ in range(4))
    queries, keys, size = draw(st.integers(1, 35)), draw(st.integers(1, 35)), 4
    q = numbers(draw, batch, shared * groups, queries, size)
    k, v = (numbers(draw, batch, groups, keys, s) for s in (size, 2 * width))
    past = draw(st.sampled_from([0, 3]))
    before = [numbers(draw, batch, groups, past, s) for s in (size, 2 * width)] if past else [None, None]
    attributes: dict[str, Any] = {
        "is_causal": draw(st.integers(0, 1)),
        "n_outputs": 3,
        "softcap": draw(st.sampled_from([0.0, 2.0])),
    }
    attributes["left_window_size"] = draw(st.sampled_from([-1, 5]))
    mask: np.ndarray | None = None
    if draw(st.booleans()):
        mask = numbers(draw, queries, keys + past)
        mask = mask > -1 if draw(st.booleans()) else mask
    if draw(st.booleans()):  # heads side by side, as other layers give them
        attributes |= {"q_num_heads": shared * groups, "kv_num_heads": groups}
        q, k, v = (np.transpose(x, (0, 2, 1, 3)).reshape(batch, x.shape[2], -1) for x in (q, k, v))
    return Posed([q, k, v, mask, *before], attributes)


@st.composite
def lstms(draw: Any) -> Posed:
    time, batch, width, hidden = (draw(st.integers(1, 4)) for _ in range(4))
    direction = draw(st.sampled_from(["forward", "reverse", "bidirectional"]))
    count = 2 if direction == "bidirectional" else 1
    shapes = [(time, batch, width), (count, 4 * hidden, width), (count, 4 * hidden, hidden), (count, 8 * hidden)]
    x, w, r, b = (numbers(draw, *shape) for shape in shapes)
    lengths = np.minimum(np.arange(1, batch + 1), time).astype(np.int32) if draw(st.booleans()) else None
    states = [numbers(draw, count, batch, hidden) if draw(st.booleans()) else None for _ in range(2)]
    peepholes = numbers(draw, count, 3 * hidden) if draw(st.booleans()) else None
    attributes = {"direction": direction, "input_forget": draw(st.integers(0, 1))}
    return Posed([x, w, r, b if draw(st.booleans()) else None, lengths, *states, peepholes], attributes)


CASES: Mapping[str, st.SearchStrategy[Posed]] = {
    "Attention": attentions(),
    "Conv": convolutions(),
    "Gemm": gemms(),
    "LSTM": lstms(),
    "LayerNormalization": layer_normalizations(),
    "MatMul": matmuls(),
    **dict.fromkeys(("ReduceL1", "ReduceL2", "ReduceMean", "ReduceSum", "ReduceSumSquare"), reductions()),
    "Softmax": softmaxes(),
}
