"""The executor: one concrete function for the whole network, for each structure of its inputs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from deep_bench.adapters.lowering import Lowered
from deep_bench.adapters.tensorflow.graph import GraphRunner, LateRefusal, NeedsType, NeedsValue, as_arrays, as_value
from deep_bench.adapters.tensorflow.layout import Stored
from deep_bench.errors import InvalidArgument, Unsupported, UnsupportedOperator
from deep_bench.framework import Device, Executor, map_arrays
from deep_bench.graph import OPSET
from deep_bench.tensor import TensorSpec


class Parameters(MutableMapping[str, Any]):
    """The parameters of a network, in ONNX's layout whatever form they are kept in.

    Args:
        stored: Name to parameter.
    """

    def __init__(self, stored: Mapping[str, Stored]) -> None:
        self._stored = dict(stored)

    def __getitem__(self, name: str) -> Any:
        return self._stored[name].assigned()

    def __setitem__(self, name: str, tensor: Any) -> None:
        if name not in self._stored:
            known = ", ".join(sorted(self._stored)) or "(none)"
            raise InvalidArgument(f"there is no parameter {name!r}", f"one of {known}", "the set of parameters is fixed")
        old = self._stored[name]
        tensor = tf.convert_to_tensor(tensor)
        if tuple(tensor.shape) != old.array.shape or tensor.dtype != tf.as_dtype(old.array.dtype):
            raise InvalidArgument(
                f"parameter {name!r} was given {tensor.dtype.name}{list(tensor.shape)}",
                f"{old.array.dtype}{list(old.array.shape)}",
                "a parameter keeps its shape and element type",
            )
        old.assign(tensor)

    def __delitem__(self, name: str) -> None:
        raise InvalidArgument(f"parameter {name!r} cannot be removed", "an assignment", "the set of parameters is fixed")

    def __iter__(self) -> Iterator[str]:
        return iter(self._stored)

    def __len__(self) -> int:
        return len(self._stored)


class TensorFlowExecutor(Executor[Any]):
    """A network as one concrete function, traced when it is made.

    Where an input is a sequence or an optional value, the number of tensors and their ranks are known only with the
    input: such a network is traced when it is bound, once for each such structure. So is one with a node whose result's
    element type is known only once it has run: its steps run one by one when it is bound first. Where the length of a
    sequence depends on the contents of tensors, TensorFlow has no graph for the network, and its steps always run one by
    one; `untraced` then says why.

    Args:
        device: Where arrays live.
        lowered: The network's plan, with TensorFlow code in each step.
        inputs: What must be fed.
        output_names: The names of the results.
        jit: Whether XLA compiles it.
        eager: Whether the steps run one by one, without a graph.
        place: TensorFlow's name of the device.
        dtype: The element type that float inputs are converted to, where a network is run in another precision.
    """

    untraced: str | None
    """Why the steps run one by one; ``None`` for a graph."""

    def __init__(
        self,
        device: Device[Any],
        lowered: Lowered,
        inputs: Sequence[TensorSpec],
        output_names: Sequence[str],
        *,
        jit: bool = False,
        eager: bool = False,
        place: str = "CPU:0",
        dtype: np.dtype | None = None,
    ) -> None:
        self.device = device
        self.inputs = tuple(inputs)
        self.output_names = tuple(output_names)
        self.forms = lowered.forms
        self._runner = GraphRunner(lowered.plan, assignable=True)
        self.parameters = Parameters({n: self._runner.stored[n] for n in lowered.plan.parameters})
        self._place, self._dtype, self._jit = place, dtype, jit
        self.untraced = "it was asked for" if eager else None
        self._eager, self._learns = eager, False
        self._signatures = [None if spec.containers else signature(spec) for spec in self.inputs]
        self._traces: dict[Any, Traced] = {}
        if None not in self._signatures:
            self._trace(self._signatures)  # also where nothing is compiled: this finds what cannot run

    def forward(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Run the network on native arrays; the outputs are fresh and stay valid."""
        return self.bind(inputs)()

    def bind(self, inputs: Mapping[str, Any]) -> Callable[[], dict[str, Any]]:
        """A call without arguments that runs the network on these inputs.

        Raises:
            UnsupportedOperator: A node cannot run with sequences of this structure.
        """
        arguments = [inputs[spec.name] for spec in self.inputs]
        if self._learns:
            self._learn(arguments)
        names, traced = self.output_names, None if self.untraced else self._traced(arguments)
        if traced is None:
            return lambda: dict(zip(names, self._walk(arguments), strict=True))
        # The flat call skips the matching of a Python signature, which costs more than a small network.
        call = traced.concrete.inference_fn.call_flat
        flat = (*flattened(arguments), *traced.concrete.captured_inputs)
        if self._jit and not traced.compiled:
            _compile(call, flat)
            traced.compiled = True
        if traced.plain:
            return lambda: dict(zip(names, call(*flat), strict=True))
        return lambda: dict(zip(names, packed(traced.layout, call(*flat) or ()), strict=True))

    def _learn(self, arguments: Sequence[Any]) -> None:
        """Run the steps once, which tells the element types of all results, and try again to trace them."""
        self._walk(arguments)
        self.untraced = None
        if None not in self._signatures:
            self._trace(self._signatures)
        self._learns = False

    def _traced(self, arguments: Sequence[Any]) -> Traced | None:
        if None not in self._signatures:
            return self._traces[()]
        signatures = [structure(a) if s is None else s for s, a in zip(self._signatures, arguments, strict=True)]
        key = tuple(map(str, signatures))
        if key not in self._traces:
            try:
                self._trace(signatures, key)
            except LateRefusal as refusal:
                raise UnsupportedOperator(refusal.site, refusal.operator, OPSET, refusal.reason) from refusal
        return self._traces.get(key)

    @property
    def graph(self) -> tf.Graph:
        """The traced graph, the latest one where there are several.

        Raises:
            InvalidArgument: Nothing was traced.
        """
        if self.untraced is not None:
            raise InvalidArgument(
                f"an eager executor has no graph ({self.untraced})", "a network and an adapter that are traced"
            )
        if not self._traces:
            raise InvalidArgument("nothing is traced yet", "bound inputs", "bind or call the executor first")
        return list(self._traces.values())[-1].concrete.graph

    def _walk(self, arguments: Sequence[Any]) -> list[Any]:
        """The outputs: tensors, lists of them, or ``None`` for an empty optional value."""
        with tf.device(self._place):
            return [as_arrays(v) for v in self._runner([as_value(map_arrays(self._widened, a)) for a in arguments])]

    def _widened(self, tensor: Any) -> Any:
        return tf.cast(tensor, self._dtype) if self._dtype is not None and tensor.dtype.is_floating else tensor

    def _trace(self, signatures: Sequence[Any], key: Any = ()) -> None:
        layout: list[Any] = []

        def flat(*tensors: Any) -> list[Any]:
            results = self._walk(packed(signatures, tensors))
            layout[:] = results
            return list(flattened(results))

        function = tf.function(
            flat, input_signature=list(flattened(signatures)), jit_compile=self._jit or None, autograph=False
        )
        try:
            concrete = function.get_concrete_function()
        except NeedsValue as error:
            if self._jit:
                raise Unsupported(f"XLA cannot compile this network: {error}", advice="leave out jit='xla'") from error
            self.untraced = self.untraced or str(error)
            self._learns = isinstance(error, NeedsType) and not self._eager
            return
        plain = not any(r is None or isinstance(r, list) for r in layout)
        self._traces[key] = Traced(concrete, [map_arrays(lambda _: ..., r) for r in layout], plain)


