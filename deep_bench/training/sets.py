"""Data sets made of arrays, of text and of other sets; those with a name are in ``db.datasets``."""

from __future__ import annotations

import inspect
import mmap
import os
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

import deep_bench as db
from deep_bench.errors import InvalidArgument, InvalidData, UnknownName, Unsupported
from deep_bench.tensor import TensorSpec
from deep_bench.training.containers import open_container
from deep_bench.training.containers.records import mode_of
from deep_bench.training.dataset import (
    Dataset,
    Description,
    checked_numbers,
    content_sha256,
    description_of,
    facts,
    labels_of,
    lengths_of,
    where_is,
)
from deep_bench.training.preparation import Preparation
from deep_bench.training.samplers import Shuffled, Stratified, natural

__all__ = [
    "ArrayDataset",
    "Described",
    "Description",
    "Mapped",
    "Resized",
    "Subset",
    "Tokens",
    "byte_tokens",
    "content_sha256",
    "description_of",
    "facts",
    "split",
    "synthetic",
]


class ArrayDataset:
    """Arrays of equal length; sample ``i`` is row ``i`` of each.

    An array that is mapped from a file (``np.load(path, mmap_mode="r")``) stays there: it is read when samples are, and a
    copy of the set in another process maps the same file.

    Args:
        arrays: Name to array. One called ``label``, of integers, gives the classes.
        description: Where the data come from.
        lengths: The length of each sample, where samples are padded to one shape.

    Raises:
        InvalidData: No array, one without rows to count, or unequal lengths.

    Example:
        >>> points = ArrayDataset({"x": np.eye(3, dtype=np.float32), "label": np.array([0, 1, 1])})
        >>> points[[2, 0]]["x"].tolist(), points.labels.tolist()
        ([[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]], [0, 1, 1])
    """

    def __init__(
        self, arrays: Mapping[str, ArrayLike], *, description: Description | None = None, lengths: ArrayLike | None = None
    ) -> None:
        inputs = {name: np.asanyarray(array) for name, array in arrays.items()}
        counts = {name: array.shape[0] if array.ndim else None for name, array in inputs.items()}
        if len(set(counts.values())) != 1 or None in counts.values():
            shapes = ", ".join(f"{name} {array.shape}" for name, array in inputs.items()) or "no array"
            raise InvalidData(f"arrays that are no samples: {shapes}", "at least one array, all of as many rows")
        self.description = description or Description("arrays")
        self._given = inputs
        self._rows = {name: np.asarray(array) for name, array in inputs.items()}  # rows of a memmap would be memmaps
        self._count = next(iter(self._rows.values())).shape[0]
        self._lengths = lengths

    @property
    def specs(self) -> tuple[TensorSpec, ...]:
        """The arrays of one sample."""
        return tuple(TensorSpec(name, array.shape[1:], array.dtype) for name, array in self._rows.items())

    @property
    def labels(self) -> NDArray[np.int64] | None:
        """The class of each sample, where there is an array ``label`` of one integer each."""
        labels = self._rows.get("label")
        return labels.astype(np.int64) if labels is not None and labels.ndim == 1 and labels.dtype.kind in "iu" else None

    @property
    def lengths(self) -> NDArray[np.int64] | None:
        """The length of each sample, where it was given."""
        return None if self._lengths is None else np.asarray(self._lengths)

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, indices: Any) -> dict[str, np.ndarray]:
        """The samples of these numbers; fresh arrays.

        Raises:
            InvalidArgument: A number beyond the set.
        """
        numbers = checked_numbers(indices, self._count, repr(self.description.name))
        return {name: array.take(numbers, axis=0) for name, array in self._rows.items()}

    def __reduce__(self) -> tuple[Any, ...]:
        arrays = {name: _MappedFile.of(array) or array for name, array in self._given.items()}
        return _reopened_arrays, (arrays, self.description, self._lengths)


Order = Literal["C", "F"]


