"""What a user may ask of `deep_bench.distributed.collectives.study.study`."""

from __future__ import annotations

from dataclasses import dataclass

import ml_dtypes  # noqa: F401 - so that NumPy knows bfloat16 by its name
import numpy as np

from deep_bench.distributed.collectives.kinds import KINDS, Kind
from deep_bench.distributed.collectives.pattern import limit
from deep_bench.distributed.collectives.sizes import sizes_of
from deep_bench.errors import InvalidArgument, UnknownName

DEFAULT_SIZES = "8:4Mi"


@dataclass(frozen=True)
class Settings:
    """What is measured, and how long.

    Args:
        collectives: Names of `deep_bench.distributed.collectives.kinds.KINDS`.
        sizes: See `deep_bench.distributed.collectives.sizes.sizes_of`.
        dtype: The element type.
        budget: Seconds for each operation and size, all communicators together.
        ci_width: Stop earlier when half of each 95 % interval is at most this share of its median.
        seed: Of the data and the order of the blocks.
        pair: The two ranks of the benchmarks of pairs.

    Raises:
        UnknownName: No such benchmark.
        InvalidArgument: Something else that is out of its range.
    """

    collectives: tuple[str, ...] = ("allreduce",)
    sizes: str = DEFAULT_SIZES
    dtype: str = "float32"
    budget: float = 1.0
    ci_width: float = 0.02
    seed: int = 0
    pair: tuple[int, int] = (0, 1)

    def __post_init__(self) -> None:
        for name in self.collectives:
            if name not in KINDS:
                raise UnknownName("collective", name, KINDS)
        if not self.collectives or len(set(self.collectives)) < len(self.collectives):
            raise InvalidArgument(f"collectives {', '.join(self.collectives) or '(none)'}", "each once, at least one")
        if not 0 < self.budget < float("inf"):
            raise InvalidArgument(f"budget={self.budget}", "seconds, above 0")
        if not 0 < self.ci_width < 1:
            raise InvalidArgument(f"ci_width={self.ci_width}", "a share above 0 and below 1, such as 0.02")
        if self.seed < 0:
            raise InvalidArgument(f"seed={self.seed}", "a whole number of at least 0")
        limit(self.element_type)
        sizes_of(self.sizes, self.element_type)

    @property
    def element_type(self) -> np.dtype:
        """NumPy's type of that name."""
        try:
            return np.dtype(self.dtype)
        except TypeError as error:
            raise InvalidArgument(f"element type {self.dtype!r}", "float32, float64, float16, bfloat16, int8 …") from error

    def cases(self) -> list[tuple[Kind, int]]:
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
