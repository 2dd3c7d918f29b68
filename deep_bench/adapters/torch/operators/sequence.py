"""Sequences and optional values: lists of tensors, and ``None``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from deep_bench.adapters.lowering import Site
from deep_bench.adapters.lowering.plan import ints
from deep_bench.adapters.torch.operators._site import Tensor, listed, stacked
from deep_bench.errors import InvalidInput

__all__ = [
    "ConcatFromSequence", "Optional", "OptionalGetElement", "OptionalHasElement", "SequenceAt", "SequenceConstruct",
    "SequenceEmpty", "SequenceErase", "SequenceInsert", "SequenceLength", "SplitToSequence",
]  # fmt: skip

Sequence = list[Tensor]


def SequenceConstruct(_: Site) -> Callable[..., Sequence]:
    """The inputs as a sequence."""
    return lambda *xs: list(xs)


def SequenceEmpty(_: Site) -> Callable[..., Sequence]:
    """A sequence of nothing."""
    return list


def SequenceAt(_: Site) -> Callable[..., Tensor]:
    """One member, counted from the end if negative."""
    return lambda s, i: s[_position(i, len(s) - 1, len(s))]


def SequenceErase(_: Site) -> Callable[..., Sequence]:
    """The sequence without one member: the last one by default."""

    def erase(s: Sequence, position: Tensor | None = None) -> Sequence:
        at = len(s) - 1 if position is None else _position(position, len(s) - 1, len(s))
        return s[:at] + s[at + 1 :]

    return erase


def SequenceInsert(_: Site) -> Callable[..., Sequence]:
    """The sequence with one more member: at its end by default."""

    def insert(s: Sequence, x: Tensor, position: Tensor | None = None) -> Sequence:
        at = len(s) if position is None else _position(position, len(s), len(s))
        return [*s[:at], x, *s[at:]]

    return insert


def _position(position: Tensor, last: int, length: int) -> int:
    """A position counted from the front."""
    at = int(position.item())
    if not -length <= at <= last:
        raise InvalidInput(f"position {at} in a sequence of {length}", f"one from {-length} to {last}")
    return at + length if at < 0 else at


def SequenceLength(_: Site) -> Callable[..., Tensor]:
    """The number of members."""
    return lambda s: torch.tensor(len(s), dtype=torch.int64)


def ConcatFromSequence(site: Site) -> Callable[..., Tensor]:
    """The members one after another, or stacked along a new axis."""
    axis = site.attribute("axis")
    if site.attribute("new_axis", 0):
        return lambda s: stacked(s, axis)
    return lambda s: torch.cat(s, axis)


def SplitToSequence(site: Site) -> Callable[..., Sequence]:
    """Pieces of a tensor along an axis: single slices, pieces of one size, or of given sizes."""
    axis, keep, sizes = site.attribute("axis", 0), bool(site.attribute("keepdims", 1)), ints(site, 1)
    has_sizes = site.has(1)

    def split(x: Tensor, wanted: Tensor | None = None) -> Sequence:
        if not has_sizes:
            return [x.narrow(axis, i, 1) for i in range(x.shape[axis])] if keep else list(torch.unbind(x, axis))
        lengths = listed(wanted) if wanted is not None and sizes is None else list(sizes or ())
        scalar = wanted is not None and wanted.dim() == 0
        if scalar and not x.shape[axis]:
            return []  # torch makes one piece of nothing
        return list(torch.split(x, lengths[0] if scalar else lengths, axis))

    return split


def Optional(_: Site) -> Callable[..., Any]:
    """The input, or the empty optional."""
    return lambda x=None: x


def OptionalHasElement(_: Site) -> Callable[..., Tensor]:
    """Whether there is something."""
    return lambda x=None: torch.tensor(x is not None)


def OptionalGetElement(_: Site) -> Callable[..., Any]:
    """What is there."""

    def element(x: Any) -> Any:
        if x is None:
            raise InvalidInput("OptionalGetElement of an empty optional value", "one that has an element")
        return x

    return element
