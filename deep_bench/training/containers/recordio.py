"""MXNet's RecordIO: a ``.rec`` file of images or arrays with labels, and an ``.idx`` file with their places.

A part of a record is a magic number, its length (29 bits, below 3 that say which part it is), its bytes, and zeros up to a
multiple of four; bytes that look like the magic number are left out and split a record in parts. A record is a flag, a label
(float32), two numbers and, where the flag is above zero, so many labels; then the image's file, or a ``.npy`` file.

Source:
    DMLC, dmlc/recordio.h; MXNet, python/mxnet/recordio.py (``IRHeader``).
"""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from deep_bench.errors import InvalidArgument, InvalidData
from deep_bench.tensor import TensorSpec
from deep_bench.training.containers import records
from deep_bench.training.containers.container import LABEL, Container, ContainerManifest, Origin, Value, parsed, refuse
from deep_bench.training.containers.kinds import Content, Details
from deep_bench.training.containers.records import Files, RecordContainer, SampleSource

_MAGIC = struct.pack("<I", 0xCED7230A)
_PART = struct.Struct("<4sI")
_HEADER = struct.Struct("<IfQQ")
_LENGTH = (1 << 29) - 1
_LARGEST_EXACT = 1 << 24
_LABEL = TensorSpec(LABEL, (), np.dtype(np.int64))
_LINE = re.compile(rb"[0-9]+\t([0-9]{1,18})")


class _RecordIO(SampleSource):
    """The records of a ``.rec`` file.

    Args:
        files: The file.
        places: Offset and size of each record: (records, 2).
        specs: The data, and the label.
        encoding: Of the data.
    """

    def __init__(self, files: Files, places: np.ndarray, specs: Sequence[TensorSpec], encoding: str) -> None:
        self.specs, self._files, self._places = tuple(specs), files, places.tolist()
        (self._data,) = (spec.name for spec in specs if spec.name != LABEL)
        self._label = next((spec for spec in specs if spec.name == LABEL), None)
        self._decode = records.decoder(encoding, next(spec for spec in specs if spec.name != LABEL))
        self.images = frozenset({self._data} if encoding in records.IMAGES else ())

    def __len__(self) -> int:
        return len(self._places)

    def fetch(self, index: int) -> bytes:
        return _joined(self._files.read(0, *self._places[index]))

    def decode(self, raw: bytes, index: int, images: bool) -> dict[str, Value]:  # noqa: ARG002 (all sources have it)
        labels, single, data = _split(raw)
        sample: dict[str, Value] = {self._data: data if not images and self.images else self._decode(data)}
        if self._label is not None:
            sample[LABEL] = labels.copy() if self._label.rank else _whole(single)
        return sample

    def where(self, index: int) -> str:
        return f"{self._files.paths[0]}, record {index} at offset {self._places[index][0]}"

    def close(self) -> None:
        self._files.close()


def recognise(path: Path, head: bytes) -> bool:
    """Whether it looks like one."""
    return path.is_file() and head.startswith(_MAGIC)


def open_files(path: Path, manifest: ContainerManifest | None, mode: str | None = None, decode: bool = True) -> Container:
    """Find the records: by the ``.idx`` file, or by reading the lengths of all parts.

    Args:
        path: The ``.rec`` file.
        manifest: What the writer noted.
        mode: The mode of images, of a file that came from elsewhere; by default that of the first.
        decode: Whether batches hold pixels, or images' files.
    """
    files = Files([path])
    try:
        index = path.with_suffix(".idx")
        places = _indexed(index, path) if index.is_file() else _scanned(path)
        if manifest is None:
            specs, encoding = _guessed(files, places, mode)
        else:
            specs = list(manifest.specs)
            data_fields = [field.name for field in manifest.fields if field.name != LABEL]
            if len(data_fields) != 1 or len(manifest.fields) > 2:
                raise InvalidData(f"{path} holds {', '.join(data_fields) or 'no data'}", f"one field, and {LABEL}")
            encoding = manifest.encodings.get(data_fields[0], "")
        source = _RecordIO(files, places, specs, encoding)
        if manifest is not None and len(source) != manifest.samples:
            raise InvalidData(f"{path} has {len(source)} records", f"{manifest.samples}")
    except BaseException:
        files.close()
        raise
    options = {name: value for name, value in (("mode", mode), ("decode", decode)) if value not in (None, True)}
    both = (path, index) if index.is_file() else (path,)
    return RecordContainer(Origin("recordio", path, both, manifest, options), source, decode=decode)


