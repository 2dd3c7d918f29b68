"""Losses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional

from deep_bench.adapters.lowering import NotNative, Site
from deep_bench.adapters.lowering.plan import dynamic
from deep_bench.adapters.torch.operators._site import Tensor, torch_type

__all__ = ["SoftmaxCrossEntropyLoss"]

_NEVER = -(2**63)


def SoftmaxCrossEntropyLoss(site: Site) -> Callable[..., Any]:
    """``-log softmax(scores)`` at the labels, weighed by class; and that logarithm, where it is asked for."""
    reduction, ignored = site.attribute("reduction", "mean"), site.attribute("ignore_index", _NEVER)
    if torch_type(site).itemsize < 4 or torch_type(site, 1) != torch.int64:
        raise NotNative("torch's own loss is for float32 and float64, and labels in int64")
    if dynamic(site, 2):
        raise NotNative("torch's own loss has no derivatives with respect to the classes' weights")
    if len(site.outputs) == 1:
        return lambda x, labels, w=None: functional.cross_entropy(x, labels, w, None, ignored, None, reduction)

    def loss(x: Tensor, labels: Tensor, w: Tensor | None = None) -> tuple[Tensor, Tensor]:
        logarithms = torch.log_softmax(x, 1)
        return functional.nll_loss(logarithms, labels, w, None, ignored, None, reduction), logarithms

    return loss
