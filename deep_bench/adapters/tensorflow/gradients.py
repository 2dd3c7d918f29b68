"""Gradients of a plan by TensorFlow's own autograd: of one graph, or of steps that run one by one."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np
import tensorflow as tf

from deep_bench.adapters.lowering import Plan, Site, Step
from deep_bench.adapters.tensorflow.graph import GraphRunner, LateRefusal, as_arrays, as_value, differentiation
from deep_bench.adapters.tensorflow.layout import StoredValue
from deep_bench.adapters.tensorflow.tracing import Traced, trace
from deep_bench.errors import InvalidArgument, Unsupported, UnsupportedOperator
from deep_bench.framework import Mode, checked_request, map_arrays
from deep_bench.graph import OPSET, Network
from deep_bench.network.gradient.derived import not_training
from deep_bench.tensor import is_float

_DIFFERENTIABLE = ("float16", "bfloat16", "float32", "float64")


class GraphGradients:
    """Differentiates a network as often as another loss or other names are asked for, and keeps what it traced.

    Args:
        network: The network.
        runner: Its plan, with the parameters.
        outputs: Names of the plan's results.
        mode: What the network was prepared for.
        widened: Converts an input to the precision that the network runs in.
        jit: Whether XLA compiles the graphs.
    """

    def __init__(
        self,
        network: Network,
        runner: GraphRunner,
        outputs: Sequence[str],
        *,
        mode: Mode,
        widened: Callable[[Any], Any],
        jit: bool,
    ) -> None:
        self._network, self._runner, self._outputs = network, runner, tuple(outputs)
        self._mode, self._widened, self._jit = mode, widened, jit
        self._traces: dict[Any, Traced] = {}
        self._names: dict[tuple[str, Sequence[str] | None], tuple[str, ...]] = {}

    def __call__(
        self, arguments: Sequence[Any], signatures: Sequence[Any] | None, loss: str, names: tuple[str, ...]
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """The outputs and the gradients.

        Args:
            arguments: What is fed for each input.
            signatures: What TensorFlow is told of each; ``None`` runs the steps one by one.
            loss: Name of an output.
            names: What to differentiate with respect to, as `checked` gave it.
        """
        results: Sequence[Any]
        if signatures is None:
            results = self._run(arguments, loss, names)
        else:
            results = self._traced(signatures, loss, names).bind(arguments)()
        outputs = dict(zip(self._outputs, results, strict=False))
        _check_loss(loss, outputs[loss])
        return outputs, dict(zip(names, results[len(self._outputs) :], strict=True))

    def checked(self, loss: str, wrt: Sequence[str] | None) -> tuple[str, ...]:
        """The names to differentiate with respect to.

        Raises:
            Unsupported: The network was prepared for inference.
            InvalidArgument: See `deep_bench.framework.checked_request`.
        """
        if self._mode != "train":
            raise not_training(self._network.name)
        key = (loss, wrt if wrt is None or isinstance(wrt, str) else tuple(wrt))
        if key not in self._names:
            network, parameters = self._network, list(self._network.parameters)
            self._names[key] = checked_request(network.name, self._outputs, parameters, network.inputs, loss, wrt)
        return self._names[key]

    def _traced(self, signatures: Sequence[Any], loss: str, names: tuple[str, ...]) -> Traced:
        key = (loss, names, str(signatures))
        if key not in self._traces:
            with warnings.catch_warnings():
                # TensorFlow warns of the memory that gradients of a gather take, which are dense here in any case.
                warnings.filterwarnings("ignore", "Converting sparse IndexedSlices")
                self._traces[key] = trace(lambda a: self._run(a, loss, names), signatures, jit=self._jit)
        return self._traces[key]

    def _run(self, arguments: Sequence[Any], loss: str, names: Sequence[str]) -> list[Any]:
        """The outputs, then the gradients; in a ``tf.function`` this is the trace."""
        values = [map_arrays(self._widened, a) for a in arguments]
        fed = {spec.name: v for spec, v in zip(self._network.inputs, values, strict=True) if spec.name in names}
        _refuse_narrow(self._runner.plan, names, loss, fed)
        with differentiation() as nodes, tf.GradientTape() if tf.executing_eagerly() else nullcontext() as tape:
            if tape is not None:
                tape.watch(list(fed.values()))
            outputs = [as_arrays(v) for v in self._forward(values)]
            target = outputs[self._outputs.index(loss)]
            _check_loss(loss, target)
            sources = [fed[n] if n in fed else self._variables(n) for n in names]
            gradients = self._differentiated(tape, target, sources, nodes)
        return [*outputs, *(self._gradient(n, fed.get(n), g) for n, g in zip(names, gradients, strict=True))]

    def _forward(self, values: Sequence[Any]) -> list[Any]:
        try:
            return self._runner([as_value(v) for v in values])
        except LateRefusal as refusal:
            raise UnsupportedOperator(refusal.site, refusal.operator, OPSET, refusal.reason) from refusal

    def _variables(self, name: str) -> list[Any]:
        """The variables that hold a parameter, one for each form that is in use."""
        stored = self._runner.stored.get(name)
        return [] if stored is None else list((stored.variables or {}).values())

    def _differentiated(self, tape: Any, loss: Any, sources: Sequence[Any], nodes: Sequence[Site]) -> list[Any]:
        try:
            if tape is not None:
                return tape.gradient(loss, sources)
            flat = tf.gradients(loss, tf.nest.flatten(sources))
            return tf.nest.pack_sequence_as(sources, flat)
        except (LookupError, NotImplementedError) as error:
            raise self._refusal(str(error), nodes) from error

    def _refusal(self, message: str, nodes: Sequence[Site]) -> Unsupported:
        """The error for an operation without a gradient; graphs name it, and so the node."""
        kind = re.search(r"op type: (\w+)|entry for: (\w+)", message)
        reason = f"TensorFlow has no gradient of its {kind[1] or kind[2]}" if kind else message
        place = re.findall(r"\bnode(\d+)/", message)
        if not place:
            return Unsupported(f"{self._network.name}: {reason}", "operators that TensorFlow differentiates")
        site = nodes[int(place[-1])]
        return UnsupportedOperator(site.name, site.operator, site.opset, reason)

    def _gradient(self, name: str, fed: Any, gradient: Any) -> Any:
        """One gradient, dense, of the value's shape; zeros where the loss does not depend on it."""
        if fed is not None:
            return tf.zeros_like(fed) if gradient is None else _dense(gradient)
        stored = self._runner.stored.get(name)
        if stored is None:
            return tf.zeros(self._network.parameters[name].shape, self._network.parameters[name].dtype)
        assert isinstance(stored, StoredValue)
        parts = zip(stored.variables or {}, gradient, strict=True)
        plain = [stored.in_onnx(_dense(g), form) for form, g in parts if g is not None]
        return tf.add_n(plain) if plain else tf.zeros(stored.shape, tf.as_dtype(stored.dtype))


