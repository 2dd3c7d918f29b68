"""Containers whose samples lie one after the other, each decoded by itself: images, arrays and classes as bytes.

Images are PNG or JPEG, arrays ``.npy``, classes text.
"""

from __future__ import annotations

import os
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import lru_cache
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deep_bench.errors import DeepBenchError, InvalidArgument, InvalidData, Unsupported
from deep_bench.tensor import STRING, TensorSpec
from deep_bench.training.containers.container import Container, Origin, Value, damaged, fits, plain, refuse, stack
from deep_bench.training.dataset import checked_numbers

IMAGES = ("png", "jpeg")
ENCODINGS = {"png": "png", "jpg": "jpeg", "jpeg": "jpeg", "npy": "npy", "cls": "cls"}
"""Suffix of a file to how its content is encoded."""


_MODES: dict[tuple[Any, ...], str] = {
    (2, "uint8"): "L",
    (3, "uint8", 2): "LA",
    (3, "uint8", 3): "RGB",
    (3, "uint8", 4): "RGBA",
    (2, "uint16"): "I;16",
}
_FIRST_BYTES = {b"\x89PNG": "png", b"\xff\xd8\xff": "jpeg"}
_DIGITS = re.compile(rb"-?[0-9]{1,19}")


def mode_of(spec: TensorSpec) -> str | None:
    """The mode in which Pillow holds such an array; None if it is no image.

    Example:
        >>> mode_of(TensorSpec("image", ("height", "width", 3), np.dtype("uint8")))
        'RGB'
    """
    return None if 0 in spec.shape else _MODES.get((spec.rank, spec.dtype.name, *spec.shape[2:]))


def image_spec(name: str, mode: str) -> TensorSpec:
    """Images of any size in one of Pillow's modes.

    Raises:
        InvalidArgument: A mode that is not held here.
    """
    for (_, dtype, *channels), candidate in _MODES.items():
        if candidate == mode:
            return TensorSpec(name, ("height", "width", *channels), np.dtype(dtype))
    raise InvalidArgument(f"images in the mode {mode!r}", f"one of {', '.join(_MODES.values())}")


def stored_mode(data: bytes) -> str:
    """The mode that suits an image's file: its own, or RGB where arrays do not hold that."""
    mode = _image(data).mode
    return mode if mode in _MODES.values() else "L" if mode == "1" else "RGB"


def decode_image(data: bytes, mode: str) -> np.ndarray:
    """The pixels of a PNG or JPEG file, rows first.

    Args:
        data: The file.
        mode: The mode wanted. To RGB everything is converted, what is transparent loses that; to others nothing.

    Raises:
        InvalidData: An image in another mode. Any error of Pillow: a damaged file.
    """
    image = _image(data)
    if mode not in (image.mode, "RGB") and (mode, image.mode) != ("L", "1"):
        raise InvalidData(f"an image in the mode {image.mode}", mode, "open the container with mode='RGB'")
    # An array that owns its elements: what Pillow hands out is read-only.
    return np.array(image if image.mode == mode else image.convert(mode))


def encode_image(array: np.ndarray, encoding: str, quality: int) -> bytes:
    """Pixels as a PNG file (exact), or as a JPEG file (not exact)."""
    if not 1 <= quality <= 100:
        raise InvalidArgument(f"quality={quality}", "1 to 100")
    buffer = BytesIO()
    options: dict[str, Any] = {"quality": quality} if encoding == "jpeg" else {}
    _pillow().fromarray(array).save(buffer, encoding.upper(), **options)
    return buffer.getvalue()


def image_encoding(data: bytes) -> str | None:
    """``"png"`` or ``"jpeg"``, by a file's first bytes; None for anything else."""
    return next((name for first, name in _FIRST_BYTES.items() if data.startswith(first)), None)


