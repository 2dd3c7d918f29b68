"""``Feed``: what of a batch goes into a network, looked at before it leaves NumPy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from deep_bench.errors import InvalidInput
from deep_bench.graph import Network
from deep_bench.request import check_native, describe_numpy
from deep_bench.tensor import TensorSpec
from deep_bench.training.limits import limits_of


class Feed:
    """Takes from each batch the arrays that a network has as inputs, and refuses what does not fit them.

    Args:
        specs: The inputs that come from the data.
        network: Tells which labels and indices there are; ``None`` if it is not known.

    Example:
        >>> feed = Feed([TensorSpec("x", ("n", 2), np.dtype("float32"))])
        >>> list(feed({"x": np.zeros((3, 2), np.float32), "id": np.arange(3)}))
        ['x']
    """

    def __init__(self, specs: Sequence[TensorSpec], network: Network | None = None) -> None:
        self.specs = tuple(specs)
        self._fitting: list[tuple[Sequence[int], np.dtype] | None] | None = None
        names = {spec.name for spec in specs}
        self._limits = tuple(limit for limit in limits_of(network) if limit.name in names) if network is not None else ()

    def __call__(
        self, batch: Mapping[str, np.ndarray], numbers: Sequence[int] | np.ndarray | None = None
    ) -> dict[str, np.ndarray]:
        """The arrays.

        Args:
            batch: Name to array, samples along the first axis.
            numbers: Those of the samples in their set, for messages.

        Raises:
            InvalidInput: One is missing, of another shape or type, or holds a label or index out of range.
        """
        for spec in self.specs:
            if spec.name not in batch:
                raise InvalidInput(f"samples without {spec.name!r}: {', '.join(batch)}", f"what the network takes: {spec}")
        fed = {spec.name: batch[spec.name] for spec in self.specs}
        forms = [describe_numpy(array) for array in fed.values()]
        if forms != self._fitting:  # most batches are like the one before
            check_native(self.specs, fed, describe_numpy)
            self._fitting = forms
        for limits in self._limits:
            limits.check(fed[limits.name], numbers)
        return fed
