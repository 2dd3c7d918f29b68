"""Steps that bring images to one size, layout and order of colours."""

from __future__ import annotations

import io
from importlib.util import find_spec
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from pydantic import BeforeValidator, model_validator

from deep_bench.errors import FrameworkMissing
from deep_bench.training.preparation.step import BadRow, Fixed, Layout, checked_axes, dense, each, joined


def _pair(value: Any, least: int, otherwise: str) -> tuple[int, int]:
    fits = isinstance(value, list | tuple) and len(value) == 2
    if not fits or any(type(number) is not int or number < least for number in value):
        raise ValueError(f"{value!r} is not {otherwise}")
    return tuple(value)


def _size(value: Any) -> tuple[int, int]:
    return _pair(value, 1, "a height and a width of at least 1")


def _size_or_side(value: Any) -> tuple[int, int] | int:
    return value if type(value) is int and value > 0 else _pair(value, 1, "a height and a width, or a shorter side")


def _corner(value: Any) -> tuple[int, int] | Literal["centre"]:
    return "centre" if value == "centre" else _pair(value, 0, "'centre', or a row and a column")


Size = Annotated[tuple[int, int], BeforeValidator(_size)]
"""Height and width in pixels."""


def need_pillow(step: str) -> None:
    """Raises:
    FrameworkMissing: Pillow is not installed.
    """
    if find_spec("PIL") is None:
        raise FrameworkMissing(f"the step {step!r} needs Pillow, which is not installed here", advice="pip install pillow")


class Decode(Fixed):
    """An encoded image (JPEG, PNG, …) to uint8 of layout HWC; a grey one has one channel. A turn in its EXIF is not done.

    Args:
        mode: ``"RGB"`` or ``"L"`` (grey), whatever the file has.
    """

    name: ClassVar[str] = "decode"
    mode: Literal["RGB", "L"] = "RGB"

    @model_validator(mode="after")
    def _possible(self) -> Self:
        """Refuse a missing library when the pipeline is built."""
        need_pillow(self.name)
        return self

    def change(self, values: np.ndarray) -> np.ndarray:
        """The decoded images."""
        return joined(self._decoded(row, content) for row, content in enumerate(values))

    def _decoded(self, row: int, content: Any) -> np.ndarray:
        from PIL import Image

        if isinstance(content, np.ndarray) and content.dtype == np.uint8 and content.ndim == 1:
            content = content.tobytes()
        if not isinstance(content, bytes):
            raise BadRow(row, f"a {type(content).__name__}, no bytes of an encoded image")
        try:
            with Image.open(io.BytesIO(content)) as image:
                pixels = np.asarray(image.convert(self.mode))
        except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:  # what Pillow's decoders raise
            raise BadRow(row, f"an image that cannot be decoded: {error}") from error
        return pixels if pixels.ndim == 3 else pixels[:, :, None]


class Resize(Fixed):
    """An image scaled as Pillow does, which takes all pixels into account when it reduces. uint8 and float32.

    Args:
        size: Height and width, or one number: the shorter side, the longer one in proportion, rounded down.
        method: The filter.
        layout: The axes of an image.
    """

    name: ClassVar[str] = "resize"
    size: Annotated[tuple[int, int] | int, BeforeValidator(_size_or_side)]
    method: Literal["nearest", "box", "bilinear", "hamming", "bicubic", "lanczos"] = "bilinear"
    layout: Layout

    @model_validator(mode="after")
    def _possible(self) -> Self:
        """Refuse a missing library when the pipeline is built."""
        need_pillow(self.name)
        return self

    def change(self, values: np.ndarray) -> np.ndarray:
        """The scaled images."""
        return each(checked_axes(values, self.layout), self._resized)

    def _resized(self, row: int, image: np.ndarray) -> np.ndarray:
        from PIL import Image

        if image.dtype not in (np.uint8, np.float32):
            raise BadRow(row, f"elements of type {image.dtype}, where resize takes uint8 and float32")
        size = self._size(image.shape[self.layout.index("H")], image.shape[self.layout.index("W")])
        method = Image.Resampling[self.method.upper()]

        def plane(pixels: np.ndarray) -> np.ndarray:
            return np.asarray(Image.fromarray(np.ascontiguousarray(pixels)).resize(size, method))

        if self.layout == "HW":
            return plane(image)
        if self.layout == "HWC" and image.dtype == np.uint8 and image.shape[2] == 3:
            return plane(image)  # Pillow does the three planes of such an image at once
        axis = self.layout.index("C")
        return np.stack([plane(channel) for channel in np.moveaxis(image, axis, 0)], axis=axis)

    def _size(self, height: int, width: int) -> tuple[int, int]:
        if not isinstance(self.size, int):
            return self.size[1], self.size[0]
        shorter = min(height, width)
        return width * self.size // shorter, height * self.size // shorter


