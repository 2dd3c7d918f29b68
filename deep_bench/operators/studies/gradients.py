"""The gradients of a case: for which gradients of its outputs, and with respect to what."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from deep_bench import frameworks
from deep_bench.errors import Unsupported
from deep_bench.graph import Network
from deep_bench.tensor import is_float

_APART = 0x9E3779B9


def output_gradients(network: Network, shapes: Mapping[str, tuple[int, ...]], seed: int) -> dict[str, np.ndarray]:
    """Gradients of the floating-point outputs, standard normal: the same wherever they are drawn.

    Args:
        network: The case's.
        shapes: Output to its shape, which may be known after a run only.
        seed: Names the contents.
    """
    return {
        spec.name: np.random.default_rng([seed, _APART, place]).standard_normal(shapes[spec.name]).astype(spec.dtype)
        for place, spec in enumerate(network.outputs)
        if is_float(spec.dtype)
    }


def pulled_back(network: Network, arrays: Mapping[str, np.ndarray], grads: Mapping[str, np.ndarray]) -> Any:
    """A network with a loss that has these gradients of its outputs: a `deep_bench.network.pullback.Pullback`.

    Raises:
        Unsupported: It has no output or no input of a floating-point type.
    """
    if not grads or not any(is_float(array.dtype) for array in arrays.values()):
        raise Unsupported(
            f"{network.name} has no {'input' if grads else 'output'} of a floating-point type to differentiate"
        )
    return frameworks["reference"]().pull_back(network, arrays, grads)
