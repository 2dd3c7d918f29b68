"""Everything that is known of a network on given inputs before any system under test is looked at."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from deep_bench.check.isolate import draws_at_random
from deep_bench.check.oracle import WideArithmetic
from deep_bench.check.rounding import Recall
from deep_bench.check.settings import settings_of
from deep_bench.graph import Network
from deep_bench.tensor import is_float, is_inexact

Effort = Literal["quick", "full"]
SAMPLES: Mapping[str, int] = {"quick": 4, "full": 16}
"""How many evaluations with rounding errors each effort makes."""


@dataclass(eq=False)
class Truth:
    """The oracle's results, and what rounding can do to them.

    Args:
        network: The network as it was given.
        inputs: What it is judged on.
        effort: ``"quick"`` or ``"full"``.
        outputs: The oracle's outputs, in float64 where they are floating point.
        samples: Outputs with the errors of rounding, one mapping for each evaluation.
        formats: Name of every value to its element type in the network.
        values: Name of every value to the oracle's, in the network's element types, at the first execution of its node.
        random: Names of nodes that draw random numbers.
        seconds: What all this took.
    """

    network: Network
    inputs: Mapping[str, np.ndarray]
    effort: Effort
    reference: Any
    outputs: Mapping[str, Any]
    samples: Sequence[Mapping[str, Any]]
    formats: Mapping[str, np.dtype]
    settings: frozenset[str]
    values: Mapping[str, np.ndarray]
    random: tuple[str, ...]
    seconds: float
    replays: dict[bool, Any] = field(default_factory=dict, repr=False)

    def arithmetic(self, rng: np.random.Generator | None = None, **options: Any) -> WideArithmetic:
        """The oracle's arithmetic for this network, with rounding errors if there is a generator."""
        return WideArithmetic(self.formats, self.settings, rng=rng, **options)

    def evaluate(self, arithmetic: WideArithmetic, observe: Callable[..., None] | None = None) -> dict[str, Any]:
        """The network's outputs with a given arithmetic."""
        return self.reference.evaluate(self.inputs, arithmetic=arithmetic, observe=observe)

    def sampled(self, count: int, seed: int, **options: Any) -> list[dict[str, Any]]:
        """The network's outputs in ``count`` evaluations with rounding errors."""
        recall = Recall()
        generators = (np.random.default_rng([seed, k]) for k in range(count))
        return [self.evaluate(self.arithmetic(rng, recall=recall, **options)) for rng in generators]


def establish(network: Network, inputs: Mapping[str, np.ndarray], effort: Effort = "quick", *, seed: int = 0) -> Truth:
    """Evaluate a network plainly, as the oracle, and with rounding errors.

    Args:
        network: Any network whose operators have a reference. Kernels in it are what is judged, and not asked.
        inputs: Name to array.
        effort: ``"quick"`` makes 4 evaluations with rounding errors, ``"full"`` 16.
        seed: Of the rounding errors.

    Raises:
        UnsupportedOperator: A node has no reference.
    """
    from deep_bench import frameworks

    start = time.perf_counter()
    reference = frameworks["reference"]().prepare(network.without_kernels())
    formats = formats_of(reference, inputs)
    upgraded = network.upgraded()
    settings = settings_of(upgraded.graph)
    recorder = _Recorder(formats)
    oracle = WideArithmetic(formats, settings)
    outputs = reference.evaluate(inputs, arithmetic=oracle, observe=recorder)
    random = tuple(str(n.name) for n in upgraded.all_nodes() if draws_at_random(n))
    truth = Truth(
        network,
        inputs,
        effort,
        reference,
        outputs,
        (),
        formats,
        settings,
        recorder.values,
        random,
        time.perf_counter() - start,
    )
    truth.samples = truth.sampled(SAMPLES[effort], seed)
    truth.seconds = time.perf_counter() - start
    return truth


def formats_of(reference: Any, inputs: Mapping[str, np.ndarray]) -> dict[str, np.dtype]:
    """The element type of every value, from one evaluation in the network's own types."""
    formats = {name: np.asarray(x).dtype for name, x in inputs.items()}

    def observe(step: Any, arrays: Sequence[Any], results: Sequence[Any]) -> None:
        for name, x in zip((*step.inputs, *step.outputs), (*arrays, *results), strict=False):
            if name and isinstance(x, np.ndarray | np.generic):
                formats.setdefault(name, x.dtype)

    with np.errstate(all="ignore"):
        reference.evaluate(inputs, observe=observe)
    return formats


@dataclass(eq=False)
class _Recorder:
    """Keeps the inputs and outputs of every node at its first execution, in the network's element types."""

    formats: Mapping[str, np.dtype]
    values: dict[str, np.ndarray] = field(default_factory=dict)

    def __call__(self, step: Any, arrays: Sequence[Any], results: Sequence[Any]) -> None:
        if any(name in self.values for name in step.outputs if name):
            return
        for name, x in zip((*step.inputs, *step.outputs), (*arrays, *results), strict=False):
            if name and isinstance(x, np.ndarray | np.generic) and not self._kept(name, x):
                self.values[name] = narrowed(np.asarray(x), self.formats.get(name))

    def _kept(self, name: str, x: Any) -> bool:
        return name in self.values and self.values[name].shape == x.shape


def narrowed(x: np.ndarray, form: np.dtype | None) -> np.ndarray:
    """``x`` in an element type of the network; strings and integers as they are."""
    if form is None or x.dtype == form or not is_inexact(x.dtype):
        return x
    if is_float(form) or not is_float(x.dtype):
        with np.errstate(all="ignore"):
            return x.astype(form)
    return x
