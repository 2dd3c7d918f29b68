"""The executor: one concrete function for the whole network, for each structure of its inputs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from deep_bench.adapters.lowering import Lowered
from deep_bench.adapters.tensorflow.gradients import GraphGradients
from deep_bench.adapters.tensorflow.graph import GraphRunner, LateRefusal, NeedsType, NeedsValue, as_arrays, as_value
from deep_bench.adapters.tensorflow.layout import StoredValue
from deep_bench.adapters.tensorflow.tracing import Traced, describe_tensor, flattened, signature, structure, trace
from deep_bench.errors import InvalidArgument, Unsupported, UnsupportedOperator
from deep_bench.events import NodeProfile
from deep_bench.framework import Device, Executor, Mode, check_native, map_arrays
from deep_bench.graph import OPSET, Network


class GraphParameters(MutableMapping[str, Any]):
    """The parameters of a network, in ONNX's layout whatever form they are kept in.

    Args:
        stored: Name to parameter.
    """

    def __init__(self, stored: Mapping[str, StoredValue]) -> None:
        self._stored = dict(stored)

    def __getitem__(self, name: str) -> Any:
        return self._stored[name].assigned()

    def __setitem__(self, name: str, tensor: Any) -> None:
        if name not in self._stored:
            available = ", ".join(sorted(self._stored)) or "(none)"
            raise InvalidArgument(f"there is no parameter {name!r}", f"one of {available}", "the set of parameters is fixed")
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
        network: The network, before it was lowered.
        output_names: The names of the results.
        mode: What it was prepared for.
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
        network: Network,
        output_names: Sequence[str],
        *,
        mode: Mode = "inference",
        jit: bool = False,
        eager: bool = False,
        place: str = "CPU:0",
        dtype: np.dtype | None = None,
    ) -> None:
        self.device = device
        self.inputs = network.inputs
        self.output_names = tuple(output_names)
        self.forms = lowered.forms
        self._runner = GraphRunner(lowered.plan, assignable=True)
        self.parameters = GraphParameters({n: self._runner.stored[n] for n in lowered.plan.parameters})
        self.network = self._network = network
        self._convolves = any(node.op_type in ("Conv", "ConvInteger") for node in network.all_nodes())
        self._place, self._dtype, self._jit = place, dtype, jit
        self.untraced = "it was asked for" if eager else None
        self._gradients = GraphGradients(network, self._runner, self.output_names, mode=mode, widened=self._widened, jit=jit)
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
        # In a graph, TensorFlow gives a convolution of an empty batch its input's shape if the batch was open in the trace.
        walked = self.untraced or (self._convolves and not self._jit and _is_empty(arguments))
        names, traced = self.output_names, None if walked else self._traced(arguments)
        call = (lambda: self._walk(arguments)) if traced is None else traced.bind(arguments)
        return lambda: dict(zip(names, call(), strict=True))

    def gradients(
        self,
        inputs: Mapping[str, Any],
        loss: str,
        *,
        wrt: Sequence[str] | None = None,
        on_ready: Callable[[str, Any], None] | None = None,
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Run the network and differentiate one of its outputs by TensorFlow's own autograd.

        The first call for a loss and a choice of names traces one graph, forward and backward; the next ones run it. A
        graph's results all come at its end, and so ``on_ready`` is called for all gradients then, one after the other.
        Where a network runs in another precision than its own, the gradients have that precision.

        Raises:
            Unsupported: See `Executor.gradients`; `UnsupportedOperator` where a node between the loss and one of ``wrt`` has
                no gradient in TensorFlow, which would pass for zero.
        """
        names = self._gradients.checked(loss, wrt)
        check_native(self.inputs, inputs, describe_tensor)
        arguments = [inputs[spec.name] for spec in self.inputs]
        if self._learns:
            self._learn(arguments)
        with tf.device(self._place):
            signatures = None if self.untraced else self._signatures_of(arguments)
            outputs, gradients = self._gradients(arguments, signatures, loss, names)
        if on_ready is not None:
            for name, gradient in gradients.items():
                on_ready(name, gradient)
        return outputs, gradients

    def profile(
        self, inputs: Mapping[str, Any], *, repeat: int = 20, loss: str | None = None, wrt: Sequence[str] | None = None
    ) -> NodeProfile:
        """The time of each step in an eager walk, since a graph does not tell; the way back as a whole.

        A network that XLA compiles is one piece.
        """
        from deep_bench.adapters.tensorflow.profile import profile, whole_profile

        names = [str(node.name) for node in self._network.nodes]
        arguments = [inputs[spec.name] for spec in self.inputs]
        calls: dict[str, Callable[[], Any]]
        if loss is None:
            calls = {"plain": self.bind(inputs), "walk": lambda: self._walk(arguments)}
        else:
            calls = {
                "plain": lambda: self.gradients(inputs, loss, wrt=wrt),
                "walk": lambda: self._taped(arguments, loss, wrt),
            }
        if self._jit:
            return whole_profile(names, calls["plain"], self.device.synchronize, repeat)
        return profile(self._runner, self._gradients, names, calls, self.device.synchronize, repeat, self._place)

    def algorithms(self, inputs: Mapping[str, Any]) -> Mapping[str, tuple[str, ...] | str]:
        """What oneDNN prints for each step in an eager walk, since a graph does not tell.

        Raises:
            Unsupported: XLA made one piece of the network; it runs on a GPU; or oneDNN was not asked to print.
        """
        from deep_bench.adapters.tensorflow.profile import algorithms_by_node

        if self._jit:
            raise Unsupported("XLA made one piece of the network, in which nodes cannot be told apart")
        if "GPU" in self._place:
            raise Unsupported("TensorFlow does not tell which kernels it runs for each node on a GPU")
        arguments = [inputs[spec.name] for spec in self.inputs]
        names = [str(node.name) for node in self._network.nodes]
        return algorithms_by_node(self._runner, lambda: self._walk(arguments), names, self.device.synchronize)

    def _taped(self, arguments: Sequence[Any], loss: str, wrt: Sequence[str] | None) -> None:
        """Outputs and gradients by a walk of the steps."""
        with tf.device(self._place):
            self._gradients(arguments, None, loss, self._gradients.checked(loss, wrt))

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
        signatures = self._signatures_of(arguments)
        key = tuple(map(str, signatures))
        if key not in self._traces:
            try:
                self._trace(signatures, key)
            except LateRefusal as refusal:
                raise UnsupportedOperator(refusal.site, refusal.operator, OPSET, refusal.reason) from refusal
        return self._traces.get(key)

    def _signatures_of(self, arguments: Sequence[Any]) -> list[Any]:
        return [structure(a) if s is None else s for s, a in zip(self._signatures, arguments, strict=True)]

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
        try:
            self._traces[key] = trace(self._walk, signatures, jit=self._jit)
        except NeedsValue as error:
            if self._jit:
                raise Unsupported(f"XLA cannot compile this network: {error}", advice="leave out jit='xla'") from error
            self.untraced = self.untraced or str(error)
            self._learns = isinstance(error, NeedsType) and not self._eager


def _is_empty(arguments: Sequence[Any]) -> bool:
    """Whether any tensor has no elements."""
    return any(0 in tensor.shape for tensor in flattened(arguments))
