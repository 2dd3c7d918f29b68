"""Text as numbers, mapped from a file."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from deep_bench.errors import InvalidArgument, InvalidData
from deep_bench.tensor import TensorSpec
from deep_bench.training.dataset import checked_numbers
from deep_bench.training.samplers.draws import natural
from deep_bench.training.sets.description import Description

BYTES = 256
"""The size of the vocabulary of a text that is read byte by byte."""

_AT_ONCE = 1 << 24


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
        self._tokens = _mapped(self._path, self._dtype)
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
        return _again, arguments


def _again(path: Path, context: int, stride: int, dtype: Any, vocabulary: int | None, description: Description) -> Tokens:
    return Tokens(path, context, stride=stride, dtype=dtype, vocabulary=vocabulary, description=description)


def _mapped(path: Path, dtype: np.dtype | None) -> np.ndarray:
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
        for start in range(0, len(content), _AT_ONCE):
            tokens[start : start + _AT_ONCE] = content[start : start + _AT_ONCE]
        tokens.flush()
        os.chmod(partial, 0o666 & ~_umask())
        os.replace(partial, target)
    finally:
        Path(partial).unlink(missing_ok=True)
    return target


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