@dataclass
class Traced:
    """A network traced for inputs of one structure.

    Args:
        concrete: The concrete function.
        layout: How its flat results are arranged.
        plain: Whether each of them is an output of its own.
        compiled: Whether XLA has compiled it.
    """

    concrete: Any
    layout: Sequence[Any]
    plain: bool
    compiled: bool = False


def flattened(values: Any) -> Iterator[Any]:
    """The tensors in nested lists, in order.

    Example:
        >>> list(flattened([1, [2, 3], None, []]))
        [1, 2, 3]
    """
    for value in values:
        if isinstance(value, list | tuple):
            yield from flattened(value)
        elif value is not None:
            yield value


def packed(layout: Sequence[Any], tensors: Sequence[Any]) -> list[Any]:
    """Tensors arranged as ``layout`` is; the inverse of `flattened`.

    Example:
        >>> packed([0, [0, 0], None, []], [1, 2, 3])
        [1, [2, 3], None, []]
    """
    rest = iter(tensors)
    return [map_arrays(lambda _: next(rest), place) for place in layout]


def structure(value: Any) -> Any:
    """The signature of each tensor in a sequence or an optional value: its element type and its rank."""
    return map_arrays(lambda tensor: tf.TensorSpec([None] * tensor.shape.rank, tensor.dtype), value)


def _compile(call: Callable[..., Any], flat: Sequence[Any]) -> None:
    """XLA compiles at the first call, and may refuse only then."""
    try:
        call(*flat)
    except tf.errors.OpError as error:
        reason = str(error).splitlines()[0]
        raise Unsupported(f"XLA cannot compile this network: {reason}", advice="leave out jit='xla'") from error


def signature(spec: TensorSpec) -> tf.TensorSpec:
    """What TensorFlow is told of an input."""
    try:
        dtype = tf.string if spec.dtype == object else tf.as_dtype(spec.dtype)
    except TypeError as error:
        raise Unsupported(f"input {spec.name!r} is {spec.dtype}", "an element type that TensorFlow has") from error
    return tf.TensorSpec([d if isinstance(d, int) else None for d in spec.shape], dtype)
