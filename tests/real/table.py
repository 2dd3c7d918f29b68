"""The table of real networks: where each comes from, and what it is fed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from deep_bench.graph import Network

from .fetch import Package, packages
from .inputs import INPUTS

Inputs = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Real:
    """One real network.

    Args:
        name: Our name for it, unique.
        package: Where it comes from.
        inputs: Builds its input; the same arrays at each call.
    """

    name: str
    package: Package
    inputs: Callable[[], Inputs]


REAL = tuple(Real(name, package, INPUTS[name]) for package in packages() for name in package.networks)


def sizes(network: Network, inputs: Inputs) -> dict[str, int]:
    """The open dimensions of a network as these inputs fix them, for ``network.with_sizes``."""
    pairs = ((dim, size) for spec in network.inputs for dim, size in zip(spec.shape, inputs[spec.name].shape, strict=True))
    return {dim: size for dim, size in pairs if isinstance(dim, str)}
