"""The parameters of a network that the reference runs."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping, Sequence

import numpy as np

from deep_bench.errors import InvalidArgument


class Parameters(MutableMapping[str, np.ndarray]):
    """The parameters by name: read and assigned without copying.

    Args:
        weights: All constants of the network, which are assigned to.
        names: Those of them that are parameters.
    """

    def __init__(self, weights: dict[str, np.ndarray], names: Sequence[str]) -> None:
        self._weights, self._names = weights, tuple(names)

    def __getitem__(self, name: str) -> np.ndarray:
        if name not in self._names:
            raise KeyError(name)
        return self._weights[name]

    def __setitem__(self, name: str, array: np.ndarray) -> None:
        old = self[name]
        if array.shape != old.shape or array.dtype != old.dtype:
            raise InvalidArgument(
                f"parameter {name!r} was assigned {array.dtype}{list(array.shape)}", f"{old.dtype}{list(old.shape)}"
            )
        self._weights[name] = array

    def __delitem__(self, name: str) -> None:
        raise InvalidArgument(f"parameter {name!r} cannot be deleted", "an assignment")

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)