class _MappedFile:
    """A whole mapped file, as it travels to another process."""

    def __init__(self, path: Path, dtype: np.dtype, offset: int, shape: tuple[int, ...], order: Order) -> None:
        self._path, self._dtype, self._offset, self._shape, self._order = path, dtype, offset, shape, order

    @classmethod
    def of(cls, array: np.ndarray) -> _MappedFile | None:
        """``None`` for what is in memory, or only a part of what was mapped."""
        if not isinstance(array, np.memmap) or not isinstance(array.base, mmap.mmap) or array.filename is None:
            return None
        order: Order = "C" if array.flags.c_contiguous else "F"
        return cls(Path(array.filename), array.dtype, array.offset, array.shape, order)

    def open(self) -> np.ndarray:
        return np.memmap(self._path, self._dtype, "r", self._offset, self._shape, self._order)


def _reopened_arrays(arrays: Mapping[str, Any], description: Description, lengths: ArrayLike | None) -> ArrayDataset:
    opened = {name: array.open() if isinstance(array, _MappedFile) else array for name, array in arrays.items()}
    return ArrayDataset(opened, description=description, lengths=lengths)


class Subset:
    """Some samples of a set, in a chosen order; a sample may come twice.

    Args:
        dataset: The set.
        numbers: The numbers of the samples in it.
        name: What the part is called, after the name of the set; by default how many it has.

    Raises:
        InvalidArgument: A number beyond the set.

    Example:
        >>> import deep_bench as db
        >>> few = Subset(db.datasets["digits"](), [5, 7], "few")
        >>> few[[1]]["label"].tolist(), few.description.name
        ([7], 'digits/all/few')
    """

    def __init__(self, dataset: Dataset, numbers: Any, name: str | None = None) -> None:
        whole = description_of(dataset)
        self._dataset = dataset
        self._numbers = checked_numbers(numbers, len(dataset), repr(whole.name))
        self.description = replace(whole, name=f"{whole.name}/{name or f'{len(self._numbers)} of {len(dataset)}'}")

    @property
    def specs(self) -> tuple[TensorSpec, ...]:
        """The arrays of one sample."""
        return self._dataset.specs

    @property
    def labels(self) -> NDArray[np.int64]:
        """The class of each sample.

        Raises:
            Unsupported: The whole set has no classes.
        """
        return labels_of(self._dataset)[self._numbers]

    @property
    def lengths(self) -> NDArray[np.int64]:
        """The length of each sample.

        Raises:
            Unsupported: The whole set does not know them.
        """
        return lengths_of(self._dataset)[self._numbers]

    def __len__(self) -> int:
        return len(self._numbers)

    def __getitem__(self, indices: Any) -> dict[str, np.ndarray]:
        """The samples of these numbers.

        Raises:
            InvalidArgument: A number beyond the part.
            InvalidData: A sample that cannot be read.
        """
        return self._dataset[self._numbers[checked_numbers(indices, len(self), repr(self.description.name))]]

    def where(self, number: int) -> str | None:
        """Where a sample lies."""
        return where_is(self._dataset, int(self._numbers[number]))


class Described:
    """A set as it is, with the description of where it comes from.

    Args:
        dataset: The set.
        description: Where it comes from.

    Example:
        >>> import deep_bench as db
        >>> Described(db.datasets["digits"](), Description("mine")).description.name
        'mine'
    """

    def __init__(self, dataset: Dataset, description: Description) -> None:
        self._dataset = dataset
        self.description = description

    @property
    def specs(self) -> tuple[TensorSpec, ...]:
        """The arrays of one sample."""
        return self._dataset.specs

    @property
    def labels(self) -> NDArray[np.int64]:
        """The class of each sample.

        Raises:
            Unsupported: The set has no classes.
        """
        return labels_of(self._dataset)

    @property
    def lengths(self) -> NDArray[np.int64]:
        """The length of each sample.

        Raises:
            Unsupported: The set does not know them.
        """
        return lengths_of(self._dataset)

    def __len__(self) -> int:
        return len(self._dataset)

    def __getitem__(self, indices: Any) -> dict[str, np.ndarray]:
        """The samples of these numbers.

        Raises:
            InvalidArgument: A number beyond the set.
            InvalidData: A sample that cannot be read.
        """
        return self._dataset[checked_numbers(indices, len(self), repr(self.description.name))]

    def where(self, number: int) -> str | None:
        """Where a sample lies."""
        return where_is(self._dataset, number)


