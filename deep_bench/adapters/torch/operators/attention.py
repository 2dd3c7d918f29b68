"""Attention, where torch's fused function means the same."""

from __future__ import annotations

from collections.abc import Callable

import torch

from deep_bench.adapters.lowering import NotNative, Site
from deep_bench.adapters.lowering.plan import rank_of, static_shape
from deep_bench.adapters.torch.operators._site import Tensor, torch_type

__all__ = ["Attention"]


def Attention(site: Site) -> Callable[..., Tensor]:
    """``softmax(Q K' scale) V`` per head; masks, caches and soft caps are left to the operator's own definition."""
    extras = any(site.has(i) for i in range(3, 7)) or any(site.wants(i) for i in range(1, 4))
    settings = ("softcap", "qk_matmul_output_mode", "is_causal")
    windows = any(site.attribute(f"{side}_window_size", -1) >= 0 for side in ("left", "right"))
    if extras or windows or any(site.attribute(s, 0) for s in settings) or torch_type(site).itemsize < 4:
        raise NotNative("torch has no attention with these settings")
    scale = site.attribute("scale")
    scaled = torch.nn.functional.scaled_dot_product_attention
    if rank_of(site) == 4:
        q, k = static_shape(site), static_shape(site, 1)
        if q is None or k is None or q[1] != k[1]:
            raise NotNative("the numbers of heads are not known to be equal")
        return lambda q, k, v, *_: scaled(q, k, v, scale=scale)
    q_heads, heads = site.attribute("q_num_heads"), site.attribute("kv_num_heads")
    if not q_heads or q_heads != heads:
        raise NotNative("the numbers of heads are not equal")

    def attend(q: Tensor, k: Tensor, v: Tensor, *_: None) -> Tensor:
        q, k, v = (t.reshape(t.shape[0], t.shape[1], heads, -1).transpose(1, 2) for t in (q, k, v))
        return scaled(q, k, v, scale=scale).transpose(1, 2).flatten(2)

    return attend
