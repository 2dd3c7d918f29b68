"""The settings of measuring messages and collective operations, and the sizes that a text stands for."""

from __future__ import annotations

from contextlib import suppress
from itertools import takewhile
from typing import Any

import numpy as np
from pydantic import Field

from deep_bench.distributed.collectives.operations import KINDS, BenchmarkKind, largest_exact
from deep_bench.errors import InvalidArgument, UnknownName
from deep_bench.measure.units import read_scaled
from deep_bench.study.settings import Keywords, Seconds, Seed, SettingsModel, Share, Word

DEEPBENCH = "deepbench/allreduce"

_PREFIXES = {"": 1, "k": 2**10, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30}
_SCALES = {f"{prefix}{unit}": scale for prefix, scale in _PREFIXES.items() for unit in ("", "B")}
_FORMS = f"8:4Mi (powers of two from … to), 8,1Ki,3000 (a list), or {DEEPBENCH}"


def sizes_of(text: str, dtype: np.dtype) -> tuple[int, ...]:
    """Numbers of bytes, ascending.

    Args:
        text: ``8:4Mi`` for the powers of two between, ends included; a list; or ``deepbench/allreduce``, whose numbers are
            of elements.
        dtype: Of the elements, of which each size is a whole number.

    Raises:
        InvalidArgument: It says something else, or a size is no whole number of elements.

    Example:
        >>> sizes_of("8:64", np.dtype("float32")), sizes_of("12,1Ki", np.dtype("float32"))
        ((8, 16, 32, 64), (12, 1024))
        >>> sizes_of("deepbench/allreduce", np.dtype("float32"))[:2]
        (400000, 12390400)

    Source:
        Baidu DeepBench, ``code/kernels/all_reduce_problems.h`` (Apache 2.0).
    """
    byte_counts = sorted(set(_bytes(text.strip(), dtype)))
    odd = [size for size in byte_counts if size % dtype.itemsize]
    if odd:
        raise InvalidArgument(
            f"{odd[0]} bytes of {dtype}", f"multiples of {dtype.itemsize}", "begin higher, or name another element type"
        )
    return tuple(byte_counts)


def _bytes(text: str, dtype: np.dtype) -> list[int]:
    if text == DEEPBENCH:
        from deep_bench.operators.suites.deepbench import all_reduce_sizes

        return [elements * dtype.itemsize for elements in all_reduce_sizes()]
    if ":" not in text:
        return [_number(part, text) for part in text.split(",")]
    low, high = (_number(part, text) for part in text.split(":", 1))
    powers = takewhile(lambda size: size <= high, (2**i for i in range(64)))
    between = [size for size in powers if size >= low]
    if not between:
        raise InvalidArgument(f"sizes {text!r}: there is no power of two between", _FORMS)
    return between


def _number(text: str, whole: str) -> int:
    with suppress(ValueError):
        number = read_scaled(text, _SCALES)
        if number.is_integer() and 0 < number <= 2**40:
            return int(number)
    raise InvalidArgument(f"sizes {whole!r}", _FORMS)


class CollectiveSettings(SettingsModel):
    """How messages and collective operations are measured.

    Attributes:
        sizes: ``8:4Mi``, a list ``8,1Ki``, or ``deepbench/allreduce``; ``8:4Mi`` by default.
        dtype: The element type; float32 by default.
        budget: Time for each operation and size, all communicators together; 1 s by default.
        ci_width: Half-width of the interval over the median at which measuring ends; 0.02 by default.
        seed: Of data and order; 0 by default.
    """

    sizes: Word = Field(default="8:4Mi", description="Or a list 8,1Ki,3000; or deepbench/allreduce.")
    dtype: Word = Field(default="float32", description="The element type.")
    budget: Seconds = Field(default=1.0, description="For each operation and size.")
    ci_width: Share = Field(default=0.02, description="Half-width of the interval over the median.")
    seed: Seed = 0


class BenchmarkSettings(Keywords, CollectiveSettings):
    """Of one measurement: which operations, and between which ranks.

    Attributes:
        collectives: Names of `deep_bench.distributed.collectives.operations.KINDS`, each once.
        pair: The two ranks of the benchmarks of pairs.

    Raises:
        UnknownName: No such benchmark.
        InvalidArgument: Something else that is out of its range.
    """

    collectives: tuple[str, ...] = ("allreduce",)
    pair: tuple[int, int] = (0, 1)

    def model_post_init(self, _: Any) -> None:
        """What the types of the fields do not say."""
        for name in self.collectives:
            if name not in KINDS:
                raise UnknownName("collective", name, KINDS)
        if not self.collectives or len(set(self.collectives)) < len(self.collectives):
            raise InvalidArgument(f"collectives {', '.join(self.collectives) or '(none)'}", "each once, at least one")
        largest_exact(self.element_type)
        sizes_of(self.sizes, self.element_type)

    @property
    def element_type(self) -> np.dtype:
        """NumPy's type of that name."""
        try:
            return np.dtype(self.dtype)
        except TypeError as error:
            raise InvalidArgument(f"element type {self.dtype!r}", "float32, float64, float16, bfloat16, int8 …") from error

    def cases(self) -> list[tuple[BenchmarkKind, int]]:
        """Each benchmark with each size, in bytes."""
        sizes = sizes_of(self.sizes, self.element_type)
        return [(KINDS[name], size) for name in self.collectives for size in (sizes if KINDS[name].sized else (0,))]

    def check_ranks(self, ranks: int) -> None:
        """See that they are enough.

        Raises:
            InvalidArgument: There is one rank alone, or the pair is not among them.
        """
        if ranks < 2:
            raise InvalidArgument(f"{ranks} rank", "at least 2", "start it by mpirun -n 2, or srun -n 2")
        first, second = self.pair
        if first == second or not (0 <= first < ranks and 0 <= second < ranks):
            raise InvalidArgument(f"the pair {first},{second} of {ranks} ranks", f"two different ones of 0 to {ranks - 1}")
