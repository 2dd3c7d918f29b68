"""Nodes that the reference computes: NumPy between two conversions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from deep_bench.adapters.lowering import Site
from deep_bench.adapters.torch.arrays import map_native, to_native, to_numpy
from deep_bench.errors import Unsupported


def fallback(
    site: Site,
    function: Callable[..., Any],
    target: torch.device,
    convert: Callable[[np.ndarray], np.ndarray],
) -> Callable[..., Any]:
    """Native code that calls a function of NumPy arrays.

    Args:
        site: The node.
        function: The reference's function, with its attributes fixed.
        target: Where the results go.
        convert: Applied to each result (a change of precision).

    Returns:
        A function of tensors. Autograd cannot see through it: where derivatives are asked for, it says so.
    """
    single, node = len(site.outputs) == 1, f"node {site.name!r} ({site.operator})"

    @torch.compiler.disable
    def reference(*inputs: Any) -> Any:
        with np.errstate(all="ignore"):
            result = function(*(to_numpy(x) for x in inputs))
        if single and isinstance(result, tuple):
            result = result[0]
        native = to_native(result, target, convert)
        followed = [x for x in inputs if isinstance(x, torch.Tensor) and x.requires_grad]
        if not followed or not torch.is_grad_enabled():
            return native
        marked = [_mark(y, node, followed) for y in (native if isinstance(native, tuple) else (native,))]
        return tuple(marked) if isinstance(native, tuple) else marked[0]

    return reference


def _mark(value: Any, node: str, followed: list[torch.Tensor]) -> Any:
    def mark(y: torch.Tensor | np.ndarray) -> Any:
        differentiable = isinstance(y, torch.Tensor) and (y.is_floating_point() or y.is_complex())
        return _Undifferentiable.apply(node, y, *followed) if differentiable else y

    return map_native(mark, value)


class _Undifferentiable(torch.autograd.Function):
    """A value that depends on others in a way that nobody can differentiate: a missing derivative would pass for zero."""

    @staticmethod
    def forward(ctx: Any, node: str, value: torch.Tensor, *_: torch.Tensor) -> torch.Tensor:
        ctx.node = node
        return value.view_as(value)

    @staticmethod
    def backward(ctx: Any, *_: torch.Tensor) -> Any:
        raise Unsupported(
            f"{ctx.node} is computed by the reference, through which torch takes no derivatives",
            advice="leave what comes before it out of what is differentiated, or use the reference's own gradients",
        )
