"""The executor: feeding a session and getting its outputs with as little around it as possible.

NumPy arrays become ONNX Runtime's values and back, for element types that its own conversion lacks too.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, TypeAlias

import ml_dtypes
import numpy as np
import onnx
import onnxruntime as ort

from deep_bench.errors import InvalidArgument, Unsupported
from deep_bench.events import NodeProfile
from deep_bench.framework import Executor, Forms, Mode, map_arrays
from deep_bench.graph import Network
from deep_bench.network.gradient.derived import DerivedGradients
from deep_bench.tensor import STRING

if TYPE_CHECKING:
    from deep_bench.adapters.onnxruntime.adapter import OnnxRuntimeAdapter

Value: TypeAlias = "ort.OrtValue | np.ndarray"
"""An ``OrtValue``; or an array of strings, since no ``OrtValue`` can be made from those."""


def to_value(array: np.ndarray, memory: str) -> Value:
    """A value with the contents of an array.

    Args:
        array: Of any element type of the standard.
        memory: ``cpu`` or ``cuda``. Element types that NumPy itself lacks stay in the CPU's memory, from which a session
            copies them: ONNX Runtime's Python has no way to write them elsewhere.

    Example:
        >>> to_array(to_value(np.array([1, -2, 3], ml_dtypes.int4), "cpu"))
        array([1, -2, 3], dtype=int4)
    """
    if array.dtype == object:
        return array
    array = np.ascontiguousarray(array).reshape(array.shape)
    if not is_narrow(array.dtype):
        return ort.OrtValue.ortvalue_from_numpy(array, memory)
    tensor = onnx.numpy_helper.from_array(array)  # packs several elements into a byte, where ONNX does
    value = ort.OrtValue.ortvalue_from_shape_and_type(array.shape, tensor.data_type, "cpu")
    ctypes.memmove(value.data_ptr(), tensor.raw_data, len(tensor.raw_data))
    return value


def to_array(value: Value) -> np.ndarray:
    """A copy of a value's contents."""
    if isinstance(value, np.ndarray):
        return value.copy()
    dtype = onnx.helper.tensor_dtype_to_np_dtype(value.element_type())
    if not is_narrow(dtype):
        array = value.numpy()
        return array.astype(object) if array.dtype.kind in "OUST" else array.copy()
    raw = ctypes.string_at(value.data_ptr(), value.tensor_size_in_bytes())
    tensor = onnx.TensorProto(data_type=value.element_type(), dims=value.shape(), raw_data=raw)
    return onnx.numpy_helper.to_array(tensor).copy()


def describe_value(value: Any) -> tuple[Sequence[int], np.dtype] | None:
    """The shape and element type of a value; see `deep_bench.framework.Describe`."""
    if isinstance(value, np.ndarray):
        return (value.shape, value.dtype) if value.dtype.kind in "OUST" else None
    if not isinstance(value, ort.OrtValue):
        return None
    code = value.element_type()
    return value.shape(), STRING if code == onnx.TensorProto.STRING else onnx.helper.tensor_dtype_to_np_dtype(code)


def to_feed(value: Value) -> Value:
    """What ``InferenceSession.run`` takes for a value: an array where NumPy has the element type."""
    if isinstance(value, np.ndarray) or is_narrow(onnx.helper.tensor_dtype_to_np_dtype(value.element_type())):
        return value
    return value.numpy()


def is_narrow(dtype: np.dtype) -> bool:
    """Whether NumPy has the element type from ``ml_dtypes`` only: bfloat16, the float8 and float4 families, int4, int2."""
    return hasattr(ml_dtypes, dtype.name)


def is_narrow_type(kind: str) -> bool:
    """Whether a type as a session writes it, such as ``tensor(bfloat16)``, has an element type that NumPy itself lacks."""
    return bool(re.search(r"\((bfloat16|float[48]\w*|u?int[24])\)", kind))


Call = Callable[[], dict[str, Value]]

_TRIALS = 7