class Mapped:
    """All samples of a set, changed by a function of a batch.

    Args:
        dataset: The set.
        change: From a batch (name to stacked arrays) to another with as many samples; each sample may depend on itself only.
            To be read in other processes, it must be importable.
        name: What was done, after the name of the set.

    Raises:
        InvalidArgument: The set is empty, so that what comes out cannot be found.
        InvalidData: What comes out is no array by name.

    Example:
        >>> import deep_bench as db
        >>> inverted = Mapped(db.datasets["digits"](), lambda batch: {"image": 1 - batch["image"]}, "inverted")
        >>> print(*inverted.specs)
        image: float32[1, 8, 8]
    """

    def __init__(
        self, dataset: Dataset, change: Callable[[dict[str, np.ndarray]], dict[str, np.ndarray]], name: str = "changed"
    ) -> None:
        whole = description_of(dataset)
        if not len(dataset):
            raise InvalidArgument(f"the empty set {whole.name!r} to change", "a set with samples")
        self._dataset = dataset
        self._change = change
        self.description: Description = replace(whole, name=f"{whole.name}/{name}")
        self.specs = specs_of(change(dataset[np.zeros(1, np.int64)]))

    def __len__(self) -> int:
        return len(self._dataset)

    def __getitem__(self, indices: Any) -> dict[str, np.ndarray]:
        """The samples of these numbers.

        Raises:
            InvalidArgument: A number beyond the set.
            InvalidData: A sample that cannot be read.
        """
        return self._change(self._dataset[checked_numbers(indices, len(self), repr(self.description.name))])

    def where(self, number: int) -> str | None:
        """Where a sample lies."""
        return where_is(self._dataset, number)


def specs_of(batch: Mapping[str, np.ndarray]) -> tuple[TensorSpec, ...]:
    """The arrays of one sample of a batch.

    Raises:
        InvalidData: It is no array by name.

    Example:
        >>> print(*specs_of({"x": np.zeros((5, 2))}))
        x: float64[2]
    """
    if not isinstance(batch, Mapping) or not all(isinstance(array, np.ndarray) for array in batch.values()):
        raise InvalidData(f"a {type(batch).__name__} as a batch", "a dict: name to a NumPy array whose rows are the samples")
    return tuple(TensorSpec(name, array.shape[1:], array.dtype) for name, array in batch.items())


def split(dataset: Dataset, parts: Mapping[str, float], *, seed: int = 0, stratified: bool = True) -> dict[str, Subset]:
    """A set cut into parts at random, each sample in exactly one.

    Args:
        dataset: The set.
        parts: Name to share; the shares sum to 1.
        seed: Decides which sample goes where.
        stratified: Each class has nearly the same share in each part (`Stratified` says how nearly).

    Returns:
        Name to part. Samples keep the order they have in the set.

    Raises:
        InvalidArgument: Shares that are not positive or do not sum to 1, or a part that would be empty.
        Unsupported: ``stratified``, and the set has no classes.

    Example:
        >>> import deep_bench as db
        >>> parts = split(db.datasets["digits"](), {"train": 0.9, "test": 0.1}, seed=1)
        >>> len(parts["train"]), len(parts["test"]), parts["test"].description.name
        (1617, 180, 'digits/all/test')
    """
    shares = np.array(list(parts.values()), np.float64)
    if not (shares > 0).all() or abs(shares.sum() - 1) > 1e-9:
        raise InvalidArgument(f"parts {dict(parts)!r}", "positive shares that sum to 1")
    ends = np.rint(np.cumsum(shares) * len(dataset)).astype(np.int64)
    sizes = np.diff(ends, prepend=0)
    if (sizes < 1).any():
        empty = list(parts)[int(np.argmin(sizes))]
        raise InvalidArgument(f"part {empty!r} of {len(dataset)} samples has none", "at least one sample in each part")
    everything = len(dataset)
    kind = Stratified(dataset, everything, seed=seed) if stratified else Shuffled(everything, everything, seed=seed)
    order = next(iter(kind.epoch(0)))
    pieces = zip(parts, np.split(order, ends[:-1]), strict=True)
    return {name: Subset(dataset, np.sort(piece), name) for name, piece in pieces}


