"""Containers: the formats that training sets are kept in, each read as a `Dataset` and written from one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from deep_bench.training.containers.arrays import ArrayContainer, memory
from deep_bench.training.containers.container import Container
from deep_bench.training.containers.kinds import KINDS, guess, kind_named, parse_kind
from deep_bench.training.containers.records import RecordContainer
from deep_bench.training.dataset import Dataset

__all__ = [
    "KINDS",
    "ArrayContainer",
    "Container",
    "RecordContainer",
    "convert",
    "guess",
    "in_memory",
    "memory",
    "open_container",
    "parse_kind",
    "write_container",
]


def open_container(path: Path | str, kind: str | None = None, *, verify: bool = False, **options: Any) -> Container:
    """Open a container for reading.

    What deep_bench wrote has a manifest beside it, and is read as it was written. Of others, sizes are those of the
    format; where that says none, as for images, they are open dimensions.

    Args:
        path: Its file or folder.
        kind: One of `KINDS`; by default what the content shows. ``"memory"`` reads all of it at once.
        verify: Whether to read all files first and compare their checksums.
        options: The kind's own; `KINDS` lists them.

    Raises:
        InvalidData: Nothing is there, or it is damaged, or no container, or of another kind.
        InvalidArgument, UnknownName: No such kind or option.
        Unsupported: A package that it needs is not installed; or what it holds are no numbers.

    Example:
        >>> import tempfile
        >>> import numpy as np
        >>> ten = memory({"image": np.zeros((10, 8, 8), np.uint8), "label": np.arange(10)})
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = write_container(f"{folder}/ten.tar", ten, "tar")
        ...     with open_container(path) as container:
        ...         print(container.kind, len(container), container[np.array([7, 2])]["label"])
        tar 10 [7 2]
    """
    path = Path(path)
    if kind == "memory":
        with open_container(path, verify=verify, **options) as container:
            return in_memory(container)
    container_kind = kind_named(guess(path) if kind is None else kind)
    container_kind.check_options(options, writing=False)
    container = container_kind.open(path, options)
    if verify:
        try:
            container.verify()
        except BaseException:
            container.close()
            raise
    return container


def write_container(path: Path | str, dataset: Dataset, kind: str, **options: Any) -> Path:
    """Write a data set to a new container, with a progress bar if it takes longer than two seconds.

    It appears under its name when all of it is on the disk; after an error or a kill nothing is there.

    Args:
        path: A file or folder that does not exist yet.
        dataset: The samples.
        kind: One of `KINDS`.
        options: The kind's own; `KINDS` lists them.

    Returns:
        ``path``.

    Raises:
        InvalidArgument: Something is there, or it cannot be written.
        InvalidData: A sample is not what the set says.
        Unsupported: The format cannot hold the set: the message names the field. Or a package is not installed.
        UnknownName: No such kind or option.
    """
    container_kind = kind_named(kind)
    container_kind.check_options(options, writing=True)
    return container_kind.write(Path(path), dataset, options)


def convert(source: Path | str | Dataset, target: Path | str, kind: str, **options: Any) -> Path:
    """Write what one container holds to another; images that both keep as files are not decoded for it.

    Args:
        source: A container, its kind seen by its content; or any set.
        target: A file or folder that does not exist yet.
        kind: One of `KINDS`.
        options: Those of the kind.

    Returns:
        ``target``.

    Raises:
        As `open_container` and `write_container`.
    """
    if not isinstance(source, Path | str):
        return write_container(target, source, kind, **options)
    with open_container(source) as container:
        return write_container(target, container, kind, **options)


def in_memory(dataset: Dataset) -> ArrayContainer:
    """Read all of a set at once, with a progress bar if it takes longer than two seconds.

    Raises:
        InvalidData: A sample that cannot be read.
    """
    from deep_bench.measure.progress import Bars
    from deep_bench.training.containers.arrays import collected
    from deep_bench.training.containers.kinds import Content

    bars = Bars(delay=2.0)
    try:
        return collected(Content(dataset, "memory", bars))
    finally:
        bars.close()
