"""A kernel that is set up for a case, called so that whatever goes wrong in it is told from faults of the checks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from deep_bench.check.ladder import in_float64
from deep_bench.errors import DeepBenchError, Unsupported, shortened
from deep_bench.graph import Network
from deep_bench.measure.worker import LINE_CHARACTERS
from deep_bench.operators.checks.failure import KernelFailure
from deep_bench.operators.checks.finding import Finding
from deep_bench.operators.checks.problem import Problem
from deep_bench.operators.kernel import KernelAdapter, KernelExecutor
from deep_bench.operators.operator import Operator

R = TypeVar("R")


class Prepared:
    """A kernel that is set up for a case.

    Args:
        operator: The kernel.
        network: The case's.

    Raises:
        KernelFailure: Setting it up failed.
        Unsupported: The kernel does not take such a case.
    """

    def __init__(self, operator: Operator[Any], network: Network) -> None:
        self.operator = operator
        self.device = operator.device
        adapter = KernelAdapter(operator)
        self.executor: KernelExecutor = told(f"{operator.name}.setup", lambda: adapter.prepare(network))

    def native(self, arrays: Mapping[str, np.ndarray]) -> dict[str, Any]:
        """The arrays on the kernel's device, in memory of their own."""
        return {name: self.device.from_numpy(np.array(array, order="C")) for name, array in arrays.items()}

    def call(self, inputs: Mapping[str, Any], *, wait: bool = True) -> dict[str, Any]:
        """The kernel's outputs on its device; when it is done, unless one does not ``wait``."""

        def run() -> dict[str, Any]:
            with np.errstate(all="ignore"):
                outputs = self.executor.forward(inputs)
            if wait:
                self.device.synchronize()
            return outputs

        return told(f"{self.operator.name}.forward", run)

    def read(self, outputs: Mapping[str, Any]) -> dict[str, np.ndarray]:
        """Copies of outputs in NumPy."""

        def convert() -> dict[str, np.ndarray]:
            return {name: np.array(self.device.to_numpy(array)) for name, array in outputs.items()}

        return told(f"reading what {self.operator.name}.forward returned", convert)

    def answer(self, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """What the kernel gives for arrays of NumPy."""
        return self.read(self.call(self.native(arrays)))

    def pull_back(self, inputs: Mapping[str, Any], grads: Sequence[Any]) -> tuple[Any, ...]:
        """What ``backward`` gives for native arrays, one gradient or ``None`` for each input of the operator."""

        def run() -> tuple[Any, ...]:
            with np.errstate(all="ignore"):
                gradients = self.executor.pull_back(inputs, grads)
            self.device.synchronize()
            return gradients

        return told(f"{self.operator.name}.backward", run)


def told(doing: str, run: Callable[[], R]) -> R:
    """The result of a kernel's code, whose exceptions become a `KernelFailure`.

    Raises:
        KernelFailure: It raised.
        DeepBenchError: The very one that it raised, if it is one of these: what came and what was expected.
    """
    try:
        return run()
    except DeepBenchError:
        raise
    except (Exception, SystemExit) as error:  # a kernel may raise anything
        line = shortened(next(iter(str(error).strip().splitlines()), ""), LINE_CHARACTERS)
        raise KernelFailure(f"{doing} raised {type(error).__name__}{f': {line}' if line else ''}") from error


class KernelSubject:
    """A kernel as a `deep_bench.check.Subject`.

    Args:
        operator: The kernel.
        network: The case's.
        inputs: What it is judged on.
        arrange: How inputs lie in memory, if not one element after the other.
    """

    upgrades = True

    def __init__(
        self,
        operator: Operator[Any],
        network: Network,
        inputs: Mapping[str, np.ndarray],
        arrange: Callable[[Prepared, Mapping[str, np.ndarray]], Mapping[str, Any]] = Prepared.native,
    ) -> None:
        self.operator, self.network, self.inputs, self.arrange = operator, network, inputs, arrange

    def outputs(self) -> dict[str, np.ndarray]:
        """Its outputs, computed anew at each call."""
        return self.run(self.network, self.inputs)

    def run(self, network: Network, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Set the kernel up for another network of the same operator, and run it."""
        prepared = Prepared(self.operator, network)
        return prepared.read(prepared.call(self.arrange(prepared, inputs)))

    def run_precisely(self, network: Network, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """As `run`, in float64."""
        return self.run(*in_float64(network, inputs))


def found(name: str, problem: Problem, find: Callable[[], Finding], place: str = "") -> Finding:
    """What a check finds, or that the kernel failed or refused.

    Args:
        name: The check.
        problem: The case.
        find: Calls the kernel.
        place: What the kernel was given.
    """
    try:
        return find()
    except Unsupported as refusal:
        return Finding(name, problem.name, "not applicable", first_line(refusal), place=place)
    except DeepBenchError as failure:
        expected = f"; expected: {failure.expected}" if failure.expected else ""
        return Finding(name, problem.name, "failed", f"{first_line(failure)}{expected}", place=place)


def first_line(error: BaseException) -> str:
    """What an error says, in one line."""
    message = error.came if isinstance(error, DeepBenchError) else str(error)
    return next(iter(message.strip().splitlines()), type(error).__name__)
