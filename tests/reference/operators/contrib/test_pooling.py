"""Pools with the channels last, and pools of eight bits."""

from __future__ import annotations

import numpy as np
import pytest

RNG = np.random.default_rng(6)
EIGHT_BITS = [np.uint8, np.int8]


def integers(*shape, dtype=np.uint8):
    limits = np.iinfo(dtype)
    return RNG.integers(limits.min, limits.max + 1, shape).astype(dtype)


def parameters(scale, zero_point, dtype):
    return [np.array(scale, np.float32), np.array(zero_point, dtype)]


@pytest.mark.parametrize("dtype", EIGHT_BITS)
@pytest.mark.parametrize(
    "attributes",
    [
        {},
        {"strides": [2, 2], "ceil_mode": 1},
        {"pads": [1, 1, 1, 0]},
        {"dilations": [2, 1]},
        {"auto_pad": "SAME_UPPER", "strides": [2, 2]},
        {"auto_pad": "SAME_LOWER"},
        {"auto_pad": "VALID"},
    ],
)
def test_nhwc_max_pool(judge, dtype, attributes) -> None:
    judge("NhwcMaxPool", [integers(2, 5, 6, 3, dtype=dtype)], kernel_shape=[2, 3], **attributes)


@pytest.mark.parametrize("shape", [(2, 5, 3), (1, 4, 5, 6, 2), (0, 5, 5, 3)])
def test_nhwc_max_pool_of_other_ranks(judge, shape) -> None:
    judge("NhwcMaxPool", [integers(*shape)], kernel_shape=[2] * (len(shape) - 2))


@pytest.mark.parametrize("dtype", EIGHT_BITS)
@pytest.mark.parametrize("last", [0, 1])
@pytest.mark.parametrize(
    "attributes",
    [
        {},
        {"pads": [1, 1, 1, 1], "count_include_pad": 1},
        {"pads": [1, 0, 1, 1]},
        {"strides": [2, 2], "ceil_mode": 1},
        {"auto_pad": "SAME_UPPER"},
        {"auto_pad": "SAME_LOWER"},
        {"auto_pad": "VALID"},
    ],
)
def test_average_pool(judge, dtype, last, attributes) -> None:
    ends = [*parameters(0.05, 20, dtype), *parameters(0.04, 10, dtype)]
    judge(
        "QLinearAveragePool",
        [integers(2, 6, 5, 6, dtype=dtype), *ends],
        channels_last=last,
        kernel_shape=[2, 3],
        **attributes,
    )


@pytest.mark.parametrize("dtype", EIGHT_BITS)
@pytest.mark.parametrize("last", [0, 1])
@pytest.mark.parametrize("shape", [(2, 3, 5), (1, 2, 5, 4), (2, 3, 4, 3, 2)])
def test_pools_of_each_rank(judge, dtype, last, shape) -> None:
    x, ends = integers(*shape, dtype=dtype), [*parameters(0.05, 20, dtype), *parameters(0.02, 10, dtype)]
    judge("QLinearGlobalAveragePool", [x, *ends], channels_last=last)
    judge("QLinearAveragePool", [x, *ends], channels_last=last, kernel_shape=[2] * (len(shape) - 2))
