"""What a reduced network must still show: a wrong result, a crash, slowness."""

from __future__ import annotations

import math
import weakref
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from deep_bench.check.judge import judge
from deep_bench.check.truth import establish, narrowed
from deep_bench.errors import DeepBenchError, InvalidArgument, WorkerDied, WorkerError
from deep_bench.framework import Adapter
from deep_bench.graph import Network
from deep_bench.measure.workers import told
from deep_bench.network.apart import Apart
from deep_bench.network.divergence import ACCUSED
from deep_bench.network.lasting_worker import LastingWorker, with_details
from deep_bench.network.problem import suitable
from deep_bench.network.pullback import Pullback, pull_back
from deep_bench.network.reduction.candidate import Candidate
from deep_bench.network.suspect import Suspect, as_adapter, as_given, called, converts
from deep_bench.tensor import is_float
from deep_bench.variant import Variant

_RUNNER = "deep_bench.network.runner:Runner"
_ROUNDS = 3

LIMIT = 120.0
"""Seconds after which a framework counts as hanging on a network."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """A network, its inputs, what the oracle gives for it, and what a framework gives."""

    network: Network
    inputs: Mapping[str, np.ndarray]
    expected: Mapping[str, np.ndarray]
    actual: Mapping[str, np.ndarray]


class Wrong:
    """Whether a framework's result is wrong, or of reduced precision, by the verdict.

    A framework that is given as a variant runs in a worker process, and may crash there: it ends with the ``with``
    statement, or with this object. The reference, and an adapter that is given, run in this process.

    Args:
        on: The framework, as a variant or an adapter.
        gradients: Whether its gradients are meant, of a weighted sum of the network's floating-point outputs with respect to
            inputs and parameters, by the framework's own differentiation.
        limit: Seconds after which a process counts as hanging, and is ended.

    Example:
        >>> import deep_bench as db
        >>> network = db.load("digits-cnn").with_sizes({"batch": 1})
        >>> Wrong("reference")(network, {"image": np.zeros((1, 1, 8, 8), np.float32)})
        False
    """

    def __init__(self, on: str | Variant | Adapter[Any], *, gradients: bool = False, limit: float = LIMIT) -> None:
        self._on = Variant.parse(on) if isinstance(on, str) else on
        self.system, self.gradients, self._limit = called(on), gradients, limit
        self._cast, self._started = converts(on), ExitStack()
        weakref.finalize(self, self._started.close)
        self.description = f"{'gradients' if gradients else 'results'} of {self.system} that rounding cannot explain"

    @cached_property
    def adapter(self) -> Adapter[Any]:
        """The framework; its process is started when this is first asked for."""
        if isinstance(self._on, Adapter) or self._on.framework == "reference":
            return as_adapter(self._on)
        return self._started.enter_context(Apart(self._on, limit=self._limit))

    @property
    def as_given(self) -> bool:
        """Whether it runs networks as their files have them, open dimensions included."""
        return not self.adapter.upgrades

    @property
    def deaths(self) -> int:
        """How many times the framework's process ended."""
        return self.adapter.deaths if isinstance(self.adapter, Apart) else 0

    @contextmanager
    def _named(self) -> Iterator[None]:
        """What the framework's process raises, with the framework's name."""
        try:
            yield
        except WorkerDied:
            raise
        except WorkerError as error:
            if not isinstance(self.adapter, Apart):
                raise
            message = f"{self.system}: it cannot run this network on these inputs: {error.came}"
            raise with_details(WorkerError(message), error) from error

    def __call__(self, network: Network, inputs: Mapping[str, np.ndarray]) -> bool:
        """Judge the framework on a network.

        Raises:
            InvalidInput: The reference cannot run it on these inputs.
            WorkerError: The framework cannot.
            WorkerDied: Its process ended.
        """
        with self._named():
            return self._judged(network, inputs) in ACCUSED

    def _judged(self, network: Network, inputs: Mapping[str, np.ndarray]) -> str:
        """The verdict's word."""
        if self.gradients:
            with suitable(network.name):
                posed = weighted(network, inputs)
                truth = posed.truth()
            return posed.judged(truth, self.adapter, cast=self._cast).word
        with suitable(network.name):
            truth = establish(network, inputs)
        return judge(truth, Suspect(self.adapter, network, inputs, cast=self._cast)).word

    def evidence(self, network: Network, inputs: Mapping[str, np.ndarray]) -> Evidence:
        """What there is to show: for gradients, of the network with its loss."""
        if self.gradients:
            posed = weighted(network, inputs)
            truth = posed.truth()
            expected = {n: narrowed(np.asarray(y), truth.formats.get(n)) for n, y in truth.outputs.items()}
            actual = posed.subject(self.adapter, cast=self._cast).outputs()
            return Evidence(posed.network, posed.inputs, expected, actual)
        actual = Suspect(self.adapter, network, inputs, cast=self._cast).outputs()
        return Evidence(network, inputs, Candidate(network, inputs).expected(), actual)

    def close(self) -> None:
        """End the framework's process, for good."""
        self._started.close()

    def __enter__(self) -> Wrong:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def weighted(network: Network, inputs: Mapping[str, np.ndarray]) -> Pullback:
    """The network with a loss: the sum of its floating-point outputs' elements, with random weights that depend on shapes.

    Raises:
        InvalidArgument: It has no such output.
    """
    outputs = {n: y for n, y in Candidate(network, inputs).expected().items() if is_float(y.dtype)}
    if not outputs:
        raise InvalidArgument(f"{network.name} has no floating-point output", "one to differentiate")
    weights = {n: np.random.default_rng(y.shape).standard_normal(y.shape).astype(y.dtype) for n, y in outputs.items()}
    return pull_back(network, inputs, weights)


