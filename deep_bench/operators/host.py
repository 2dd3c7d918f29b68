"""The device of kernels that work on NumPy arrays."""

from __future__ import annotations

import numpy as np

from deep_bench.arrays import NUMPY, NumpyFunctions
from deep_bench.framework import Device


class Host(Device[np.ndarray]):
    """This machine's memory, with NumPy arrays in it."""

    def from_numpy(self, array: np.ndarray) -> np.ndarray:
        """The array itself."""
        return array

    def to_numpy(self, array: np.ndarray) -> np.ndarray:
        """A copy, which no later call can overwrite."""
        return np.array(array)

    def synchronize(self) -> None:
        """Nothing: NumPy's work is done when its call returns."""

    @property
    def xp(self) -> NumpyFunctions:
        """See `Device.xp`."""
        return NUMPY
