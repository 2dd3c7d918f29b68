"""The reference as an adapter, so that it can be run, timed and checked like any framework."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from threadpoolctl import threadpool_info

from deep_bench.arrays import NUMPY, NumpyFunctions
from deep_bench.errors import InvalidArgument
from deep_bench.framework import Adapter, Mode
from deep_bench.graph import Network
from deep_bench.reference.network.executor import ReferenceExecutor
from deep_bench.reference.operators.algorithms import choose

if TYPE_CHECKING:
    from deep_bench.network.pullback import Pullback


class ReferenceAdapter(Adapter[np.ndarray]):
    """NumPy, one function per operator, in the element types of the network.

    Args:
        algorithms: Which algorithm computes an operator, where there are several: ``"Conv/winograd_4+MatMul/strassen"``, or
            a mapping from operator to name; see `deep_bench.reference.operators.algorithms`. Derived gradients are computed
            with the same ones.

    Raises:
        UnknownName: No such operator or algorithm.

    Example:
        >>> import deep_bench as db
        >>> executor = db.frameworks["reference"]().prepare(db.load("digits-cnn"))
        >>> executor({"image": np.zeros((1, 1, 8, 8), np.float32)})["logits"].shape
        (1, 10)
        >>> dict(ReferenceAdapter(algorithms="Conv/direct").describe())["algorithms"]
        'Conv/direct'
    """

    name = "reference"
    runs_kernels = True

    def __init__(self, *, algorithms: str | Mapping[str, str] | None = None) -> None:
        self._functions = {} if algorithms is None else choose(algorithms)
        chosen = algorithms if isinstance(algorithms, str) else "+".join(map("/".join, (algorithms or {}).items()))
        self._facts = {"algorithms": chosen} if chosen else {}

    def prepare(
        self, network: Network, *, mode: Mode = "inference", outputs: Sequence[str] | None = None
    ) -> ReferenceExecutor:
        """Look up the function of every node."""
        if mode not in ("inference", "train"):
            raise InvalidArgument(f"mode {mode!r}", "'inference' or 'train'")
        return ReferenceExecutor(network, self, outputs, mode, self._functions)

    def describe(self) -> Mapping[str, str]:
        """NumPy's version, and the threads of its BLAS."""
        blas = [lib for lib in threadpool_info() if lib["user_api"] == "blas"]
        counts = dict.fromkeys(
            f"{lib['internal_api']} {lib['num_threads']}" for lib in blas
        )  # NumPy and SciPy bring one each
        threads = ", ".join(counts) or "1"
        return {
            "version": f"numpy {np.__version__}",
            "device": "cpu",
            "threads": threads,
            "precision": "as the network",
            **self._facts,
        }

    def pull_back(self, network: Network, inputs: Mapping[str, np.ndarray], gradients: Mapping[str, np.ndarray]) -> Pullback:
        """The network with a loss that has given gradients with respect to its outputs, and what is known of its gradients.

        See `deep_bench.network.pullback.pull_back`: layers before it reach it here.
        """
        from deep_bench.network.pullback import pull_back

        return pull_back(network, inputs, gradients)

    def from_numpy(self, array: np.ndarray) -> np.ndarray:
        """The array itself."""
        return array

    def to_numpy(self, array: np.ndarray) -> np.ndarray:
        """The array itself, every call makes fresh ones; a scalar as one of rank 0."""
        return np.asarray(array)

    def synchronize(self) -> None:
        """Nothing to wait for: NumPy returns when it is done."""

    @property
    def xp(self) -> NumpyFunctions:
        """See `Device.xp`."""
        return NUMPY