_MODES = {"L": "HW", "LA": "HWC", "RGB": "HWC", "RGBA": "HWC"}
"""Mode of images that can be scaled to its layout."""


class Resized:
    """A set whose images are scaled to one size, bilinearly; see the preparation's step ``resize``.

    Args:
        dataset: The set, with images of uint8, rows first.
        size: Height and width in pixels.

    Raises:
        InvalidArgument: It has no such images, or a size below 1.

    Example:
        >>> from deep_bench.training.containers import memory
        >>> mixed = memory({"image": [np.zeros((3, 4), np.uint8), np.zeros((5, 2), np.uint8)], "label": np.arange(2)})
        >>> print(*Resized(mixed, (8, 8)).specs)
        image: uint8[8, 8] label: int64[]
    """

    def __init__(self, dataset: Dataset, size: tuple[int, int]) -> None:
        images = {spec.name: _MODES[mode] for spec in dataset.specs if (mode := mode_of(spec)) in _MODES}
        if not images:
            raise InvalidArgument(f"{'; '.join(map(str, dataset.specs))} to resize", "images of uint8, rows first")
        self._dataset = dataset
        steps = [{"step": "resize", "field": name, "size": list(size), "layout": at} for name, at in images.items()]
        self._resize = Preparation(steps)
        self.specs = tuple(_sized(spec, size) if spec.name in images else spec for spec in dataset.specs)
        whole = description_of(dataset)
        self.description = replace(whole, name=f"{whole.name}/{size[0]} x {size[1]}")
        self.classes: tuple[str, ...] | None = getattr(dataset, "classes", None)

    @property
    def labels(self) -> NDArray[np.int64]:
        """The class of each sample.

        Raises:
            Unsupported: The set has no classes.
        """
        return labels_of(self._dataset)

    def __len__(self) -> int:
        return len(self._dataset)

    def __getitem__(self, indices: Any) -> dict[str, np.ndarray]:
        """The samples of these numbers.

        Raises:
            InvalidArgument: A number beyond the set.
            InvalidData: A sample that cannot be read, or not be scaled.
        """
        return self._resize(self._dataset[indices], np.asarray(indices))

    def where(self, number: int) -> str | None:
        """Where a sample lies."""
        return where_is(self._dataset, number)


def _sized(spec: TensorSpec, size: tuple[int, int]) -> TensorSpec:
    return replace(spec, shape=(*size, *spec.shape[2:]))


_LABEL = "label"
_STREAM = 2
"""Sets this stream apart from those of samplers and preparations with the same seed."""


_PLACES_AT_ONCE = 256


