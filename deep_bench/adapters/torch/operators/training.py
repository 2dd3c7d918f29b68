"""Operators of the domain ``ai.onnx.preview.training``: gradients, and single steps of optimizers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from deep_bench.adapters.lowering import NotNative, Site
from deep_bench.adapters.lowering.plan import dtype_of
from deep_bench.adapters.torch.operators._site import Tensor
from deep_bench.adapters.torch.operators.control import BodyModule, plan_of, target_of
from deep_bench.tensor import is_float

__all__ = ["Adagrad", "Adam", "Gradient", "Momentum"]

DOMAIN = "ai.onnx.preview.training"


class Gradient(nn.Module):
    """The derivatives of (the sum of) one value of the graph with respect to others, by autograd."""

    def __init__(self, site: Site) -> None:
        super().__init__()
        self.body = BodyModule(plan_of(site, "graph"), target_of(site))
        self._given, self._outputs = len(site.inputs), len(site.outputs)
        self._wanted = len(site.attribute("xs"))
        for slot in site.inputs[: self._wanted]:
            if slot is None or slot.dtype is None or not is_float(slot.dtype):
                raise NotNative("xs names a value that is not known to be of a floating-point type")

    def forward(self, *arguments: Any) -> Any:
        with torch.inference_mode(False), torch.enable_grad():
            nested = any(isinstance(a, Tensor) and a.requires_grad for a in arguments)
            # autograd cannot save a tensor that was made in inference mode, but a copy of it
            copies = [a.clone() if isinstance(a, Tensor) else a for a in arguments]
            xs = [x if x.requires_grad else x.requires_grad_() for x in copies[: self._wanted]]
            (y,) = self.body.forward(copies[: self._given], copies[self._given :])
            gradients: tuple[Tensor | None, ...] = (None,) * len(xs)
            if y.requires_grad:
                gradients = torch.autograd.grad(y, xs, torch.ones_like(y), create_graph=nested, allow_unused=True)
            results = tuple(torch.zeros_like(x) if g is None else g for g, x in zip(gradients, xs, strict=True))
        results = results[: self._outputs]
        return results[0] if self._outputs == 1 else results


def _each(site: Site, kinds: int, update: Callable[..., tuple[Tensor, ...]]) -> Callable[..., Any]:
    """``update`` of each tensor with what belongs to it; inputs and outputs are ordered by kind first."""
    count = (len(site.inputs) - 2) // kinds
    if len(site.inputs) - 2 != count * kinds or not is_float(dtype_of(site, 2)):
        raise NotNative(f"{kinds} floating-point tensors belong to each one that is optimized")

    def step(rate: Tensor, steps: Tensor, *tensors: Tensor) -> Any:
        results = [update(rate, int(steps.item()), *tensors[i::count]) for i in range(count)]
        flat = tuple(y.to(tensors[0].dtype) for kind in zip(*results, strict=True) for y in kind)
        return flat if len(site.outputs) > 1 else flat[0]

    return step


def Adagrad(site: Site) -> Callable[..., Any]:
    """``x - r / (1 + t decay) g / (sqrt(h) + epsilon)``, where ``h`` gathers the squares of all gradients."""
    decay, epsilon = site.attribute("decay_factor", 0.0), site.attribute("epsilon", 9.999999974752427e-07)
    norm = site.attribute("norm_coefficient", 0.0)

    def update(r: Tensor, t: int, x: Tensor, g: Tensor, h: Tensor) -> tuple[Tensor, ...]:
        g = norm * x + g
        h = h + g * g
        return x - r / (1 + t * decay) * g / (torch.sqrt(h) + epsilon), h

    return _each(site, 3, update)


def Adam(site: Site) -> Callable[..., Any]:
    """``x - r' v / (sqrt(h) + epsilon)`` with running means ``v`` of the gradient and ``h`` of its square."""
    alpha, beta = site.attribute("alpha", 0.8999999761581421), site.attribute("beta", 0.9990000128746033)
    epsilon, norm = site.attribute("epsilon", 9.999999974752427e-07), site.attribute("norm_coefficient", 0.0)
    post = site.attribute("norm_coefficient_post", 0.0)

    def update(r: Tensor, t: int, x: Tensor, g: Tensor, v: Tensor, h: Tensor) -> tuple[Tensor, ...]:
        g = norm * x + g
        v = alpha * v + (1 - alpha) * g
        h = beta * h + (1 - beta) * g * g
        rate = r * math.sqrt(1 - beta**t) / (1 - alpha**t) if t > 0 else r
        return (1 - post) * (x - rate * v / (torch.sqrt(h) + epsilon)), v, h

    return _each(site, 4, update)


def Momentum(site: Site) -> Callable[..., Any]:
    """``x - r v`` with ``v = alpha v + beta g``, where ``beta`` is 1 at ``t = 0``; ``nesterov``: ``x - r (g + alpha v)``."""
    alpha, beta, norm = (site.attribute(name) for name in ("alpha", "beta", "norm_coefficient"))
    mode = site.attribute("mode")
    if mode not in ("standard", "nesterov"):
        raise NotNative(f"there is no mode {mode!r}")

    def update(r: Tensor, t: int, x: Tensor, g: Tensor, v: Tensor) -> tuple[Tensor, ...]:
        g = norm * x + g
        v = alpha * v + (beta if t > 0 else 1) * g
        return x - r * (g + alpha * v if mode == "nesterov" else v), v

    return _each(site, 3, update)
