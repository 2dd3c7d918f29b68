"""An operator or a framework as a system under test: one process, which is given case after case."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from time import perf_counter_ns
from typing import Any

import numpy as np
import onnx

from deep_bench.check.ladder import in_float64
from deep_bench.errors import Unsupported
from deep_bench.fault import exposures, remarks
from deep_bench.framework import Adapter
from deep_bench.graph import Network
from deep_bench.graph.attached import FUNCTION_DOMAIN, attach_function
from deep_bench.operators.case import Case
from deep_bench.operators.checks.failure import in_a_line
from deep_bench.operators.checks.patches import Originals, foreign_clocks
from deep_bench.operators.kernel import KernelAdapter
from deep_bench.operators.pickled import loaded
from deep_bench.operators.studies.contestants import as_operator, operator_in
from deep_bench.operators.studies.flush import flush_of
from deep_bench.operators.studies.problem import Problem
from deep_bench.operators.studies.quantities import BACKWARD, BOTH, COLD
from deep_bench.tensor import is_float
from deep_bench.variant import Variant

_GRADIENTS = (BOTH, BACKWARD)


class OperatorSystem:
    """What the process of a contestant holds.

    Args:
        variant: A framework with its options …
        pickled: … or an operator …
        script: … or the file and the name of one.
    """

    def __init__(
        self, variant: str | None = None, pickled: bytes | None = None, script: tuple[str, str] | None = None
    ) -> None:
        self._variant = Variant.parse(variant) if variant is not None else None
        self._pickled, self._script = pickled, script
        self._adapter: Adapter[Any] | None = None
        self._case: Case | None = None
        self._problem: Problem | None = None
        self._calls: Mapping[str, Callable[[], object]] = {}
        self._originals: Originals | None = None
        self.before: dict[str, Callable[[], None]] = {}
        self.threaded = True

    @property
    def timer(self) -> Any:
        """The device's own clock, where the executor has one."""
        return getattr(self._problem.executor, "timer", None) if self._problem is not None else None

    def prepare(self) -> dict[str, Any]:
        """Import the framework, or read the operator.

        Returns:
            ``description`` (the adapter's own facts), ``import_ns`` and ``upgrades``.

        Raises:
            InvalidInput: The operator cannot be read here.
        """
        originals = Originals.taken() if self._variant is None else None
        begin = perf_counter_ns()
        adapter = self._adapter = self._variant.create() if self._variant is not None else KernelAdapter(self._operator())
        import_ns = perf_counter_ns() - begin
        self._originals = originals.extended() if originals is not None else None
        return {
            "description": dict(adapter.describe()),
            "import_ns": import_ns,
            "upgrades": adapter.upgrades,
        }

    def load(self, posed: bytes | Mapping[str, Any], seed: int, wanted: Sequence[str]) -> dict[str, Any]:
        """Make a case ready and call it once; the one before is let go.

        Args:
            posed: The case, pickled; or from another Python environment its ``network`` and its ``arrays``.
            seed: Names the contents of its inputs.
            wanted: Which of `deep_bench.operators.studies.quantities.QUANTITIES` are to be timed.

        Returns:
            ``setup_ns``, ``first_call_ns``, ``forms``, ``exposures`` (to the framework's known faults), ``upgrades``,
            ``unavailable`` (what cannot be timed, to why), ``changed`` (inputs that the first call changed), and
            ``gradients_failed``: why, or ``None``.
        """
        adapter = self._ready()
        self._problem, self._calls, self.before = None, {}, {}
        if isinstance(posed, bytes):
            case: Case = loaded(posed, "the case")
            self._case, network, arrays = case, case.network(), case.arrays(seed)
        else:
            self._case, network, arrays = None, Network.from_proto(onnx.load_from_string(posed["network"])), posed["arrays"]
        try:
            problem = self._problem = Problem(adapter, network, arrays, seed)
        except Exception as error:
            for remark in remarks(exposures(network, adapter.known_faults)):
                error.add_note(remark)
            raise
        self.threaded = self._works_in_threads()
        calls, unavailable, failed = _calls(problem, wanted)
        if COLD in calls:
            self.before = {COLD: flush_of(adapter)}
        self._calls = calls
        return {
            "setup_ns": problem.setup_ns,
            "first_call_ns": problem.first_call_ns,
            "forms": problem.executor.forms,
            "exposures": exposures(network, adapter.known_faults) if adapter.known_faults else [],
            "upgrades": adapter.upgrades,
            "unavailable": unavailable,
            "changed": problem.changed_first,
            "gradients_failed": failed,
        }

    def calls(self) -> Mapping[str, Callable[[], object]]:
        """The calls to time: none before a case is loaded."""
        return self._calls

    def synchronize(self) -> None:
        """Wait for the device."""
        if self._adapter is not None:
            self._adapter.synchronize()

    def outputs(self) -> dict[str, np.ndarray]:
        """The outputs of the very call that is timed, copied to NumPy, in the element types that the case declares."""
        problem = self._loaded()
        return self._as_declared(problem.network, problem.outputs())

    def answers(self, seed: int) -> list[dict[str, np.ndarray]]:
        """The outputs for inputs of another seed: in memory of their own, and where those that are timed lie."""
        problem, case = self._loaded(), self._posed()
        arrays = case.arrays(seed)
        answers = [problem.answer(arrays), problem.answer_in_place(arrays)]
        return [self._as_declared(problem.network, outputs) for outputs in answers if outputs is not None]

    def changed(self) -> tuple[list[str], list[str]]:
        """The inputs that an operator has changed since they were given to it; and what its ``backward`` has, in words."""
        problem = self._loaded()
        return problem.changed(), problem.changed_with_gradients()

    def patched(self) -> list[str]:
        """What an operator has replaced of that which it is timed and judged with."""
        return [] if self._originals is None else list(dict.fromkeys([*self._originals.changed(), *foreign_clocks()]))

    def gradients(self) -> dict[str, np.ndarray]:
        """Input to its gradient, as they are timed, copied to NumPy, in the element type of the input."""
        problem = self._loaded()
        return self._as_of(problem, problem.gradients())

    def gradients_precisely(self) -> dict[str, np.ndarray]:
        """The same in float64."""
        problem = self._loaded()
        precise = Problem(self._ready(), *in_float64(problem.network, problem.arrays), problem.seed)
        return self._as_of(precise, precise.gradients())

    def run(self, serialized: bytes, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Prepare another network with the same adapter, and run it once."""
        network = Network.from_proto(onnx.load_from_string(serialized))
        operator = self._case.operator if self._case is not None else ""
        for node in network.nodes:
            if node.domain == FUNCTION_DOMAIN and not isinstance(operator, str):
                attach_function(node, operator)
        return self._as_declared(network, self._ready().prepare(network)(inputs))

    def run_precisely(self, serialized: bytes, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """As `run`, in float64."""
        network, wide = in_float64(Network.from_proto(onnx.load_from_string(serialized)), inputs)
        return self.run(network.to_proto().SerializeToString(), wide)

    def _operator(self) -> Any:
        if self._script is not None:
            return operator_in(Path(self._script[0]), self._script[1])
        assert self._pickled is not None
        return as_operator(loaded(self._pickled, "the operator"))

    def _works_in_threads(self) -> bool:
        """An operator in a process of a single thread does not; of a framework its options tell."""
        if self._variant is not None:
            return self._variant.options.get("threads") != "1"
        tasks = Path("/proc/self/task")
        return not tasks.is_dir() or sum(1 for _ in tasks.iterdir()) > 1

    def _as_declared(self, network: Network, outputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        declared = {spec.name: spec.dtype for spec in network.outputs}
        return {n: self._cast(a, declared[n]) if n in declared else a for n, a in outputs.items()}

    def _as_of(self, problem: Problem, gradients: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        values = {**problem.network.initializers, **problem.arrays}
        return {n: self._cast(gradient, values[n].dtype) for n, gradient in gradients.items()}

    def _cast(self, array: np.ndarray, dtype: np.dtype) -> np.ndarray:
        """A variant of another precision is judged by its values."""
        another = self._variant is not None and "dtype" in self._variant.options
        return array.astype(dtype) if another and is_float(dtype) and is_float(array.dtype) else array

    def _posed(self) -> Case:
        if self._case is None:
            raise Unsupported("no case is loaded", advice="call load(…) first")
        return self._case

    def _ready(self) -> Adapter[Any]:
        if self._adapter is None:
            raise Unsupported("the contestant is not prepared", advice="call prepare() first")
        return self._adapter

    def _loaded(self) -> Problem:
        if self._problem is None:
            raise Unsupported("no case is loaded", advice="call load(…) first")
        return self._problem


def _calls(
    problem: Problem, quantities: Sequence[str]
) -> tuple[dict[str, Callable[[], object]], dict[str, str], str | None]:
    """What can be timed, why the rest cannot, and what went wrong with the gradients, which costs nothing but them."""
    calls: dict[str, Callable[[], object]] = {}
    unavailable: dict[str, str] = {}
    failed = None
    for name in quantities:
        if failed is not None and name in _GRADIENTS:
            continue
        try:
            calls[name] = problem.call(name)
            if name == BOTH:
                problem.gradients()
        except Unsupported as error:
            calls.pop(name, None)
            unavailable[name] = error.came
        except Exception as error:  # a backward may raise anything
            if name not in _GRADIENTS:
                raise
            failed = in_a_line(error)
            for quantity in _GRADIENTS:
                calls.pop(quantity, None)
    return calls, unavailable, failed