def decode_npy(data: bytes) -> np.ndarray:
    """The array of a ``.npy`` file.

    Raises:
        ValueError: No such file, of another length than it says, or of Python objects.
    """
    if data[:6] != b"\x93NUMPY" or len(data) < 12:
        raise ValueError("no .npy file")
    wide = data[6] != 1
    end = 12 + int.from_bytes(data[8:12], "little") if wide else 10 + int.from_bytes(data[8:10], "little")
    dtype, shape, order, nbytes = _npy_header(data[:end])
    if len(data) - end != nbytes:
        raise ValueError(f"{len(data) - end} bytes of elements instead of {nbytes}")
    array = np.frombuffer(data, dtype, offset=end).reshape(shape, order=order)
    return array.astype(dtype.newbyteorder("="))  # a copy, so that it can be written to


@lru_cache(maxsize=256)
def _npy_header(header: bytes) -> tuple[np.dtype, tuple[int, ...], Any, int]:
    stream = BytesIO(header)
    version = np.lib.format.read_magic(stream)
    if version == (1, 0):
        shape, fortran, dtype = np.lib.format.read_array_header_1_0(stream)
    elif version == (2, 0):
        shape, fortran, dtype = np.lib.format.read_array_header_2_0(stream)
    else:
        raise ValueError(f".npy version {version}")
    if dtype.hasobject:
        raise ValueError("an array of Python objects")
    if any(size < 0 for size in shape):
        raise ValueError(f"an array of shape {shape}")
    count = 1
    for size in shape:
        count *= size
    return dtype, shape, "F" if fortran else "C", count * dtype.itemsize


def image_fields(specs: Sequence[TensorSpec], encoding: str | None) -> frozenset[str]:
    """The fields that are written as images.

    Args:
        specs: All fields.
        encoding: ``"png"``, ``"jpeg"`` or None for PNG.

    Raises:
        InvalidArgument: Another encoding.
    """
    if encoding not in (None, *IMAGES):
        raise InvalidArgument(f"image={encoding}", f"one of {', '.join(IMAGES)}")
    modes = ("L", "RGB") if encoding == "jpeg" else ("L", "LA", "RGB", "RGBA")
    return frozenset(spec.name for spec in specs if mode_of(spec) in modes)


def encoded(spec: TensorSpec, value: Value, encoding: str, quality: int = 95) -> bytes:
    """The bytes of a field; an image's file as it is.

    Raises:
        Unsupported: An image without pixels.
    """
    if isinstance(value, bytes):
        return value
    if encoding == "cls":
        return str(int(value)).encode()
    if encoding == "npy":
        return encode_npy(value)
    if not value.size:
        raise refuse(encoding, spec, "at least one pixel")
    return encode_image(value, encoding, quality)


def encode_npy(array: np.ndarray) -> bytes:
    """An array as a ``.npy`` file; elements of ``ml_dtypes`` as unsigned integers."""
    buffer = BytesIO()
    np.lib.format.write_array(buffer, np.asarray(array).view(plain(array.dtype)), allow_pickle=False)
    return buffer.getvalue()


def decode_class(data: bytes) -> np.ndarray:
    """A whole number that is written in digits.

    Raises:
        ValueError: Anything else.
    """
    if _DIGITS.fullmatch(data.strip()) is None:
        raise ValueError(f"{data[:20]!r} is no whole number")
    return np.array(int(data), np.int64)


def decoder(encoding: str, spec: TensorSpec) -> Callable[[bytes], Value]:
    """What turns a field's bytes into its array."""
    if encoding == "cls":
        return decode_class
    if encoding in IMAGES:
        mode = mode_of(spec)
        if mode is None:
            raise InvalidData(f"{spec} as {encoding}", "an image")
        return lambda data: decode_image(data, mode)
    if encoding == "npy":
        dtype = spec.dtype
        return decode_npy if dtype.kind != "V" else lambda data: decode_npy(data).view(dtype)
    raise InvalidData(f"{spec.name} is encoded as {encoding!r}", f"one of {', '.join(sorted(set(ENCODINGS.values())))}")


