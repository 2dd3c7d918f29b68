"""Tensors made from settings: constants, ranges and random numbers."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from deep_bench.adapters.lowering import Site
from deep_bench.adapters.torch.arrays import to_tensor, torch_dtype
from deep_bench.adapters.torch.operators._site import Builder, Tensor, listed, output_type, torch_type

__all__ = [
    "Bernoulli", "BlackmanWindow", "Constant", "ConstantOfShape", "EyeLike", "HammingWindow", "HannWindow",
    "MelWeightMatrix", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Range",
]  # fmt: skip


def Constant(site: Site) -> Callable[..., Tensor]:
    """A tensor that the node holds."""
    name, value = next(iter(site.attributes.items()))
    types: dict[str, Any] = {"value_int": np.int64, "value_float": np.float32}
    tensor = to_tensor(np.asarray(value, dtype=types.get(name.removesuffix("s"))))
    return lambda: tensor


def ConstantOfShape(site: Site) -> Callable[..., Tensor]:
    """A tensor of one value; zero in float32 by default."""
    declared = site.attribute("value")
    value, kind = (0.0, torch.float32) if declared is None else (declared.reshape(-1)[0].item(), output_type(site))
    kind = output_type(site) if declared is None else kind
    return lambda shape: torch.full(listed(shape), value, dtype=kind, device=shape.device)


def Range(site: Site) -> Callable[..., Tensor]:
    """``start``, ``start + delta``, … below ``limit``."""
    kind = torch_type(site)

    def span(start: Tensor, limit: Tensor, delta: Tensor) -> Tensor:
        first, last, step = start.item(), limit.item(), delta.item()
        count = max(math.ceil((last - first) / step), 0)
        return start + torch.arange(count, dtype=kind, device=start.device) * delta

    return span


def EyeLike(site: Site) -> Callable[..., Tensor]:
    """Ones on a diagonal, zeros elsewhere."""
    shift, kind = site.attribute("k", 0), output_type(site)

    def eye(x: Tensor) -> Tensor:
        rows = torch.arange(x.shape[0], device=x.device)[:, None]
        return (torch.arange(x.shape[1], device=x.device) - rows == shift).to(kind)

    return eye


def _generator(site: Site) -> torch.Generator | None:
    """A stream of its own for a node that states a seed; else torch's."""
    seed = site.attribute("seed")
    if seed is None:
        return None
    generator = torch.Generator()
    generator.manual_seed(int(np.float32(seed).view(np.uint32)))
    return generator


def _random(site: Site, draw: Callable[..., Tensor], like: bool) -> Callable[..., Tensor]:
    kind, generator, shape = output_type(site), _generator(site), site.attribute("shape")
    if like:
        return lambda x: draw(tuple(x.shape), generator).to(x.device, kind)
    return lambda: draw(tuple(shape), generator).to(kind)


def _normal(site: Site) -> Callable[..., Tensor]:
    mean, scale = site.attribute("mean", 0.0), site.attribute("scale", 1.0)
    return lambda shape, generator: torch.randn(shape, generator=generator) * scale + mean


def _uniform(site: Site) -> Callable[..., Tensor]:
    low, high = site.attribute("low", 0.0), site.attribute("high", 1.0)
    return lambda shape, generator: torch.rand(shape, generator=generator) * (high - low) + low


def RandomNormal(site: Site) -> Callable[..., Tensor]:
    """Draws from a normal distribution."""
    return _random(site, _normal(site), like=False)


def RandomNormalLike(site: Site) -> Callable[..., Tensor]:
    """Draws from a normal distribution, in the input's shape."""
    return _random(site, _normal(site), like=True)


def RandomUniform(site: Site) -> Callable[..., Tensor]:
    """Draws from a uniform distribution."""
    return _random(site, _uniform(site), like=False)


def RandomUniformLike(site: Site) -> Callable[..., Tensor]:
    """Draws from a uniform distribution, in the input's shape."""
    return _random(site, _uniform(site), like=True)


def Bernoulli(site: Site) -> Callable[..., Tensor]:
    """Ones with the input's probabilities, else zeros."""
    kind, generator = output_type(site), _generator(site)
    return lambda p: (torch.rand(p.shape, generator=generator).to(p.device) < p).to(kind)


def Multinomial(site: Site) -> Callable[..., Tensor]:
    """Classes drawn with replacement, from logarithms of weights."""
    kind, generator, count = output_type(site), _generator(site), site.attribute("sample_size", 1)

    def draw(x: Tensor) -> Tensor:
        weights = torch.softmax(x.double(), 1).cpu()
        return torch.multinomial(weights, count, replacement=True, generator=generator).to(x.device, kind)

    return draw


def MelWeightMatrix(site: Site) -> Callable[..., Tensor]:
    """Triangles over the bins of a spectrum, equally spaced in ``mel(f) = 2595 log10(1 + f / 700)``; made in float64."""
    kind = torch_dtype(site.attribute("output_datatype", 1))

    def weights(bands: Tensor, length: Tensor, rate: Tensor, lowest: Tensor, highest: Tensor) -> Tensor:
        count, size = int(bands.item()), int(length.item())
        low, high = (2595 * math.log10(1 + f.item() / 700) for f in (lowest, highest))
        mel = low + torch.arange(count + 2, dtype=torch.float64) * (high - low) / (count + 2)
        corner = torch.floor((size + 1) * 700 * (10 ** (mel / 2595) - 1) / int(rate.item()))
        left_edge, centre, right = corner[:-2], corner[1:-1], corner[2:]
        bins = torch.arange(size // 2 + 1, dtype=torch.float64)[:, None]
        rising = (bins - left_edge) / torch.where(centre > left_edge, centre - left_edge, 1)
        falling = (right - bins) / torch.where(right > centre, right - centre, 1)
        triangle = torch.where(bins <= centre, rising, falling)
        inside = (bins >= left_edge) & (bins < right)
        return torch.where(bins == centre, 1.0, torch.where(inside, triangle, 0.0)).to(kind)

    return weights


def _cosines(*coefficients: float) -> Builder:
    """A sum of cosines over one turn, or over all but the last step of it; made in float64."""

    def builder(site: Site) -> Callable[..., Tensor]:
        kind, last = torch_dtype(site.attribute("output_datatype", 1)), 0 if site.attribute("periodic", 1) else 1

        def window(size: Tensor) -> Tensor:
            count = int(size.item())
            angle = 2 * math.pi / max(count - last, 1) * torch.arange(count, dtype=torch.float64)
            terms = (c * torch.cos(k * angle) for k, c in enumerate(coefficients))
            return functools.reduce(torch.add, terms).to(kind)

        return window

    return builder


HannWindow, HammingWindow, BlackmanWindow = _cosines(0.5, -0.5), _cosines(25 / 46, -21 / 46), _cosines(0.42, -0.5, 0.08)
