"""Sizes for the dimensions that a network leaves open."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from deep_bench.errors import InvalidArgument, InvalidInput
from deep_bench.graph.network import Network
from deep_bench.tensor import TensorSpec


@dataclass(frozen=True)
class Sizes:
    """What each open dimension was fixed to.

    Args:
        given: Sizes that the caller stated, or that the given inputs have.
        chosen: Sizes that nobody stated; a report says them.
    """

    given: Mapping[str, int]
    chosen: Mapping[str, int]

    @property
    def all(self) -> dict[str, int]:
        """Given and chosen ones."""
        return {**self.given, **self.chosen}


def choose_sizes(
    network: Network, stated: Mapping[str, int], *, batch: int | None = None, inputs: Mapping[str, np.ndarray] | None = None
) -> Sizes:
    """Decide the size of every open dimension.

    In this order: what ``stated`` says; ``batch`` for the open first dimensions; what given inputs have; and otherwise a
    choice by name and place: 1 for a batch, 128 for a sequence, 16,000 for audio samples, 224 for an image's side.

    Raises:
        InvalidArgument: A name that no input has, or a size below zero.
        InvalidInput: A given input of another rank than declared.
    """
    unknown = sorted(set(stated) - set(network.open_dimensions))
    if unknown:
        network.with_sizes(stated)  # raises, with the names that exist
    sizes = dict(stated)
    if batch is not None:
        for name in _batch_dimensions(network):
            if sizes.setdefault(name, batch) != batch:
                raise InvalidArgument(
                    f"a batch of {batch}, and {sizes[name]} for {name!r}, which is a batch dimension",
                    "one size",
                    "leave one of them out",
                )
    for spec in network.inputs if inputs is not None else ():
        if inputs is not None and spec.name in inputs:
            _take_from(spec, np.shape(inputs[spec.name]), sizes)
    chosen = {
        name: _guess(name, spec, axis)
        for spec in network.inputs
        for axis, name in enumerate(spec.shape)
        if isinstance(name, str) and name not in sizes
    }
    return Sizes(sizes, chosen)


def _batch_dimensions(network: Network) -> list[str]:
    names = [s.shape[0] for s in network.inputs if s.shape and isinstance(s.shape[0], str)]
    names += [d for d in network.open_dimensions if re.search(r"batch", d, re.IGNORECASE)]
    if not names:
        raise InvalidArgument(
            f"a batch size for {network.name}, whose first dimensions are all fixed",
            "a network with an open first dimension",
            f"leave --batch out; open dimensions: {', '.join(network.open_dimensions) or 'none'}",
        )
    return [str(n) for n in names]


def _take_from(spec: TensorSpec, shape: tuple[int, ...], sizes: dict[str, int]) -> None:
    if len(shape) != spec.rank:
        raise InvalidInput(f"input {spec.name!r} has shape {list(shape)}", str(spec), "change the array's shape")
    for name, size in zip(spec.shape, shape, strict=True):
        if isinstance(name, str):
            sizes.setdefault(name, size)


_BY_NAME = ((r"batch|^n$", 1), (r"sample|audio|wave", 16_000), (r"seq|len|time|frame|token", 128), (r"height|width", 224))


def _guess(name: str, spec: TensorSpec, axis: int) -> int:
    for pattern, size in _BY_NAME:
        if re.search(pattern, name, re.IGNORECASE):
            return size
    if axis == 0:
        return 1
    if spec.rank == 4 and axis >= 2:
        return 224
    return 128 if axis == spec.rank - 1 else 1
