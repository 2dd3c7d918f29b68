"""``Work``: a network, the samples that it is fed, and what its answer to each is."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deep_bench.errors import InvalidArgument, Unsupported
from deep_bench.graph import Network, as_network
from deep_bench.mlperf.inference.scenario import IN_MEMORY
from deep_bench.mlperf.inference.settings import Settings
from deep_bench.training.containers.named import open_set
from deep_bench.training.dataset import Dataset, labels_of
from deep_bench.variant import Variant

DEFAULT_SETS = {"digits-cnn": "digits/test"}
"""Networks that ship, and the set that they are run on where none is named."""

_RECIPE = "recipe:"

ANSWER = np.dtype("<i8")
"""What is answered to a sample that is classified: its class."""


@dataclass(frozen=True)
class Work:
    """What is run.

    Args:
        network: The network.
        dataset: The samples.
        variant: The framework with its options.
        settings: How.
    """

    network: Network
    dataset: Dataset
    variant: Variant
    settings: Settings

    @property
    def model(self) -> str:
        """The network's name as LoadGen reads it: without white space."""
        return re.sub(r"[^\w.-]+", "_", self.network.name)

    @cached_property
    def output(self) -> str:
        """The output that answers are made of: the network's first."""
        return self.network.outputs[0].name

    @cached_property
    def labels(self) -> NDArray[np.int64] | None:
        """The class of each sample; ``None`` where nothing is classified.

        Samples are classified by a network whose first output is floating-point of rank 2, on a data set with classes.
        """
        first = self.network.outputs[0]
        if first.rank != 2 or first.dtype.kind != "f":
            return None
        try:
            return labels_of(self.dataset)
        except Unsupported:
            return None

    @property
    def fixed_batch(self) -> int | None:
        """The size of a batch that the network's inputs are fixed to, if they are.

        Raises:
            InvalidArgument: They are fixed to different sizes.
        """
        sizes = {spec.shape[0] for spec in self.network.inputs if isinstance(spec.shape[0], int)}
        if len(sizes) > 1:
            raise InvalidArgument(f"inputs of {self.network.name} with batches of {sorted(sizes)}", "one size for all")
        return sizes.pop() if sizes else None

    @property
    def in_memory(self) -> int:
        """How many samples are in memory at once."""
        return min(self.settings.performance_samples or IN_MEMORY, len(self.dataset))

    def answers(self, outputs: np.ndarray) -> NDArray[np.generic]:
        """What is told to LoadGen of each sample: its class, or else its output's bytes.

        Args:
            outputs: Of the first output, one a row.

        Example:
            >>> from deep_bench.mlperf.inference.settings import Settings
            >>> work = make_work("digits-cnn", "reference", None, Settings())
            >>> work.answers(np.array([[0.1, 2.0, 0.3]], np.float32))
            array([1])
        """
        if self.labels is not None:
            return outputs.argmax(axis=1).astype(ANSWER, copy=False)
        return np.ascontiguousarray(outputs)


def make_work(
    network: str | Path | Network, framework: str | Variant, dataset: str | None, settings: Settings, root: str | None = None
) -> Work:
    """Load all that a run needs.

    Args:
        network: One that ships, a file, or a network.
        framework: With its options, as on the command line.
        dataset: A set's name, a container's path, or ``recipe:NAME`` for the samples that a training recipe holds out, as it
            prepares them; networks that ship have one.
        settings: How it is run.
        root: The folder of data sets, for those that have files.

    Raises:
        InvalidArgument: No data set is named for a network that has none of its own.
        InvalidNetwork: The network cannot be used.
        InvalidData: The data are not there.
    """
    loaded = as_network(network)
    name = dataset or DEFAULT_SETS.get(loaded.name)
    if name is None:
        advice = "--dataset digits/test, or dataset='digits/test' in Python"
        raise InvalidArgument(f"no data set for {loaded.name}", "the name of a set, or the path of a container", advice)
    variant = framework if isinstance(framework, Variant) else Variant.parse(framework)
    return Work(loaded, _samples(name, root), variant, settings)


def _samples(name: str, root: str | None) -> Dataset:
    if not name.startswith(_RECIPE):
        return open_set(name, root)
    from deep_bench.training.recipes import load_recipe
    from deep_bench.training.workload import workload

    return workload(load_recipe(name.removeprefix(_RECIPE))).held_out


def facts_of(described: dict[str, Any]) -> dict[str, Any]:
    """An adapter's own facts as plain data."""
    return {name: value if isinstance(value, str | int | float | bool) else str(value) for name, value in described.items()}
