r"""A TFRecord file of ``tf.train.Example``, read and written without TensorFlow; or a folder of such files.

A record is its length (uint64), the masked CRC-32C of these eight bytes, its bytes, and their masked CRC-32C, little-endian;
:math:`\operatorname{mask}(c) = ((c \gg 15) | (c \ll 17)) + \mathtt{a282ead8}_{16}` modulo :math:`2^{32}`.

The CRC comes from the package ``google-crc32c``, whose code uses the processor's own instruction: in Python it would take a
thousand times as long.

Why protobuf and not code of our own for its wire format: onnx brings the package anyway, and its parser is written in C,
safe with damaged bytes, and faster than any in Python. In a pool of their own the messages do not meet TensorFlow's, which a
process may have too.

Written: whole numbers (int64) and float32, alone or in a row, as lists of their kind; images that are files already as such;
all else as its bytes, with sizes and type beside it, in the features ``NAME/shape`` and ``NAME/dtype``. Read: the same, and
of others' files every feature that is a list of numbers, or PNG or JPEG.

Source:
    TensorFlow, "TFRecord and tf.train.Example", section "TFRecords format details"; RFC 3720, appendix B.4 (CRC-32C);
    TensorFlow, core/example/example.proto and feature.proto: the names and numbers of the fields.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from numpy.typing import NDArray

from deep_bench.errors import InvalidData, Unsupported
from deep_bench.tensor import TensorSpec
from deep_bench.training.containers import records
from deep_bench.training.containers.container import (
    Container,
    ContainerManifest,
    Origin,
    Value,
    holds_numbers,
    parsed,
    plain,
    refuse,
)
from deep_bench.training.containers.kinds import Content, Details
from deep_bench.training.containers.records import Files, RecordContainer, SampleSource

_HEAD = struct.Struct("<QI")
_SUM = struct.Struct("<I")
OVERHEAD = _HEAD.size + _SUM.size


def crc32c() -> Callable[[bytes], int]:
    """The checksum's function.

    Raises:
        Unsupported: Its package is not installed.
    """
    if find_spec("google_crc32c") is None:
        raise Unsupported(
            "TFRecord needs google-crc32c, which is not installed here", advice="pip install 'deep-bench[data]'"
        )
    from google_crc32c import value

    return value


def masked(crc: int) -> int:
    """A checksum as it is stored.

    Example:
        >>> f"{masked(0):08x}"
        'a282ead8'
    """
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def framed(data: bytes, crc: Callable[[bytes], int]) -> bytes:
    """Bytes as a record."""
    length = struct.pack("<Q", len(data))
    return length + _SUM.pack(masked(crc(length))) + data + _SUM.pack(masked(crc(data)))


def unframed(record: bytes, crc: Callable[[bytes], int]) -> bytes:
    """The bytes of a record.

    Raises:
        ValueError: A checksum is wrong, or the length.
    """
    length, length_sum = _HEAD.unpack_from(record)
    if length_sum != masked(crc(record[:8])) or length != len(record) - OVERHEAD:
        raise ValueError("the length, or its checksum, is wrong")
    data = record[_HEAD.size : -_SUM.size]
    (checksum,) = _SUM.unpack_from(record, len(record) - _SUM.size)
    if checksum != masked(crc(data)):
        raise ValueError(f"the checksum of its bytes is {masked(crc(data)):08x} instead of {checksum:08x}")
    return data


def is_framed(head: bytes) -> bool:
    """Whether a file with these first bytes begins with a record."""
    if len(head) < _HEAD.size or find_spec("google_crc32c") is None:
        return False
    return bool(_HEAD.unpack_from(head)[1] == masked(crc32c()(head[:8])))


def scan(path: Path, crc: Callable[[bytes], int]) -> NDArray[np.int64]:
    """Offset and size of each record of a file, by reading their lengths: (records, 2).

    Raises:
        InvalidData: The checksum of a length is wrong, or the last record is cut off.
    """
    places: list[tuple[int, int]] = []
    total, offset = path.stat().st_size, 0
    with open(path, "rb", buffering=1 << 16) as file:
        while offset < total:
            place = f"{path}, record {len(places)} at offset {offset}"
            head = file.read(_HEAD.size)
            if len(head) < _HEAD.size:
                raise InvalidData(f"{place} is cut off", f"{_HEAD.size} bytes of length and checksum", "get the data again")
            length, length_sum = _HEAD.unpack(head)
            if length_sum != masked(crc(head[:8])):
                raise InvalidData(f"{place}: the checksum of its length is wrong", "a TFRecord file", "get the data again")
            size = length + OVERHEAD
            if offset + size > total:
                raise InvalidData(f"{place} has {total - offset} bytes", f"{size}", "it is cut off: get the data again")
            places.append((offset, size))
            offset += size
            file.seek(offset)
    return np.array(places, np.int64).reshape(-1, 2)


_PACKAGE = "deep_bench.example"
_Field = descriptor_pb2.FieldDescriptorProto
_LISTS = (
    ("BytesList", "bytes_list", _Field.TYPE_BYTES),
    ("FloatList", "float_list", _Field.TYPE_FLOAT),
    ("Int64List", "int64_list", _Field.TYPE_INT64),
)


def _message_class() -> Any:
    file = descriptor_pb2.FileDescriptorProto(name="deep_bench/example.proto", package=_PACKAGE, syntax="proto3")
    feature = descriptor_pb2.DescriptorProto(name="Feature")
    feature.oneof_decl.add(name="kind")
    for number, (name, field, kind) in enumerate(_LISTS, start=1):
        values = file.message_type.add(name=name)
        values.field.add(name="value", number=1, label=_Field.LABEL_REPEATED, type=kind)
        _add(feature, field, number, _Field.LABEL_OPTIONAL, name).oneof_index = 0
    file.message_type.append(feature)
    features = file.message_type.add(name="Features")
    entry = features.nested_type.add(name="FeatureEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, label=_Field.LABEL_OPTIONAL, type=_Field.TYPE_STRING)
    _add(entry, "value", 2, _Field.LABEL_OPTIONAL, "Feature")
    _add(features, "feature", 1, _Field.LABEL_REPEATED, "Features.FeatureEntry")
    _add(file.message_type.add(name="Example"), "features", 1, _Field.LABEL_OPTIONAL, "Features")
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.Example"))


def _add(message: Any, name: str, number: int, label: int, of: str) -> Any:
    return message.field.add(name=name, number=number, label=label, type=_Field.TYPE_MESSAGE, type_name=f".{_PACKAGE}.{of}")


Example = _message_class()
"""The message class: ``Example.FromString(data).features.feature["label"].int64_list.value``."""


_SHAPE, _DTYPE = "/shape", "/dtype"
_NUMBERS = {"int64": "int64_list", "float32": "float_list"}
_PATTERNS = ("*.tfrecord", "*.tfrecords", "*.tfrecord-*", "*-of-*")


class _TFRecord(SampleSource):
    """The records of TFRecord files.

    Args:
        files: The files.
        specs: What a sample holds.
        encodings: Field to ``"int64"``, ``"float32"``, ``"raw"``, ``"png"`` or ``"jpeg"``.
    """

    def __init__(self, files: Files, specs: Sequence[TensorSpec], encodings: Mapping[str, str]) -> None:
        self.specs, self._files, self._crc = tuple(specs), files, crc32c()
        self.images = frozenset(name for name, encoding in encodings.items() if encoding in records.IMAGES)
        places = [scan(path, self._crc) for path in files.paths]
        self._which = np.repeat(np.arange(len(places)), [len(place) for place in places]).tolist()
        self._places = np.concatenate(places).tolist()
        self._readers = {spec.name: _reader(spec, encodings.get(spec.name, "")) for spec in specs}

    def __len__(self) -> int:
        return len(self._which)

    def fetch(self, index: int) -> bytes:
        return unframed(self._files.read(self._which[index], *self._places[index]), self._crc)

    def decode(self, raw: bytes, index: int, images: bool) -> dict[str, Value]:  # noqa: ARG002 (all sources have it)
        features = _features(raw)
        sample: dict[str, Value] = {}
        for name, read in self._readers.items():
            if name not in features:
                raise InvalidData(f"no feature {name!r}", ", ".join(self._readers))
            sample[name] = _single(features[name]) if not images and name in self.images else read(features)
        return sample

    def where(self, index: int) -> str:
        return f"{self._files.paths[self._which[index]]}, record {index} at offset {self._places[index][0]}"

    def close(self) -> None:
        self._files.close()


def recognise(path: Path, head: bytes) -> bool:
    """Whether it looks like one."""
    if path.is_file():
        return is_framed(head)
    return any(_begins(file) for pattern in _PATTERNS for file in sorted(path.glob(pattern))[:1])


def open_files(path: Path, manifest: ContainerManifest | None, mode: str | None = None, decode: bool = True) -> Container:
    """Find the records.

    Args:
        path: The file; or a folder of files, which are read in the order of their names.
        manifest: What the writer noted.
        mode: The mode of images, of a file that came from elsewhere; by default that of the first.
        decode: Whether batches hold pixels, or images' files.
    """
    paths = [path] if path.is_file() else sorted({file for pattern in _PATTERNS for file in path.glob(pattern)})
    if not paths:
        raise InvalidData(f"{path} has no TFRecord files", ", ".join(_PATTERNS), "check the path")
    files = Files(paths)
    try:
        specs, encodings = _guessed(paths, mode) if manifest is None else (manifest.specs, manifest.encodings)
        source = _TFRecord(files, specs, encodings)
    except BaseException:
        files.close()
        raise
    options = {name: value for name, value in (("mode", mode), ("decode", decode)) if value not in (None, True)}
    container = RecordContainer(Origin("tfrecord", path, tuple(paths), manifest, options), source, decode=decode)
    if manifest is not None and len(container) != manifest.samples:
        raise InvalidData(f"{path} has {len(container)} records", f"{manifest.samples}")
    return container


def write(stage: Path, name: str, content: Content, image: str | None = None, quality: int = 95) -> Details:
    """Write a record for each sample.

    Args:
        stage: Where.
        name: The file's name.
        content: What.
        image: ``"png"`` or ``"jpeg"``; by default images are their bytes, or the files that the source has.
        quality: Of JPEG.
    """
    crc = crc32c()
    possible = records.image_fields(content.specs, image)
    fields = possible if image is not None else possible & content.stored_images
    names = [spec.name for spec in content.specs]
    for spec in content.specs:
        if any(spec.name == base + suffix for base in names for suffix in (_SHAPE, _DTYPE)):
            raise refuse("TFRecord", spec, f"names that are not another's with {_SHAPE} or {_DTYPE}", "rename it")
    encodings = {spec.name: (image or "png") if spec.name in fields else _encoding(spec) for spec in content.specs}
    with open(stage / name, "wb") as file:
        for sample in content.samples(fields if image is None else frozenset()):
            file.write(framed(_serialized(content.specs, sample, encodings, quality), crc))
    return Details(encodings=encodings)


def _encoding(spec: TensorSpec) -> str:
    return spec.dtype.name if spec.dtype.name in _NUMBERS and spec.rank <= 1 else "raw"


def _serialized(
    specs: Sequence[TensorSpec], sample: Mapping[str, Value], encodings: Mapping[str, str], quality: int
) -> bytes:

    example = Example()
    features = example.features.feature
    for spec in specs:
        value, encoding = sample[spec.name], encodings[spec.name]
        if encoding in _NUMBERS:
            getattr(features[spec.name], _NUMBERS[encoding]).value.extend(np.ravel(value).tolist())
        elif encoding in records.IMAGES:
            features[spec.name].bytes_list.value.append(records.encoded(spec, value, encoding, quality))
        else:
            assert isinstance(value, np.ndarray)
            stored = np.ascontiguousarray(value).view(plain(value.dtype))
            features[spec.name].bytes_list.value.append(stored.tobytes())
            features[spec.name + _SHAPE].int64_list.value.extend(value.shape)
            features[spec.name + _DTYPE].bytes_list.value.append(spec.dtype.name.encode())
    return bytes(example.SerializeToString())


def _features(raw: bytes) -> Any:

    return Example.FromString(raw).features.feature


def _single(feature: Any) -> bytes:
    (content,) = feature.bytes_list.value
    return bytes(content)


def _reader(spec: TensorSpec, encoding: str) -> Callable[[Any], np.ndarray]:
    """What takes a field out of the features of a record."""
    name, dtype = spec.name, spec.dtype
    if encoding in _NUMBERS:
        kind, scalar = _NUMBERS[encoding], spec.rank == 0

        def numbers(features: Any) -> np.ndarray:
            array = np.array(getattr(features[name], kind).value, dtype)
            return array.reshape(()) if scalar and len(array) == 1 else array

        return numbers
    if encoding in records.IMAGES:
        decode = records.decoder(encoding, spec)
        return lambda features: decode(_single(features[name]))  # type: ignore[return-value]
    if encoding != "raw":
        raise InvalidData(f"{name} is encoded as {encoding!r}", "int64, float32, raw, png or jpeg")
    stored, closed = plain(dtype), None if spec.open_dimensions else spec.shape

    def raw(features: Any) -> np.ndarray:
        shape = tuple(features[name + _SHAPE].int64_list.value) if closed is None else closed
        if any(size < 0 for size in shape):  # type: ignore[operator]
            raise ValueError(f"{name} of shape {list(shape)}")
        return np.frombuffer(_single(features[name]), stored).reshape(shape).copy().view(dtype)  # type: ignore[arg-type]

    return raw


def _begins(file: Path) -> bool:
    with open(file, "rb") as opened:
        return is_framed(opened.read(16))


def _guessed(paths: Sequence[Path], mode: str | None) -> tuple[list[TensorSpec], dict[str, str]]:
    """What the first record holds."""
    crc = crc32c()
    path, places = next(((path, extents) for path in paths if len(extents := scan(path, crc))), (paths[0], None))
    if places is None:
        raise InvalidData(f"{path} has no records, and no manifest", "at least one record", "get the data again")
    with open(path, "rb") as file:
        first = file.read(int(places[0, 1]))
    place = f"{path}, record 0 at offset 0"
    features = parsed(place, lambda: _features(unframed(first, crc)), "tf.train.Example")
    guesses = parsed(place, lambda: [_field(place, features, name, mode) for name in sorted(features)])
    fields = [guess for guess in guesses if guess is not None]
    if not fields:
        raise InvalidData(f"{place} has no features", "at least one")
    return [spec for spec, _ in fields], {spec.name: encoding for spec, encoding in fields}


def _field(place: str, features: Any, name: str, mode: str | None) -> tuple[TensorSpec, str] | None:
    """What a feature is, and how it is encoded; None for one that says it of another."""
    if any(name.endswith(suffix) and name.removesuffix(suffix) in features for suffix in (_SHAPE, _DTYPE)):
        return None
    feature = features[name]
    kind = feature.WhichOneof("kind")
    if kind in _NUMBERS.values():
        (dtype,) = (name for name, candidate in _NUMBERS.items() if candidate == kind)
        scalar = len(getattr(feature, kind).value) == 1
        return TensorSpec(name, () if scalar else (f"{name}_0",), np.dtype(dtype)), dtype
    if kind is None:
        raise Unsupported(
            f"{place}: feature {name!r} is empty", "a list of numbers, or bytes with sizes and type beside them"
        )
    data = _single(feature)
    if name + _DTYPE in features and name + _SHAPE in features:
        dtype_found = np.dtype(_single(features[name + _DTYPE]).decode())
        if not holds_numbers(dtype_found):
            raise ValueError(f"feature {name!r} of type {dtype_found}")
        rank = len(features[name + _SHAPE].int64_list.value)
        return TensorSpec(name, tuple(f"{name}_{axis}" for axis in range(rank)), dtype_found), "raw"
    encoding = records.image_encoding(data)
    if encoding is None:
        expected = "numbers, PNG, JPEG, or bytes with sizes and type beside them"
        raise Unsupported(f"{place}: the bytes of feature {name!r} say not what they are", expected, f"add {name}{_SHAPE}")
    return records.image_spec(name, mode or records.stored_mode(data)), encoding
