"""Fields of samples as bytes: images as PNG or JPEG, arrays as ``.npy``, classes as text."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from importlib.util import find_spec
from io import BytesIO
from typing import Any

import numpy as np

from deep_bench.errors import InvalidArgument, InvalidData, Unsupported
from deep_bench.tensor import TensorSpec
from deep_bench.training.containers.values import Value, plain, refuse

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
