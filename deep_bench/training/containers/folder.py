"""A folder with a folder for each class, and PNG or JPEG files in these, as ImageNet has it.

Of a folder that came from elsewhere, classes are numbered in the order of their names, and samples follow class by class,
each in the order of the files' names. Files with other suffixes, and hidden ones, are no samples.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from deep_bench.errors import InvalidArgument, InvalidData
from deep_bench.tensor import TensorSpec
from deep_bench.training.containers import records
from deep_bench.training.containers.container import LABEL, Container, ContainerManifest, Origin, Value, parsed, refuse
from deep_bench.training.containers.kinds import Content, Details
from deep_bench.training.containers.records import RecordContainer, SampleSource

_IMAGE = "image"
_LABEL = TensorSpec(LABEL, (), np.dtype(np.int64))
_SUFFIXES = {f".{suffix}" for suffix, encoding in records.ENCODINGS.items() if encoding in records.IMAGES}


class _Folder(SampleSource):
    """The files of a folder.

    Args:
        files: Those of all samples, in their order.
        labels: Their classes.
        image: What an image is.
        classes: The names of the classes.
    """

    images = frozenset({_IMAGE})

    def __init__(self, files: list[Path], labels: list[int], image: TensorSpec, classes: tuple[str, ...] | None) -> None:
        self.specs, self.classes = (image, _LABEL), classes
        self._files, self._labels = files, np.array(labels, np.int64)
        self._decode = records.decoder("png", image)

    def __len__(self) -> int:
        return len(self._files)

    def fetch(self, index: int) -> bytes:
        with open(self._files[index], "rb", buffering=0) as file:
            return file.readall()

    def decode(self, raw: bytes, index: int, images: bool) -> dict[str, Value]:
        return {_IMAGE: self._decode(raw) if images else raw, LABEL: self._labels[index, ...]}

    def where(self, index: int) -> str:
        return f"{self._files[index]} (sample {index})"

    def known(self, name: str) -> np.ndarray | None:
        return self._labels.copy() if name == LABEL else None


def recognise(path: Path, head: bytes) -> bool:
    """Whether it looks like one."""
    del head
    return path.is_dir() and any(_is_image(file) for folder in _folders(path) for file in folder.iterdir())


def open_files(path: Path, manifest: ContainerManifest | None, mode: str | None = None, decode: bool = True) -> Container:
    """List the files.

    Args:
        path: The folder.
        manifest: What its writer noted.
        mode: The mode of images, of a folder that came from elsewhere; by default that of the first.
        decode: Whether batches hold pixels, or files.
    """
    classes: tuple[str, ...] | None
    if manifest is None:
        files, labels, classes = _listed(path)
        mode = mode or parsed(files[0], lambda: records.stored_mode(files[0].read_bytes()), "a PNG or JPEG file")
        image = records.image_spec(_IMAGE, mode)
    else:
        specs = {spec.name: spec for spec in manifest.specs}
        if specs.keys() != {_IMAGE, LABEL} or specs[LABEL] != _LABEL or mode not in (None, records.mode_of(specs[_IMAGE])):
            raise InvalidData(
                f"{path} holds {'; '.join(map(str, specs.values()))}", f"images in the mode {mode or 'L or RGB'}"
            )
        names = sorted(manifest.files, key=lambda name: Path(name).name)
        files, image, classes = [path / name for name in names], specs[_IMAGE], manifest.classes
        labels = parsed(path, lambda: _numbers(names, classes), "folders with the names of classes")
        if len(files) != manifest.samples:
            raise InvalidData(f"{path} has {len(files)} files", f"{manifest.samples}")
    options = {} if decode else {"decode": False}
    options |= {} if mode is None or manifest is not None else {"mode": mode}  # type: ignore[dict-item]
    origin = Origin("folder", path, tuple(files), manifest, options)
    return RecordContainer(origin, _Folder(files, labels, image, classes), decode=decode)


def write(stage: Path, name: str, content: Content, image: str | None = None, quality: int = 95) -> Details:
    """Write a file for each sample, named for its number, in a folder named for its class.

    Args:
        stage: Where.
        name: Not needed.
        content: A set of ``image``, uint8 with rows first, and ``label``, int64.
        image: ``"png"`` or ``"jpeg"``; by default the source's files as they are, or PNG.
        quality: Of JPEG.
    """
    del name
    records.need_pillow()
    fields = records.image_fields(content.specs, image)
    for spec in content.specs:
        if spec != _LABEL and spec.name != _IMAGE:
            raise refuse("a folder of images", spec, f"the fields {_IMAGE} and {_LABEL}")
        if spec.name == _IMAGE and spec.name not in fields:
            raise refuse("a folder of images", spec, "uint8[height, width] or uint8[height, width, 3]")
    if len(content.specs) != 2:
        raise InvalidArgument(f"a set of {'; '.join(map(str, content.specs))}", f"the fields {_IMAGE} and {LABEL}")
    picture, names = content.spec(_IMAGE), _folder_names(content.classes)
    assert picture is not None
    for number, sample in enumerate(content.samples(fields if image is None else frozenset())):
        label = int(sample[LABEL])
        if label < 0:
            raise refuse("a folder of images", _LABEL, "labels from 0", f"that of sample {number} is {label}")
        data = records.encoded(picture, sample[_IMAGE], image or "png", quality)
        folder = stage / (names[label] if label < len(names) else f"{label:06d}")
        folder.mkdir(exist_ok=True)
        suffix = "jpg" if records.image_encoding(data) == "jpeg" else "png"
        (folder / f"{number:09d}.{suffix}").write_bytes(data)
    return Details(encodings={_IMAGE: image or "png"})


def _folder_names(classes: tuple[str, ...] | None) -> tuple[str, ...]:
    """The names of the classes, if all of them can be names of folders; else none."""
    names = classes or ()
    fine = all(n and "/" not in n and "\0" not in n and n[0] != "." and not n.isdecimal() and len(n) < 64 for n in names)
    return names if fine and len(set(names)) == len(names) else ()


def _numbers(names: list[str], classes: tuple[str, ...] | None) -> list[int]:
    """The class of each file, by the name of its folder."""
    by_name = {name: number for number, name in enumerate(_folder_names(classes))}
    folders = [os.path.dirname(name) for name in names]
    return [by_name[folder] if folder in by_name else int(folder) for folder in folders]


def _listed(path: Path) -> tuple[list[Path], list[int], tuple[str, ...]]:
    folders = _folders(path) if path.is_dir() else []
    files: list[Path] = []
    labels: list[int] = []
    for number, folder in enumerate(folders):
        images = sorted(file for file in folder.iterdir() if _is_image(file))
        files += images
        labels += [number] * len(images)
    if not files:
        raise InvalidData(f"{path} has no folders with PNG or JPEG files", "a folder for each class", "check the path")
    return files, labels, tuple(folder.name for folder in folders)


def _folders(path: Path) -> list[Path]:
    return sorted(folder for folder in path.iterdir() if folder.is_dir() and not folder.name.startswith("."))


def _is_image(file: Path) -> bool:
    return file.suffix.lower() in _SUFFIXES and not file.name.startswith(".") and file.is_file()
