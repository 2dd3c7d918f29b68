"""Writing a container: under a temporary name, renamed when all of it is on the disk."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import prod
from pathlib import Path

import numpy as np

from deep_bench.errors import InvalidArgument
from deep_bench.measure.progress import Bars
from deep_bench.tensor import TensorSpec
from deep_bench.training.containers.arrays import check_batch
from deep_bench.training.containers.codec import mode_of
from deep_bench.training.containers.manifest import FOLDER_NAME, beside
from deep_bench.training.containers.records import RecordContainer
from deep_bench.training.containers.values import Value, holds_numbers, refuse
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
            _move(stage, path)
        _sync_folder(path.parent)
    except OSError as error:
        cause = error.strerror or str(error)
        raise InvalidArgument(f"{path} cannot be written: {cause}", "a folder with space that can be written") from error
    finally:
        shutil.rmtree(stage, ignore_errors=True)


def _move(stage: Path, path: Path) -> None:
    siblings = sorted(file.name for file in stage.iterdir() if file.name != path.name)
    for name in (*siblings, path.name):
        target = path.with_name(name)
        if target != beside(path):  # that of a container which is gone describes nothing
            check_target(target)
    for name in (*siblings, path.name):
        os.rename(stage / name, path.with_name(name))


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