class Crop(Fixed):
    """A part of an image.

    Args:
        size: Height and width.
        at: The upper left corner (row and column), or ``"centre"``: half of what is left over, rounded down.
        layout: The axes of an image.
    """

    name: ClassVar[str] = "crop"
    size: Size
    at: Annotated[tuple[int, int] | Literal["centre"], BeforeValidator(_corner)] = "centre"
    layout: Layout

    def change(self, values: np.ndarray) -> np.ndarray:
        """The parts."""
        checked_axes(values, self.layout)
        if values.dtype != object:
            return values[:, *self._part(0, values.shape[1:])].copy()
        return each(values, lambda row, image: image[self._part(row, image.shape)].copy())

    def _part(self, row: int, shape: tuple[int, ...]) -> tuple[slice, ...]:
        chosen = [slice(None)] * len(shape)
        for place, letter in enumerate("HW"):
            axis = self.layout.index(letter)
            over = shape[axis] - self.size[place]
            start = over // 2 if self.at == "centre" else self.at[place]
            if over < 0 or start > over:
                raise BadRow(row, f"an image of shape {shape}, too small for this crop")
            chosen[axis] = slice(start, start + self.size[place])
        return tuple(chosen)


class Transpose(Fixed):
    """An image's axes in another order; one without channels gets one.

    Args:
        source: The layout it has.
        into: The layout it is to have.
    """

    name: ClassVar[str] = "layout"
    source: Layout
    into: Literal["CHW", "HWC"]

    def change(self, values: np.ndarray) -> np.ndarray:
        """The images, their elements in memory in the new order."""
        values = checked_axes(dense(values), self.source)
        if self.source == "HW":
            return np.expand_dims(values, 1 + self.into.index("C")).copy()
        order = [1 + self.source.index(letter) for letter in self.into]
        return np.ascontiguousarray(values.transpose(0, *order))


class Colour(Fixed):
    r"""An image's channels in another order, or made grey: :math:`L = 0.299 R + 0.587 G + 0.114 B`, as Pillow rounds it.

    Args:
        source: The channels it has.
        into: The channels it is to have.
        layout: The axes of an image.
    """

    name: ClassVar[str] = "colour"
    source: Literal["RGB", "BGR", "L"]
    into: Literal["RGB", "BGR", "L"]
    layout: Literal["CHW", "HWC"]

    def change(self, values: np.ndarray) -> np.ndarray:
        """The changed images."""
        values = checked_axes(dense(values), self.layout)
        axis = 1 + self.layout.index("C")
        if values.shape[axis] != len(self.source):
            raise BadRow(0, f"{values.shape[axis]} channels, where {self.source} has {len(self.source)}")
        if self.source == self.into:
            return values
        if self.source == "L":
            return np.repeat(values, 3, axis=axis)
        if self.into != "L":
            return np.ascontiguousarray(np.flip(values, axis))
        channels = np.moveaxis(values if self.source == "RGB" else np.flip(values, axis), axis, 0)
        if values.dtype == np.uint8:
            red, green, blue = channels.astype(np.uint32)
            grey = (19595 * red + 38470 * green + 7471 * blue + 0x8000) >> 16
        else:
            red, green, blue = channels
            grey = 0.299 * red + 0.587 * green + 0.114 * blue
        return np.expand_dims(grey.astype(values.dtype), axis)
