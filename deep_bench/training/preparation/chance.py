"""Augmentations: steps that leave something to chance, each sample's being a function of seed, epoch and its number."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from deep_bench.training.preparation.draws import Draws
from deep_bench.training.preparation.images import Size
from deep_bench.training.preparation.step import BadRow, Layout, Step, checked_axes, dense, each, floating

Share = Annotated[float, Field(ge=0, le=1)]


class Flip(Step):
    """An image mirrored, or not.

    Args:
        probability: How likely it is.
        direction: ``"horizontal"`` changes left and right.
        layout: The axes of an image.
    """

    name: ClassVar[str] = "flip"
    probability: Share = 0.5
    direction: Literal["horizontal", "vertical"] = "horizontal"
    layout: Layout

    def apply(self, values: np.ndarray, draws: Draws) -> np.ndarray:
        """The images, some of them mirrored."""
        axis = self.layout.index("W" if self.direction == "horizontal" else "H")
        chosen = draws.uniform(1)[:, 0] < self.probability
        checked_axes(values, self.layout)
        if values.dtype == object:
            return each(values, lambda row, image: np.flip(image, axis).copy() if chosen[row] else image)
        flipped = values.copy()
        flipped[chosen] = np.flip(values[chosen], 1 + axis)
        return flipped


class RandomCrop(Step):
    """A part of an image at a place chosen at random, after its border was padded.

    Args:
        size: Height and width.
        padding: Pixels added at each side.
        mode: What they are: ``fill``, or the image mirrored at its edge (``"reflect"``), or its edge (``"edge"``).
        fill: The value for ``"constant"``.
        layout: The axes of an image.
    """

    name: ClassVar[str] = "random_crop"
    size: Size
    padding: Annotated[int, Field(ge=0)] = 0
    mode: Literal["constant", "reflect", "edge"] = "constant"
    fill: float = 0.0
    layout: Layout

    def apply(self, values: np.ndarray, draws: Draws) -> np.ndarray:
        """The parts."""
        checked_axes(values, self.layout)
        u = draws.uniform(2)
        if values.dtype == object:
            return each(values, lambda row, image: self._cropped(image[None], u[row : row + 1], row)[0])
        return self._cropped(values, u, 0)

    def _cropped(self, images: np.ndarray, u: np.ndarray, row: int) -> np.ndarray:
        axes = [1 + self.layout.index(letter) for letter in "HW"]
        widths = [(self.padding if axis in axes else 0,) * 2 for axis in range(images.ndim)]
        extra = {"constant_values": images.dtype.type(self.fill)} if self.mode == "constant" else {}
        padded = np.moveaxis(np.pad(images, widths, self.mode, **extra) if self.padding else images, axes, (1, 2))
        rows, columns = (self._places(padded.shape[1 + i], i, u[:, i], row) for i in range(2))
        parts = padded[np.arange(len(images))[:, None, None], rows[:, :, None], columns[:, None, :]]
        return np.ascontiguousarray(np.moveaxis(parts, (1, 2), axes))

    def _places(self, length: int, place: int, u: np.ndarray, row: int) -> np.ndarray:
        size = self.size[place]
        if length < size:
            raise BadRow(row, f"{'height' if place == 0 else 'width'} {length} with its padding, where the crop has {size}")
        starts = np.floor(u * (length - size + 1)).astype(np.int64)
        return starts[:, None] + np.arange(size)


class Noise(Step):
    """Normal noise added to each element.

    Args:
        std: Its standard deviation.
    """

    name: ClassVar[str] = "noise"
    std: Annotated[float, Field(ge=0)]

    def apply(self, values: np.ndarray, draws: Draws) -> np.ndarray:
        """The disturbed array."""
        values = floating(values)
        noise = draws.normal(int(np.prod(values.shape[1:]))).reshape(values.shape)
        return values + (self.std * noise).astype(values.dtype)


class Brightness(Step):
    """All elements of an image multiplied by one factor, uniform in [1 - most, 1 + most].

    Args:
        most: The largest change.
    """

    name: ClassVar[str] = "brightness"
    most: Share

    def apply(self, values: np.ndarray, draws: Draws) -> np.ndarray:
        """The lighter or darker images."""
        values = floating(dense(values))
        factors = 1 + self.most * (2 * draws.uniform(1)[:, 0] - 1)
        return values * factors.astype(values.dtype).reshape(-1, *[1] * (values.ndim - 1))
