"""Activation functions."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch.nn import functional

from deep_bench.adapters.lowering import Site
from deep_bench.adapters.lowering.plan import kind_of, static_shape
from deep_bench.adapters.torch.operators._site import Builder, Tensor, in_range, torch_type

__all__ = [
    "Celu", "Elu", "Gelu", "HardSigmoid", "HardSwish", "Hardmax", "LeakyRelu", "LogSoftmax", "Mish", "PRelu", "Relu", "Selu",
    "Shrink", "Sigmoid", "Softmax", "Softplus", "Softsign", "Swish", "Tanh", "ThresholdedRelu",
]  # fmt: skip

SELU_ALPHA = float(np.float32(1.6732632423543772848170429916717))
SELU_SCALE = float(np.float32(1.0507009873554804934193349852946))


def _builder_of(function: Callable[..., Tensor]) -> Builder:
    def builder(_: Site) -> Callable[..., Tensor]:
        return function

    return builder


Relu, Sigmoid, Tanh, Mish, Softsign, HardSwish = map(
    _builder_of, (torch.relu, torch.sigmoid, torch.tanh, functional.mish, functional.softsign, functional.hardswish)
)


def LeakyRelu(site: Site) -> Callable[..., Tensor]:
    """``alpha x`` below zero."""
    alpha, leaky = site.attribute("alpha", 0.01), torch._C._nn.leaky_relu
    return lambda x: leaky(x, alpha)


def PRelu(site: Site) -> Callable[..., Tensor]:
    """``slope x`` below zero, with a slope that broadcasts to the input."""
    if kind_of(site) != "float":
        return lambda x, slope: torch.where(x < 0, slope * x, x)
    x, slope = static_shape(site), static_shape(site, 1)
    rank = None if site.inputs[0] is None else site.inputs[0].rank
    if slope is not None and int(np.prod(slope)) == 1 and torch_type(site).itemsize >= 4:
        return lambda x, slope: torch.prelu(x, slope.reshape(1))
    per_channel = x is not None and slope and rank == len(slope) + 1 and slope[0] == x[1] == int(np.prod(slope))
    if per_channel:
        return lambda x, slope: torch.prelu(x, slope.reshape(-1))
    return lambda x, slope: torch.where(x < 0, slope * x, x)


def Elu(site: Site) -> Callable[..., Tensor]:
    """``alpha (exp(x) - 1)`` below zero."""
    alpha, elu = site.attribute("alpha", 1.0), torch._C._nn.elu
    return lambda x: elu(x, alpha)


def Celu(site: Site) -> Callable[..., Tensor]:
    """``max(0, x) + min(0, alpha (exp(x / alpha) - 1))``."""
    alpha = site.attribute("alpha", 1.0)
    return lambda x: torch.celu(x, alpha)


def Selu(site: Site) -> Callable[..., Tensor]:
    """``gamma`` times ``Elu``."""
    alpha, gamma = site.attribute("alpha", SELU_ALPHA), site.attribute("gamma", SELU_SCALE)
    elu = torch._C._nn.elu
    return lambda x: elu(x, alpha, gamma)


def HardSigmoid(site: Site) -> Callable[..., Tensor]:
    """``max(0, min(1, alpha x + beta))``."""
    alpha, beta = site.attribute("alpha", 0.2), site.attribute("beta", 0.5)
    narrow = torch_type(site).itemsize <= 4
    if narrow and np.float32(alpha) == np.float32(1 / 6) and beta == 0.5:
        return torch._C._nn.hardsigmoid  # in float64 its 1/6 would differ from the attribute's
    return lambda x: torch.clamp(x * alpha + beta, 0, 1)


def ThresholdedRelu(site: Site) -> Callable[..., Tensor]:
    """``x`` above the threshold, else zero."""
    alpha = in_range(site.attribute("alpha", 1.0), torch_type(site))
    return lambda x: torch.where(x > alpha, x, 0)


def Shrink(site: Site) -> Callable[..., Tensor]:
    """Zero within ``lambd`` of zero, else moved towards it by ``bias``."""
    limit, bias = site.attribute("lambd", 0.5), site.attribute("bias", 0.0)
    dtype = torch_type(site)
    return lambda x: torch.where(x < -limit, x + bias, torch.where(x > limit, x - bias, 0)).to(dtype)


def Softplus(site: Site) -> Callable[..., Tensor]:
    """``log(1 + exp(x))``, which is ``x`` to within rounding above the threshold."""
    threshold, softplus = (40.0 if torch_type(site) == torch.float64 else 20.0), torch._C._nn.softplus
    return lambda x: softplus(x, 1.0, threshold)


def Swish(site: Site) -> Callable[..., Tensor]:
    """``x sigmoid(alpha x)``."""
    alpha = site.attribute("alpha", 1.0)
    if alpha == 1.0:
        return torch._C._nn.silu
    return lambda x: x * torch.sigmoid(x * alpha)


def Gelu(site: Site) -> Callable[..., Tensor]:
    """The Gaussian error linear unit, exact or by ``tanh``."""
    form, gelu = site.attribute("approximate", "none"), torch._C._nn.gelu
    return lambda x: gelu(x, approximate=form)


def Softmax(site: Site) -> Callable[..., Tensor]:
    """``exp(x) / sum exp(x)`` along an axis."""
    axis = site.attribute("axis", -1)
    return lambda x: torch.softmax(x, axis)


def LogSoftmax(site: Site) -> Callable[..., Tensor]:
    """The logarithm of ``Softmax``."""
    axis = site.attribute("axis", -1)
    return lambda x: torch.log_softmax(x, axis)


def Hardmax(site: Site) -> Callable[..., Tensor]:
    """One at the first maximum along an axis, else zero."""
    axis = site.attribute("axis", -1)

    def hardmax(x: Tensor) -> Tensor:
        zeros = torch.zeros_like(x)
        return zeros.scatter(axis, torch.argmax(x, axis, keepdim=True), 1) if x.numel() else zeros

    return hardmax
