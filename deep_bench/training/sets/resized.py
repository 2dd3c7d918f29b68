"""Images of different sizes, brought to one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deep_bench.errors import InvalidArgument
from deep_bench.tensor import TensorSpec
from deep_bench.training.containers.codec import mode_of
from deep_bench.training.dataset import Dataset, labels_of, where_is
from deep_bench.training.preparation import Preparation
from deep_bench.training.sets.description import description_of

_MODES = {"L": "HW", "LA": "HWC", "RGB": "HWC", "RGBA": "HWC"}
"""Mode of images that can be scaled to its layout."""


class Resized:
    """A set whose images are scaled to one size, bilinearly; see the preparation's step ``resize``.

    Args:
        dataset: The set, with images of uint8, rows first.
        size: Height and width in pixels.

    Raises:
        InvalidArgument: It has no such images, or a size below 1.

    Example:
        >>> from deep_bench.training.containers import memory
        >>> mixed = memory({"image": [np.zeros((3, 4), np.uint8), np.zeros((5, 2), np.uint8)], "label": np.arange(2)})
        >>> print(*Resized(mixed, (8, 8)).specs)
        image: uint8[8, 8] label: int64[]
    """

    def __init__(self, dataset: Dataset, size: tuple[int, int]) -> None:
        images = {spec.name: _MODES[mode] for spec in dataset.specs if (mode := mode_of(spec)) in _MODES}
        if not images:
            raise InvalidArgument(f"{'; '.join(map(str, dataset.specs))} to resize", "images of uint8, rows first")
        self._dataset = dataset
        steps = [{"step": "resize", "field": name, "size": list(size), "layout": at} for name, at in images.items()]
        self._resize = Preparation(steps)
        self.specs = tuple(_sized(spec, size) if spec.name in images else spec for spec in dataset.specs)
        whole = description_of(dataset)
        self.description = replace(whole, name=f"{whole.name}/{size[0]} x {size[1]}")
        self.classes: tuple[str, ...] | None = getattr(dataset, "classes", None)

    @property
    def labels(self) -> NDArray[np.int64]:
        """The class of each sample.

        Raises:
            Unsupported: The set has no classes.
        """
        return labels_of(self._dataset)

    def __len__(self) -> int:
        return len(self._dataset)

    def __getitem__(self, indices: Any) -> dict[str, np.ndarray]:
        """The samples of these numbers.

        Raises:
            InvalidArgument: A number beyond the set.
            InvalidData: A sample that cannot be read, or not be scaled.
        """
        return self._resize(self._dataset[indices], np.asarray(indices))

    def where(self, number: int) -> str | None:
        """Where a sample lies."""
        return where_is(self._dataset, number)


def _sized(spec: TensorSpec, size: tuple[int, int]) -> TensorSpec:
    return replace(spec, shape=(*size, *spec.shape[2:]))
