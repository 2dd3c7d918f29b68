"""Fourier transforms."""

from __future__ import annotations

from collections.abc import Callable

import torch

from deep_bench.adapters.lowering import Site
from deep_bench.adapters.lowering.plan import ints
from deep_bench.adapters.torch.operators._site import Tensor, torch_type

__all__ = ["DFT", "STFT"]


def _complex(x: Tensor) -> Tensor:
    """The last axis, of size 1 or 2, as real or complex numbers."""
    return x[..., 0] if x.shape[-1] == 1 else torch.view_as_complex(x.contiguous())


def DFT(site: Site) -> Callable[..., Tensor]:
    """The discrete Fourier transform along an axis, or its inverse."""
    dtype = torch_type(site)
    wide = dtype if dtype.itemsize >= 4 else torch.float32
    inverse, onesided = bool(site.attribute("inverse", 0)), bool(site.attribute("onesided", 0))
    length, axis = ints(site, 1), ints(site, 2)

    def transform(x: Tensor, points: Tensor | None = None, where: Tensor | None = None) -> Tensor:
        along = (axis[0] if axis is not None else -2 if where is None else int(where.item())) % x.dim()
        n = length[0] if length is not None else None if points is None else int(points.item())
        values = _complex(x.to(wide))
        if inverse and onesided:
            return torch.fft.irfft(values, n, along).unsqueeze(-1).to(dtype)
        if inverse:
            return torch.view_as_real(torch.fft.ifft(values, n, along).resolve_conj()).to(dtype)
        if onesided and not values.is_complex():
            return torch.view_as_real(torch.fft.rfft(values, n, along)).to(dtype)
        y = torch.fft.fft(values, n, along)
        if onesided:
            y = y.narrow(along, 0, y.shape[along] // 2 + 1)
        return torch.view_as_real(y.resolve_conj()).to(dtype)

    return transform


def STFT(site: Site) -> Callable[..., Tensor]:
    """The Fourier transforms of windows that slide along a signal."""
    dtype = torch_type(site)
    wide = dtype if dtype.itemsize >= 4 else torch.float32
    onesided, steps, lengths = bool(site.attribute("onesided", 1)), ints(site, 1), ints(site, 3)

    def transform(signal: Tensor, step: Tensor, window: Tensor | None = None, length: Tensor | None = None) -> Tensor:
        values = _complex(signal.to(wide)) if signal.dim() == 3 else signal.to(wide)
        hop = steps[0] if steps is not None else int(step.item())
        if lengths is not None:
            width = lengths[0]
        elif length is not None:
            width = int(length.item())
        else:
            width = values.shape[1] if window is None else window.shape[0]
        frames = values.unfold(1, width, hop)
        frames = frames if window is None else frames * window.to(wide)
        if onesided and not frames.is_complex():
            return torch.view_as_real(torch.fft.rfft(frames, None, -1)).to(dtype)
        y = torch.fft.fft(frames, None, -1)
        return torch.view_as_real(y[..., : width // 2 + 1] if onesided else y).to(dtype)

    return transform
