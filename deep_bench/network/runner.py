"""A framework in a worker process, which may crash or be slow there."""

from __future__ import annotations

from collections.abc import Mapping
from time import perf_counter_ns

import numpy as np
import onnx

from deep_bench.graph import Network
from deep_bench.variant import Variant

_LEAST_CALLS = 5
_LEAST_NS = 30_000_000


class Runner:
    """Runs and times networks, one after the other.

    Args:
        variant: The framework with its options, as on the command line.
    """

    def __init__(self, variant: str) -> None:
        self.adapter = Variant.parse(variant).create()

    def run(self, serialized: bytes, inputs: Mapping[str, np.ndarray]) -> None:
        """Prepare a network and run it once; nothing is sent back."""
        self.adapter.prepare(_parse(serialized))(inputs)

    def seconds(self, serialized: bytes, inputs: Mapping[str, np.ndarray]) -> float:
        """The median time of a call on the framework's own arrays, warmed up."""
        executor = self.adapter.prepare(_parse(serialized))
        call = executor.bind({name: self.adapter.from_numpy(array) for name, array in inputs.items()})
        times: list[int] = []
        for _ in range(3):
            call()
            self.adapter.synchronize()
        while len(times) < _LEAST_CALLS or sum(times) < _LEAST_NS:
            start = perf_counter_ns()
            call()
            self.adapter.synchronize()
            times.append(perf_counter_ns() - start)
        return float(np.median(times)) / 1e9


def _parse(serialized: bytes) -> Network:
    return Network.from_proto(onnx.load_from_string(serialized))
