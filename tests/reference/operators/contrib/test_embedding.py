"""Tables of embeddings that are quantized."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

RNG = np.random.default_rng(14)
INDICES = np.array([[3, -1, 0], [2, 2, -4]])


def eight_bits(*shape, dtype=np.uint8):
    limits = np.iinfo(dtype)
    return RNG.integers(limits.min, limits.max + 1, shape).astype(dtype)


@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize("given", [False, True])
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_rows_of_bytes(judge, bits, given, dtype) -> None:
    data, zeros = eight_bits(4, 32 * bits // 8), eight_bits(4, -(-2 * bits // 8))
    scales = RNG.random((4, 2)).astype(np.float32)
    inputs = [data, INDICES.astype(dtype), scales, *([zeros] if given else [])]
    frozen = (0, 2, 3) if given else (0, 2)
    judge("GatherBlockQuantized", inputs, frozen=frozen, bits=bits, block_size=16, quantize_axis=1)


@pytest.mark.parametrize("kind", [ml_dtypes.int4, ml_dtypes.uint4])
@pytest.mark.parametrize("given", [False, True])
@pytest.mark.parametrize("axes", [(0, 1), (1, 0), (0, 0), (0, -1), (-1, 0)])
@pytest.mark.parametrize("floating", [np.float32, np.float16])
def test_four_bits_along_each_axis(judge, kind, given, axes, floating) -> None:
    shape = (32, 5) if axes[1] == 0 else (5, 32)
    low, high = (-8, 8) if kind == ml_dtypes.int4 else (0, 16)
    data = RNG.integers(low, high, shape).astype(kind)
    blocks = (2, 5) if axes[1] == 0 else (5, 2)
    scales = RNG.random(blocks).astype(floating)
    inputs = [data, INDICES, scales, *([RNG.integers(low, high, blocks).astype(kind)] if given else [])]
    frozen = (0, 2, 3) if given else (0, 2)
    judge("GatherBlockQuantized", inputs, frozen=frozen, block_size=16, gather_axis=axes[0], quantize_axis=axes[1])


def test_an_index_beyond_the_table_gives_zeros(judge) -> None:
    indices = np.array([9, 1, -9])
    inputs = [eight_bits(4, 16), indices, RNG.random((4, 2)).astype(np.float32)]
    judge("GatherBlockQuantized", inputs, frozen=(0, 2), block_size=16)


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
@pytest.mark.parametrize("segments", [False, True])
@pytest.mark.parametrize("masked", [False, True])
def test_quantized_embedding_of_words(judge, dtype, segments, masked) -> None:
    words = np.array([[0, 4, 2], [1, 1, 3]], np.int32)
    parts = np.array([[0, 0, 1], [1, 0, 1]], np.int32) if segments else None
    mask = np.array([[1, 1, 0], [1, 0, 0]], np.int32) if masked else None
    tables = [eight_bits(n, 4, dtype=dtype) for n in (5, 6, 2)] + [eight_bits(4, dtype=dtype) for _ in range(2)]
    ends = [[np.array(s, np.float32) for s in (0.02, 0.03, 0.01, 0.05, 0.04)], [np.array(z, dtype) for z in range(5)]]
    if not segments:
        tables[2] = ends[0][2] = ends[1][2] = None
    inputs = [words, parts, *tables, mask, *ends[0], *ends[1]]
    judge("QEmbedLayerNormalization", inputs, n_outputs=2, epsilon=1e-5, atol=1e-4)
