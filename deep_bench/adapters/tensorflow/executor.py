"""The executor: one concrete function for the whole network."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from deep_bench.adapters.lowering import Lowered
from deep_bench.adapters.tensorflow.graph import GraphRunner, as_values
from deep_bench.adapters.tensorflow.layout import Stored
from deep_bench.errors import InvalidArgument, Unsupported
from deep_bench.framework import Device, Executor
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
        self._place, self._dtype = place, dtype
        traced = self._traced(jit)  # also where nothing is compiled: this finds what cannot run
        self._concrete = None if eager else traced
        self._uncompiled = jit

    def forward(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Run the network on native arrays; the outputs are fresh and stay valid."""
        return self.bind(inputs)()

    def bind(self, inputs: Mapping[str, Any]) -> Callable[[], dict[str, Any]]:
        """A call without arguments that runs the network on these inputs."""
        arguments = [inputs[spec.name] for spec in self.inputs]
        names, concrete = self.output_names, self._concrete
        if concrete is None:
            return lambda: dict(zip(names, self._walk(*arguments), strict=True))
        # The flat call skips the matching of a Python signature, which costs more than a small network.
        call = concrete.inference_fn.call_flat
        flat = (*arguments, *concrete.captured_inputs)
        if self._uncompiled:
            self._compile(call, flat)
        return lambda: dict(zip(names, call(*flat), strict=True))

    def _compile(self, call: Callable[..., Any], flat: Sequence[Any]) -> None:
        """XLA compiles at the first call, and may refuse only then."""
        try:
            call(*flat)
        except tf.errors.OpError as error:
            reason = str(error).splitlines()[0]
            raise Unsupported(f"XLA cannot compile this network: {reason}", advice="leave out jit='xla'") from error
        self._uncompiled = False

    @property
    def graph(self) -> tf.Graph:
        """The traced graph.

        Raises:
            InvalidArgument: An eager executor has none.
        """
        if self._concrete is None:
            raise InvalidArgument("an eager executor has no graph", "an adapter without eager=True")
        return self._concrete.graph

    def _walk(self, *tensors: Any) -> list[Any]:
        with tf.device(self._place):
            wide = [tf.cast(t, self._dtype) if self._dtype is not None and t.dtype.is_floating else t for t in tensors]
            return [tf.identity(value.first) for value in self._runner(as_values(wide))]

    def _traced(self, jit: bool) -> Any:
        signature = [_signature(spec) for spec in self.inputs]
        function = tf.function(self._walk, input_signature=signature, jit_compile=jit or None, autograph=False)
        return function.get_concrete_function()


def _signature(spec: TensorSpec) -> tf.TensorSpec:
    try:
        dtype = tf.string if spec.dtype == object else tf.as_dtype(spec.dtype)
    except TypeError as error:
        raise Unsupported(f"input {spec.name!r} is {spec.dtype}", "an element type that TensorFlow has") from error
    return tf.TensorSpec([d if isinstance(d, int) else None for d in spec.shape], dtype)