def write(stage: Path, name: str, content: Content, image: str | None = None, quality: int = 95) -> Details:
    """Write a record for each sample.

    Args:
        stage: Where.
        name: The file's name, which ends in ``.rec``.
        content: One field, and ``label``: a class (int64), or several numbers (float32).
        image: ``"png"`` or ``"jpeg"``; by default the source's files as they are, or PNG.
        quality: Of JPEG.
    """
    if Path(name).suffix == ".idx":
        raise InvalidArgument(f"{name} as a RecordIO file", "a name that ends in .rec")
    data = _check(content)
    fields = records.image_fields([data], image)
    encoding = (image or "png") if fields else "npy"
    if fields:
        records.need_pillow()
    offset = 0
    with open(stage / name, "wb") as file, open((stage / name).with_suffix(".idx"), "w", encoding="ascii") as index:
        for number, sample in enumerate(content.samples(fields if image is None else frozenset())):
            header = _header(number, sample.get(LABEL))  # type: ignore[arg-type]
            record = _parts(header + records.encoded(data, sample[data.name], encoding, quality), number)
            file.write(record)
            index.write(f"{number}\t{offset}\n")
            offset += len(record)
    return Details(encodings={data.name: encoding})


def _check(content: Content) -> TensorSpec:
    """The field that is no label."""
    data_fields = [spec for spec in content.specs if spec.name != LABEL]
    if len(data_fields) != 1:
        raise refuse(
            "RecordIO",
            data_fields[1] if data_fields else content.specs[0],
            f"one field, and {LABEL}",
            "leave the others out",
        )
    label = content.spec(LABEL)
    if label is not None and label != _LABEL and not (label.dtype == np.float32 and label.rank == 1 and label.shape != (0,)):
        raise refuse("RecordIO", label, f"{LABEL}: int64[] or float32[n]")
    return data_fields[0]


def _header(number: int, label: np.ndarray | None) -> bytes:
    if label is None:
        return _HEADER.pack(0, 0.0, number, 0)
    if label.ndim:
        if not len(label):
            raise refuse("RecordIO", TensorSpec(LABEL, label.shape, label.dtype), "at least one number")
        return _HEADER.pack(len(label), 0.0, number, 0) + label.astype("<f4").tobytes()
    if abs(int(label)) > _LARGEST_EXACT:
        advice = f"that of sample {number} is {label}, which float32 does not hold exactly"
        raise refuse("RecordIO", _LABEL, f"labels up to {_LARGEST_EXACT}", advice)
    return _HEADER.pack(0, float(label), number, 0)


def _parts(data: bytes, number: int) -> bytes:
    """A record as it is stored."""
    if len(data) > _LENGTH:
        raise InvalidArgument(f"sample {number} takes {len(data)} bytes", f"at most {_LENGTH} in RecordIO", "choose tar")
    cuts, at = [], data.find(_MAGIC)
    while at >= 0:
        if at % 4 == 0:
            cuts.append(at)
        at = data.find(_MAGIC, at + (4 if at % 4 == 0 else 1))
    starts, ends = [0, *(cut + 4 for cut in cuts)], [*cuts, len(data)]
    record = bytearray()
    for place, (start, end) in enumerate(zip(starts, ends, strict=True)):
        flag = 0 if not cuts else 1 if place == 0 else 3 if place == len(cuts) else 2
        record += _PART.pack(_MAGIC, flag << 29 | end - start) + data[start:end] + bytes(-(end - start) % 4)
    return bytes(record)