def synthetic(like: Dataset, samples: int, *, seed: int = 0, measured: int = 1000) -> ArrayDataset:
    r"""Samples drawn at random that resemble those of another set; ``description.synthetic`` says that they are.

    - ``label``: each class as often as in the set, to the nearest whole sample.
    - Arrays of real numbers, and of bytes (images): normal, with the mean of each element in the sample's class and the
      covariance of all elements within classes: :math:`x = \mu_c + \sum_i g_i (x_i - \mu_{c_i}) / \sqrt{n - C}` over the
      :math:`n` measured samples :math:`x_i` of :math:`C` classes, with :math:`g_i` standard normal. Bytes are rounded and
      limited.
    - Other whole numbers: each element drawn from those at its place in the measured samples.

    Args:
        like: The set to measure.
        samples: How many to draw.
        seed: Decides what is drawn.
        measured: The most samples of ``like`` to measure, chosen at random.

    Raises:
        InvalidArgument: A number that cannot be; or fewer measured samples than classes and one more.
        Unsupported: Arrays of objects, or of sizes that vary.
        InvalidData: A sample that cannot be read.

    Example:
        >>> import deep_bench as db
        >>> drawn = synthetic(db.datasets["digits"]("train"), 500, seed=1)
        >>> drawn.description.synthetic, drawn.description.name, drawn[[0]]["image"].shape
        (True, 'synthetic/digits/train', (1, 1, 8, 8))
    """
    count = natural("samples", samples, 1)
    _check(like)
    draws = np.random.default_rng(np.random.SeedSequence(natural("seed", seed), spawn_key=(_STREAM,)))
    chosen = np.sort(draws.permutation(len(like))[: natural("measured", measured, 2)])
    batch = like[chosen]
    classes, measured_class, drawn_class = _classes(like, chosen, count, draws)
    if len(chosen) <= len(classes):
        raise InvalidArgument(f"{len(chosen)} measured samples of {len(classes)} classes", "more than that: measured=…")
    arrays = {}
    for name, values in batch.items():
        if name == _LABEL and values.ndim == 1:
            arrays[name] = classes[drawn_class].astype(values.dtype)
        elif values.dtype.kind == "f" or values.dtype == np.uint8:
            arrays[name] = _normal(values, measured_class, drawn_class, len(classes), draws)
        else:
            rows = draws.integers(len(values), size=(count, *values.shape[1:]))
            arrays[name] = np.take_along_axis(values, rows, axis=0)
    whole = description_of(like)
    described = Description(f"synthetic/{whole.name}", f"drawn like: {whole.source}", whole.licence, synthetic=True)
    return ArrayDataset(arrays, description=described)


def _check(like: Dataset) -> None:
    for spec in like.specs:
        if spec.dtype.kind not in "fiub" or spec.open_dimensions:
            raise Unsupported(f"drawing samples like {spec}", "numbers in arrays of one size", "prepare the set first")


