"""``System``: what LoadGen's queries go to. A network in a framework is one; a class of your own may be another."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from threading import Thread
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from deep_bench.mlperf.inference.library import Library

EXPECTED = "an import path, such as my_package.serving:MySystem"
"""How a system is named."""


class Respond(Protocol):
    """Hands answers over: to be called from any thread, once for each sample, in any order and grouping."""

    def __call__(self, ids: Sequence[int], rows: NDArray[np.generic], /) -> None:
        """Answer samples: their ids, and an array with one row of the answer's bytes for each."""


class System(ABC):
    """A system under test. Subclass it to put something else than an executor under LoadGen.

    It is made by ``Kind(work)`` with a `deep_bench.mlperf.inference.workload.Work`, in a process of its own, and named by
    its import path: ``run(…, system="my_package.serving:MySystem")``. Every exception that it raises, in any of its threads
    that it names, ends the run with that error.
    """

    threads: tuple[Thread, ...] = ()
    """Those that work for it: the run ends with an error when one dies."""

    @abstractmethod
    def start(self, library: Library, respond: Respond) -> None:
        """Make everything ready, warm up, and be ready for queries; not timed."""

    @abstractmethod
    def issue(self, ids: Sequence[int], indices: Sequence[int]) -> None:
        """Take the samples of a query: answer them before this returns, or later from a thread.

        Args:
            ids: What to name them by in the answer.
            indices: Which samples of the library they are.
        """

    def flush(self) -> None:  # noqa: B027 (most have nothing to do)
        """Answer soon: no query follows for a while."""

    def stop(self) -> None:  # noqa: B027 (as above)
        """End all threads; nothing may be answered afterwards."""
