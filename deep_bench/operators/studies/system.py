"""An operator or a framework as a system under test: one process, which is given case after case.

A case is made ready on its adapter as a `ReadyCase`: all the calls that can be timed, with gradients, and on caches that
were emptied.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from time import perf_counter_ns
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir

from deep_bench import frameworks
from deep_bench.arrays import equal_arrays
from deep_bench.check.subject import in_float64
from deep_bench.errors import InvalidInput, Unsupported
from deep_bench.fault import exposures, remarks
from deep_bench.framework import Adapter, Executor, as_declared
from deep_bench.graph import OPSET, Network
from deep_bench.graph.node import FUNCTION_DOMAIN, attach_function
from deep_bench.measure.timing import CacheFlush
from deep_bench.operators.case import Case
from deep_bench.operators.checks.arrays import assign
from deep_bench.operators.checks.contract import Originals, foreign_clocks, wrong_form
from deep_bench.operators.checks.finding import in_a_line
from deep_bench.operators.operator import KernelAdapter, KernelExecutor
from deep_bench.operators.studies.contestants import as_operator, operator_in
from deep_bench.operators.studies.settings import BACKWARD, BOTH, COLD, DISPATCH, FORWARD, NUMPY
from deep_bench.tensor import as_float, is_float
from deep_bench.variant import Variant
from deep_bench.workers.pickling import loaded

_APART = 0x9E3779B9


def output_gradients(network: Network, shapes: Mapping[str, tuple[int, ...]], seed: int) -> dict[str, np.ndarray]:
    """Gradients of the floating-point outputs, standard normal: the same wherever they are drawn.

    Args:
        network: The case's.
        shapes: Output to its shape, which may be known after a run only.
        seed: Names the contents.
    """
    return {
        spec.name: np.random.default_rng([seed, _APART, place]).standard_normal(shapes[spec.name]).astype(spec.dtype)
        for place, spec in enumerate(network.outputs)
        if is_float(spec.dtype)
    }


def pulled_back(network: Network, arrays: Mapping[str, np.ndarray], grads: Mapping[str, np.ndarray]) -> Any:
    """A network with a loss that has these gradients of its outputs: a `deep_bench.network.gradient.pullback.Pullback`.

    Raises:
        Unsupported: It has no output or no input of a floating-point type.
    """
    if not grads or not any(is_float(array.dtype) for array in arrays.values()):
        raise Unsupported(
            f"{network.name} has no {'input' if grads else 'output'} of a floating-point type to differentiate"
        )
    return frameworks["reference"]().pull_back(network, arrays, grads)


_DEVICE_BYTES = 256 * 2**20
"""More than the caches of any accelerator hold."""


def flush_of(adapter: Adapter[Any]) -> Callable[[], None]:
    """What empties the caches: of this machine's processor; of another device, by letting it read and write a large array.

    Args:
        adapter: A framework's, or an operator's.
    """
    device = adapter.operator.device if isinstance(adapter, KernelAdapter) else adapter
    if not isinstance(device, Adapter) or device.describe().get("device", "cpu") == "cpu":
        return CacheFlush()
    return device_flush(device, _DEVICE_BYTES)


def device_flush(device: Adapter[Any], nbytes: int) -> Callable[[], None]:
    """A call that lets a framework's device read and write arrays of so many bytes, and waits for it."""
    # one operator that reads and writes arrays of a size
    size = nbytes // 4
    x, y = (ir.Value(name=n, type=ir.TensorType(ir.DataType.FLOAT), shape=ir.Shape([size])) for n in "xy")
    node = ir.Node("", "Add", [x, x], outputs=[y], name="flush")
    graph = ir.Graph([x], [y], nodes=[node], opset_imports={"": OPSET}, name="flush")
    network = Network(ir.Model(graph, ir_version=10), name="flush")
    inputs = {"x": device.from_numpy(np.zeros(nbytes // 4, np.float32))}
    bound = device.prepare(network).bind(inputs)

    def flush() -> None:
        bound()
        device.synchronize()

    return flush


Call = Callable[[], Any]
Arrays = dict[str, np.ndarray]
_OLD_OPSET, _OLD_IR = 13, 7
"""Of the network that computes nothing, so that old frameworks take it too."""


class ReadyCase:
    """A network of one operator on an adapter, set up and called once.

    Args:
        adapter: A framework's, or an operator's.
        network: The operator.
        arrays: What it is fed.
        seed: Names the gradients of its outputs.

    Attributes:
        executor: The network, ready on the adapter.
        setup_ns: What setting up took, in nanoseconds.
        first_call_ns: What the first call took.
        changed_first: What the first call changed of what it was given.
    """

    def __init__(self, adapter: Adapter[Any], network: Network, arrays: Mapping[str, np.ndarray], seed: int) -> None:
        self.adapter, self.network, self.arrays, self.seed = adapter, network, dict(arrays), seed
        begin = perf_counter_ns()
        self.executor: Executor[Any] = adapter.prepare(network)
        adapter.synchronize()
        self.setup_ns = perf_counter_ns() - begin
        self.inputs = self._native(self.arrays)
        self.bound = self.executor.bind(self.inputs)
        begin = perf_counter_ns()
        outputs = self.bound()
        adapter.synchronize()
        self.first_call_ns = perf_counter_ns() - begin
        self.forms = {name: (array.shape, array.dtype) for name, array in self._read(outputs).items()}
        self._held = self.arrays
        self._given_grads: list[dict[str, Any]] = []
        self.changed_first = self.changed()

    def call(self, quantity: str) -> Call:
        """What is timed of a quantity.

        Raises:
            Unsupported: There is no such thing here.
        """
        if quantity in (FORWARD, COLD):
            return self.bound
        if quantity == NUMPY:
            executor, arrays = self.executor, self.arrays
            return lambda: executor(arrays)
        if quantity == DISPATCH:
            return self._dispatch()
        if quantity == BOTH:
            return self._both
        if quantity == BACKWARD:
            return self._backward()
        raise Unsupported(f"no quantity {quantity!r}", "one of deep_bench.operators.studies.settings.QUANTITIES")

    def outputs(self) -> Arrays:
        """The outputs of the bound call, copied to NumPy."""
        return self._read(self.bound())

    def answer(self, arrays: Mapping[str, np.ndarray]) -> Arrays:
        """The outputs for other inputs, in memory of their own."""
        return self._read(self.executor.forward(self._native(arrays)))

    def answer_in_place(self, arrays: Mapping[str, np.ndarray]) -> Arrays | None:
        """The outputs of the bound call with other inputs in the same memory; ``None`` where it cannot be written to."""
        written = all([assign(self.executor.device, self.inputs[name], array) for name, array in arrays.items()])  # noqa: C419
        if not written:
            return None
        self._held = dict(arrays)
        return self._read(self.bound())

    def changed(self) -> list[str]:
        """The inputs and constants of an operator that are no longer as it was given them; frameworks are not asked."""
        if not isinstance(self.executor, KernelExecutor):
            return []
        self.adapter.synchronize()
        before = {**self.network.initializers, **self._held}
        return self._differing({**self.executor.parameters, **self.inputs}, before)

    def changed_with_gradients(self) -> list[str]:
        """The same of the inputs that gradients are computed on, and of the gradients of the outputs, in words."""
        if not isinstance(self.executor, KernelExecutor) or "_differentiated" not in vars(self):
            return []
        self.adapter.synchronize()
        changes = [f"its input {name}" for name in self._differing(self._differentiated, self.arrays)]
        grads = dict.fromkeys(
            name for native_arrays in self._given_grads for name in self._differing(native_arrays, self._grads)
        )
        return [*changes, *(f"the gradient of {name}" for name in grads)]

    def _differing(self, native_arrays: Mapping[str, Any], before: Mapping[str, np.ndarray]) -> list[str]:
        return [
            n
            for n, a in before.items()
            if n in native_arrays and not equal_arrays(self.adapter.to_numpy(native_arrays[n]), np.asarray(a))
        ]

    @cached_property
    def _differentiated(self) -> dict[str, Any]:
        """The inputs once more: a backward that overwrites them spoils no output."""
        return self._native(self.arrays)

    def gradients(self) -> Arrays:
        """Name to gradient of all floating-point inputs and constants, in NumPy; zeros where an operator gives none."""
        wrt: Sequence[str] = self._pullback.wrt
        result = self._both()
        self.adapter.synchronize()
        if not isinstance(self.executor, KernelExecutor):
            return {name: np.array(self.adapter.to_numpy(gradient)) for name, gradient in result[1].items()}
        values = {**self.network.initializers, **self.arrays}
        names = [None if v is None else str(v.name) for v in self.network.nodes[0].inputs]
        named = {str(name): gradient for name, gradient in zip(names, result, strict=True) if name in wrt}
        return {name: self._gradient(name, gradient, np.asarray(values[name])) for name, gradient in named.items()}

    def _gradient(self, name: str, gradient: Any, value: np.ndarray) -> np.ndarray:
        array = np.zeros_like(value) if gradient is None else np.array(self.adapter.to_numpy(gradient))
        if array.dtype == object != value.dtype:
            came = f"{self.executor.operator.name}.backward returned a {type(gradient).__name__} for input {name}"  # type: ignore[attr-defined]
            raise InvalidInput(came, "an array of its device, or None")
        return array

    @cached_property
    def _grads(self) -> Arrays:
        if isinstance(self.executor, KernelExecutor):
            for spec in self.network.outputs:
                fault = next(wrong_form(spec.name, self.forms[spec.name], (spec.shape, spec.dtype)), None)
                if fault is not None and not spec.open_dimensions:
                    raise InvalidInput(f"{self.executor.operator.name}.forward {fault}")
        return output_gradients(self.network, {name: shape for name, (shape, _) in self.forms.items()}, self.seed)

    @cached_property
    def _pullback(self) -> Any:
        return pulled_back(self.network, self.arrays, self._grads)

    @cached_property
    def _both(self) -> Call:
        wrt = list(self._pullback.wrt)
        if isinstance(self.executor, KernelExecutor):
            kernel, inputs, grads = self.executor, self._differentiated, self._native_grads(self.executor)
            kernel.pull_back(inputs, grads)
            return lambda: kernel.pull_back(inputs, grads)
        training = self.adapter.prepare(self._pullback.network, mode="train")
        native_inputs, loss = self._native(self._pullback.inputs), self._pullback.loss
        training.gradients(native_inputs, loss, wrt=wrt)
        return lambda: training.gradients(native_inputs, loss, wrt=wrt)

    def _backward(self) -> Call:
        if not isinstance(self.executor, KernelExecutor):
            raise Unsupported("frameworks compute gradients together with the outputs")
        kernel = self.executor
        grads, arguments = self._native_grads(kernel), tuple(kernel.arguments(self._differentiated))
        outputs = kernel.outputs(kernel.operator.forward(*arguments, **kernel.attributes))
        backward, attributes = kernel.operator.backward, kernel.attributes
        kernel.gradients_of(backward(grads, arguments, outputs, **attributes))
        return lambda: backward(grads, arguments, outputs, **attributes)

    def _native_grads(self, kernel: KernelExecutor) -> tuple[Any, ...]:
        """The gradient of each output of a kernel, in order.

        Raises:
            Unsupported: It has no gradients.
        """
        if not kernel.operator.differentiates:
            raise Unsupported(f"{kernel.operator.name} has no gradient")
        native = self._native(self._grads)
        self._given_grads.append(native)
        return tuple(native.get(result) for result in kernel.results)

    def _dispatch(self) -> Call:
        """A call of the same signature that computes nothing."""
        if isinstance(self.executor, KernelExecutor):
            outputs = self.bound()
            result = next(iter(outputs.values())) if len(outputs) == 1 else tuple(outputs.values())
            return self.executor.bound(lambda *_, **__: result, self.inputs)
        nothing = _nothing(len(self.inputs), len(self.executor.output_names))
        executor = self.adapter.prepare(nothing)
        return executor.bind(self._native({s.name: np.zeros(1, np.float32) for s in nothing.inputs}))

    def _native(self, arrays: Mapping[str, np.ndarray]) -> dict[str, Any]:
        """Arrays of the device, in memory of their own."""
        return {name: self.adapter.from_numpy(np.array(array, order="C")) for name, array in arrays.items()}

    def _read(self, outputs: Mapping[str, Any]) -> Arrays:
        self.adapter.synchronize()
        return {name: np.array(self.executor.device.to_numpy(array)) for name, array in outputs.items()}


def _nothing(inputs: int, outputs: int) -> Network:
    """As many inputs of one element, and as many outputs, each the first input as it is."""
    values = [_value(f"x{i}") for i in range(max(inputs, 1))]
    nodes = [ir.Node("", "Identity", values[:1], outputs=[_value(f"y{i}")], name=f"identity {i}") for i in range(outputs)]
    graph = ir.Graph(values, [n.outputs[0] for n in nodes], nodes=nodes, opset_imports={"": _OLD_OPSET}, name="nothing")
    return Network(ir.Model(graph, ir_version=_OLD_IR), name="nothing")


def _value(name: str) -> ir.Value:
    return ir.Value(name=name, type=ir.TensorType(ir.DataType.FLOAT), shape=ir.Shape([1]))


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
        self._problem: ReadyCase | None = None
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
        if self._variant is not None:
            adapter: Adapter[Any] = self._variant.create()
        elif self._script is not None:
            adapter = KernelAdapter(operator_in(Path(self._script[0]), self._script[1]))
        else:
            assert self._pickled is not None
            adapter = KernelAdapter(as_operator(loaded(self._pickled, "the operator")))
        self._adapter = adapter
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
            wanted: Which of `deep_bench.operators.studies.settings.QUANTITIES` are to be timed.

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
            problem = self._problem = ReadyCase(adapter, network, arrays, seed)
        except Exception as error:
            for remark in remarks(exposures(network, adapter.known_faults)):
                error.add_note(remark)
            raise
        if self._variant is not None:
            self.threaded = self._variant.options.get("threads") != "1"
        else:  # an operator in a process of a single thread does not work in several
            tasks = Path("/proc/self/task")
            self.threaded = not tasks.is_dir() or sum(1 for _ in tasks.iterdir()) > 1
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
        problem = self._loaded()
        if self._case is None:
            raise Unsupported("no case is loaded", advice="call load(…) first")
        arrays = self._case.arrays(seed)
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
        precise = ReadyCase(self._ready(), *in_float64(problem.network, problem.arrays), problem.seed)
        return self._as_of(precise, precise.gradients())

    def run(self, serialized: bytes, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Prepare another network with the same adapter, and run it once."""
        network = Network.from_proto(onnx.load_from_string(serialized))
        operator = self._case.operator if self._case is not None else ""
        for node in network.nodes:
            if node.domain == FUNCTION_DOMAIN and not isinstance(operator, str):
                attach_function(node, operator)
        return self._as_declared(network, self._ready().prepare(network)(inputs))

    def _as_declared(self, network: Network, outputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        return as_declared(network, outputs) if self._casts else dict(outputs)

    def _as_of(self, problem: ReadyCase, gradients: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        values = {**problem.network.initializers, **problem.arrays}
        return {n: as_float(g, values[n].dtype) if self._casts else g for n, g in gradients.items()}

    @property
    def _casts(self) -> bool:
        """A variant of another precision is judged by its values."""
        return self._variant is not None and "dtype" in self._variant.options

    def _ready(self) -> Adapter[Any]:
        if self._adapter is None:
            raise Unsupported("the contestant is not prepared", advice="call prepare() first")
        return self._adapter

    def _loaded(self) -> ReadyCase:
        if self._problem is None:
            raise Unsupported("no case is loaded", advice="call load(…) first")
        return self._problem


def _calls(
    problem: ReadyCase, quantities: Sequence[str]
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
