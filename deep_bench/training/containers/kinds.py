"""The kinds of containers, how one is told from another, and how one is written.

It is written under a temporary name, and renamed when all of it is on the disk.
"""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from deep_bench.errors import InvalidArgument, InvalidData, UnknownName, Unsupported
from deep_bench.measure.progress import Bars
from deep_bench.tensor import TensorSpec
from deep_bench.training.containers.arrays import check_batch
from deep_bench.training.containers.container import (
    FOLDER_NAME,
    Container,
    ContainerManifest,
    Value,
    beside,
    check_manifest,
    damaged,
    describe_files,
    dumps,
    fields_of,
    holds_numbers,
    read,
    refuse,
)
from deep_bench.training.containers.records import RecordContainer, mode_of
from deep_bench.training.dataset import Dataset

_BATCH = 64
_BATCH_BYTES = 1 << 26
_MOST_SYNCED = 64


@dataclass(frozen=True)
class Details:
    """What a format's writer wants to be kept in the manifest; see `Manifest`."""

    classes: tuple[str, ...] | None = None
    encodings: Mapping[str, str] = field(default_factory=dict)
    index: Mapping[str, tuple[int, ...]] | None = None


class Content:
    """What is to be written.

    Args:
        dataset: The samples.
        kind: The kind of container, for messages.
        bars: Where to show how far it is.

    Raises:
        Unsupported: Elements that are no numbers.
    """

    def __init__(self, dataset: Dataset, kind: str, bars: Bars) -> None:
        self.dataset, self.kind, self._bars = dataset, kind, bars
        self.specs = tuple(dataset.specs)
        self.count = len(dataset)
        for spec in self.specs:
            if not holds_numbers(spec.dtype):
                raise refuse(kind, spec, "numbers", "open the source so that it decodes its images")
        if not self.specs:
            raise InvalidArgument("a set without arrays", "at least one")

    @property
    def classes(self) -> tuple[str, ...] | None:
        """The names of the classes, where the set knows them."""
        names = getattr(self.dataset, "classes", None)
        return tuple(names) if names is not None else None

    def spec(self, name: str) -> TensorSpec | None:
        """The field of this name."""
        return next((spec for spec in self.specs if spec.name == name), None)

    def of_one_size(self) -> None:
        """See that all samples are of the same size.

        Raises:
            Unsupported: A size is open.
        """
        for spec in self.specs:
            if spec.open_dimensions:
                advice = "choose tar, webdataset, tfrecord or recordio"
                if mode_of(spec) is not None:
                    advice = f"`deep-bench data … --resize 32x32`, or Resized(dataset, (32, 32)), makes it one; or {advice}"
                raise refuse(self.kind, spec, "samples of one size", advice)

    def batches(self) -> Iterator[dict[str, np.ndarray]]:
        """All samples in their order, many at once; all of one size."""
        each = sum(spec.dtype.itemsize * prod(int(size) for size in spec.shape) for spec in self.specs)
        size = max(1, min(_BATCH, _BATCH_BYTES // max(each, 1)))
        self._bars.phase(f"writing {self.kind}", self.count, "samples")
        for first in range(0, self.count, size):
            last = min(first + size, self.count)
            batch = self.dataset[np.arange(first, last)]
            check_batch(self.specs, batch, first, last - first)
            yield batch
            self._bars.advance(last - first)

    def samples(self, as_files: frozenset[str] = frozenset()) -> Iterator[dict[str, Value]]:
        """All samples in their order, one at a time.

        Args:
            as_files: Images that may come as the files that the source has.

        Raises:
            InvalidData: A sample that cannot be read, or an image that cannot be decoded; named.
        """
        source = self.dataset
        if isinstance(source, RecordContainer) and (as_files or self._open):
            decode = not (source.images and source.images <= as_files)
            self._bars.phase(f"writing {self.kind}", self.count, "samples")
            for number in range(self.count):
                yield source.sample(number) if decode else source.stored(number)
                self._bars.advance()
        elif self._open:
            self._bars.phase(f"writing {self.kind}", self.count, "samples")
            for number in range(self.count):
                batch = source[np.array([number])]
                check_batch(self.specs, batch, number, 1)
                yield {name: array[0, ...] for name, array in batch.items()}
                self._bars.advance()
        else:
            for batch in self.batches():
                for row in range(len(batch[self.specs[0].name])):
                    yield {spec.name: batch[spec.name][row, ...] for spec in self.specs}

    @property
    def stored_images(self) -> frozenset[str]:
        """The fields that the source itself keeps as PNG or JPEG files."""
        return self.dataset.images if isinstance(self.dataset, RecordContainer) else frozenset()

    @property
    def _open(self) -> bool:
        return any(spec.open_dimensions for spec in self.specs)


def check_target(path: Path) -> None:
    """See that something can be written there, and that nothing is lost by it.

    Raises:
        InvalidArgument: There is something, or no folder to put it in.
    """
    if path.exists() or path.is_symlink():
        raise InvalidArgument(f"{path} exists", "a path where nothing is", "delete it, or name another")
    if not path.parent.is_dir():
        missing = "is no folder" if path.parent.exists() else "does not exist"
        raise InvalidArgument(f"{path} cannot be written: {path.parent} {missing}", advice="create it, or name another")


@contextmanager
def staged(path: Path, *, folder: bool) -> Iterator[Path]:
    """A new folder beside ``path`` to write in: in the end it becomes ``path``, or its files are moved beside that.

    The file with the name of ``path`` is moved last, when all others and all bytes are on the disk. After an error nothing
    is left; after a kill only the new folder, whose name starts with a dot and ends in ``.part``.

    Args:
        path: What is to be written.
        folder: Whether that is a folder.

    Raises:
        InvalidArgument: The disk is full, or the folder read-only.
    """
    stage = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    try:
        stage.mkdir()
        yield stage
        _sync(stage)
        if folder:
            check_target(path)
            os.rename(stage, path)
        else:
            siblings = sorted(file.name for file in stage.iterdir() if file.name != path.name)
            for name in (*siblings, path.name):
                target = path.with_name(name)
                if target != beside(path):  # that of a container which is gone describes nothing
                    check_target(target)
            for name in (*siblings, path.name):
                os.rename(stage / name, path.with_name(name))
        _sync_folder(path.parent)
    except OSError as error:
        cause = error.strerror or str(error)
        raise InvalidArgument(f"{path} cannot be written: {cause}", "a folder with space that can be written") from error
    finally:
        shutil.rmtree(stage, ignore_errors=True)


def _sync(stage: Path) -> None:
    """See that all files are on the disk: each by itself, or, where they are many, with all else."""
    files = [file for file in stage.rglob("*") if file.is_file()]
    if len(files) > _MOST_SYNCED:
        os.sync()
        return
    for file in files:
        with open(file, "rb") as opened:
            os.fsync(opened.fileno())
    _sync_folder(stage)


def _sync_folder(folder: Path) -> None:
    number = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def files_in(stage: Path) -> tuple[str, ...]:
    """The names of all files in a folder, relative to it, apart from its manifest."""
    names = (str(file.relative_to(stage)) for file in stage.rglob("*") if file.is_file())
    return tuple(sorted(name for name in names if name != FOLDER_NAME))


Writer = Callable[..., Details]


_HEAD = 512
_PACKAGE = "deep_bench.training.containers"
_MODE = {"mode": "of images: L (gray), RGB, RGBA …; default: that of the first"}
_DECODE = {"decode": "false: batches hold images' files as bytes"}
_IMAGE = {"image": "of images: png (exact) or jpeg; default: the source's files as they are, else png", "quality": "of jpeg"}


@dataclass(frozen=True)
class ContainerKind:
    """A kind of container.

    Args:
        name: Its name.
        text: What it is, in a line.
        module: The module with its ``recognise``, ``open_files`` and ``write``; None for ``memory``, which has no files.
        folder: Whether it is a folder.
        manifest_inside: Whether its manifest is inside its file.
        reading: Its options when it is opened, each with what it does.
        writing: Its options when it is written.
    """

    name: str
    text: str
    module: str | None
    folder: bool = False
    manifest_inside: bool = False
    reading: Mapping[str, str] = field(default_factory=dict)
    writing: Mapping[str, str] = field(default_factory=dict)

    def check_options(self, options: Mapping[str, Any], *, writing: bool) -> None:
        """See that it has these options.

        Raises:
            UnknownName: It has not.
        """
        allowed = self.writing if writing else self.reading
        for name in options:
            if name not in allowed:
                raise UnknownName(f"option of {self.name} when {'writing' if writing else 'reading'}", name, allowed)

    def open(self, path: Path, options: Mapping[str, Any]) -> Container:
        """Open a container of this kind; see `open_container`."""
        if not path.exists():
            raise InvalidData(
                f"{path}: there is no such file or folder", f"a container of kind {self.name}", "check the path"
            )
        module = self._module
        try:
            manifest = None if self.manifest_inside else read(path)
            check_manifest(path, self.name, manifest)
            container: Container = module.open_files(path, manifest, **options)
        except OSError as error:
            raise damaged(path, error, self.text) from error
        return container

    def write(self, path: Path, dataset: Dataset, options: Mapping[str, Any]) -> Path:
        """Write a container of this kind; see `write_container`."""
        module = self._module
        check_target(path)
        bars = Bars(delay=2.0)
        try:
            content = Content(dataset, self.name, bars)
            with staged(path, folder=self.folder) as stage:
                details = module.write(stage, path.name, content, **options)
                if not self.manifest_inside:
                    names = files_in(stage)
                    manifest = ContainerManifest(
                        kind=self.name,
                        samples=content.count,
                        fields=fields_of(content.specs),
                        files=describe_files(stage, names),
                        classes=details.classes or content.classes,
                        encodings=dict(details.encodings),
                        index=None if details.index is None else dict(details.index),
                    )
                    (beside(stage) if self.folder else stage / beside(path).name).write_text(dumps(manifest))
        finally:
            bars.close()
        return path

    @property
    def _module(self) -> Any:
        if self.module is None:
            raise InvalidArgument(
                f"{self.name} is not kept in files", f"one of {', '.join(k for k in KINDS if k != self.name)}"
            )
        return import_module(f"{_PACKAGE}.{self.module}")


_PART = {"part": "which set of several in the folder, such as train"}

KINDS: Mapping[str, ContainerKind] = {
    kind.name: kind
    for kind in (
        ContainerKind(
            "cifar", "the binary files of CIFAR-10 and CIFAR-100", "cifar", True, reading=_PART | {"classes": "10 or 100"}
        ),
        ContainerKind(
            "folder",
            "PNG and JPEG files, a folder for each class",
            "folder",
            True,
            reading=_MODE | _DECODE,
            writing=_IMAGE,
        ),
        ContainerKind(
            "hdf5",
            "an HDF5 file, an array for each field",
            "hdf5",
            manifest_inside=True,
            writing={
                "layout": "contiguous (default) or chunked",
                "chunk": "samples in a chunk; default: 64",
                "compression": "of chunks: gzip or lzf; default: none",
            },
        ),
        ContainerKind(
            "idx", "the files of MNIST", "idx", True, reading=_PART, writing={"compress": "true: each file with gzip"}
        ),
        ContainerKind("memory", "arrays in memory", None),
        ContainerKind("npy", "a .npy file for each field, mapped", "npy", True),
        ContainerKind(
            "recordio", "a .rec file of MXNet, with its .idx", "recordio", reading=_MODE | _DECODE, writing=_IMAGE
        ),
        ContainerKind("tar", "a tar file with an index", "tar", reading=_MODE | _DECODE, writing=_IMAGE),
        ContainerKind(
            "tfrecord",
            "a file of tf.train.Example, as TensorFlow's",
            "tfrecord",
            reading=_MODE | _DECODE,
            writing={"image": "of images: png (exact) or jpeg; default: raw, or the source's files", "quality": "of jpeg"},
        ),
        ContainerKind(
            "webdataset",
            "tar files of WebDataset",
            "webdataset",
            True,
            reading=_MODE | _DECODE,
            writing=_IMAGE | {"shard": "samples in a file; default: 1000"},
        ),
    )
}
"""Name to kind of container."""


def kind_named(name: str) -> ContainerKind:
    """A kind of container by its name.

    Raises:
        UnknownName: There is none.
    """
    if name not in KINDS:
        raise UnknownName("kind of container", name, KINDS)
    return KINDS[name]


def parse_kind(text: str) -> tuple[str, dict[str, Any]]:
    """A kind with options, as it is written on a command line.

    Raises:
        UnknownName: No such kind or option.
        InvalidArgument: An option without a value, or twice.

    Example:
        >>> parse_kind("hdf5:layout=chunked,chunk=32")
        ('hdf5', {'layout': 'chunked', 'chunk': 32})
    """
    name, colon, remainder = text.partition(":")
    kind = kind_named(name)
    options: dict[str, Any] = {}
    for part in remainder.split(",") if colon else ():
        option, equals, value = part.partition("=")
        if not equals or not value or option in options:
            raise InvalidArgument(f"{part!r} in {text!r}", "option=value, each once", f"write {name}:option=value")
        options[option] = int(value) if value.isdecimal() else {"true": True, "false": False}.get(value, value)
    kind.check_options(options, writing=True)
    return name, options


def _recognised(path: Path) -> tuple[str | None, bytes]:
    """The kind, and the first bytes of a file."""
    if (manifest := read(path)) is not None:
        return manifest.kind, b""
    head = b""
    if path.is_file():
        with open(path, "rb") as file:
            head = file.read(_HEAD)
        if not head:
            raise InvalidData(f"{path} is an empty file", "a container", "get the data again")
    for kind in KINDS.values():
        if kind.module is not None and import_module(f"{_PACKAGE}.{kind.module}").recognise(path, head):
            return kind.name, head
    return None, head


def guess(path: Path) -> str:
    """The kind of a container, by its manifest or its content.

    Raises:
        InvalidData: Nothing is there, an empty file, or none of the formats.
        Unsupported: A compressed tar file.
    """
    if not path.exists():
        raise InvalidData(f"{path}: there is no such file or folder", "a container", "check the path")
    try:
        container_kind, head = _recognised(path)
    except OSError as error:
        raise damaged(path, error, "a container") from error
    if container_kind is not None:
        return container_kind
    if head[:2] == b"\x1f\x8b" or head[:3] == b"BZh" or head[:6] == b"\xfd7zXZ\x00":
        raise Unsupported(f"{path} is compressed, so no sample can be found in it", "a container", "decompress it first")
    raise InvalidData(f"{path} is none of the formats known", f"one of {', '.join(KINDS)}", "name its kind, if you know it")
