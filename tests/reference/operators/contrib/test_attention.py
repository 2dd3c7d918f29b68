"""Attention with its projections, masks and caches."""

from __future__ import annotations

import math

import numpy as np
import pytest

from deep_bench.errors import Unsupported
from deep_bench.reference.operators.contrib import attention

RNG = np.random.default_rng(9)
BATCH, LENGTH, WIDTH, HEADS = 2, 3, 8, 2


def random(*shape, dtype=np.float32):
    return RNG.standard_normal(shape).astype(dtype)


def int32(values):
    return None if values is None else np.array(values, np.int32)


def projections(sizes=(8, 8, 8), dtype=np.float32, batch=BATCH):
    return [
        random(batch, LENGTH, WIDTH, dtype=dtype),
        random(WIDTH, sum(sizes), dtype=dtype),
        random(sum(sizes), dtype=dtype),
    ]


MASKS = {
    "lengths": [2, 3],
    "nothing seen": [0, 1],
    "ends and starts": [3, 2, 1, 0],
    "cumulative lengths": [2, 3, 0, 3, 6, 0, 2, 5],
    "of each key": [[1, 1, 0], [0, 1, 1]],
    "of no key": [[0, 0, 0], [1, 1, 0]],
    "of each pair": [[[1, 0, 0], [0, 0, 1], [0, 0, 0]], [[1, 1, 1], [0, 1, 1], [1, 1, 0]]],
}


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("attributes", [{}, {"unidirectional": 1}, {"mask_filter_value": -1.0}])
def test_masks(judge, mask, attributes) -> None:
    judge("Attention", [*projections(), int32(MASKS[mask])], n_outputs=2, num_heads=HEADS, **attributes)


PAST_MASKS = {
    "none": None,
    "lengths": [2, 6],
    "ends and starts": [7, 5, 1, 2],
    "of each key": [[1, 0, 1, 1, 0, 1, 1], [0, 0, 1, 1, 1, 1, 0]],
    "of each pair": RNG.integers(0, 2, (BATCH, LENGTH, 7)).tolist(),
}


@pytest.mark.parametrize("mask", PAST_MASKS)
@pytest.mark.parametrize("unidirectional", [0, 1])
def test_past(judge, mask, unidirectional) -> None:
    past = random(2, BATCH, HEADS, 4, 4)
    inputs = [*projections(), int32(PAST_MASKS[mask]), past]
    judge("Attention", inputs, n_outputs=2, num_heads=HEADS, unidirectional=unidirectional)


@pytest.mark.parametrize("lead", [(BATCH, HEADS), (1, HEADS), (BATCH, 1), (1, 1)])
@pytest.mark.parametrize("mask", ["lengths", "of each key"])
def test_attention_bias(judge, lead, mask) -> None:
    bias = random(*lead, LENGTH, LENGTH)
    judge("Attention", [*projections(), int32(MASKS[mask]), None, bias], num_heads=HEADS, unidirectional=1)


@pytest.mark.parametrize("attributes", [{}, {"scale": 0.3}, {"scale": 0.0}, {"qkv_hidden_sizes": [4, 4, 10]}])
@pytest.mark.parametrize("bias", [False, True])
def test_scales_and_sizes(judge, attributes, bias) -> None:
    x, w, b = projections(attributes.get("qkv_hidden_sizes", (8, 8, 8)))
    judge("Attention", [x, w, b if bias else None], num_heads=HEADS, **attributes)


def test_halves_one_sequence_and_nothing(judge) -> None:
    x, w, b = projections()
    judge("Attention", projections(dtype=np.float16), num_heads=HEADS, atol=4e-3)
    judge("Attention", [x[:1], w, b, int32([2])], n_outputs=2, num_heads=HEADS)
    judge("Attention", [x[:0], w, b], n_outputs=2, num_heads=HEADS)
    judge("Attention", [x[:, :0], w, b], n_outputs=2, num_heads=HEADS)
    judge("Attention", [x, w, b, None, random(2, BATCH, HEADS, 0, 4)], n_outputs=2, num_heads=HEADS)