class Crashes:
    """Whether a framework fails on a network, in the way that it did on the first one: the process ends, or an error.

    It runs in a worker process. Errors count as the same if they are of one class.

    Use it in a ``with`` statement, which ends the process.

    Args:
        on: The framework, as a variant.
        limit: Seconds after which a process counts as hanging, and is ended.
    """

    def __init__(self, on: str | Variant, *, limit: float = LIMIT) -> None:
        self.system, self.as_given = str(on), as_given(on)
        self.description = f"a failure of {self.system}"
        self.failure = ""
        self._first = ""
        self._process = LastingWorker(_RUNNER, {"variant": self.system}, self.system, limit=limit)

    def __call__(self, network: Network, inputs: Mapping[str, np.ndarray]) -> bool:
        """Run the network in a worker process."""
        kind = self._kind(network, inputs)
        self._first = self._first or kind
        return bool(kind) and kind == self._first

    def _kind(self, network: Network, inputs: Mapping[str, np.ndarray]) -> str:
        """How it fails; empty if it does not."""
        self._process.start()  # what fails here says nothing about the network
        try:
            self._process.call("run", network.to_proto().SerializeToString(), dict(inputs))
        except WorkerDied as error:
            self.failure = self.failure or str(error)
            return "the process ended"
        except WorkerError as error:
            message = told(error, self.system)
            self.failure = self.failure or f"{self.system}: {message}"
            return ": ".join(message.split(": ")[:2])  # the class of the error
        except DeepBenchError as error:
            self.failure = self.failure or str(error)
            return type(error).__name__
        return ""

    @property
    def deaths(self) -> int:
        """How many times the framework's process ended."""
        return self._process.deaths

    def close(self) -> None:
        """End the worker process, for good."""
        self._process.close()

    def __enter__(self) -> Crashes:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Slower:
    """Whether one framework is slower than another by a factor, each in a worker process that stands still meanwhile.

    Use it in a ``with`` statement, which ends them. The medians of a few interleaved rounds decide: enough to look for what
    is slow, no measurement to publish. What a framework does around its kernels counts too: where that differs by the
    factor, the smallest network is a small one.

    Args:
        on: The framework, as a variant.
        than: The one to compare it with.
        times: The factor, above 1.
        limit: Seconds after which a process counts as hanging, and is ended.

    Raises:
        InvalidArgument: Another factor, or one framework twice.
    """

    def __init__(self, on: str | Variant, than: str | Variant, times: float = 2.0, *, limit: float = LIMIT) -> None:
        if not (math.isfinite(times) and times > 1):
            raise InvalidArgument(f"slower by a factor of {times}", "a finite one above 1")
        if str(on) == str(than):
            raise InvalidArgument(f"{on} slower than itself", "another framework, or the same one with other options")
        self.system, self.than, self.times, self.as_given = str(on), str(than), times, as_given(on)
        self.description = f"a network that takes {self.system} {times:g} times as long as {self.than}"
        self._processes = {
            label: LastingWorker(_RUNNER, {"variant": label}, label, limit=limit) for label in (self.system, self.than)
        }

    @property
    def deaths(self) -> int:
        """How many times a framework's process ended."""
        return sum(process.deaths for process in self._processes.values())

    def __call__(self, network: Network, inputs: Mapping[str, np.ndarray]) -> bool:
        """Time both on the network."""
        return self.ratio(network, inputs) >= self.times

    def ratio(self, network: Network, inputs: Mapping[str, np.ndarray]) -> float:
        """The time of the one over that of the other."""
        serialized = network.to_proto().SerializeToString()
        durations: dict[str, list[float]] = {self.system: [], self.than: []}
        for _ in range(_ROUNDS):
            for label, seconds in durations.items():
                seconds.append(self._timed(label, serialized, dict(inputs)))
        return float(np.median(durations[self.system]) / np.median(durations[self.than]))

    def _timed(self, label: str, serialized: bytes, inputs: dict[str, np.ndarray]) -> float:
        process = self._processes[label]
        process.resume()
        try:
            return float(process.call("seconds", serialized, inputs))
        finally:
            process.pause()

    def close(self) -> None:
        """End the worker processes, for good."""
        for process in self._processes.values():
            process.close()

    def __enter__(self) -> Slower:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
