"""FlexAttention against the plain formula."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import onnx
import pytest

from deep_bench.errors import InvalidInput
from deep_bench.reference.operators.preview import FlexAttention

RNG = np.random.default_rng(1)


def random(*shape, dtype=np.float64):
    return RNG.standard_normal(shape).astype(dtype)


def test_heads_share_keys_and_values() -> None:
    q, k, v = random(2, 4, 3, 8), random(2, 2, 5, 8), random(2, 2, 5, 6)
    y = FlexAttention(q, k, v, scale=0.5)
    for head in range(4):
        weights = np.exp(0.5 * q[:, head] @ np.swapaxes(k[:, head // 2], 1, 2))
        assert np.allclose(y[:, head], weights / weights.sum(-1, keepdims=True) @ v[:, head // 2])
    with pytest.raises(InvalidInput, match="3 heads on 2"):
        FlexAttention(q[:, :3], k, v)


@pytest.mark.parametrize(
    ("dtype", "inside"), [(np.float16, np.float32), (ml_dtypes.bfloat16, np.float32), (np.float64, np.float64)]
)
def test_the_modifiers_see_the_precise_type(dtype, inside) -> None:
    seen = []

    def keep(x):
        seen.append((x.dtype, x.shape))
        return (x,)

    x = random(1, 2, 3, 4, dtype=dtype)
    y = FlexAttention(x, x, x, score_mod=keep, prob_mod=keep)
    assert seen == [(inside, (1, 2, 3, 3))] * 2
    assert y.dtype == dtype


def test_masks_and_a_stated_precision() -> None:
    q, v = random(1, 1, 3, 4, dtype=np.float32), random(1, 1, 3, 2, dtype=np.float32)
    mask = np.where(np.tri(3, dtype=bool), 0, -np.inf).astype(np.float64)
    y = FlexAttention(q, q, v, score_mod=lambda s: (s + mask,), softmax_precision=onnx.TensorProto.DOUBLE)
    assert y.dtype == np.float32
    assert y[0, 0, 0] == pytest.approx(v[0, 0, 0])
    doubled = FlexAttention(q, q, v, prob_mod=lambda p: (2 * p,))
    assert doubled == pytest.approx(2 * FlexAttention(q, q, v), rel=1e-6)
