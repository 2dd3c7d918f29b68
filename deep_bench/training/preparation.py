"""Pre-processing as data: a pipeline is a list of named steps with parameters, kept in the record.

Augmentations leave something to chance: what each sample draws is a function of seed, epoch and its number, by the
counter-based generator Philox.
"""

from __future__ import annotations

import io
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Annotated, Any, ClassVar, Literal, Self

import ml_dtypes
import numpy as np
from numpy.typing import NDArray
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    ValidationError,
    model_validator,
)

from deep_bench.errors import FrameworkMissing, InvalidArgument, UnknownName
from deep_bench.training.dataset import BadSample
from deep_bench.training.samplers import natural

__all__ = ["STEPS", "Preparation", "Step"]

_MULTIPLIERS = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
_STEPS = 0x9E3779B9, 0xBB67AE85
_ROUNDS = 10
_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)


def philox(counters: NDArray[np.uint64], key: tuple[int, int]) -> NDArray[np.uint64]:
    """Philox4x32-10: four random words of 32 bits for each counter of four such words.

    Args:
        counters: The counters, each word below 2**32, along a first axis of 4.
        key: Two words.

    Returns:
        Random words below 2**32, in the shape of ``counters``.

    Example:
        >>> [hex(word) for word in philox(np.zeros(4, np.uint64), (0, 0)).tolist()]
        ['0x6627e8d5', '0xe169c58d', '0xbc57ac4c', '0x9b00dbd8']

    Source:
        Salmon, Moraes, Dror and Shaw, *Parallel random numbers: as easy as 1, 2, 3*, SC 2011, section 3.3.
    """
    a, b, c, d = counters
    for turn in range(_ROUNDS):
        keys = [np.uint64((word + turn * step) & 0xFFFFFFFF) for word, step in zip(key, _STEPS, strict=True)]
        first, second = _MULTIPLIERS[0] * a, _MULTIPLIERS[1] * c
        a, b, c, d = (second >> _HALF) ^ b ^ keys[0], second & _LOW, (first >> _HALF) ^ d ^ keys[1], first & _LOW
    return np.stack([a, b, c, d])


_PREPARATION = 1
"""Sets this stream apart from that of the samplers, which may have the same seed."""


