"""No derivative gets lost unnoticed.

What was computed from a tensor behind autograd's back looks to it like a constant, and a missing derivative would pass for
zero. Such a result is tied to what it was computed from by an edge along which no backward pass may come.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import torch
from torch import nn

from deep_bench.adapters.lowering import Plan, Site, Slot, Step
from deep_bench.adapters.torch.arrays import map_native
from deep_bench.adapters.torch.placement import reads_number
from deep_bench.errors import UnsupportedOperator
from deep_bench.tensor import is_float

_POWERS = np.dtype(ml_dtypes.float8_e8m0fnu)
_DIFFERENTIATED = frozenset((("Dropout", 1), ("Pad", 2)))
"""Operators and inputs that their code reads as numbers only where no derivative is asked for."""


class Followed(np.ndarray):
    """An array of a type that torch lacks, with the tensors that it was computed from."""

    sources: tuple[torch.Tensor, ...] = ()


def tied(site: Site, reason: str, result: Any, inputs: Sequence[Any]) -> Any:
    """A result, each floating-point array in it tied to those tensors in ``inputs`` that need derivatives.

    Args:
        site: The node.
        reason: Why it has no derivatives with respect to ``inputs``.
        result: What it computed.
        inputs: Native values that autograd did not see it compute from.
    """
    sources = tuple(_sources(inputs)) if torch.is_grad_enabled() else ()
    if not sources:
        return result

    def tie(value: Any) -> Any:
        if isinstance(value, np.ndarray):
            value = value.view(Followed)
            value.sources = sources
            return value
        if value.is_floating_point() or value.is_complex():
            return _Tie.apply(value, _Refusal.apply(site, reason, *sources))
        return value

    outcome = map_native(tie, result)
    return tuple(outcome) if isinstance(result, tuple) else outcome


def _sources(values: Sequence[Any]) -> Iterator[torch.Tensor]:
    """The tensors that need derivatives, those in sequences and behind arrays included."""
    for value in values:
        if isinstance(value, list | tuple):
            yield from _sources(value)
        elif isinstance(value, Followed):
            yield from value.sources
        elif isinstance(value, torch.Tensor) and value.requires_grad:
            yield value


class _Tie(torch.autograd.Function):
    """The first tensor; the second one is only there to be asked for a derivative."""

    @staticmethod
    def forward(ctx: Any, value: torch.Tensor, refusal: torch.Tensor) -> torch.Tensor:  # noqa: ARG004
        return value.view_as(value)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:  # noqa: ARG004
        return gradient, torch.zeros((), device=gradient.device)


class _Refusal(torch.autograd.Function):
    """A number that depends on tensors in a way that nobody can differentiate."""

    @staticmethod
    def forward(ctx: Any, site: Site, reason: str, *sources: torch.Tensor) -> torch.Tensor:
        ctx.site, ctx.reason = site, reason
        return torch.zeros((), device=sources[0].device)

    @staticmethod
    def backward(ctx: Any, *_: torch.Tensor) -> Any:
        raise UnsupportedOperator(ctx.site.name, ctx.site.operator, ctx.site.opset, ctx.reason)


def watched(site: Site, code: Callable[..., Any]) -> Callable[..., Any]:
    """A node's native code, its results tied to the inputs that it looks at behind autograd's back."""
    if isinstance(code, nn.Module):
        return code
    reason, unseen = _unseen(site)
    if not unseen:
        return code

    def tying(*inputs: Any) -> Any:
        result = code(*inputs)
        return tied(site, reason, result, [inputs[i] for i in unseen])

    return tying


def _unseen(site: Site) -> tuple[str, tuple[int, ...]]:
    """The positions of the inputs through which torch takes no derivatives, and why not."""
    everything = tuple(range(len(site.inputs)))
    if site.operator == "BitCast":
        return "bits have no derivatives", everything
    if any(s is not None and _is_narrow(s.dtype) for s in site.outputs) or any(_is_power(s) for s in site.inputs):
        return "to torch, derivatives are of the type of the values, and 8 bits have no room for them", everything
    numbers = tuple(i for i, slot in enumerate(site.inputs) if _is_number(site.operator, i, slot))
    return "torch's code reads a number that derivatives are asked for with respect to", numbers


def _is_narrow(dtype: np.dtype | None) -> bool:
    return dtype is not None and is_float(dtype) and dtype.itemsize < 2


def _is_power(slot: Slot | None) -> bool:
    return slot is not None and slot.dtype == _POWERS


def _is_number(operator: str, index: int, slot: Slot | None) -> bool:
    if slot is None or slot.constant is not None or (operator, index) in _DIFFERENTIATED:
        return False
    return reads_number(operator, index) and (slot.dtype is None or is_float(slot.dtype))


def with_masks(plan: Plan) -> Plan:
    """A plan whose ``Softmax`` has the derivative 0 in rows of no numbers, where a ``Where`` replaces them afterwards.

    In a row that is masked as a whole, attention puts zeros for ``0 / 0``; the derivative of that, unused, times zero would
    still be no number.
    """
    readers: dict[str, list[Step]] = {}
    for step in plan.steps:
        for index, slot in enumerate(step.site.inputs):
            if slot is not None and (step.site.operator, index) != ("CastLike", 1):
                readers.setdefault(slot.name, []).append(step)

    def replaced(slot: Slot | None) -> bool:
        users = [] if slot is None or slot.name in plan.outputs else readers.get(slot.name, [])
        if len(users) != 1:
            return False
        return users[0].site.operator == "Where" or (
            users[0].site.operator in ("Cast", "CastLike") and replaced(users[0].site.outputs[0])
        )

    def masked(step: Step) -> Step:
        if step.site.operator != "Softmax" or not replaced(step.site.outputs[0]):
            return step
        axis = int(step.site.attribute("axis", -1))
        return replace(step, function=lambda x: _MaskedSoftmax.apply(x, axis))

    return replace(plan, steps=tuple(map(masked, plan.steps)))


class _MaskedSoftmax(torch.autograd.Function):
    """``Softmax`` along an axis, with the derivative 0 where it is no number."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, axis: int) -> torch.Tensor:
        y = torch.softmax(x, axis)
        ctx.axis = axis
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        y = torch.nan_to_num(ctx.saved_tensors[0])
        return torch._softmax_backward_data(gradient, y, ctx.axis, y.dtype), None
