"""Attention with shared keys, a cache and sequences of different lengths."""

from __future__ import annotations

import numpy as np
import pytest

from deep_bench.errors import Unsupported
from deep_bench.reference.operators.contrib.grouped import GroupQueryAttention

RNG = np.random.default_rng(12)
BATCH, LENGTH, HEADS, SHARED, SIZE = 2, 3, 4, 2, 16
COUNTS = {"num_heads": HEADS, "kv_num_heads": SHARED}


def random(*shape, dtype=np.float32):
    return RNG.standard_normal(shape).astype(dtype)


def int32(*values):
    return np.array(values, np.int32)


def given(batch=BATCH, length=LENGTH, past=0, room=0, ends=None, dtype=np.float32):
    """The first seven inputs: queries, keys, values, caches, ends less one, and the longest sequence."""
    new = [random(batch, length, count * SIZE, dtype=dtype) for count in (HEADS, SHARED, SHARED)]
    caches = [random(batch, SHARED, room or past, SIZE, dtype=dtype) if past or room else None for _ in range(2)]
    ends = [past + length] * batch if ends is None else ends
    return [*new, *caches, int32(*ends) - 1, int32(past + length)]


def angles():
    return [random(16, SIZE // 2), random(16, SIZE // 2)]


OPTIONS = [
    {},
    {"scale": 0.1},
    {"softcap": 0.5},
    {"local_window_size": 0},
    {"local_window_size": 1},
    {"local_window_size": 2},
    {"local_window_size": 9},
    {"causal": 0},
    {"smooth_softmax": 1},
]


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("output", [1, 2])
def test_a_first_call(judge, options, output) -> None:
    judge("GroupQueryAttention", given(), n_outputs=4, out=np.float32, qk_output=output, **COUNTS, **options)


@pytest.mark.parametrize("options", OPTIONS)
def test_a_later_call(judge, options) -> None:
    judge("GroupQueryAttention", given(length=1, past=5), n_outputs=3, **COUNTS, **options)
    judge("GroupQueryAttention", given(batch=1, past=5), n_outputs=3, **COUNTS, **options)


@pytest.mark.parametrize("interleaved", [0, 1])
@pytest.mark.parametrize("positions", [[], [np.array([[2, 3, 4], [0, 5, 1]])]])
def test_turned_by_position(judge, interleaved, positions) -> None:
    inputs = [*given(), *angles(), *positions]
    judge("GroupQueryAttention", inputs, n_outputs=3, do_rotary=1, rotary_interleaved=interleaved, **COUNTS)
    judge("GroupQueryAttention", [*given(length=1, past=5), *angles()], n_outputs=3, do_rotary=1, **COUNTS)


def test_turned_by_positions_that_are_given_later(judge) -> None:
    inputs = [*given(length=1, past=5), *angles(), np.array([[2], [9]])]
    judge("GroupQueryAttention", inputs, n_outputs=3, do_rotary=1, **COUNTS)


def test_packed(judge) -> None:
    q, k, v, *rest = given()
    packed = np.concatenate((q, k, v), axis=2)
    judge("GroupQueryAttention", [packed, None, None, *rest, *angles()], n_outputs=3, do_rotary=1, **COUNTS)


@pytest.mark.parametrize("lead", [(BATCH, HEADS), (1, 1), (BATCH, 1)])
@pytest.mark.parametrize("softcap", [0.0, 0.5])
def test_bias_and_sinks(judge, lead, softcap) -> None:
    inputs = [*given(), None, None, None, random(*lead, LENGTH, LENGTH), random(HEADS)]
    judge("GroupQueryAttention", inputs, n_outputs=3, softcap=softcap, **COUNTS)


def test_halves(judge) -> None:
    judge("GroupQueryAttention", given(dtype=np.float16), atol=4e-3, n_outputs=3, **COUNTS)


@pytest.mark.parametrize(
    ("inputs", "ends", "valid"),
    [
        (given(ends=[2, 3]), [2, 3], [2, 3]),
        (given(length=1, past=5, ends=[4, 6]), [4, 6], [1, 1]),
        (given(length=1, past=5, room=12, ends=[4, 6]), [4, 6], [1, 1]),
        (given(batch=1, past=5, room=12), [8], [3]),
        ([*given(past=5, ends=[6, 8]), *angles(), *[None] * 7, int32(2, 3)], [6, 8], [2, 3]),
    ],
)
def test_sequences_of_different_lengths(runtime, inputs, ends, valid) -> None:
    rotary = {"do_rotary": int(len(inputs) > 7)}
    expected = runtime("GroupQueryAttention", inputs, COUNTS | rotary, 3, "com.microsoft", (), None)
    found = GroupQueryAttention(*inputs, **COUNTS, **rotary)
    for number, (end, count) in enumerate(zip(ends, valid, strict=True)):
        np.testing.assert_allclose(found[0][number, :count], expected[0][number, :count], rtol=1e-5, atol=1e-5)
        for ours, theirs in zip(found[1:3], expected[1:], strict=True):
            assert ours.shape == theirs.shape
            np.testing.assert_allclose(ours[number, :, :end], theirs[number, :, :end], rtol=1e-5, atol=1e-5)


def test_normalized_heads_by_the_formula() -> None:
    # No kernel for CPUs normalizes queries and keys.
    inputs = given()
    weights = [random(SIZE), random(SIZE)]

    def normalized(x, weight, epsilon):
        split = x.reshape(BATCH, LENGTH, -1, SIZE)
        scaled = split / np.sqrt(np.mean(split**2, axis=3, keepdims=True) + epsilon) * weight
        return scaled.reshape(x.shape)

    expected = GroupQueryAttention(
        normalized(inputs[0], weights[0], 0.1), normalized(inputs[1], weights[1], 0.2), *inputs[2:], **COUNTS
    )
    extra = [*[None] * 7, *weights]
    found = GroupQueryAttention(*inputs, *extra, q_norm_epsilon=0.1, k_norm_epsilon=0.2, **COUNTS)
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("attribute", [{"k_quant_type": "PER_TENSOR"}, {"sliding_window_cache": 1}])
def test_other_caches_are_refused(attribute) -> None:
    with pytest.raises(Unsupported, match=next(iter(attribute))):
        GroupQueryAttention(*given(), **COUNTS, **attribute)