@dataclass(frozen=True, slots=True)
class Draws:
    """The random numbers of one step for some samples.

    Args:
        seed: That of the preparation.
        epoch: The number of the epoch.
        step: The place of the step in its pipeline.
        numbers: The numbers of the samples, of shape (n,).

    Example:
        >>> both = Draws(0, 1, 2, np.array([5, 9])).uniform(3)
        >>> np.array_equal(Draws(0, 1, 2, np.array([9])).uniform(3)[0], both[1])
        True
    """

    seed: int
    epoch: int
    step: int
    numbers: NDArray[np.int64]

    def uniform(self, count: int) -> NDArray[np.float64]:
        """``count`` numbers from (0, 1) for each sample, in steps of 2**-32, of shape (n, count)."""
        blocks = -(-count // 4)
        counters = np.zeros((4, len(self.numbers), blocks), np.uint64)
        counters[0] = (self.numbers & 0xFFFFFFFF)[:, None]
        counters[1] = (self.numbers >> 32)[:, None]
        counters[2] = np.arange(blocks)
        words = np.moveaxis(philox(counters, self._key()), 0, -1).reshape(len(self.numbers), -1)[:, :count]
        return (words + 0.5) / 2**32

    def normal(self, count: int) -> NDArray[np.float64]:
        r"""``count`` numbers of the standard normal distribution for each sample, of shape (n, count).

        :math:`\sqrt{-2 \ln u} \cos(2 \pi v)` and the same with the sine, for uniform :math:`u` and :math:`v`. They
        are the same everywhere up to the last bits of logarithm and cosine.

        Source:
            Box and Muller, *A note on the generation of random normal deviates*, 1958.
        """
        half = -(-count // 2)
        u = self.uniform(2 * half)
        length, angle = np.sqrt(-2 * np.log(u[:, :half])), 2 * np.pi * u[:, half:]
        return np.concatenate([length * np.cos(angle), length * np.sin(angle)], axis=1)[:, :count]

    def _key(self) -> tuple[int, int]:
        sequence = np.random.SeedSequence(self.seed, spawn_key=(_PREPARATION, self.epoch, self.step))
        first, second = sequence.generate_state(2).tolist()
        return first, second


Layout = Literal["CHW", "HWC", "HW"]
"""The axes of one image: channels, height and width."""


class BadRow(Exception):
    """What a step cannot do, and for which row of the batch; the pipeline names the sample."""

    def __init__(self, row: int, reason: str) -> None:
        super().__init__(row, reason)
        self.row, self.reason = row, reason


class Step(BaseModel, ABC):
    """Base of the steps: fields of a subclass are its parameters; `field` names the array it changes.

    An array holds the samples along its first axis. Images of different sizes, and encoded ones, are an array of objects.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)
    name: ClassVar[str]

    field: str = "image"

    @property
    def target(self) -> str:
        """What the array is called afterwards."""
        return self.field

    @abstractmethod
    def apply(self, values: np.ndarray, draws: Draws) -> np.ndarray:
        """The changed array, with as many rows. ``draws`` gives each sample its random numbers.

        Raises:
            BadRow: A sample that the step cannot be done on.
        """


class Fixed(Step):
    """Base of the steps that leave nothing to chance."""

    def apply(self, values: np.ndarray, draws: Draws) -> np.ndarray:  # noqa: ARG002
        """The changed array, whatever was drawn."""
        return self.change(values)

    @abstractmethod
    def change(self, values: np.ndarray) -> np.ndarray:
        """The changed array, with as many rows.

        Raises:
            BadRow: A sample that the step cannot be done on.
        """


def each(values: np.ndarray, change: Callable[[int, np.ndarray], np.ndarray]) -> np.ndarray:
    """Change row by row, where rows differ in size or a library takes one image at a time."""
    return joined(change(row, value) for row, value in enumerate(values))


def joined(rows: Iterable[np.ndarray]) -> np.ndarray:
    """Rows as one array if all have the same shape and type, else as an array of objects.

    Example:
        >>> joined([np.zeros(2), np.ones(2)]).shape, joined([np.zeros(2), np.ones(3)]).dtype
        ((2, 2), dtype('O'))
    """
    rows = list(rows)
    if len({(row.shape, row.dtype) for row in rows}) == 1:
        return np.stack(rows)
    objects = np.empty(len(rows), object)
    objects[:] = rows
    return objects


def dense(values: np.ndarray) -> np.ndarray:
    """The array, if all its samples have one shape.

    Raises:
        BadRow: They have not; the first that differs is named.
    """
    if values.dtype != object:
        return values
    shapes = [getattr(value, "shape", None) for value in values]
    odd = next((row for row, shape in enumerate(shapes) if shape != shapes[0]), 0)
    came = f"shape {shapes[odd]} beside {shapes[0]}" if shapes[odd] else f"a {type(values[odd]).__name__}, no array"
    raise BadRow(odd, f"{came}; decode, and resize or crop to one size, before")


def floating(values: np.ndarray) -> np.ndarray:
    """The array, if its elements are real numbers that can be other than whole.

    Raises:
        BadRow: They cannot.
    """
    values = dense(values)
    if values.dtype.kind != "f":
        raise BadRow(0, f"elements of type {values.dtype}; make them float32 with `scale` or `cast` before")
    return values


def checked_axes(values: np.ndarray, layout: Layout) -> np.ndarray:
    """The array, if its samples have as many axes as a layout.

    Raises:
        BadRow: They have not.
    """
    ranks = [values.ndim - 1] if values.dtype != object else [getattr(value, "ndim", None) for value in values]
    for row, rank in enumerate(ranks):
        if rank != len(layout):
            raise BadRow(row, f"a sample of {rank} axes for the layout {layout}")
    return values


def _dtype_name(name: str) -> str:
    dtype_of(name)
    return name


def dtype_of(name: str) -> np.dtype:
    """The element type of a name, those of ``ml_dtypes`` included.

    Raises:
        ValueError: There is no such type of numbers.
    """
    try:
        dtype = np.dtype(getattr(ml_dtypes, name, name))
    except TypeError:
        dtype = np.dtype(object)
    if dtype.hasobject or dtype.kind in "SUMm":
        raise ValueError(f"{name!r} is no type of numbers, as 'float32' or 'bfloat16' is")
    return dtype


Type = Annotated[str, AfterValidator(_dtype_name)]
Real = Literal["float16", "float32", "float64"]


class Scale(Fixed):
    r""":math:`y = x / \text{divisor} \cdot \text{factor} + \text{offset}`, each operation rounded in ``dtype``.

    Args:
        divisor: Not 0. 255 brings bytes to [0, 1].
        factor: Multiplied with.
        offset: Added.
        dtype: The type to compute in, and of what comes out.
    """

    name: ClassVar[str] = "scale"
    divisor: float = 1.0
    factor: float = 1.0
    offset: float = 0.0
    dtype: Real = "float32"

    @model_validator(mode="after")
    def _possible(self) -> Self:
        """Refuse what would give infinities."""
        if not self.divisor:
            raise ValueError("divisor must not be 0")
        return self

    def change(self, values: np.ndarray) -> np.ndarray:
        """The scaled array."""
        kind = np.dtype(self.dtype).type
        scaled = dense(values).astype(kind)
        if self.divisor != 1:
            scaled /= kind(self.divisor)
        if self.factor != 1:
            scaled *= kind(self.factor)
        if self.offset:
            scaled += kind(self.offset)
        return scaled


class Normalise(Fixed):
    r""":math:`y_c = (x_c - \mu_c) / \sigma_c` for each channel.

    Args:
        mean: One number for each channel.
        std: One positive number for each channel.
        layout: The axes of an image.
    """

    name: ClassVar[str] = "normalise"
    mean: Sequence[float]
    std: Sequence[Annotated[float, Field(gt=0)]]
    layout: Layout

    @model_validator(mode="after")
    def _possible(self) -> Self:
        """Refuse lists that cannot belong together."""
        if len(self.mean) != len(self.std):
            raise ValueError(f"{len(self.mean)} means and {len(self.std)} standard deviations")
        if self.layout == "HW" and len(self.mean) != 1:
            raise ValueError("the layout HW has one channel")
        return self

    def change(self, values: np.ndarray) -> np.ndarray:
        """The shifted and scaled array."""
        values = checked_axes(floating(values), self.layout)
        shape = [1] * values.ndim
        if self.layout != "HW":
            axis = 1 + self.layout.index("C")
            if values.shape[axis] != len(self.mean):
                raise BadRow(0, f"{values.shape[axis]} channels for {len(self.mean)} means")
            shape[axis] = len(self.mean)
        mean, std = (np.array(numbers, values.dtype).reshape(shape) for numbers in (self.mean, self.std))
        centred = values - mean
        centred /= std
        return centred


class Cast(Fixed):
    """Elements as another type; as NumPy converts, without a check of their range.

    Args:
        dtype: The type, ``"bfloat16"`` and its like included.
    """

    name: ClassVar[str] = "cast"
    dtype: Type

    def change(self, values: np.ndarray) -> np.ndarray:
        """The converted array."""
        return dense(values).astype(dtype_of(self.dtype))


class Rename(Fixed):
    """An array under another name, that of a network's input.

    Args:
        into: The new name.
    """

    name: ClassVar[str] = "rename"
    into: str

    @property
    def target(self) -> str:
        """The new name."""
        return self.into

    def change(self, values: np.ndarray) -> np.ndarray:
        """The array as it is."""
        return values


class Offset(Fixed):
    """A class counted from another number: 1 is taken off where a set counts from 1.

    Args:
        add: What is added.
    """

    name: ClassVar[str] = "offset"
    field: str = "label"
    add: int

    def change(self, values: np.ndarray) -> np.ndarray:
        """The shifted labels, int64."""
        return _whole(values).astype(np.int64) + self.add


class ArgMax(Fixed):
    """The number of the largest score: a class from one-hot labels or from a network's output. The first of equal ones."""

    name: ClassVar[str] = "argmax"
    field: str = "label"

    def change(self, values: np.ndarray) -> np.ndarray:
        """The numbers, int64."""
        return _scores(values, 1).argmax(axis=-1).astype(np.int64)


class TopK(Fixed):
    """The numbers of the ``k`` largest scores, largest first; of equal ones the first.

    Args:
        k: How many.
    """

    name: ClassVar[str] = "top_k"
    field: str = "label"
    k: Annotated[int, Field(ge=1)]

    def change(self, values: np.ndarray) -> np.ndarray:
        """The numbers, int64, along a last axis of ``k``."""
        scores = _scores(values, self.k)
        backwards = scores[..., ::-1]  # a stable sort keeps the last of equal ones last
        order = np.argsort(backwards, axis=-1, kind="stable")[..., ::-1][..., : self.k]
        return (scores.shape[-1] - 1 - order).astype(np.int64)


class OneHot(Fixed):
    """A class as a vector of zeros with a one.

    Args:
        classes: The number of classes, counted from 0.
        dtype: The type of the vector.
    """

    name: ClassVar[str] = "one_hot"
    field: str = "label"
    classes: Annotated[int, Field(ge=1)]
    dtype: Type = "float32"

    def change(self, values: np.ndarray) -> np.ndarray:
        """The vectors, along a last axis."""
        labels = _whole(values)
        wrong = np.flatnonzero(((labels < 0) | (labels >= self.classes)).reshape(len(labels), -1).any(axis=1))
        if wrong.size:
            raise BadRow(int(wrong[0]), f"label {labels[wrong[0]]} of {self.classes} classes, counted from 0")
        return (labels[..., None] == np.arange(self.classes)).astype(dtype_of(self.dtype))


def _whole(values: np.ndarray) -> np.ndarray:
    values = dense(values)
    if values.dtype.kind not in "iu":
        raise BadRow(0, f"labels of type {values.dtype}, where whole numbers are needed")
    return values


def _scores(values: np.ndarray, least: int) -> np.ndarray:
    values = dense(values)
    if values.ndim < 2 or values.shape[-1] < least:
        raise BadRow(0, f"scores of shape {values.shape[1:]}, where at least {least} along an axis are needed")
    return values


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


STEPS: Mapping[str, type[Step]] = {
    kind.name: kind
    for kind in (
        Decode,
        Resize,
        Crop,
        Transpose,
        Colour,
        Scale,
        Normalise,
        Cast,
        Rename,
        Flip,
        RandomCrop,
        Noise,
        Brightness,
        Offset,
        ArgMax,
        TopK,
        OneHot,
    )
}
"""Name to step; a step's fields are its parameters."""


Batch = dict[str, np.ndarray]


class Preparation:
    """What is done with a batch, step by step; the same for a sample in whatever batch, thread or process it comes.

    Args:
        steps: Each a mapping with its name under ``step`` and its parameters, or a `Step`.
        seed: With epoch, place of the step and number of the sample, it decides what is left to chance.

    Raises:
        UnknownName: No such step.
        InvalidArgument: A parameter that the step does not have, lacks or cannot use; named with its step.

    Example:
        >>> import deep_bench as db
        >>> prepare = Preparation([
        ...     {"step": "random_crop", "size": [8, 8], "padding": 1, "layout": "CHW"},
        ...     {"step": "normalise", "mean": [0.3], "std": [0.4], "layout": "CHW"},
        ... ], seed=7)
        >>> numbers = np.array([4, 2])
        >>> prepare(db.datasets["digits"]()[numbers], numbers, epoch=0)["image"].shape
        (2, 1, 8, 8)
        >>> prepare.to_json()["steps"][1]
        {'step': 'normalise', 'field': 'image', 'mean': [0.3], 'std': [0.4], 'layout': 'CHW'}
    """

    def __init__(self, steps: Sequence[Mapping[str, Any] | Step], *, seed: int = 0) -> None:
        self.steps = tuple(
            step if isinstance(step, Step) else _built(place, step) for place, step in enumerate(steps, start=1)
        )
        self.seed = natural("seed", seed)

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> Preparation:
        """The preparation that `to_json` gave.

        Raises:
            InvalidArgument: It is something else.
            UnknownName: No such step.
        """
        if set(plain) != {"seed", "steps"}:
            raise InvalidArgument(f"a preparation with {', '.join(map(repr, plain)) or 'nothing'}", "'seed' and 'steps'")
        return cls(plain["steps"], seed=plain["seed"])

    def to_json(self) -> dict[str, JsonValue]:
        """What a record keeps: all parameters of all steps, defaults included."""
        steps: list[JsonValue] = [{"step": step.name, **step.model_dump(mode="json")} for step in self.steps]
        return {"seed": self.seed, "steps": steps}

    def __call__(self, batch: Batch, numbers: NDArray[np.int64], epoch: int = 0) -> Batch:
        """What is made of a batch; the batch itself is left as it is.

        Args:
            batch: Name to array, samples along the first axis.
            numbers: The numbers of its samples.
            epoch: The number of the epoch.

        Raises:
            InvalidArgument: A step names an array that is not there.
            InvalidData: A sample that a step cannot be done on, or samples of different sizes at the end; named.
        """
        batch = dict(batch)
        for place, step in enumerate(self.steps, start=1):
            if step.field not in batch:
                came = f"step {place} ({step.name}) on {step.field!r}"
                raise InvalidArgument(came, f"one of {', '.join(batch)}", "name the array: field=…")
            try:
                changed = step.apply(batch.pop(step.field), Draws(self.seed, epoch, place, numbers))
            except BadRow as bad:
                where = f"sample {numbers[bad.row]}, {step.field!r}: step {place} ({step.name})"
                error = BadSample(f"{where} got {bad.reason}")
                error.sample = int(numbers[bad.row])
                raise error from bad.__cause__
            batch[step.target] = changed
        return batch

    def __repr__(self) -> str:
        return f"Preparation([{', '.join(step.name for step in self.steps)}], seed={self.seed})"


def _built(place: int, plain: Mapping[str, Any]) -> Step:
    if not isinstance(plain, Mapping) or not isinstance(plain.get("step"), str):
        raise InvalidArgument(f"step {place} is {plain!r}", "a mapping with the name of a step under 'step'")
    name = plain["step"]
    if name not in STEPS:
        raise UnknownName("step of a preparation", name, STEPS)
    kind = STEPS[name]
    try:
        return kind(**{key: value for key, value in plain.items() if key != "step"})
    except ValidationError as error:
        faults = "; ".join(_worded(fault) for fault in error.errors())
        raise InvalidArgument(f"step {place} ({name}): {faults}", f"parameters {', '.join(kind.model_fields)}") from None


def _worded(fault: Any) -> str:
    where = ".".join(map(str, fault["loc"]))
    message = fault["msg"].removeprefix("Value error, ")
    return f"{where}: {message}" if where else message
