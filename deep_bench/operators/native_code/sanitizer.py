"""Running a native function in a process of its own under AddressSanitizer or compute-sanitizer."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np


class SanitizedFunction:
    """The other end: the function in the process that is watched.

    Args:
        pickled: The recipe.
    """

    def __init__(self, pickled: bytes) -> None:
        from deep_bench.operators.native_code.operator import NativeOperator

        self._operator = NativeOperator(pickle.loads(pickled))

    def setup(self, case: bytes) -> None:
        """Make it ready for a case."""
        self._operator.setup(pickle.loads(case))

    def forward(self, inputs: Sequence[Any], attributes: Mapping[str, Any]) -> Any:
        """Call it."""
        return self._returned(self._operator.forward(*map(self._own, inputs), **attributes))

    def backward(
        self, grads: Sequence[Any], inputs: Sequence[Any], outputs: Sequence[Any], attributes: Mapping[str, Any]
    ) -> Any:
        """Call the function for the gradients."""
        copies = ([self._own(a) for a in several] for several in (grads, inputs, outputs))
        return self._returned(self._operator.backward(*copies, **attributes))

    def _own(self, array: np.ndarray | None) -> Any:
        """A copy with memory of exactly its size, so that the sanitizer knows where it ends."""
        return None if array is None else self._operator.device.from_numpy(np.array(array))

    def _returned(self, results: Any) -> Any:
        if isinstance(results, tuple):
            return tuple(map(self._returned, results))
        return None if results is None else self._operator.device.to_numpy(results)


def main(request: str, reply: str) -> None:
    """Answer one request: what compute-sanitizer starts."""
    recipe, method, args = pickle.loads(Path(request).read_bytes())
    answer = getattr(SanitizedFunction(recipe), method)(*args)
    Path(reply).write_bytes(pickle.dumps(answer))


if __name__ == "__main__":
    main(*sys.argv[1:])
