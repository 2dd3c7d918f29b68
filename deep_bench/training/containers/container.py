"""What every container offers, whatever its format."""

from __future__ import annotations

import copyreg
import os
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from deep_bench.errors import InvalidData
from deep_bench.tensor import TensorSpec, is_integer
from deep_bench.training.containers.manifest import Manifest, beside, check_sizes, check_sums
from deep_bench.training.containers.values import LABEL

if TYPE_CHECKING:
    from deep_bench.training.sets.description import Description as SetDescription


@dataclass(frozen=True)
class Origin:
    """Where a container's samples come from.

    Args:
        kind: The kind of container.
        path: Its file or folder; None for arrays in memory.
        files: The files with its samples.
        manifest: What its writer noted; None for a container that came from elsewhere.
        options: What it was opened with.
        classes: The names of the classes, in the order of their numbers.
    """

    kind: str
    path: Path | None = None
    files: tuple[Path, ...] = ()
    manifest: Manifest | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    classes: tuple[str, ...] | None = None

    @property
    def folder(self) -> Path:
        """The folder that its files' names are relative to."""
        assert self.path is not None
        return self.path if self.path.is_dir() else self.path.parent


class Container(ABC):
    """A data set in files, or in memory. Close it, or use it as a context manager.

    It can be pickled while its files stay where they are: then it is opened anew, so worker processes have their own.

    Attributes:
        origin: Where its samples come from.
        specs: The arrays of a sample, without the axis of the batch; sizes that differ between samples have a name.
    """

    origin: Origin
    specs: tuple[TensorSpec, ...]

    @property
    def kind(self) -> str:
        """The kind of container."""
        return self.origin.kind

    @property
    def path(self) -> Path | None:
        """Its file or folder; None for arrays in memory."""
        return self.origin.path

    @property
    def nbytes(self) -> int:
        """How much it takes on the disk, its manifest apart."""
        return sum(os.path.getsize(file) for file in self.origin.files)

    @abstractmethod
    def __len__(self) -> int:
        """The number of samples."""

    @abstractmethod
    def __getitem__(self, indices: NDArray[np.int64]) -> dict[str, np.ndarray]:
        """The samples of these numbers, in any order, as often as they come; see `deep_bench.training.dataset.Dataset`."""

    @abstractmethod
    def close(self) -> None:
        """Let go of its files; nothing can be read afterwards."""

    @abstractmethod
    def column(self, name: str) -> np.ndarray:
        """One small field of all samples."""

    @cached_property
    def labels(self) -> NDArray[np.int64]:
        """The class of each sample.

        Raises:
            AttributeError: There is no field ``label`` of whole numbers.
        """
        spec = next((spec for spec in self.specs if spec.name == LABEL), None)
        if spec is None or spec.rank or not is_integer(spec.dtype):
            raise AttributeError(f"{self.origin.path or 'this set'} has no labels")
        return self.column(LABEL).astype(np.int64)

    @property
    def classes(self) -> tuple[str, ...] | None:
        """The names of the classes, in the order of their numbers; None where they have none."""
        noted = self.origin.manifest
        return self.origin.classes if self.origin.classes is not None or noted is None else noted.classes

    @property
    def description(self) -> SetDescription:
        """What a record says of it; where its data come from is not stated in its files."""
        from deep_bench.training.sets.description import Description

        return Description("memory" if self.origin.path is None else self.origin.path.name)

    def verify(self) -> None:
        """Read all files, and compare them with the checksums that were noted when they were written.

        Raises:
            InvalidData: A file was altered, cut off or is missing; or no checksums were noted.
        """
        origin = self.origin
        if origin.manifest is None:
            subject = (
                "arrays in memory have" if origin.path is None else f"{beside(origin.path)} is missing: {origin.path} has"
            )
            raise InvalidData(
                f"{subject} no checksums", "a container that deep_bench wrote", "convert it, and verify the copy"
            )
        self._verify(origin.manifest)

    def _verify(self, manifest: Manifest) -> None:
        check_sums(self.origin.folder, manifest.files)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def __reduce__(self) -> Any:
        if self.origin.path is None:
            return copyreg.__newobj__, (type(self),), self.__dict__  # type: ignore[attr-defined]
        from deep_bench.training.containers import open_container

        return _again, (open_container, self.origin.path, self.origin.kind, dict(self.origin.options))


def _again(opener: Any, path: Path, kind: str, options: dict[str, Any]) -> Any:
    return opener(path, kind, **options)


def check_manifest(path: Path, kind: str, manifest: Manifest | None) -> None:
    """See that the files of a container are those that its manifest names.

    Raises:
        InvalidData: They are not, or it is of another kind.
    """
    if manifest is None:
        return
    if manifest.kind != kind:
        raise InvalidData(f"{path} is of kind {manifest.kind}", kind, "leave the kind out")
    check_sizes(path if path.is_dir() else path.parent, manifest.files)
