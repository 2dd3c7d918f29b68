"""Normalization of sums."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from deep_bench.reference.operators.contrib import normalization

RNG = np.random.default_rng(3)


def random(*shape, dtype=np.float32):
    return RNG.standard_normal(shape).astype(dtype)


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
@pytest.mark.parametrize("skip", [(2, 3, 4), (1, 3, 4), (3, 4)])
@pytest.mark.parametrize(("beta", "bias"), list(itertools.product((False, True), repeat=2)))
def test_skip_layer_normalization(judge, dtype, skip, beta, bias) -> None:
    x, gamma = random(2, 3, 4, dtype=dtype), random(4, dtype=dtype)
    extra = [random(4, dtype=dtype) if given else None for given in (beta, bias)]
    judge("SkipLayerNormalization", [x, random(*skip, dtype=dtype), gamma, *extra], n_outputs=4, epsilon=0.01)


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
@pytest.mark.parametrize("skip", [(2, 3, 4), (1, 3, 4), (3, 4)])
@pytest.mark.parametrize("bias", [False, True])
def test_skip_simplified_layer_normalization(judge, dtype, skip, bias) -> None:
    inputs = [random(2, 3, 4, dtype=dtype), random(*skip, dtype=dtype), random(4, dtype=dtype)]
    inputs += [random(4, dtype=dtype)] if bias else []
    judge("SkipSimplifiedLayerNormalization", inputs, n_outputs=4, epsilon=0.01)


@pytest.mark.parametrize("name", ["SkipLayerNormalization", "SkipSimplifiedLayerNormalization"])
@pytest.mark.parametrize("shape", [(5, 4), (1, 1, 4), (0, 3, 4), (2, 0, 4)])
def test_skip_normalization_of_other_shapes(judge, name, shape) -> None:
    judge(name, [random(*shape), random(*shape), random(4)])


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
@pytest.mark.parametrize("axis", [-1, 1])
def test_simplified_layer_normalization_of_the_default_domain(judge, dtype, axis) -> None:
    x = random(2, 3, 4, dtype=dtype)
    judge("SimplifiedLayerNormalization", [x, random(*x.shape[axis:], dtype=dtype)], n_outputs=2, domain="", axis=axis)


WORDS = np.array([[0, 4, 2], [1, 1, 3]], np.int32)
SEGMENTS = np.array([[0, 0, 1], [1, 0, 1]], np.int32)
MASKS = {"none": None, "right": [[1, 1, 0], [1, 0, 0]], "left": [[0, 1, 1], [0, 0, 0]], "other": [[1, 2, 1], [0, 1, 0]]}
POSITIONS = {"none": None, "one row": [[3, 1, 2]], "rows": [[3, 1, 2], [0, 0, 5]]}


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("positions", POSITIONS)
@pytest.mark.parametrize("segments", [False, True])
def test_embed_layer_normalization(judge, dtype, mask, positions, segments) -> None:
    words, places, parts = (random(n, 4, dtype=dtype) for n in (5, 6, 2))
    integers = [None if v is None else np.array(v, np.int32) for v in (MASKS[mask], POSITIONS[positions])]
    inputs = [WORDS, SEGMENTS if segments else None, words, places, parts if segments else None]
    scale = [random(4, dtype=dtype), random(4, dtype=dtype)]
    judge("EmbedLayerNormalization", [*inputs, *scale, *integers], n_outputs=3, epsilon=1e-5, mask_index_type=1)


def test_embed_layer_normalization_of_no_sequences(judge) -> None:
    inputs = [WORDS[:0], None, random(5, 4), random(6, 4), None, random(4), random(4)]
    judge("EmbedLayerNormalization", inputs, n_outputs=3)


@pytest.mark.parametrize("last", [0, 1])
@pytest.mark.parametrize("activation", [0, 1])
def test_group_norm_by_its_formula(last, activation) -> None:
    x, gamma, beta = random(2, 4, 3, 5, dtype=np.float64), random(4, dtype=np.float64), random(4, dtype=np.float64)
    grouped = x.reshape(2, 2, -1)
    y = (grouped - grouped.mean(axis=2, keepdims=True)) / np.sqrt(grouped.var(axis=2, keepdims=True) + 0.1)
    y = y.reshape(x.shape) * gamma.reshape(-1, 1, 1) + beta.reshape(-1, 1, 1)
    y = y / (1 + np.exp(-y)) if activation else y
    given, expected = (np.moveaxis(a, 1, -1) if last else a for a in (x, y))
    options = {"activation": activation, "groups": 2, "channels_last": last, "epsilon": 0.1}
    np.testing.assert_allclose(normalization.GroupNorm(given, gamma, beta, **options), expected, rtol=1e-10)


def test_bias_add() -> None:
    x, bias, skip = random(2, 3, 4), random(4), random(2, 3, 4)
    np.testing.assert_array_equal(normalization.BiasAdd(x, bias, skip), x + bias + skip)
