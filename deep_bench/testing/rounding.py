"""Whether rounding alone explains how a system differs from the reference on a generated case."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from deep_bench.check import InProcessSubject, establish, judge
from deep_bench.framework import Adapter
from deep_bench.graph import Network
from deep_bench.tensor import is_inexact


class _Seen(InProcessSubject):
    """A system whose outputs were seen already: a second evaluation may be right where the first was not."""

    def __init__(
        self, adapter: Adapter[Any], network: Network, inputs: Mapping[str, Any], outputs: Mapping[str, Any]
    ) -> None:
        super().__init__(adapter, network, inputs)
        self._found = outputs

    def outputs(self) -> dict[str, np.ndarray]:
        """The outputs that were seen."""
        return {name: np.array(array) for name, array in self._found.items()}


def rounding_verdict(
    adapter: Adapter[Any], network: Network, inputs: Mapping[str, Any], found: Mapping[str, Any]
) -> tuple[str, str]:
    """The checker's word and reason.

    Args:
        adapter: The system under test.
        network: The case's network.
        inputs: Name to value.
        found: Name to value of its outputs.

    Returns:
        ``wrong`` at once where nothing is rounded or a value is no tensor.
    """
    specs = (*network.inputs, *network.outputs)
    if not all(spec.is_tensor for spec in specs) or not any(is_inexact(spec.dtype) for spec in specs):
        return "wrong", "nothing is rounded here"
    verdict = judge(establish(network, inputs), _Seen(adapter, network, inputs, found))
    return verdict.word, verdict.reason