class OnnxRuntimeExecutor(Executor[Value]):
    """A network in an ONNX Runtime session.

    Args:
        session: The session.
        network: The network it runs.
        adapter: The device of the arrays.
        mode: ``"inference"``, or ``"train"``: the session takes the parameters as inputs.
    """

    def __init__(self, session: ort.InferenceSession, network: Network, adapter: OnnxRuntimeAdapter, mode: Mode) -> None:
        self.session = session
        self.device = adapter
        self._adapter, self._network, self._mode = adapter, network, mode
        self.network = network
        self.inputs = network.inputs
        self.output_names = tuple(o.name for o in session.get_outputs())
        self.forms = Forms(native=tuple(str(n.name) for n in network.all_nodes()))
        self._memory = {o.name: _memory(o.type, adapter.memory) for o in session.get_outputs()}
        assignable = network.parameters if mode == "train" else ()
        self._assigned: dict[str, Value] = {n: adapter.from_numpy(network.initializers[n]) for n in assignable}
        self.parameters = SessionParameters(network, adapter, self._assigned)
        self._gradients = DerivedGradients(network, adapter, mode, describe_value)
        # Only tensors that are no strings can be bound; the rest goes through Session.run.
        self._bindable = all(o.type.startswith("tensor") and "string" not in o.type for o in session.get_outputs())

    def forward(self, inputs: Mapping[str, Value]) -> dict[str, Value]:
        """Run the network; strings are fed through ``InferenceSession.run``."""
        feeds = {**inputs, **self._assigned}
        if self._through_run(feeds):
            return self._run(feeds)
        binding = self._bound_inputs(feeds)
        for name in self.output_names:
            binding.bind_output(name, self._memory[name])
        self.session.run_with_iobinding(binding)
        return dict(zip(self.output_names, binding.get_outputs(), strict=True))

    def bind(self, inputs: Mapping[str, Value]) -> Call:
        """A call on these inputs, by the fastest of the routes that ONNX Runtime has.

        Outputs bound beforehand win for small networks and are no faster, or slower, above some megabytes; which it is
        here is measured.
        """
        feeds = {**inputs, **self._assigned}
        if self._through_run(feeds):
            return lambda: self._run(feeds)
        routes = [self._prebound(feeds), self._allocating(feeds)]
        return min(routes, key=_fastest_of_some)

    def gradients(
        self,
        inputs: Mapping[str, Value],
        loss: str,
        *,
        wrt: Sequence[str] | None = None,
        on_ready: Callable[[str, Value], None] | None = None,
    ) -> tuple[dict[str, Value], dict[str, Value]]:
        """Run a session of the network that `differentiate` derives from this one."""
        return self._gradients(self._assigned, inputs, loss, wrt, on_ready)

    def profile(
        self, inputs: Mapping[str, Value], *, repeat: int = 20, loss: str | None = None, wrt: Sequence[str] | None = None
    ) -> NodeProfile:
        """What ONNX Runtime's own profiler says of each node, in a second session with the same options.

        Nodes that it fused are one piece, named by the nodes that went into it.
        """
        from deep_bench.adapters.onnxruntime.profile import profile

        names = {str(node.name) for node in self._network.nodes}
        if loss is None:
            return profile(self, self._network, names, {**inputs, **self._assigned}, self.bind(inputs), repeat)
        _, derived = self._gradients.executor(loss, wrt)
        assert isinstance(derived, OnnxRuntimeExecutor)
        feeds = {**inputs, **derived._assigned, **self._assigned}
        return profile(derived, derived._network, names, feeds, lambda: self.gradients(inputs, loss, wrt=wrt), repeat)

    def observable(self, options: ort.SessionOptions) -> OnnxRuntimeExecutor:
        """This executor with a session of other options."""
        return OnnxRuntimeExecutor(
            self._adapter.session(self._network, self._mode, options), self._network, self._adapter, self._mode
        )

    def call(self, feeds: Mapping[str, Value]) -> Call:
        """A call on everything that the session takes, parameters included, that allocates its outputs."""
        return (lambda: self._run(feeds)) if self._through_run(feeds) else self._allocating(feeds)

    def _through_run(self, feeds: Mapping[str, Value]) -> bool:
        return not self._bindable or any(not isinstance(value, ort.OrtValue) for value in feeds.values())

    def _run(self, feeds: Mapping[str, Value]) -> dict[str, Value]:
        arrays = {n: map_arrays(to_feed, v) for n, v in feeds.items()}
        return dict(zip(self.output_names, self.session.run(None, arrays), strict=True))

    def _bound_inputs(self, feeds: Mapping[str, Value]) -> ort.IOBinding:
        binding = self.session.io_binding()
        for name, value in feeds.items():
            binding.bind_ortvalue_input(name, value)
        return binding

    def _prebound(self, feeds: Mapping[str, Value]) -> Call:
        """Outputs are written to the same buffers by every call."""
        outputs = self.forward({n: v for n, v in feeds.items() if n not in self._assigned})
        binding = self._bound_inputs(feeds)
        for name, value in outputs.items():
            binding.bind_ortvalue_output(name, value)
        run = self.session.run_with_iobinding

        def call() -> dict[str, Value]:
            run(binding)
            return outputs

        return call

    def _allocating(self, feeds: Mapping[str, Value]) -> Call:
        """Every call allocates its outputs."""
        binding = self._bound_inputs(feeds)
        for name in self.output_names:
            binding.bind_output(name, self._memory[name])
        run, names = self.session.run_with_iobinding, self.output_names

        def call() -> dict[str, Value]:
            run(binding)
            return dict(zip(names, binding.get_outputs(), strict=True))

        return call


def _memory(kind: str, memory: str) -> str:
    """Where an output of a type goes: to the CPU where only there its element type can be read."""
    return "cpu" if is_narrow_type(kind) else memory


def _fastest_of_some(call: Call) -> int:
    """The least time of a few calls in nanoseconds: enough to choose between two routes of one session."""
    call()
    times = []
    for _ in range(_TRIALS):
        start = perf_counter_ns()
        call()
        times.append(perf_counter_ns() - start)
    return min(times)


class SessionParameters(MutableMapping[str, Value]):
    """The parameters of a network.

    Args:
        network: The network.
        adapter: Makes values of those that are constants of a session.
        assigned: Those that are fed; they may be assigned.
    """

    def __init__(self, network: Network, adapter: OnnxRuntimeAdapter, assigned: dict[str, Value]) -> None:
        self._network, self._adapter, self._assigned = network, adapter, assigned

    def __getitem__(self, name: str) -> Value:
        if name in self._assigned:
            return self._assigned[name]
        return self._adapter.from_numpy(self._network.parameters[name])

    def __setitem__(self, name: str, value: Value) -> None:
        if name not in self._network.parameters:
            raise InvalidArgument(f"{name!r} is no parameter of {self._network.name}", ", ".join(self))
        if name not in self._assigned:
            raise Unsupported(
                f"parameter {name!r} is a constant of the session",
                advice="prepare the network with mode='train' to assign parameters",
            )
        self._assigned[name] = value

    def __delitem__(self, name: str) -> None:
        raise InvalidArgument(f"parameter {name!r} cannot be deleted", "an assignment")

    def __iter__(self) -> Iterator[str]:
        return iter(self._network.parameters)

    def __len__(self) -> int:
        return len(self._network.parameters)
