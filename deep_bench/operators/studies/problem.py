"""A case made ready on an adapter: all the calls that can be timed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from time import perf_counter_ns
from typing import Any

import numpy as np
import onnx_ir as ir

from deep_bench.errors import InvalidInput, Unsupported
from deep_bench.framework import Adapter, Executor
from deep_bench.graph import Network
from deep_bench.operators.checks.contract import wrong_form
from deep_bench.operators.checks.native import assign, equal
from deep_bench.operators.kernel import KernelExecutor
from deep_bench.operators.studies.gradients import output_gradients, pulled_back
from deep_bench.operators.studies.quantities import BACKWARD, BOTH, COLD, DISPATCH, FORWARD, NUMPY

Call = Callable[[], Any]
Arrays = dict[str, np.ndarray]
_OLD_OPSET, _OLD_IR = 13, 7
"""Of the network that computes nothing, so that old frameworks take it too."""


class Problem:
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
        raise Unsupported(f"no quantity {quantity!r}", "one of deep_bench.operators.studies.quantities.QUANTITIES")

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
            if n in native_arrays and not equal(self.adapter.to_numpy(native_arrays[n]), np.asarray(a))
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
        native_inputs, loss = self._native(self._pullback.inputs), self._pullback.subject(None).loss
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
