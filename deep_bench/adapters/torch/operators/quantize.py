"""Quantised numbers."""

from __future__ import annotations

from collections.abc import Callable

import torch

from deep_bench.adapters.lowering import NotNative, Site
from deep_bench.adapters.lowering.plan import kind_of, rank_of
from deep_bench.adapters.torch.arrays import SMALL
from deep_bench.adapters.torch.operators._site import Tensor, kernel_shape, output_type, torch_type, window
from deep_bench.adapters.torch.operators.convolution import convolve
from deep_bench.adapters.torch.operators.elementwise import cast, from_power_of_two

__all__ = ["DequantizeLinear", "DynamicQuantizeLinear", "QLinearConv", "QLinearMatMul", "QuantizeLinear"]


_DIVIDES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


def _spread(site: Site) -> Callable[[Tensor, Tensor], Tensor]:
    """A function that gives scales or zero points the shape of the input: one, one per slice, or one per block."""
    axis, block, scale = site.attribute("axis", 1), site.attribute("block_size", 0), rank_of(site, 1)
    if block:
        return lambda s, x: s.repeat_interleave(block, axis).narrow(axis, 0, x.shape[axis])
    if scale == 0:
        return lambda s, _: s
    total = rank_of(site)
    shape = [1] * total
    shape[axis] = -1
    return (lambda s, _: s.reshape(shape)) if total else (lambda s, _: s.reshape(()))


def _range(to: torch.dtype) -> tuple[int, int]:
    if to in SMALL:
        bits, storage = SMALL[to]
        return (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if storage == torch.int8 else (0, (1 << bits) - 1)
    info = torch.iinfo(to)
    return int(info.min), int(info.max)


def _bytes(x: Tensor) -> Tensor:
    """The values of a 2- or 4-bit type in one that torch computes with."""
    return x.view(SMALL[x.dtype][1]) if x.dtype in SMALL else x


def _to_small(x: Tensor, to: torch.dtype) -> Tensor:
    return x.to(SMALL[to][1]).view(to) if to in SMALL else x.to(to)


def QuantizeLinear(site: Site) -> Callable[..., Tensor]:
    """``saturate(round(x / scale) + zero)``, the quotient in the scale's type."""
    to, spread, work = output_type(site), _spread(site), torch_type(site, 1)
    if site.attribute("precision", 0) or kind_of(site) != "float" or work not in _DIVIDES:
        raise NotNative("torch divides floating-point numbers, in the type of the scale")
    if to.is_floating_point:
        narrow = cast(site, to)
        return lambda x, scale, *_: narrow(x.to(work) / spread(scale, x))
    low, high = _range(to)

    def quantize(x: Tensor, scale: Tensor, zero: Tensor | None = None) -> Tensor:
        wide = torch.round(x.to(work) / spread(scale, x)).to(torch.float64)
        if zero is not None:
            wide = wide + spread(_bytes(zero), x).to(torch.float64)
        return _to_small(wide.clamp(low, high).to(torch.int64), to)

    return quantize


def DequantizeLinear(site: Site) -> Callable[..., Tensor]:
    """``(x - zero) scale``."""
    spread, to = _spread(site), output_type(site)
    if torch.float8_e8m0fnu in (torch_type(site), to):
        raise NotNative("torch does not compute with float8_e8m0fnu")
    exact = torch.float64 if torch_type(site).is_floating_point else torch.int64
    scale_type = torch_type(site, 1)
    work = scale_type if scale_type.itemsize >= 4 else torch.float32
    powers = from_power_of_two(work) if scale_type == torch.float8_e8m0fnu else None

    def dequantize(x: Tensor, scale: Tensor, zero: Tensor | None = None) -> Tensor:
        wide = _bytes(x).to(exact)
        if zero is not None:
            wide = wide - spread(_bytes(zero).to(exact), x)
        factor = scale.to(work) if powers is None else powers(scale)
        return (wide.to(work) * spread(factor, x)).to(to)

    return dequantize


def DynamicQuantizeLinear(site: Site) -> Callable[..., tuple[Tensor, Tensor, Tensor]]:
    """8-bit numbers with the scale and zero point that fit the input's range."""
    if len(site.outputs) != 3:
        raise NotNative("the operator has three results")

    def quantize(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        low, high = x.amin().clamp(max=0), x.amax().clamp(min=0)
        scale = (high - low) / 255
        zero = torch.round(torch.clamp(0 - low / scale, 0, 255))
        y = torch.clamp(torch.round(x / scale) + zero, 0, 255)
        return y.to(torch.uint8), scale, zero.to(torch.uint8)

    return quantize


def _less(x: Tensor, zero: Tensor, shape: tuple[int, ...] | None = None) -> Tensor:
    """The input without its zero point, in float64, which holds all 8-bit products and their sums exactly."""
    return x.double() - (zero.double() if shape is None or zero.numel() == 1 else zero.double().reshape(shape))


def _requantize(y: Tensor, factor: Tensor, zero: Tensor, to: torch.dtype) -> Tensor:
    low, high = _range(to)
    return (torch.round(y * factor.double()) + zero.double()).clamp(low, high).to(to)


def _rows(v: Tensor, x: Tensor) -> Tensor:
    """One value per row, where there are several in one dimension."""
    return v.unsqueeze(-1) if v.dim() == 1 and v.numel() != 1 and x.dim() > 1 else v


def _within(v: Tensor, y: Tensor) -> Tensor:
    """A single value without the axes that the result has not."""
    return v.reshape(()) if v.numel() == 1 and v.dim() > y.dim() else v


def QLinearMatMul(site: Site) -> Callable[..., Tensor]:
    """The product of quantised matrices, quantised again; scales and zero points may be single or per row and column."""
    to = output_type(site)
    if any(t.is_floating_point for t in (torch_type(site), torch_type(site, 3), to)):
        raise NotNative("torch's code for QLinearMatMul takes integers")

    def product(
        a: Tensor, a_scale: Tensor, a_zero: Tensor, b: Tensor, b_scale: Tensor, b_zero: Tensor,
        y_scale: Tensor, y_zero: Tensor,
    ) -> Tensor:  # fmt: skip
        y = torch.matmul(a.double() - _rows(a_zero, a).double(), b.double() - b_zero.double())
        a_factor, b_factor = _rows(a_scale, a).float(), b_scale.float()
        if b.dim() == 1 and a_factor.dim() > 1:
            a_factor = a_factor.squeeze(-1)  # a vector leaves the product without columns
        if a.dim() == 1 and b_factor.dim() > 1:
            b_factor = b_factor.squeeze(-2)  # … or without rows
        factor = a_factor * b_factor / _rows(y_scale, y).float()
        return _requantize(y, _within(factor, y), _within(_rows(y_zero, y), y), to)

    return product


def QLinearConv(site: Site) -> Callable[..., Tensor]:
    """The convolution of quantised numbers, quantised again."""
    to, weights = output_type(site), kernel_shape(site, 3)
    conv = convolve(window(site, weights), site.attribute("group", 1))
    along = (-1, *[1] * (len(weights) + 1))

    def convolution(
        x: Tensor, x_scale: Tensor, x_zero: Tensor, w: Tensor, w_scale: Tensor, w_zero: Tensor,
        y_scale: Tensor, y_zero: Tensor, b: Tensor | None = None,
    ) -> Tensor:  # fmt: skip
        y = conv(_less(x, x_zero), _less(w, w_zero, along), None if b is None else b.double())
        factor = x_scale * w_scale / y_scale
        return _requantize(y, factor if factor.numel() == 1 else factor.reshape(along[:-1]), y_zero, to)

    return convolution
