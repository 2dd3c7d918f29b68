"""Attention: heads packed or not, shared or not, masks, windows, caches; and rotary positions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx

from deep_bench.testing.generated.problem import Draw, GeneratedProblem, dtypes

_PRECISIONS = tuple(
    int(code)
    for code in (
        onnx.TensorProto.FLOAT,
        onnx.TensorProto.FLOAT16,
        onnx.TensorProto.DOUBLE,
        onnx.TensorProto.BFLOAT16,
    )
)


@dataclass(frozen=True)
class Heads:
    """The sizes of an attention."""

    batch: int
    q_heads: int
    kv_heads: int
    queries: int
    keys: int
    size: int
    v_size: int

    def tensor(self, draw: Draw, count: int, length: int, size: int, dtype: np.dtype, packed: int) -> np.ndarray:
        """One of queries, keys and values."""
        shape = (self.batch, length, count * size) if packed else (self.batch, count, length, size)
        return draw.moderate(shape, dtype)


def _heads(draw: Draw) -> Heads:
    kv_heads = draw.integer(1, 2)
    return Heads(draw.integer(1, 2), kv_heads * draw.integer(1, 3), kv_heads, *(draw.integer(1, 4) for _ in range(4)))


def Attention(draw: Draw) -> GeneratedProblem:
    """Every way to mask at once: what all of them leave may be nothing, which gives 0."""
    at, dtype, packed = _heads(draw), draw.pick(dtypes("Attention")), draw.boolean()
    past = draw.pick((None, None, 0, 1, 3))
    total = at.keys + (past or 0)
    q = at.tensor(draw, at.q_heads, at.queries, at.size, dtype, packed)
    k = at.tensor(draw, at.kv_heads, at.keys, at.size, dtype, packed)
    v = at.tensor(draw, at.kv_heads, at.keys, at.v_size, dtype, packed)
    cache: list[Any] = [None, None]
    if past is not None:
        cache = [draw.moderate((at.batch, at.kv_heads, past, size), dtype) for size in (at.size, at.v_size)]
    lengths = None
    if past is None:
        lengths = draw.pick((None, None, np.array([draw.integer(1, at.keys) for _ in range(at.batch)])))
    # A shorter mask must still reach the last key that counts.
    shortest = total if lengths is None else int(lengths.max())
    mask = draw.maybe(_mask(draw, at, draw.pick((total, total, shortest)), dtype))
    attributes = _attributes(draw)
    if packed:
        attributes |= {"q_num_heads": at.q_heads, "kv_num_heads": at.kv_heads}
    outputs = 1 if past is None else draw.pick((3, 4))
    if outputs == 4:
        attributes["qk_matmul_output_mode"] = draw.pick((None, 0, 1, 2, 3))
    return GeneratedProblem("Attention", [q, k, v, mask, *cache, lengths], attributes, outputs=outputs)


def _attributes(draw: Draw) -> dict[str, Any]:
    return {
        "is_causal": draw.maybe(draw.boolean()),
        "left_window_size": draw.pick((None, None, -1, 0, 2)),
        "right_window_size": draw.pick((None, None, -1, 0, 1)),
        "scale": draw.maybe(draw.pick((0.5, 1.0))),
        "softcap": draw.maybe(draw.pick((0.0, 2.0))),
        "softmax_precision": draw.maybe(draw.pick(_PRECISIONS)),
    }


def _mask(draw: Draw, at: Heads, keys: int, dtype: np.dtype) -> np.ndarray:
    shape = draw.pick(
        (
            (at.queries, keys),
            (at.q_heads, at.queries, keys),
            (1, at.queries, keys),
            (at.batch, at.q_heads, at.queries, keys),
            (at.batch, 1, at.queries, keys),
            (1, at.q_heads, at.queries, keys),
        )
    )
    allowed = draw.array(shape, np.dtype(bool))
    return allowed if draw.boolean() else np.where(allowed, draw.moderate(shape, dtype), np.asarray(-np.inf, dtype))


def RotaryEmbedding(draw: Draw) -> GeneratedProblem:
    """All of the features or the first ones, positions given or in order."""
    dtype, packed = draw.pick(dtypes("RotaryEmbedding")), draw.boolean()
    batch, heads, length, half = (draw.integer(1, 3) for _ in range(4))
    extra = draw.pick((0, 2))
    size, positions = 2 * half + extra, draw.integer(1, 5)
    x = draw.moderate((batch, length, heads * size) if packed else (batch, heads, length, size), dtype)
    ids = draw.maybe(np.array([[draw.integer(0, positions - 1) for _ in range(length)] for _ in range(batch)]))
    shape = (batch, length, half) if ids is None else (positions, half)
    attributes = {"interleaved": draw.maybe(draw.boolean()), "num_heads": heads if packed else None}
    attributes["rotary_embedding_dim"] = 2 * half if extra else draw.maybe(0)
    return GeneratedProblem(
        "RotaryEmbedding", [x, draw.moderate(shape, dtype), draw.moderate(shape, dtype), ids], attributes
    )


def LinearAttention(draw: Draw) -> GeneratedProblem:
    """The four rules, the decay per head or per feature, the rate per head or for all."""
    at, dtype = _heads(draw), draw.pick(dtypes("LinearAttention"))
    rule = draw.pick((None, "linear", "gated", "delta", "gated_delta"))
    q = at.tensor(draw, at.q_heads, at.queries, at.size, dtype, 1)
    k = at.tensor(draw, at.kv_heads, at.queries, at.size, dtype, 1)
    v = at.tensor(draw, at.kv_heads, at.queries, at.v_size, dtype, 1)
    state = draw.maybe(draw.moderate((at.batch, at.kv_heads, at.size, at.v_size), draw.pick((dtype, np.dtype(np.float32)))))
    decay = beta = None
    if rule in (None, "gated", "gated_delta"):
        decay = -np.abs(draw.moderate((at.batch, at.queries, at.kv_heads * draw.pick((1, at.size))), dtype))
    if rule in (None, "delta", "gated_delta"):
        beta = np.abs(draw.moderate((at.batch, at.queries, draw.pick((1, at.kv_heads))), dtype)) / np.asarray(4, dtype)
    attributes: dict[str, Any] = {"q_num_heads": at.q_heads, "kv_num_heads": at.kv_heads, "update_rule": rule}
    attributes |= {"chunk_size": draw.maybe(2), "scale": draw.maybe(draw.pick((0.0, 0.5)))}
    return GeneratedProblem("LinearAttention", [q, k, v, state, decay, beta], attributes, outputs=2)


GENERATORS: dict[str, Callable[[Draw], GeneratedProblem]] = {
    "Attention": Attention,
    "LinearAttention": LinearAttention,
    "RotaryEmbedding": RotaryEmbedding,
}
