"""Steps that change elements: scale, mean and standard deviation, type; and the name of an array."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal, Self

import ml_dtypes
import numpy as np
from pydantic import AfterValidator, Field, model_validator

from deep_bench.training.preparation.step import BadRow, Fixed, Layout, checked_axes, dense, floating


def _known(name: str) -> str:
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


Type = Annotated[str, AfterValidator(_known)]
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
