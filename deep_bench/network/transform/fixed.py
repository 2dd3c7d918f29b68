"""The sizes of a draft's values, where a transformation cannot do without them."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

import numpy as np
import onnx_ir as ir

from deep_bench.errors import InvalidNetwork
from deep_bench.network.transform.draft import Draft, runs
from deep_bench.operators.cost import KnownSizes


class FixedSizes:
    """Sizes of the values of a network's outermost graph.

    Args:
        draft: The network.
        inputs: Arrays to run the reference on, where shapes follow from a run only.

    Raises:
        InvalidInput: The inputs do not fit.
    """

    def __init__(self, draft: Draft, inputs: Mapping[str, np.ndarray] | None = None) -> None:
        self._name = draft.source.name
        with runs(draft.network):
            self.known = KnownSizes(draft.network, inputs)

    def shape(self, value: ir.Value) -> tuple[int, ...]:
        """The shape of a value.

        Raises:
            InvalidNetwork: It is not fixed.
        """
        shape = self.known(value)
        if shape is None:
            raise InvalidNetwork(
                f"the shape of {value.name!r} in {self._name} is unknown",
                "fixed shapes",
                "fix the sizes (network.with_sizes(…)), or give inputs to find the shapes in a run",
            )
        return shape

    def nbytes(self, value: ir.Value) -> int:
        """The size of a value in bytes; an element of no one size, a string, counts as a pointer of 8.

        Raises:
            InvalidNetwork: It is not fixed.
        """
        size = self.known.nbytes(value)
        return 8 * prod(self.shape(value)) if size is None else size
