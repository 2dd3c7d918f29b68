"""Containers whose samples lie one after the other, each decoded by itself."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deep_bench.errors import DeepBenchError, InvalidArgument, InvalidData
from deep_bench.tensor import STRING, TensorSpec
from deep_bench.training.containers.container import Container, Origin
from deep_bench.training.containers.values import Value, damaged, fits, stack
from deep_bench.training.dataset import checked_numbers

_MOST_OPEN = 256


class Source(ABC):
    """Where the samples of a `RecordContainer` come from: how one is read, and how it is decoded.

    Attributes:
        specs: The arrays of a sample.
        images: Those of its fields that are images, stored as PNG or JPEG.
        classes: The names of the classes, in the order of their numbers.
    """

    specs: tuple[TensorSpec, ...]
    images: frozenset[str] = frozenset()
    classes: tuple[str, ...] | None = None

    @abstractmethod
    def __len__(self) -> int:
        """The number of samples."""

    @abstractmethod
    def fetch(self, index: int) -> Any:
        """The bytes of a sample, in whatever form `decode` takes."""

    @abstractmethod
    def decode(self, raw: Any, index: int, images: bool) -> dict[str, Value]:
        """The fields of a sample; images as files unless ``images``. On damaged bytes it may raise anything."""

    @abstractmethod
    def where(self, index: int) -> str:
        """The file of a sample, and its place there, for messages."""

    def known(self, name: str) -> np.ndarray | None:
        """One field of all samples, where that is known without reading them."""
        del name
        return None

    def close(self) -> None:  # noqa: B027 (most have no files open)
        """Let go of the files."""


class RecordContainer(Container):
    """A container whose samples are fetched and decoded one by one.

    Args:
        origin: Where they come from.
        source: How to get at them.
        decode: Whether images are decoded; if not, batches hold their files, as ``bytes`` in an array of objects.
    """

    def __init__(self, origin: Origin, source: Source, *, decode: bool = True) -> None:
        self.origin = origin
        self.specs = tuple(s if decode or s.name not in source.images else _file_spec(s.name) for s in source.specs)
        self._source: Source | None = source
        self._decode = decode
        self._count = len(source)
        self._names = {spec.name for spec in self.specs}

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, indices: NDArray[np.int64]) -> dict[str, np.ndarray]:
        """The samples of these numbers, in any order, as often as they come.

        Raises:
            InvalidArgument: A number beyond the set.
            InvalidData: A sample that cannot be read or decoded, or that is of another size than all should be.
        """
        numbers = checked_numbers(indices, self._count, str(self.origin.path)).tolist()
        return self.decoded(self.fetch(numbers), numbers)

    def fetch(self, numbers: Sequence[int]) -> list[Any]:
        """The bytes of samples, not decoded: what reading costs by itself."""
        source, records = self._open(), []
        for number in numbers:
            try:
                records.append(source.fetch(number))
            except DeepBenchError:
                raise
            except Exception as error:
                raise damaged(source.where(number), error) from error
        return records

    def decoded(self, raw: Sequence[Any], numbers: Sequence[int]) -> dict[str, np.ndarray]:
        """What `fetch` returned, decoded and put together."""
        samples = [self._decoded(record, number, self._decode) for record, number in zip(raw, numbers, strict=True)]
        return {spec.name: stack([sample[spec.name] for sample in samples], spec) for spec in self.specs}

    def where(self, number: int) -> str:
        """The file of a sample, and its place there, for messages."""
        return self._open().where(number)

    def sample(self, number: int, *, images: bool = True) -> dict[str, Value]:
        """One sample by itself, whatever its size.

        Args:
            number: Its number.
            images: Whether to decode images; if not, their files are returned.
        """
        (number,) = checked_numbers([number], self._count, str(self.origin.path)).tolist()
        return self._decoded(self.fetch([number])[0], number, images)

    def stored(self, number: int) -> dict[str, Value]:
        """One sample with its images as the files they are, each of which was decoded once to see that it can be.

        Raises:
            InvalidData: One cannot.
        """
        (raw,) = self.fetch([number])
        self._decoded(raw, number, True)
        return self._decoded(raw, number, False)

    @property
    def images(self) -> frozenset[str]:
        """The fields that are images, stored as PNG or JPEG."""
        return self._open().images

    @property
    def classes(self) -> tuple[str, ...] | None:
        """The names of the classes, in the order of their numbers; None where they have none."""
        return self._open().classes or super().classes

    def column(self, name: str) -> np.ndarray:
        """One small field of all samples; images are not decoded for it."""
        values = self._open().known(name)
        if values is not None:
            return values
        spec = next(spec for spec in self.specs if spec.name == name)
        return stack([self.sample(number, images=False)[name] for number in range(self._count)], spec)

    @property
    def lengths(self) -> NDArray[np.int64]:
        """The length of each sample: all are read for it.

        Raises:
            AttributeError: No field has a first size that differs, or several have; images have no length.
        """
        ragged_names = [s.name for s in self.specs if s.rank and isinstance(s.shape[0], str) and s.name not in self.images]
        if len(ragged_names) != 1:
            raise AttributeError(f"{len(ragged_names)} fields differ in length")
        return np.array([len(self.sample(i, images=False)[ragged_names[0]]) for i in range(self._count)], np.int64)

    def close(self) -> None:
        """Let go of its files."""
        if self._source is not None:
            self._source.close()
            self._source = None

    def _open(self) -> Source:
        if self._source is None:
            raise InvalidArgument(f"{self.origin.path} was closed", "an open container", "open it again")
        return self._source

    def _decoded(self, raw: Any, number: int, images: bool) -> dict[str, Value]:
        source = self._open()
        try:
            sample = source.decode(raw, number, images)
        except InvalidData as error:
            raise InvalidData(f"{source.where(number)}: {error.came}", error.expected, error.advice) from error
        except DeepBenchError:
            raise
        except Exception as error:
            raise damaged(source.where(number), error) from error
        if sample.keys() != self._names:
            has, expected = (", ".join(sorted(names)) or "nothing" for names in (sample, self._names))
            raise InvalidData(f"{source.where(number)} holds {has}", expected)
        for spec in source.specs:
            value = sample[spec.name]
            if isinstance(value, np.ndarray) and not fits(spec, value):
                shown = f"{value.dtype}{list(value.shape)}"
                raise InvalidData(f"{source.where(number)}: {spec.name} is {shown}", str(spec), "get the data again")
        return sample


def _file_spec(name: str) -> TensorSpec:
    return TensorSpec(name, (), STRING)


class Files:
    """Files of which parts are read, from any thread.

    Args:
        paths: The files. Few are kept open; many are opened each time.
    """

    def __init__(self, paths: Sequence[Path]) -> None:
        self.paths = tuple(paths)
        self._numbers: list[int] = []
        if len(self.paths) > _MOST_OPEN:
            return
        for path in self.paths:
            try:
                self._numbers.append(os.open(path, os.O_RDONLY | os.O_CLOEXEC))
            except OSError as error:
                self.close()
                raise damaged(path, error) from error

    def read(self, file: int, offset: int, size: int) -> bytes:
        """Some bytes of a file.

        Raises:
            ValueError: It ends before them.
        """
        if self._numbers:
            chunk = os.pread(self._numbers[file], size, offset)
        else:
            with open(self.paths[file], "rb", buffering=0) as opened:
                chunk = os.pread(opened.fileno(), size, offset)
        if len(chunk) < size:
            raise ValueError(f"the file ends {size - len(chunk)} bytes too early")
        return chunk

    def close(self) -> None:
        """Close all."""
        while self._numbers:
            os.close(self._numbers.pop())
