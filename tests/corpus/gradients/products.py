"""Backward passes of matrix products, of sums that broadcast and of convolutions."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from .problem import Kernel

Product = Callable[[Any, Any], Any]


def swapped(x: Any) -> Any:
    """The last two axes exchanged."""
    return np.swapaxes(x, -1, -2)


def matmul(multiply: Product = np.matmul) -> Kernel:
    """``dx = dy w'`` and ``dw = x' dy``, summed over what ``w`` lacks."""

    def kernel(v: Mapping[str, Any]) -> Mapping[str, Any]:
        x, w, dy = v["x"], v["w"], v["dy0"]
        dw = multiply(swapped(x), dy)
        return {"x": multiply(dy, swapped(w)), "w": dw.sum(tuple(range(dw.ndim - w.ndim)))}

    return kernel


def gemm(
    multiply: Product = np.matmul, *, alpha: float = 1.0, beta: float = 1.0, trans_a: bool = False, trans_b: bool = False
) -> Kernel:
    """``dx = alpha dy w'``, ``dw = alpha x' dy``, ``db = beta`` times the sum of ``dy`` over what the bias lacks."""

    def kernel(v: Mapping[str, Any]) -> Mapping[str, Any]:
        one = v["dy0"].dtype.type
        x, w, dy = (v["x"].T if trans_a else v["x"]), (v["w"].T if trans_b else v["w"]), v["dy0"]
        dx, dw = multiply(dy, w.T) * one(alpha), multiply(x.T, dy) * one(alpha)
        db = dy.sum(0) if v["b"].ndim == 1 else dy.sum(1, keepdims=True)
        return {"x": dx.T if trans_a else dx, "w": dw.T if trans_b else dw, "b": db * one(beta)}

    return kernel


def add(v: Mapping[str, Any]) -> Mapping[str, Any]:
    """The gradient of what is broadcast is the sum over where it went."""
    dy = v["dy0"]
    return {"x": dy.sum(1, keepdims=True), "w": dy.sum((0, 2)).reshape(v["w"].shape)}


def conv(
    multiply: Product = np.matmul,
    *,
    pads: tuple[int, ...],
    strides: tuple[int, ...] = (1, 1),
    data_pads: tuple[int, ...] | None = None,
) -> Kernel:
    """A two-dimensional convolution, tap by tap.

    Args:
        multiply: The product of matrices.
        pads: Of the convolution.
        strides: Of the convolution.
        data_pads: What the gradient of the data takes for the padding.
    """

    def kernel(v: Mapping[str, Any]) -> Mapping[str, Any]:
        x, w, dy = v["x"], v["w"], v["dy0"]
        padded = np.pad(x, ((0, 0), (0, 0), (pads[0], pads[2]), (pads[1], pads[3])))
        dx, dw = np.zeros_like(padded), np.zeros_like(w)
        n, m, oh, ow = dy.shape
        flat = dy.reshape(n, m, oh * ow)
        for i, j in itertools.product(range(w.shape[2]), range(w.shape[3])):
            rows, columns = slice(i, i + strides[0] * oh, strides[0]), slice(j, j + strides[1] * ow, strides[1])
            rows = slice(i, i + strides[0] * (oh - 1) + 1, strides[0])
            columns = slice(j, j + strides[1] * (ow - 1) + 1, strides[1])
            window = padded[:, :, rows, columns].reshape(n, x.shape[1], oh * ow)
            dw[:, :, i, j] = multiply(flat, swapped(window)).sum(0)
            dx[:, :, rows, columns] += multiply(w[:, :, i, j].T, flat).reshape(n, -1, oh, ow)
        top, left = (data_pads or pads)[:2]
        dx = dx[:, :, top : top + x.shape[2], left : left + x.shape[3]]
        return {"x": dx, "w": dw, "b": dy.sum((0, 2, 3))}

    return kernel


def pointwise(multiply: Product = np.matmul) -> Kernel:
    """A convolution with windows of one element: matrix products."""

    def kernel(v: Mapping[str, Any]) -> Mapping[str, Any]:
        x, w, dy = v["x"], v["w"][:, :, 0, 0], v["dy0"]
        rows, grads = (np.moveaxis(a, 1, -1).reshape(-1, a.shape[1]) for a in (x, dy))
        dx = np.moveaxis(multiply(grads, w).reshape(x.shape[0], *x.shape[2:], -1), -1, 1)
        return {"x": dx, "w": multiply(grads.T, rows)[:, :, None, None], "b": grads.sum(0)}

    return kernel


# Ways to multiply


def sequential(a: Any, b: Any) -> Any:
    """Term by term."""
    total = np.zeros((*np.broadcast_shapes(a.shape[:-2], b.shape[:-2]), a.shape[-2], b.shape[-1]), a.dtype)
    for k in range(a.shape[-1]):
        total = total + a[..., :, k, None] * b[..., k, None, :]
    return total


def split(a: Any, b: Any) -> Any:
    """In four parts."""
    cuts = np.array_split(np.arange(a.shape[-1]), 4)
    return sum(np.matmul(a[..., c], b[..., c, :]) for c in cuts)


def in_double(a: Any, b: Any) -> Any:
    """In float64, rounded once."""
    return np.matmul(a.astype(np.float64), b.astype(np.float64)).astype(a.dtype)


def turned(a: Any, b: Any) -> Any:
    """From the last term to the first."""
    return np.matmul(a[..., ::-1].copy(), b[..., ::-1, :].copy())


def by(name: str) -> Product:
    """One of the readable algorithms."""

    def multiply(a: Any, b: Any) -> Any:
        from deep_bench.reference.operators.algorithms import algorithms

        return algorithms["MatMul"][name](a, b)

    return multiply


def rounded(to: Callable[[Any], Any]) -> Product:
    """Both factors rounded to a narrower format."""
    return lambda a, b: np.matmul(to(a), to(b))


def last_term_lost(a: Any, b: Any) -> Any:
    """The sum stops one early."""
    return np.matmul(a[..., :-1], b[..., :-1, :])


def tile_lost(a: Any, b: Any) -> Any:
    """Only whole tiles of four terms are added."""
    k = a.shape[-1] // 4 * 4 - (4 if a.shape[-1] % 4 == 0 else 0)
    return np.matmul(a[..., :k], b[..., :k, :])


def stored(to: Callable[[Any], Any]) -> Product:
    """The result rounded to a narrower format."""
    return lambda a, b: to(np.matmul(a, b))


ORDERS: Mapping[str, Product] = {
    "term by term": sequential,
    "split in four": split,
    "in float64": in_double,
    "in reverse": turned,
    "compensated": by("compensated"),
    "blocked": by("blocked"),
}
"""Correct ways to multiply, by name."""
