"""The kinds of containers, and how one is told from another."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

from deep_bench.errors import InvalidArgument, InvalidData, UnknownName, Unsupported
from deep_bench.measure.progress import Bars
from deep_bench.training.containers.container import Container, check_manifest
from deep_bench.training.containers.manifest import Manifest, beside, describe_files, dumps, fields_of, read
from deep_bench.training.containers.values import damaged
from deep_bench.training.containers.writing import Content, check_target, files_in, staged
from deep_bench.training.dataset import Dataset

_HEAD = 512
_PACKAGE = "deep_bench.training.containers"
_MODE = {"mode": "of images: L (gray), RGB, RGBA …; default: that of the first"}
_DECODE = {"decode": "false: batches hold images' files as bytes"}
_IMAGE = {"image": "of images: png (exact) or jpeg; default: the source's files as they are, else png", "quality": "of jpeg"}


@dataclass(frozen=True)
class Kind:
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
                    manifest = Manifest(
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

KINDS: Mapping[str, Kind] = {
    kind.name: kind
    for kind in (
        Kind("cifar", "the binary files of CIFAR-10 and CIFAR-100", "cifar", True, reading=_PART | {"classes": "10 or 100"}),
        Kind(
            "folder",
            "PNG and JPEG files, a folder for each class",
            "folder",
            True,
            reading=_MODE | _DECODE,
            writing=_IMAGE,
        ),
        Kind(
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
        Kind("idx", "the files of MNIST", "idx", True, reading=_PART, writing={"compress": "true: each file with gzip"}),
        Kind("memory", "arrays in memory", None),
        Kind("npy", "a .npy file for each field, mapped", "npy", True),
        Kind("recordio", "a .rec file of MXNet, with its .idx", "recordio", reading=_MODE | _DECODE, writing=_IMAGE),
        Kind("tar", "a tar file with an index", "tar", reading=_MODE | _DECODE, writing=_IMAGE),
        Kind(
            "tfrecord",
            "a file of tf.train.Example, as TensorFlow's",
            "tfrecord",
            reading=_MODE | _DECODE,
            writing={"image": "of images: png (exact) or jpeg; default: raw, or the source's files", "quality": "of jpeg"},
        ),
        Kind(
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


def kind_named(name: str) -> Kind:
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
