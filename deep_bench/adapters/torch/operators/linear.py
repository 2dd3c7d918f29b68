"""Products of matrices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from deep_bench.adapters.lowering import Site
from deep_bench.adapters.lowering.plan import kind_of
from deep_bench.adapters.torch.operators._site import Tensor, torch_type

__all__ = ["Det", "Einsum", "Gemm", "MatMul", "MatMulInteger"]


def MatMul(_: Site) -> Callable[..., Tensor]:
    """The matrix product, over leading dimensions that broadcast."""
    return torch.matmul


def Gemm(site: Site) -> Callable[..., Tensor]:
    r"""``alpha A' B' + beta C``, each primed matrix transposed if asked for."""
    alpha, beta = site.attribute("alpha", 1.0), site.attribute("beta", 1.0)
    if kind_of(site) == "integer":
        return _integer_gemm(site, alpha, beta)
    left_transposed, right = bool(site.attribute("transA", 0)), bool(site.attribute("transB", 0))
    addend = site.input(2)
    if addend is None:
        scaled = alpha != 1.0

        def product(a: Tensor, b: Tensor, _: None = None) -> Tensor:
            y = torch.mm(a.t() if left_transposed else a, b.t() if right else b)
            return y * alpha if scaled else y

        return product
    if alpha == beta == 1.0 and right and not left_transposed and addend.rank == 1:
        return torch._C._nn.linear
    if alpha == beta == 1.0:
        return lambda a, b, c: torch.addmm(c, a.t() if left_transposed else a, b.t() if right else b)
    return lambda a, b, c: torch.addmm(c, a.t() if left_transposed else a, b.t() if right else b, beta=beta, alpha=alpha)


def _integer_gemm(site: Site, alpha: float, beta: float) -> Callable[..., Tensor]:
    left_transposed, right, dtype = bool(site.attribute("transA", 0)), bool(site.attribute("transB", 0)), torch_type(site)

    def product(a: Tensor, b: Tensor, c: Tensor | None = None) -> Tensor:
        y = torch.mm(a.t() if left_transposed else a, b.t() if right else b)
        y = y if alpha == 1.0 else (y * alpha).to(dtype)
        return y if c is None else y + (c if beta == 1.0 else (c * beta).to(dtype))

    return product


def Einsum(site: Site) -> Callable[..., Tensor]:
    """Sums of products in Einstein's notation."""
    equation = site.attribute("equation").replace(" ", "")
    if kind_of(site) == "integer":
        dtype = torch_type(site)
        return lambda *xs: torch.einsum(equation, *xs).to(dtype)  # torch adds integers up in int64
    return lambda *xs: torch.einsum(equation, *xs)


def MatMulInteger(site: Site) -> Callable[..., Tensor]:
    """The product of 8-bit matrices less their zero points, in int32.

    It is computed in float64, which holds every sum of fewer than 2^37 products of 8-bit numbers exactly.
    """
    rows = site.input(2) is not None and site.inputs[2] is not None and (site.inputs[2].rank or 0) == 1

    def product(a: Tensor, b: Tensor, a_zero: Tensor | None = None, b_zero: Tensor | None = None) -> Tensor:
        lhs, right = a.double(), b.double()
        if a_zero is not None:
            lhs = lhs - (a_zero.double().unsqueeze(-1) if rows and a_zero.numel() != 1 else a_zero.double())
        if b_zero is not None:
            right = right - b_zero.double()
        return torch.matmul(lhs, right).to(torch.int64).to(torch.int32)

    return product


def Det(site: Site) -> Callable[..., Tensor]:
    """The determinants of the last two dimensions."""
    dtype = torch_type(site)
    wide = dtype if dtype.itemsize >= 4 else torch.float32

    def determinant(x: Tensor) -> Tensor:
        wider = x.to(wide)
        return (_Determinant.apply(wider) if x.requires_grad else torch.linalg.det(wider)).to(dtype)

    return determinant


class _Determinant(torch.autograd.Function):
    """The determinants, with derivatives of singular matrices too, which to torch itself are 0."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        y = torch.linalg.det(x)
        ctx.save_for_backward(x, y)
        return y

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        x, y = ctx.saved_tensors
        if torch.compiler.is_compiling() or bool((y == 0).any()):
            cofactors = _cofactors(x)
        else:
            cofactors = torch.linalg.inv(x).mT * y[..., None, None]
        return gradient[..., None, None] * cofactors


def _cofactors(x: Tensor) -> Tensor:
    """``(-1)^(i + j) det(x without row i and column j)``."""
    n = x.shape[-1]
    if n < 2:
        return torch.ones_like(x)
    indices = torch.arange(n, device=x.device)
    reduced = torch.arange(n - 1, device=x.device)
    remaining = reduced + (reduced >= indices[:, None])
    minors = x[..., remaining[:, None, :, None], remaining[None, :, None, :]]
    signs = 1 - 2 * ((indices[:, None] + indices) % 2)
    return torch.linalg.det(minors) * signs.to(x.dtype)
