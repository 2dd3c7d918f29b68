"""Tables of embeddings that are quantized."""

from __future__ import annotations

import numpy as np

from deep_bench.reference.operators._arguments import check_choice, widened
from deep_bench.reference.operators.contrib.linear import unpacked
from deep_bench.reference.operators.contrib.normalization import EmbedLayerNormalization
from deep_bench.reference.operators.contrib.quantize import real

__all__ = ["GatherBlockQuantized", "QEmbedLayerNormalization"]


def GatherBlockQuantized(data, indices, scales, zero_points=None, *, bits=4, block_size=128, gather_axis=0, quantize_axis=1):
    """Gather of what ``data`` stands for, with a scale and a zero point for each block along ``quantize_axis``.

    Bytes hold numbers of ``bits`` bits along their last axis, the earlier ones in the lower bits; they and their zero
    points, ``2^(bits - 1)`` by default, are unsigned. An index beyond the table gives zeros. With ``block_size`` 0 the
    whole axis is one block.

    Source:
        ONNX Runtime GatherBlockQuantized.
    """
    check_choice("GatherBlockQuantized", "bits", bits, (2, 4, 8))
    rank = data.ndim
    gather_axis, quantize_axis = gather_axis % rank, quantize_axis % rank
    middle = 0
    if data.dtype == np.uint8:
        data, middle = unpacked(data, bits), 2 ** (bits - 1)
        zero_points = None if zero_points is None else unpacked(zero_points, bits)
    size = data.shape[gather_axis]
    outside = (indices < -size) | (indices >= size)
    index = np.where(outside, 0, indices)

    block = np.arange(data.shape[quantize_axis]) // (block_size or data.shape[quantize_axis])

    def spread(v):
        return np.take(v, block, axis=quantize_axis)

    offset = middle if zero_points is None else spread(zero_points.astype(np.float32))
    values = (data.astype(np.float32) - offset) * spread(widened(scales))
    gathered = np.take(values, index, axis=gather_axis)
    hidden = outside.reshape(*(1,) * gather_axis, *outside.shape, *(1,) * (rank - gather_axis - 1))
    return np.where(hidden, 0, gathered).astype(scales.dtype, copy=False)


def QEmbedLayerNormalization(
    input_ids,
    segment_ids,
    word_embedding,
    position_embedding,
    segment_embedding,
    gamma,
    beta,
    mask=None,
    word_scale=None,
    position_scale=None,
    segment_scale=None,
    gamma_scale=None,
    beta_scale=None,
    word_zero_point=None,
    position_zero_point=None,
    segment_zero_point=None,
    gamma_zero_point=None,
    beta_zero_point=None,
    *,
    epsilon=9.999999960041972e-13,
):
    """EmbedLayerNormalization of what the tables and weights stand for.

    Returns:
        The result, and for each sequence the number of ones in its mask.

    Source:
        ONNX Runtime QEmbedLayerNormalization.
    """
    segments = None if segment_ids is None else real(segment_embedding, segment_scale, segment_zero_point)
    y, counted, _ = EmbedLayerNormalization(
        input_ids,
        segment_ids,
        real(word_embedding, word_scale, word_zero_point),
        real(position_embedding, position_scale, position_zero_point),
        segments,
        real(gamma, gamma_scale, gamma_zero_point),
        real(beta, beta_scale, beta_zero_point),
        mask,
        epsilon=epsilon,
    )
    return y, counted
