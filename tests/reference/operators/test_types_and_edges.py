"""Element types that differ within one operator, and edges, which the standard's cases leave out."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from deep_bench.reference import operators

HALF = np.float16
DOUBLE = np.float64


def call(operator: str, *inputs, **attributes):
    return operators.find("", operator)(*inputs, **attributes)


def test_batch_normalization_keeps_the_type_of_each_result() -> None:
    x, scale, statistics = np.ones((2, 3), np.float32), np.ones(3, HALF), np.ones(3, DOUBLE)
    assert call("BatchNormalization", x, scale, scale, statistics, statistics).dtype == np.float32
    results = call("BatchNormalization", x, scale, scale, statistics, statistics, training_mode=1)
    assert [y.dtype for y in results] == [np.float32, DOUBLE, DOUBLE]


@pytest.mark.parametrize("dtype", [HALF, ml_dtypes.bfloat16, np.float32, DOUBLE])
def test_layer_normalization_gives_its_mean_in_the_stash_type(dtype) -> None:
    x = np.arange(6).reshape(2, 3).astype(dtype)
    y, mean, inverse = call("LayerNormalization", x, np.ones(3, dtype), n_outputs=3)
    assert (y.dtype, mean.dtype, inverse.dtype) == (np.dtype(dtype), np.float32, np.float32)
    assert mean.ravel().tolist() == [1, 4]


def test_rms_normalization_has_the_type_of_its_scale() -> None:
    assert call("RMSNormalization", np.ones((2, 3), HALF), np.ones(3, DOUBLE)).dtype == DOUBLE


def test_linear_attention_keeps_the_type_of_its_state() -> None:
    x, state = np.ones((1, 2, 2), HALF), np.ones((1, 1, 2, 2), np.float32)
    y, last = call("LinearAttention", x, x, x, state, q_num_heads=1, kv_num_heads=1, update_rule="linear")
    assert (y.dtype, last.dtype) == (HALF, np.float32)


def quantized_product(a, a_scale, b, b_scale, y_zero):
    """Without zero points of the factors, and a scale of 1 of the result."""
    scales = (np.asarray(s, np.float32) for s in (a_scale, b_scale))
    a_scale, b_scale = scales
    return call(
        "QLinearMatMul", a, a_scale, np.zeros(a_scale.shape, a.dtype), b, b_scale, np.zeros(b_scale.shape, b.dtype),
        np.float32(1), np.zeros((), y_zero),
    )  # fmt: skip


def test_a_quantized_matrix_times_a_vector_is_scaled_per_row() -> None:
    a, b = np.array([[1, 2], [3, 4]], np.uint8), np.array([1, 1], np.uint8)
    assert quantized_product(a, [1, 10], b, 1, np.uint8).tolist() == [3, 70]
    stack = np.stack([a, a])
    assert quantized_product(stack, [[[1], [10]], [[2], [3]]], b, 1, np.uint8).tolist() == [[3, 70], [6, 21]]


def test_a_quantized_vector_times_matrices_is_scaled_per_column() -> None:
    b = np.array([[[1, 2], [3, 4]]] * 2, np.uint8)
    assert quantized_product(np.array([1, 1], np.uint8), 1, b, [[[1, 10]], [[2, 3]]], np.uint8).tolist() == [
        [4, 60],
        [8, 18],
    ]


def test_a_quantized_product_of_fractions_is_not_truncated() -> None:
    half = np.array([[0.5, 0.5]], ml_dtypes.float8_e4m3fn)
    found = quantized_product(half, 1, half.T, 1, ml_dtypes.float8_e4m3fn)
    assert found.astype(np.float32).tolist() == [[0.5]]


@pytest.mark.parametrize("operator", ["CumSum", "CumProd"])
def test_nothing_before_nothing_is_nothing(operator: str) -> None:
    assert call(operator, np.zeros((2, 0), np.float32), np.array(1), exclusive=1).shape == (2, 0)


def test_a_recurrent_threshold_lets_itself_through() -> None:
    x = np.array([0.25, 0.5, 1], np.float32).reshape(3, 1, 1)
    identity, none = np.ones((1, 1, 1), np.float32), np.zeros((1, 1, 1), np.float32)
    y, _ = call("RNN", x, identity, none, activations=("ThresholdedRelu",), activation_alpha=(0.5,))
    assert y.ravel().tolist() == [0, 0.5, 1]
    assert call("ThresholdedRelu", x, alpha=0.5).ravel().tolist() == [0, 0, 1]