def _classes(
    like: Dataset, chosen: NDArray[np.int64], count: int, draws: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """The classes, and which of them each measured and each drawn sample is of."""
    if not any(spec.name == _LABEL and spec.rank == 0 for spec in like.specs):
        return np.zeros(1, np.int64), np.zeros(len(chosen), np.int64), np.zeros(count, np.int64)
    classes, place, sizes = np.unique(labels_of(like), return_inverse=True, return_counts=True)
    ends = np.rint(np.cumsum(sizes) / len(like) * count).astype(np.int64)
    drawn = np.repeat(np.arange(len(classes)), np.diff(ends, prepend=0))
    return classes, place[chosen], draws.permutation(drawn)


def _normal(
    values: np.ndarray,
    measured_class: NDArray[np.int64],
    drawn_class: NDArray[np.int64],
    classes: int,
    draws: np.random.Generator,
) -> np.ndarray:
    flat = values.reshape(len(values), -1).astype(np.float64)
    sizes = np.bincount(measured_class, minlength=classes)
    means = np.zeros((classes, flat.shape[1]))
    np.add.at(means, measured_class, flat)
    means /= np.maximum(sizes, 1)[:, None]
    means[sizes == 0] = flat.mean(axis=0)  # a class so rare that no measured sample is of it
    deviations = (flat - means[measured_class]) / np.sqrt(len(flat) - np.count_nonzero(sizes))
    drawn = np.empty((len(drawn_class), *values.shape[1:]), values.dtype)
    for start in range(0, len(drawn), _PLACES_AT_ONCE):
        block = drawn_class[start : start + _PLACES_AT_ONCE]
        x = means[block] + draws.standard_normal((len(block), len(flat))) @ deviations
        if values.dtype == np.uint8:
            x = np.rint(x).clip(0, 255)
        drawn[start : start + _PLACES_AT_ONCE] = x.reshape(-1, *values.shape[1:])
    return drawn


BYTES = 256
"""The size of the vocabulary of a text that is read byte by byte."""


_BYTES_AT_ONCE = 1 << 24


class Tokens:
    """Pieces of a long row of tokens, and each piece moved on by one: what comes next.

    Sample ``i`` is ``input``, the ``context`` tokens from number ``i * stride`` on, and ``target``, those from one later on;
    both int64.

    Args:
        path: A file of nothing but tokens, or of ``.npy``. The text is mapped, not read.
        context: Tokens in a sample.
        stride: From one sample to the next; by default ``context``, so that no token comes twice.
        dtype: Type of a token in a file without a header, such as ``"uint16"``.
        vocabulary: The number of different tokens, counted from 0; a sample with another one is refused.
        description: Where the text comes from.

    Raises:
        InvalidArgument: Numbers that cannot be, or a type that is none of whole numbers.
        InvalidData: A file that is missing, cut off, or too short for one sample.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder) / "text.bin"
        ...     _ = path.write_bytes(b"to be or not")
        ...     text = Tokens(path, context=4, dtype="uint8", vocabulary=BYTES)
        ...     [bytes(text[[1]][name][0].tolist()) for name in ("input", "target")]
        [b'e or', b' or ']
    """

    def __init__(
        self,
        path: Path | str,
        context: int,
        *,
        stride: int | None = None,
        dtype: DTypeLike | None = None,
        vocabulary: int | None = None,
        description: Description | None = None,
    ) -> None:
        self._path = Path(path)
        self._context = natural("context", context, 1)
        self._stride = self._context if stride is None else natural("stride", stride, 1)
        self._vocabulary = None if vocabulary is None else natural("vocabulary", vocabulary, 1)
        self._dtype = None if dtype is None else np.dtype(dtype)
        self._tokens = _mapped_tokens(self._path, self._dtype)
        self.description = description or Description(f"tokens/{self._path.name}")
        if len(self._tokens) <= self._context:
            came = f"{self._path} has {len(self._tokens)} tokens"
            raise InvalidData(came, f"at least {self._context + 1}: a sample and the token after it", "a shorter context")

    @property
    def specs(self) -> tuple[TensorSpec, ...]:
        """The arrays of one sample."""
        return tuple(TensorSpec(name, (self._context,), np.dtype(np.int64)) for name in ("input", "target"))

    def __len__(self) -> int:
        return (len(self._tokens) - 1 - self._context) // self._stride + 1

    def __getitem__(self, indices: Any) -> dict[str, np.ndarray]:
        """The samples of these numbers.

        Raises:
            InvalidArgument: A number beyond the set.
            InvalidData: A token that is none of the vocabulary.
        """
        numbers = checked_numbers(indices, len(self), repr(self.description.name))
        places = numbers[:, None] * self._stride + np.arange(self._context + 1)
        rows = self._tokens[places].astype(np.int64)
        if self._vocabulary is not None and rows.size and rows.view(np.uint64).max() >= self._vocabulary:
            self._refuse(numbers, rows, self._vocabulary)
        return {"input": rows[:, :-1].copy(), "target": rows[:, 1:].copy()}

    def _refuse(self, numbers: NDArray[np.int64], rows: NDArray[np.int64], vocabulary: int) -> None:
        row, column = np.argwhere((rows < 0) | (rows >= vocabulary))[0]
        where = f"sample {numbers[row]}, {self._path} at token {numbers[row] * self._stride + column}"
        raise InvalidData(f"{where}: {rows[row, column]}", f"0 to {vocabulary - 1}")

    def __reduce__(self) -> tuple[Any, ...]:
        arguments = (self._path, self._context, self._stride, self._dtype, self._vocabulary, self.description)
        return _reopened_tokens, arguments


def _reopened_tokens(
    path: Path, context: int, stride: int, dtype: Any, vocabulary: int | None, description: Description
) -> Tokens:
    return Tokens(path, context, stride=stride, dtype=dtype, vocabulary=vocabulary, description=description)


def _mapped_tokens(path: Path, dtype: np.dtype | None) -> np.ndarray:
    try:
        if path.suffix == ".npy":
            tokens = np.load(path, mmap_mode="r", allow_pickle=False)
        elif dtype is None:
            raise InvalidArgument(f"{path} without the type of its tokens", "dtype='uint16' or another")
        elif not path.stat().st_size or path.stat().st_size % dtype.itemsize:
            raise InvalidData(f"{path} has {path.stat().st_size} bytes", f"tokens of {dtype.itemsize} bytes; it is cut off")
        else:
            tokens = np.memmap(path, dtype, "r")
    except (OSError, ValueError) as error:
        raise InvalidData(f"{path} cannot be read: {error}", "a file of tokens") from error
    if tokens.ndim != 1 or tokens.dtype.kind not in "iu":
        raise InvalidArgument(f"{path} as tokens of shape {tokens.shape} and type {tokens.dtype}", "a row of whole numbers")
    return np.asarray(tokens)


def byte_tokens(text: Path | str, target: Path | str) -> Path:
    """Write a text as tokens, one for each of its bytes, for `Tokens`: a vocabulary of `BYTES`.

    Args:
        text: A file, whatever its encoding.
        target: The ``.npy`` file to write, of uint16; it has its name only when it is whole.

    Returns:
        ``target``.

    Raises:
        InvalidArgument: ``target`` is no ``.npy``.
        InvalidData: The text cannot be read, or is empty.
    """
    text, target = Path(text), Path(target)
    if target.suffix != ".npy":
        raise InvalidArgument(f"{target} to write tokens to", "a name that ends in .npy")
    try:
        content = np.memmap(text, np.uint8, "r")
    except (OSError, ValueError) as error:
        raise InvalidData(f"{text} cannot be read: {error}", "a file with text") from error
    descriptor, partial = tempfile.mkstemp(dir=target.parent, prefix=".partial-", suffix=".npy")
    os.close(descriptor)
    try:
        tokens = np.lib.format.open_memmap(partial, "w+", np.dtype("<u2"), content.shape)
        for start in range(0, len(content), _BYTES_AT_ONCE):
            tokens[start : start + _BYTES_AT_ONCE] = content[start : start + _BYTES_AT_ONCE]
        tokens.flush()
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(partial, 0o666 & ~mask)
        os.replace(partial, target)
    finally:
        Path(partial).unlink(missing_ok=True)
    return target


def open_set(name: str, root: Path | str | None = None) -> Dataset:
    """A registered set, or a container.

    Args:
        name: A name in ``db.datasets``, with a part of it (``"mnist/test"``) or without; or a path.
        root: The folder of data sets, for those that have files.

    Raises:
        UnknownName: Neither.
        InvalidArgument: The set has no such part, or cannot be made from its name alone.
        InvalidData: Its files are missing or damaged.

    Example:
        >>> len(open_set("digits/test"))
        355
    """
    registered, slash, part = name.partition("/")
    if registered in db.datasets:
        return _registered_set(registered, part if slash else None, root)
    if not Path(name).exists():
        if "/" in name or Path(name).suffix:
            raise InvalidData(f"{name}: there is no such file or folder", "a container's path, or the name of a set")
        raise UnknownName("data set", name, db.datasets, "pick one of these, or name the path of a container")
    return open_container(name)


def _registered_set(name: str, part: str | None, root: Path | str | None) -> Dataset:
    make = db.datasets[name]
    parameters = inspect.signature(make).parameters
    options: dict[str, Any] = {}
    if part is not None:
        if "part" not in parameters:
            raise InvalidArgument(f"{name}/{part}", name, f"{name} has no parts")
        options["part"] = part
    if root is not None and "root" in parameters:
        options["root"] = root
    needed = [
        p.name for p in parameters.values() if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
    ]
    if missing := [argument for argument in needed if argument not in options]:
        listing = ", ".join(missing)
        raise InvalidArgument(
            f"{name} needs {listing}", "a set that its name alone makes", f"use db.datasets[{name!r}]({listing}=…)"
        )
    dataset: Dataset = make(**options)
    return dataset