def _dense(gradient: Any) -> Any:
    return tf.convert_to_tensor(gradient)


def _check_loss(name: str, value: Any) -> None:
    """Whether a loss is floating point and has one element, as far as that is known now."""
    if not tf.is_tensor(value) or not value.dtype.is_floating:
        kind = value.dtype.name if tf.is_tensor(value) else "no tensor"
        raise InvalidArgument(f"the output {name!r} is {kind}", "a floating-point tensor")
    if value.shape.num_elements() not in (1, None):
        raise InvalidArgument(
            f"the output {name!r} has shape {value.shape.as_list()}",
            "a loss of one element",
            "add a loss to the network, or its sum: network.with_loss(…)",
        )


def _refuse_narrow(plan: Plan, names: Iterable[str], loss: str, fed: Mapping[str, Any]) -> None:
    """TensorFlow passes no gradients through floats of 8 bits and fewer, and does not say so.

    Raises:
        Unsupported: One of ``names`` is such a tensor, or `UnsupportedOperator` where a node between them and the loss makes
            one.
    """
    for name, tensor in fed.items():
        if tensor.dtype.name not in _DIFFERENTIABLE:
            raise Unsupported(f"TensorFlow has no gradients of {tensor.dtype.name}, as {name!r} is")
    for step in _between(plan, names, loss):
        for slot in step.site.outputs:
            if slot is not None and slot.dtype is not None and _is_narrow(slot.dtype):
                reason = f"TensorFlow passes no gradient through {slot.dtype}"
                raise UnsupportedOperator(step.site.name, step.site.operator, step.site.opset, reason)


def _is_narrow(dtype: np.dtype) -> bool:
    return is_float(dtype) and dtype.name not in _DIFFERENTIABLE


def _between(plan: Plan, names: Iterable[str], loss: str) -> list[Step]:
    """The steps that depend on some values and that another one depends on."""
    after, before = set(names), {loss}
    forward = []
    for step in plan.steps:
        if after & {*_values_read(step)}:
            after |= {slot.name for slot in step.site.outputs if slot is not None}
            forward.append(step)
    selected = []
    for step in reversed(forward):
        if before & {slot.name for slot in step.site.outputs if slot is not None}:
            before |= {*_values_read(step)}
            selected.append(step)
    return selected[::-1]


def _values_read(step: Step) -> list[str]:
    return [*(slot.name for slot in step.site.inputs if slot is not None), *step.captures]