def _joined(record: bytes) -> bytes:
    """The bytes of a stored record.

    Raises:
        ValueError: Its parts do not follow each other as they should.
    """
    parts, offset = [], 0
    expected: tuple[int, ...] = (0, 1)
    while offset < len(record):
        magic, word = _PART.unpack_from(record, offset)
        flag, length = word >> 29, word & _LENGTH
        start = offset + _PART.size
        if magic != _MAGIC or flag not in expected or start + length > len(record):
            raise ValueError(f"no part of a record {offset} bytes after its begin")
        parts.append(record[start : start + length])
        offset = start + length + -length % 4
        expected = (2, 3) if flag in (1, 2) else ()
    if expected:
        raise ValueError("its last part is missing")
    return _MAGIC.join(parts)


def _split(record: bytes) -> tuple[np.ndarray, float, bytes]:
    """Labels, the single label and the data."""
    flag, label, _, _ = _HEADER.unpack_from(record)
    start = _HEADER.size + 4 * flag
    return np.frombuffer(record, "<f4", flag, _HEADER.size), label, record[start:]


def _whole(label: float) -> np.ndarray:
    if label != int(label):
        raise InvalidData(f"label {label}", "a whole number: the class")
    return np.array(int(label), np.int64)


def _indexed(index: Path, path: Path) -> np.ndarray:
    """The places that the ``.idx`` file has."""
    lines = parsed(index, index.read_bytes).split(b"\n")
    if lines and not lines[-1].strip():
        lines.pop()
    offsets = []
    for number, line in enumerate(lines):
        match = _LINE.fullmatch(line.strip())
        if match is None:
            raise InvalidData(f"{index}, line {number + 1}: {line[:40]!r}", "a key, a tab and an offset", "delete this file")
        offsets.append(int(match[1]))
    total = path.stat().st_size
    places = np.array([*offsets, total], np.int64)
    order = np.argsort(places[:-1], kind="stable")
    ends = np.empty(len(offsets), np.int64)
    ends[order] = np.r_[places[:-1][order][1:], total] if len(offsets) else total
    sizes = ends - places[:-1]
    if (sizes <= 0).any() or (total and not len(offsets)):
        raise InvalidData(f"{index} does not fit {path}", "offsets within it, each once", "delete this file")
    return np.stack([places[:-1], sizes], axis=1)


def _scanned(path: Path) -> np.ndarray:
    """The places, found by reading the lengths of all parts."""
    places: list[list[int]] = []
    total, offset = path.stat().st_size, 0
    with open(path, "rb", buffering=1 << 16) as file:
        while offset < total:
            file.seek(offset)
            head = file.read(_PART.size)
            place = f"{path}, record {len(places)} at offset {offset}"
            if len(head) < _PART.size or not head.startswith(_MAGIC):
                raise InvalidData(f"{place} does not begin with the magic number", "a RecordIO file", "get the data again")
            word = _PART.unpack(head)[1]
            length = word & _LENGTH
            size = _PART.size + length + -length % 4
            if offset + size > total:
                raise InvalidData(f"{place} has {total - offset} bytes", f"{size}", "it is cut off: get the data again")
            if word >> 29 in (0, 1) or not places:
                places.append([offset, 0])
            places[-1][1] += size
            offset += size
    return np.array(places, np.int64).reshape(-1, 2)


def _guessed(files: Files, places: np.ndarray, mode: str | None) -> tuple[list[TensorSpec], str]:
    """What the first record holds."""
    path = files.paths[0]
    if not len(places):
        raise InvalidData(f"{path} has no records, and no manifest", "at least one record", "get the data again")
    place = f"{path}, record 0 at offset {places[0, 0]}"
    labels, _, data = parsed(place, lambda: _split(_joined(files.read(0, *places[0].tolist()))), "a record of MXNet")
    label = TensorSpec(LABEL, (len(labels),), np.dtype(np.float32)) if len(labels) else _LABEL
    encoding = records.image_encoding(data)
    if encoding is not None:
        return [records.image_spec("image", mode or parsed(place, lambda: records.stored_mode(data))), label], encoding
    array = parsed(place, lambda: records.decode_npy(data), "PNG, JPEG or .npy")
    return [TensorSpec("image", tuple(f"image_{axis}" for axis in range(array.ndim)), array.dtype), label], "npy"