def test_a_mask_of_all_positions_shows_those_of_now() -> None:
    # No kernel for CPUs takes masks of four axes.
    x, w, b = projections()
    past = random(2, BATCH, HEADS, 2, 4)
    causal = np.tril(np.ones((BATCH, 1, 6, 6), np.int32))
    masked, present = attention.Attention(x, w, b, causal, past, num_heads=HEADS)
    expected, whole = attention.Attention(x, w, b, None, past, num_heads=HEADS, unidirectional=1)
    np.testing.assert_allclose(masked, expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(present, whole)


def test_a_cache_with_room_keeps_its_size() -> None:
    x, w, b = projections()
    room = random(2, BATCH, HEADS, 9, 4)
    shared = {"num_heads": HEADS, "past_present_share_buffer": 1}
    y, present = attention.Attention(x, w, b, None, room, None, np.array(4, np.int32), **shared)
    expected, whole = attention.Attention(x, w, b, None, room[:, :, :, :4], num_heads=HEADS)
    np.testing.assert_array_equal(y, expected)
    np.testing.assert_array_equal(present, np.concatenate((whole, room[:, :, :, 7:]), axis=3))


def test_what_is_not_defined_is_refused() -> None:
    x, w, b = projections()
    with pytest.raises(Unsupported, match="do_rotary=1"):
        attention.Attention(x, w, b, num_heads=HEADS, do_rotary=1)
    with pytest.raises(Unsupported, match="4 numbers for 3 sequences"):
        attention.Attention(random(3, 2, WIDTH), w, b, int32([1, 1, 1, 1]), num_heads=HEADS)
    with pytest.raises(Unsupported, match="qkv_hidden_sizes"):
        attention.Attention(*projections((4, 4, 10)), num_heads=HEADS, qkv_hidden_sizes=(4, 4, 10), n_outputs=2)


KEYS = 5


def cross(width=12, dtype=np.float32):
    return [
        random(BATCH, LENGTH, WIDTH, dtype=dtype),
        random(BATCH, KEYS, WIDTH, dtype=dtype),
        random(BATCH, KEYS, width, dtype=dtype),
    ]


KEY_MASKS = {
    "none": None,
    "lengths": [2, 5],
    "cumulative lengths": [2, 3, 0, 3, 6, 0, 2, 5],
    "of each key": RNG.integers(0, 2, (BATCH, KEYS)).tolist(),
    "of each pair": RNG.integers(0, 2, (BATCH, LENGTH, KEYS)).tolist(),
}


@pytest.mark.parametrize("mask", KEY_MASKS)
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("attributes", [{}, {"scale": 0.2, "mask_filter_value": -3.0}])
def test_cross_attention(judge, mask, bias, attributes) -> None:
    inputs = [*cross(), random(28) if bias else None, int32(KEY_MASKS[mask])]
    judge("MultiHeadAttention", inputs, n_outputs=4, out=np.float32, num_heads=HEADS, **attributes)


@pytest.mark.parametrize("lead", [(BATCH, HEADS), (1, HEADS), (BATCH, 1), (1, 1)])
def test_cross_attention_with_a_bias_of_scores(judge, lead) -> None:
    inputs = [*cross(), None, int32([2, 5]), random(*lead, LENGTH, KEYS)]
    judge("MultiHeadAttention", inputs, n_outputs=4, out=np.float32, num_heads=HEADS)


@pytest.mark.parametrize("mask", [None, [2, 3]])
def test_self_attention_of_the_past_only(judge, mask) -> None:
    x = random(BATCH, LENGTH, WIDTH)
    inputs = [x, x, random(BATCH, LENGTH, 6), None, int32(mask)]
    judge("MultiHeadAttention", inputs, n_outputs=4, out=np.float32, num_heads=HEADS, unidirectional=1)


def test_queries_of_a_longer_past_see_no_later_key() -> None:
    # The runtime shows the last query every key, which matters where there are more keys than queries.
    q, k, v = cross(8)
    y = attention.MultiHeadAttention(q, k, v, num_heads=1, unidirectional=1)[0]
    scores = np.where(np.tri(LENGTH, KEYS, dtype=bool), q @ k.swapaxes(1, 2) / math.sqrt(WIDTH), -np.inf)
    weights = np.exp(scores) / np.exp(scores).sum(axis=2, keepdims=True)
    np.testing.assert_allclose(y, weights @ v, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("mask", [name for name in PAST_MASKS if name != "ends and starts"])
@pytest.mark.parametrize("unidirectional", [0, 1])
def test_cache(judge, mask, unidirectional) -> None:
    x = [random(BATCH, LENGTH, WIDTH) for _ in range(3)]
    cache = [random(BATCH, HEADS, 4, 4) for _ in range(2)]
    inputs = [*x, random(24), int32(PAST_MASKS[mask]), None, *cache]
    judge("MultiHeadAttention", inputs, n_outputs=4, out=np.float32, num_heads=HEADS, unidirectional=unidirectional)


@pytest.mark.parametrize("length", [1, 3])
def test_cache_with_room(judge, length) -> None:
    x = [random(BATCH, length, WIDTH) for _ in range(3)]
    room = [random(BATCH, HEADS, 9, 4) for _ in range(2)]
    judge("MultiHeadAttention", [*x, None, None, None, *room, int32([4])], n_outputs=3, num_heads=HEADS)


@pytest.mark.parametrize("bias", [False, True])
def test_keys_of_an_earlier_call(judge, bias) -> None:
    inputs = [random(BATCH, LENGTH, WIDTH), *(random(BATCH, HEADS, KEYS, 4) for _ in range(2)), random(24) if bias else None]
    judge("MultiHeadAttention", inputs, n_outputs=4, out=np.float32, num_heads=HEADS)


@pytest.mark.parametrize("bias", [None, random(24)])
def test_packed_forms_are_the_same_as_separate_ones(bias) -> None:
    # No kernel for CPUs takes packed tensors.
    packed = random(BATCH, LENGTH, HEADS, 3, 4)
    q, k, v = (packed[:, :, :, i].reshape(BATCH, LENGTH, WIDTH) for i in range(3))
    expected = attention.MultiHeadAttention(q, k, v, bias, num_heads=HEADS)
    for inputs in ((packed, None, None, bias), (q, packed[:, :, :, 1:], None, bias)):
        for ours, theirs in zip(attention.MultiHeadAttention(*inputs, num_heads=HEADS), expected, strict=True):
            np.testing.assert_array_equal(ours, theirs)


def test_cross_attention_of_halves_and_of_nothing(judge) -> None:
    q, k, v = cross(8)
    judge("MultiHeadAttention", cross(8, np.float16), num_heads=HEADS, atol=4e-3)
    judge("MultiHeadAttention", [q[:0], k[:0], v[:0]], num_heads=HEADS)
    judge("MultiHeadAttention", [q[:, :0], k, v], num_heads=HEADS)
    judge("MultiHeadAttention", [q, k[:, :0], v[:, :0]], num_heads=HEADS)


def test_beam_search_is_refused() -> None:
    with pytest.raises(Unsupported, match="cache_indirection"):
        attention.MultiHeadAttention(*cross(), cache_indirection=int32([[[0]]]), num_heads=HEADS)


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
@pytest.mark.parametrize("columns", [False, True])
@pytest.mark.parametrize("zero_points", [False, True])
@pytest.mark.parametrize("past", [False, True])
def test_quantized_attention(judge, dtype, columns, zero_points, past) -> None:
    limits = np.iinfo(dtype)
    x = RNG.integers(0, 256, (BATCH, LENGTH, WIDTH)).astype(np.uint8)
    w = RNG.integers(limits.min, limits.max + 1, (WIDTH, 24)).astype(dtype)
    scale = RNG.random(24).astype(np.float32) * 0.02 if columns else np.array(0.01, np.float32)
    zeros = (
        [np.array(120, np.uint8), np.asarray(RNG.integers(0, 9, scale.shape).astype(dtype))] if zero_points else [None, None]
    )
    mask = int32([2, 3] if not past else [2, 6])
    cache = random(2, BATCH, HEADS, 4, 4) if past else None
    inputs = [x, w, random(24), np.array(0.02, np.float32), scale, mask, *zeros, cache]
    judge("QAttention", inputs, n_outputs=2, num_heads=HEADS, unidirectional=int(past), atol=1e-4)


POSITIONS = {"offset": [2], "each": [[0, 1, 2], [3, 4, 1]]}


@pytest.mark.parametrize("positions", POSITIONS)
@pytest.mark.parametrize(
    "attributes",
    [
        {},
        {"num_heads": 2},
        {"interleaved": 1},
        {"num_heads": 1, "rotary_embedding_dim": 4},
        {"num_heads": 1, "rotary_embedding_dim": 4, "interleaved": 1},
        {"is_packed_batching": 1},
        {"scale": 1.0},
    ],
)
def test_rotary_embedding(judge, positions, attributes) -> None:
    judge(
        "RotaryEmbedding",
        [random(BATCH, LENGTH, 8), np.array(POSITIONS[positions]), random(8, 2), random(8, 2)],
        **attributes,
    )


@pytest.mark.parametrize("positions", POSITIONS)
@pytest.mark.parametrize("interleaved", [0, 1])
def test_rotary_embedding_of_heads(judge, positions, interleaved) -> None:
    rest = [np.array(POSITIONS[positions]), random(8, 2), random(8, 2)]
    judge("RotaryEmbedding", [random(BATCH, 5, LENGTH, 4), *rest], interleaved=interleaved)
    part = {"num_heads": 5, "rotary_embedding_dim": 4, "interleaved": interleaved}
    judge("RotaryEmbedding", [random(BATCH, 5, LENGTH, 6), *rest], **part)


def test_rotary_embedding_of_halves_and_of_nothing(judge) -> None:
    start, dtype = np.array([2]), np.float16
    halves = [random(BATCH, LENGTH, 8, dtype=dtype), start, random(8, 2, dtype=dtype), random(8, 2, dtype=dtype)]
    judge("RotaryEmbedding", halves, atol=4e-3)
    judge("RotaryEmbedding", [random(0, 3, 8), start, random(8, 2), random(8, 2)])
    judge("RotaryEmbedding", [random(2, 0, 8), start, random(8, 2), random(8, 2)])


def test_rotary_embedding_refuses_a_scale() -> None:
    with pytest.raises(Unsupported, match="scale=2"):
        attention.RotaryEmbedding(random(1, 1, 4), np.array([0]), random(8, 2), random(8, 2), scale=2.0)