def need_pillow() -> None:
    """See that images can be read and written.

    Raises:
        Unsupported: Pillow is not installed.
    """
    if find_spec("PIL") is None:
        raise Unsupported("images need Pillow, which is not installed here", advice="pip install 'deep-bench[data]'")


def _pillow() -> Any:
    need_pillow()
    from PIL import Image

    return Image


def _image(data: bytes) -> Any:
    return _pillow().open(BytesIO(data), formats=("PNG", "JPEG"))


_MOST_OPEN = 256


class SampleSource(ABC):
    """Where the samples of a `RecordContainer` come from: how one is read, and how it is decoded.

    Attributes:
        specs: The arrays of a sample.
        images: Those of its fields that are images, stored as PNG or JPEG.
        classes: The names of the classes, in the order of their numbers.
    """

    specs: tuple[TensorSpec, ...]
    images: frozenset[str] = frozenset()
    classes: tuple[str, ...] | None = None

    @abstractmethod
    def __len__(self) -> int:
        """The number of samples."""

    @abstractmethod
    def fetch(self, index: int) -> Any:
        """The bytes of a sample, in whatever form `decode` takes."""

    @abstractmethod
    def decode(self, raw: Any, index: int, images: bool) -> dict[str, Value]:
        """The fields of a sample; images as files unless ``images``. On damaged bytes it may raise anything."""

    @abstractmethod
    def where(self, index: int) -> str:
        """The file of a sample, and its place there, for messages."""

    def known(self, name: str) -> np.ndarray | None:
        """One field of all samples, where that is known without reading them."""
        del name
        return None

    def close(self) -> None:  # noqa: B027 (most have no files open)
        """Let go of the files."""


