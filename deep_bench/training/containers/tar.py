"""Tar files whose members are the fields of samples: ``KEY.FIELD.SUFFIX``, as WebDataset names them.

All up to the first dot is the sample's key; the suffix says how the field is encoded. ``KEY.jpg`` and ``KEY.png`` are the
field ``image``, ``KEY.cls`` is ``label``; without a label in it, ``CLASS/NAME.jpg`` has the folder's number as its label.
Fields are read by their place in the file, which the manifest has, or which is found by reading all headers once.

Source:
    Aizman, Maltby and Breuel, High performance I/O for large scale deep learning, 2019, section 4 (WebDataset).
"""

from __future__ import annotations

import os
import tarfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

import numpy as np

from deep_bench.errors import InvalidData, Unsupported
from deep_bench.tensor import TensorSpec
from deep_bench.training.containers import records
from deep_bench.training.containers.container import LABEL, Container, ContainerManifest, Origin, Value, parsed, refuse
from deep_bench.training.containers.kinds import Content, Details
from deep_bench.training.containers.records import Files, RecordContainer, SampleSource

_BLOCK = 512
_ALONE = {"png": "image", "jpeg": "image", "cls": LABEL, "npy": "array"}
_LABEL = TensorSpec(LABEL, (), np.dtype(np.int64))
_SUFFIX = {"jpeg": "jpg"}


@dataclass(frozen=True)
class _TarIndex:
    """Where the fields of samples lie.

    Args:
        encodings: Field to how it is encoded, in the order of the columns.
        file: The number of each sample's file.
        places: Offset and size of each sample's fields: (samples, fields, 2).
        labels: The class of each sample, where folders say it.
        classes: The names of these.
    """

    encodings: Mapping[str, str]
    file: np.ndarray
    places: np.ndarray
    labels: np.ndarray | None = None
    classes: tuple[str, ...] | None = None


class _Tar(SampleSource):
    """The samples of tar files."""

    def __init__(self, files: Files, index: _TarIndex, specs: Sequence[TensorSpec], classes: tuple[str, ...] | None) -> None:
        self.specs, self.classes = tuple(specs), classes
        self._files, self._index = files, index
        self._which, self._places = index.file.tolist(), index.places.tolist()
        by_name = {spec.name: spec for spec in specs}
        self._decoders = {name: records.decoder(encoding, by_name[name]) for name, encoding in index.encodings.items()}
        self.images = frozenset(name for name, encoding in index.encodings.items() if encoding in records.IMAGES)

    def __len__(self) -> int:
        return len(self._which)

    def fetch(self, index: int) -> list[bytes]:
        file = self._which[index]
        return [self._files.read(file, offset, size) for offset, size in self._places[index]]

    def decode(self, raw: list[bytes], index: int, images: bool) -> dict[str, Value]:
        sample: dict[str, Value] = {}
        for data, (name, decode) in zip(raw, self._decoders.items(), strict=True):
            try:
                sample[name] = data if not images and name in self.images else decode(data)
            except InvalidData as error:
                raise InvalidData(f"{name}: {error.came}", error.expected, error.advice) from error
        if self._index.labels is not None:
            sample[LABEL] = self._index.labels[index, ...]
        return sample

    def where(self, index: int) -> str:
        offset = self._places[index][0][0] if self._places[index] else 0
        return f"{self._files.paths[self._which[index]]}, sample {index} at offset {offset}"

    def known(self, name: str) -> np.ndarray | None:
        labels = self._index.labels
        return labels.copy() if name == LABEL and labels is not None else None

    def close(self) -> None:
        self._files.close()


def recognise(path: Path, head: bytes) -> bool:
    """Whether it looks like one."""
    return path.is_file() and head[257:262] == b"ustar"


def open_files(path: Path, manifest: ContainerManifest | None, **options: object) -> Container:
    """Open a tar file; see `opened`."""
    return opened("tar", path, [path], manifest, **options)  # type: ignore[arg-type]


def write(stage: Path, name: str, content: Content, image: str | None = None, quality: int = 95) -> Details:
    """Write all samples to one tar file; see `write_shards`."""
    return write_shards(stage, lambda _: name, content, max(content.count, 1), image, quality)


def opened(
    kind: str,
    path: Path,
    files: Sequence[Path],
    manifest: ContainerManifest | None,
    mode: str | None = None,
    decode: bool = True,
) -> Container:
    """Open tar files as one container.

    Args:
        kind: ``"tar"`` or ``"webdataset"``.
        path: The container.
        files: Its files, in their order.
        manifest: What their writer noted.
        mode: The mode of images, of files that came from elsewhere; by default that of the first.
        decode: Whether batches hold pixels, or images' files.
    """
    reader = Files(files)
    try:
        if manifest is None:
            index = _scanned(files)
            specs = [_spec(reader, index, name, column, mode) for column, name in enumerate(index.encodings)]
            specs += [_LABEL] if index.labels is not None else []
        else:
            index, specs = _noted(files, manifest), list(manifest.specs)
        classes = index.classes if manifest is None else manifest.classes
        options = {name: value for name, value in (("mode", mode), ("decode", decode)) if value not in (None, True)}
        origin = Origin(kind, path, tuple(files), manifest, options)
        return RecordContainer(origin, _Tar(reader, index, specs, classes), decode=decode)
    except BaseException:
        reader.close()
        raise


def write_shards(
    stage: Path, name: Callable[[int], str], content: Content, each: int, image: str | None, quality: int
) -> Details:
    """Write tar files of so many samples each.

    Args:
        stage: Where.
        name: The name of the file with this number.
        content: What.
        each: Samples in a file.
        image: ``"png"`` or ``"jpeg"``; by default the source's files as they are, or PNG.
        quality: Of JPEG.
    """
    fields = records.image_fields(content.specs, image)
    for spec in content.specs:
        if "." in spec.name or "/" in spec.name or not spec.name:
            raise refuse(content.kind, spec, "a name without '.' and '/'", "rename it")
    encodings = {spec.name: _encoding(spec, fields, image) for spec in content.specs}
    if fields:
        records.need_pillow()
    index: dict[str, tuple[int, ...]] = {}
    samples = content.samples(fields if image is None else frozenset())
    for number in range(max(1, -(-content.count // each))):
        first, last = number * each, min((number + 1) * each, content.count)
        with tarfile.open(stage / name(number), "w", format=tarfile.GNU_FORMAT) as tar:
            places: list[int] = []
            for key in range(first, last):
                sample = next(samples)
                for spec in content.specs:
                    value = sample[spec.name]
                    encoding = encodings[spec.name]
                    data = records.encoded(spec, value, encoding, quality)
                    actual = records.image_encoding(data) or encoding if encoding in records.IMAGES else encoding
                    member = tarfile.TarInfo(f"{key:09d}.{spec.name}.{_SUFFIX.get(actual, actual)}")
                    member.size = len(data)
                    tar.addfile(member, BytesIO(data))
                    places += (tar.offset - -(-len(data) // _BLOCK) * _BLOCK, len(data))
        index[name(number)] = tuple(places)
    return Details(encodings=encodings, index=index)


def _encoding(spec: TensorSpec, images: frozenset[str], image: str | None) -> str:
    if spec.name in images:
        return image or "png"
    return "cls" if spec == _LABEL else "npy"


def _noted(files: Sequence[Path], manifest: ContainerManifest) -> _TarIndex:
    """The index that the writer left."""
    names = [field.name for field in manifest.fields]
    index = manifest.index or {}
    encodings = {name: manifest.encodings.get(name, "") for name in names}
    places = [np.array(index.get(file.name, ()), np.int64) for file in files]
    for file, place in zip(files, places, strict=True):
        size = os.path.getsize(file)
        if len(place) % (2 * len(names)) or (len(place) and (place[::2] + place[1::2]).max() > size):
            raise InvalidData(f"the index of {file} does not fit it", "offsets and sizes within the file", "write it again")
    counts = [len(place) // (2 * len(names)) for place in places]
    if sum(counts) != manifest.samples:
        raise InvalidData(f"{files[0].parent}: the index has {sum(counts)} samples", f"{manifest.samples}")
    which = np.repeat(np.arange(len(files)), counts)
    return _TarIndex(encodings, which, np.concatenate(places).reshape(sum(counts), len(names), 2))


def _scanned(files: Sequence[Path]) -> _TarIndex:
    """The index, found by reading the headers of all members."""
    keys: dict[tuple[int, str], dict[str, tuple[str, int, int]]] = {}
    for number, file in enumerate(files):
        last = ""
        for name, offset, size in parsed(file, lambda file=file: list(_members(file)), "a tar file"):  # type: ignore[misc]
            key, field, encoding = _parts(file, name)
            if (key != last and (number, key) in keys) or field in keys.get((number, key), {}):
                raise InvalidData(f"{file}, at offset {offset}: {name} comes twice", "each field of a sample once")
            keys.setdefault((number, key), {})[field] = (encoding, offset, size)
            last = key
    if not keys:
        raise InvalidData(f"{', '.join(map(str, files))}: no samples", "members named KEY.FIELD.SUFFIX", "check the path")
    names = list(next(iter(keys.values())))
    for (number, key), fields in keys.items():
        if fields.keys() != set(names):
            raise InvalidData(f"{files[number]}, sample {key!r} holds {', '.join(fields)}", ", ".join(names))
    encodings = {name: encoding for name, (encoding, _, _) in next(iter(keys.values())).items()}
    places = np.array([[fields[name][1:] for name in names] for fields in keys.values()], np.int64)
    labels, classes = (None, None) if LABEL in names else _from_folders([key for _, key in keys])
    return _TarIndex(encodings, np.array([number for number, _ in keys]), places, labels, classes)


def _members(file: Path) -> Iterator[tuple[str, int, int]]:
    """Name, offset and size of each member with content."""
    total = os.path.getsize(file)
    with tarfile.open(file, "r:") as tar:
        for member in tar:
            base = os.path.basename(member.name)
            if member.isdir() or (base.startswith("__") and base.endswith("__")):
                continue
            if not member.isreg() or member.sparse is not None:
                raise ValueError(f"{member.name} at offset {member.offset} is no regular file")
            if member.offset_data + member.size > total:
                raise ValueError(f"{member.name} at offset {member.offset} is cut off")
            yield member.name, member.offset_data, member.size
        end = tar.offset
    with open(file, "rb") as opened_file:
        opened_file.seek(end)
        if opened_file.read(_BLOCK) != bytes(_BLOCK):  # tarfile takes a damaged header for the end
            raise ValueError(f"no header, and no end, at offset {end}")


def _parts(file: Path, name: str) -> tuple[str, str, str]:
    """Key, field and encoding of a member, by its name."""
    folder, base = os.path.split(name)
    stem, _, remainder = base.partition(".")
    field, _, suffix = remainder.rpartition(".")
    encoding = records.ENCODINGS.get(suffix.lower())
    if encoding is None:
        suffixes = ", ".join(records.ENCODINGS)
        raise Unsupported(f"{file}: {name} is in no encoding that is read here", f"the suffixes {suffixes}", "leave it out")
    return os.path.join(folder, stem), field or _ALONE[encoding], encoding


def _from_folders(keys: list[str]) -> tuple[np.ndarray | None, tuple[str, ...] | None]:
    """Labels and classes, if each sample lies in a folder and there is more to it than one for all."""
    folders = [os.path.basename(os.path.dirname(key)) for key in keys]
    classes = tuple(sorted(set(folders)))
    if not all(folders) or len(classes) < 2:
        return None, None
    number = {name: i for i, name in enumerate(classes)}
    return np.array([number[folder] for folder in folders], np.int64), classes


def _spec(files: Files, index: _TarIndex, name: str, column: int, mode: str | None) -> TensorSpec:
    """What a field is, by its first sample; sizes are open."""
    encoding = index.encodings[name]
    if encoding == "cls":
        return TensorSpec(name, (), np.dtype(np.int64))
    offset, size = index.places[0, column].tolist()
    place = f"{files.paths[0]}, {name} at offset {offset}"
    data = parsed(place, lambda: files.read(0, offset, size))
    if encoding in records.IMAGES:
        return records.image_spec(name, mode or parsed(place, lambda: records.stored_mode(data), "a PNG or JPEG file"))
    array = parsed(place, lambda: records.decode_npy(data), "a .npy file of numbers")
    return TensorSpec(name, tuple(f"{name}_{axis}" for axis in range(array.ndim)), array.dtype)