class RecordContainer(Container):
    """A container whose samples are fetched and decoded one by one.

    Args:
        origin: Where they come from.
        source: How to get at them.
        decode: Whether images are decoded; if not, batches hold their files, as ``bytes`` in an array of objects.
    """

    def __init__(self, origin: Origin, source: SampleSource, *, decode: bool = True) -> None:
        self.origin = origin
        self.specs = tuple(s if decode or s.name not in source.images else _file_spec(s.name) for s in source.specs)
        self._source: SampleSource | None = source
        self._decode = decode
        self._count = len(source)
        self._names = {spec.name for spec in self.specs}

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, indices: NDArray[np.int64]) -> dict[str, np.ndarray]:
        """The samples of these numbers, in any order, as often as they come.

        Raises:
            InvalidArgument: A number beyond the set.
            InvalidData: A sample that cannot be read or decoded, or that is of another size than all should be.
        """
        numbers = checked_numbers(indices, self._count, str(self.origin.path)).tolist()
        return self.decoded(self.fetch(numbers), numbers)

    def fetch(self, numbers: Sequence[int]) -> list[Any]:
        """The bytes of samples, not decoded: what reading costs by itself."""
        source, records = self._open(), []
        for number in numbers:
            try:
                records.append(source.fetch(number))
            except DeepBenchError:
                raise
            except Exception as error:
                raise damaged(source.where(number), error) from error
        return records

    def decoded(self, raw: Sequence[Any], numbers: Sequence[int]) -> dict[str, np.ndarray]:
        """What `fetch` returned, decoded and put together."""
        samples = [self._decoded(record, number, self._decode) for record, number in zip(raw, numbers, strict=True)]
        return {spec.name: stack([sample[spec.name] for sample in samples], spec) for spec in self.specs}

    def where(self, number: int) -> str:
        """The file of a sample, and its place there, for messages."""
        return self._open().where(number)

    def sample(self, number: int, *, images: bool = True) -> dict[str, Value]:
        """One sample by itself, whatever its size.

        Args:
            number: Its number.
            images: Whether to decode images; if not, their files are returned.
        """
        (number,) = checked_numbers([number], self._count, str(self.origin.path)).tolist()
        return self._decoded(self.fetch([number])[0], number, images)

    def stored(self, number: int) -> dict[str, Value]:
        """One sample with its images as the files they are, each of which was decoded once to see that it can be.

        Raises:
            InvalidData: One cannot.
        """
        (raw,) = self.fetch([number])
        self._decoded(raw, number, True)
        return self._decoded(raw, number, False)

    @property
    def images(self) -> frozenset[str]:
        """The fields that are images, stored as PNG or JPEG."""
        return self._open().images

    @property
    def classes(self) -> tuple[str, ...] | None:
        """The names of the classes, in the order of their numbers; None where they have none."""
        return self._open().classes or super().classes

    def column(self, name: str) -> np.ndarray:
        """One small field of all samples; images are not decoded for it."""
        values = self._open().known(name)
        if values is not None:
            return values
        spec = next(spec for spec in self.specs if spec.name == name)
        return stack([self.sample(number, images=False)[name] for number in range(self._count)], spec)

    @property
    def lengths(self) -> NDArray[np.int64]:
        """The length of each sample: all are read for it.

        Raises:
            AttributeError: No field has a first size that differs, or several have; images have no length.
        """
        ragged_names = [s.name for s in self.specs if s.rank and isinstance(s.shape[0], str) and s.name not in self.images]
        if len(ragged_names) != 1:
            raise AttributeError(f"{len(ragged_names)} fields differ in length")
        return np.array([len(self.sample(i, images=False)[ragged_names[0]]) for i in range(self._count)], np.int64)

    def close(self) -> None:
        """Let go of its files."""
        if self._source is not None:
            self._source.close()
            self._source = None

    def _open(self) -> SampleSource:
        if self._source is None:
            raise InvalidArgument(f"{self.origin.path} was closed", "an open container", "open it again")
        return self._source

    def _decoded(self, raw: Any, number: int, images: bool) -> dict[str, Value]:
        source = self._open()
        try:
            sample = source.decode(raw, number, images)
        except InvalidData as error:
            raise InvalidData(f"{source.where(number)}: {error.came}", error.expected, error.advice) from error
        except DeepBenchError:
            raise
        except Exception as error:
            raise damaged(source.where(number), error) from error
        if sample.keys() != self._names:
            has, expected = (", ".join(sorted(names)) or "nothing" for names in (sample, self._names))
            raise InvalidData(f"{source.where(number)} holds {has}", expected)
        for spec in source.specs:
            value = sample[spec.name]
            if isinstance(value, np.ndarray) and not fits(spec, value):
                shown = f"{value.dtype}{list(value.shape)}"
                raise InvalidData(f"{source.where(number)}: {spec.name} is {shown}", str(spec), "get the data again")
        return sample


def _file_spec(name: str) -> TensorSpec:
    return TensorSpec(name, (), STRING)


class Files:
    """Files of which parts are read, from any thread.

    Args:
        paths: The files. Few are kept open; many are opened each time.
    """

    def __init__(self, paths: Sequence[Path]) -> None:
        self.paths = tuple(paths)
        self._numbers: list[int] = []
        if len(self.paths) > _MOST_OPEN:
            return
        for path in self.paths:
            try:
                self._numbers.append(os.open(path, os.O_RDONLY | os.O_CLOEXEC))
            except OSError as error:
                self.close()
                raise damaged(path, error) from error

    def read(self, file: int, offset: int, size: int) -> bytes:
        """Some bytes of a file.

        Raises:
            ValueError: It ends before them.
        """
        if self._numbers:
            chunk = os.pread(self._numbers[file], size, offset)
        else:
            with open(self.paths[file], "rb", buffering=0) as opened:
                chunk = os.pread(opened.fileno(), size, offset)
        if len(chunk) < size:
            raise ValueError(f"the file ends {size - len(chunk)} bytes too early")
        return chunk

    def close(self) -> None:
        """Close all."""
        while self._numbers:
            os.close(self._numbers.pop())
