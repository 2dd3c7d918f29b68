"""The adapter for ONNX Runtime: options, sessions, arrays; and `wrap`, an ``InferenceSession`` that somebody else made."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort

from deep_bench.adapters.onnxruntime.cut import CutExecutor
from deep_bench.adapters.onnxruntime.executor import OnnxRuntimeExecutor, Value, is_narrow_type, to_array, to_feed, to_value
from deep_bench.adapters.onnxruntime.faults import FAULTS
from deep_bench.adapters.wrapping import each_once, one_of, own_or_given, thread_count
from deep_bench.errors import DeepBenchError, InvalidArgument, Unsupported, UnsupportedOperator
from deep_bench.framework import Adapter, Executor, Forms, Mode, map_arrays
from deep_bench.graph import Network
from deep_bench.tensor import STRING, Container, TensorSpec

_LEVELS = {
    "off": ort.GraphOptimizationLevel.ORT_DISABLE_ALL,
    "basic": ort.GraphOptimizationLevel.ORT_ENABLE_BASIC,
    "extended": ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED,
    "all": ort.GraphOptimizationLevel.ORT_ENABLE_ALL,
}
_Providers = list[str | tuple[str, dict[str, str]]]
_PROVIDERS: dict[str, _Providers] = {
    "cpu": ["CPUExecutionProvider"],
    "cuda": [("CUDAExecutionProvider", {"use_tf32": "0"}), "CPUExecutionProvider"],
    "tensorrt": ["TensorrtExecutionProvider", ("CUDAExecutionProvider", {"use_tf32": "0"}), "CPUExecutionProvider"],
}
_OLDEST_KERNELS = 7
"""The opset from which on ONNX Runtime has kernels for all operators; of most older versions it has none."""


_PROTOBUF_LIMIT = 2**31 - 2**20


class OnnxRuntimeAdapter(Adapter[Value]):
    """ONNX Runtime.

    It runs a network in the opset of its file. One of an opset below 7, for most of whose operators it has no kernels, is
    upgraded first, so that it runs the same operators in their newest version.

    Args:
        device: ``cpu``, ``cuda`` or ``tensorrt``.
        threads: Threads within an operator; by default ONNX Runtime's own choice.
        optimize: How far the graph is optimised: ``off``, ``basic``, ``extended`` or ``all``.

    Raises:
        InvalidArgument: An option out of range.
        Unsupported: A device whose execution provider this build of ONNX Runtime lacks.

    Example:
        >>> import deep_bench as db
        >>> executor = db.frameworks["onnxruntime"](threads=1).prepare(db.load("digits-cnn"))
        >>> executor({"image": np.zeros((1, 1, 8, 8), np.float32)})["logits"].shape
        (1, 10)
    """

    name = "onnxruntime"
    upgrades = False
    runs_kernels = True
    known_faults = FAULTS

    @property
    def known_failures(self) -> Mapping[str, str]:
        """The cases that are wrong or fail on the CPU; of other devices none are known."""
        return super().known_failures if self.device == "cpu" else {}

    def __init__(self, *, device: str = "cpu", threads: int | None = None, optimize: str = "all") -> None:
        self.device = one_of("device", device, _PROVIDERS)
        self.threads = thread_count(threads)
        self.optimize = one_of("optimize", optimize, _LEVELS)
        needed = _provider_names(_PROVIDERS[device])[0]
        if needed not in ort.get_available_providers():
            raise Unsupported(
                f"onnxruntime {ort.__version__} has no {needed} here",
                f"one of {', '.join(ort.get_available_providers())}",
                "pip install onnxruntime-gpu in place of onnxruntime, on a machine with an NVIDIA GPU",
            )
        # Arrays of TensorRT live on the CUDA device.
        self.memory = "cpu" if device == "cpu" else "cuda"

    def prepare(
        self, network: Network, *, mode: Mode = "inference", outputs: Sequence[str] | None = None
    ) -> OnnxRuntimeExecutor | CutExecutor:
        """Create a session for the network; several, with its kernels between them, where it has kernels."""
        if mode not in ("inference", "train"):
            raise InvalidArgument(f"mode {mode!r}", "'inference' or 'train'")
        chosen = _with_kernels(network if outputs is None else network.with_outputs(outputs))
        if chosen.kernels:
            return CutExecutor(chosen, self, mode)
        session = self.session(chosen, mode, ort.SessionOptions())
        _check_readable(session, chosen)
        return OnnxRuntimeExecutor(session, chosen, self, mode)

    def session(self, network: Network, mode: Mode, options: ort.SessionOptions) -> ort.InferenceSession:
        """A session for a network that ONNX Runtime has kernels for.

        Args:
            network: The network.
            mode: In ``"train"`` the parameters are inputs too.
            options: What else is asked of the session; this adapter's own options are set here.
        """
        proto = network.to_proto()
        # declare initializers as inputs too: only those can be fed
        names = tuple(network.parameters) if mode == "train" else ()
        declared = {v.name for v in proto.graph.input}
        for tensor in proto.graph.initializer:
            if tensor.name in names and tensor.name not in declared:
                proto.graph.input.append(onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims))
        _trim(proto.graph)
        try:
            return self._session(proto, options)
        except DeepBenchError:
            raise
        except Exception as error:  # ONNX Runtime raises a dozen types that share no base of their own
            raise _refusal(error, network) from error

    def _session(self, proto: onnx.ModelProto, options: ort.SessionOptions) -> ort.InferenceSession:
        options.graph_optimization_level = _LEVELS[str(self.optimize)]
        options.log_severity_level = 3
        options.inter_op_num_threads = 1
        if self.threads is not None:
            options.intra_op_num_threads = self.threads
        providers = _PROVIDERS[str(self.device)]
        if proto.ByteSize() < _PROTOBUF_LIMIT:
            session = ort.InferenceSession(proto.SerializeToString(), options, providers=providers)
        else:
            with tempfile.TemporaryDirectory() as folder:
                file = Path(folder) / "network.onnx"
                onnx.save(proto, file, save_as_external_data=True)
                session = ort.InferenceSession(file, options, providers=providers)
        if session.get_providers()[0] != _provider_names(providers)[0]:
            # ONNX Runtime goes on with the next provider when one fails to start, and only logs it.
            raise Unsupported(
                f"onnxruntime could not start {_provider_names(providers)[0]}; it offers {session.get_providers()[0]}",
                advice="see the log for the library that is missing",
            )
        return session

    def describe(self) -> Mapping[str, str]:
        """Version, execution provider, threads and graph optimisation."""
        return {
            "version": ort.__version__,
            "device": str(self.device),
            "threads": "default" if self.threads is None else str(self.threads),
            "precision": "as the network" if self.device == "cpu" else "as the network, TF32 off",
            "optimize": str(self.optimize),
            "opset": f"as the file; upgraded if below {_OLDEST_KERNELS}",
        }

    def from_numpy(self, array: np.ndarray) -> Value:
        """An ``OrtValue``; strings stay a NumPy array, since an ``OrtValue`` cannot be made from them."""
        return to_value(array, self.memory)

    def to_numpy(self, array: Value) -> np.ndarray:
        """A copy of the contents."""
        return to_array(array)

    def synchronize(self) -> None:
        """Nothing to wait for: a session's run returns when its outputs are there, on GPUs too."""


def _with_kernels(network: Network) -> Network:
    """The network as it is, or upgraded if it is older than ONNX Runtime's kernels."""
    return network.upgraded() if network.opset < _OLDEST_KERNELS else network


def _provider_names(providers: _Providers) -> list[str]:
    return [p if isinstance(p, str) else p[0] for p in providers]


def _trim(graph: onnx.GraphProto) -> None:
    """Take empty names off the end of the inputs, where they say nothing: some kernels read what is not there."""
    for node in graph.node:
        graphs = [a.g for a in node.attribute if a.type == onnx.AttributeProto.GRAPH]
        for inner in graphs:
            _trim(inner)
        while node.input and not node.input[-1] and not graphs:  # loops have a least number of inputs
            del node.input[-1]


def _check_readable(session: ort.InferenceSession, network: Network) -> None:
    """Refuse outputs that ONNX Runtime's Python cannot hand over.

    Element types that NumPy lacks are read from an ``OrtValue``; but beside strings, sequences and optionals, which cannot
    be bound, ``InferenceSession.run`` has no type for them.
    """
    values = [*session.get_inputs(), *session.get_outputs()]
    narrow = [o for o in session.get_outputs() if is_narrow_type(o.type)]
    if narrow and not all(v.type.startswith("tensor") and "string" not in v.type for v in values):
        raise Unsupported(
            f"output {narrow[0].name!r} of {network.name!r} is {narrow[0].type}, beside a string, a sequence or an optional",
            "only element types that NumPy has there",
            "cast it to float32 in the network",
        )


def _refusal(error: Exception, network: Network) -> Unsupported:
    """ONNX Runtime's complaint, with the node it is about where it names one."""
    text = re.sub(r"\s+", " ", str(error))
    match = re.search(r"[Nn]ode(?: with name| \()?:? ?'?\"?([^'\")]+)", text)
    by_name = {str(n.name): n for n in network.all_nodes()}
    if match and match[1] in by_name:
        node = by_name[match[1]]
        return UnsupportedOperator(str(node.name), node.op_type, network.opsets.get(node.domain), text)
    return Unsupported(f"onnxruntime {ort.__version__} refuses the network {network.name!r}: {text}")


_ELEMENTS = {"float": "FLOAT", "double": "DOUBLE"}
"""Where ONNX Runtime's name of an element type is not the standard's in small letters."""


def wrap(
    session: ort.InferenceSession,
    inputs: Sequence[str] | Mapping[str, Any] | None = None,
    outputs: Sequence[str] | None = None,
) -> WrappedSession:
    """Make a session an executor, so that it can be timed and compared like a prepared network.

    The session is used as it is: with its own options, threads and execution providers.

    Args:
        session: Any session.
        inputs: Names for what it takes, in order, or an example by such names; by default its own names.
        outputs: Names for what it returns, in order; by default its own.

    Raises:
        InvalidArgument: No session, names in another number than it has inputs or outputs, or one name for two.
        Unsupported: An input or output that is neither a tensor, a sequence nor an optional (a map, say).

    Example:
        >>> import deep_bench as db
        >>> session = ort.InferenceSession(db.load("digits-cnn").to_proto().SerializeToString())
        >>> wrap(session)({"image": np.zeros((2, 1, 8, 8), np.float32)})["logits"].shape
        (2, 10)
    """
    if not isinstance(session, ort.InferenceSession):
        raise InvalidArgument(f"a {type(session).__name__} to wrap", "an onnxruntime.InferenceSession")
    native_outputs = [o.name for o in session.get_outputs()]
    names = native_outputs if outputs is None else each_once(outputs, "output", "the session")
    if len(names) != len(native_outputs):
        raise InvalidArgument(f"{len(names)} names of outputs", f"one for each of {', '.join(native_outputs)}")
    native_inputs = [i.name for i in session.get_inputs()]
    renamed = dict(zip(own_or_given(native_inputs, inputs, "the session"), native_inputs, strict=True))
    return WrappedSession(session, renamed, dict(zip(native_outputs, names, strict=True)))


class WrappedSession(Executor[Value]):
    """A session as an executor; see `wrap`.

    Its parameters are constants of its graph, which a session does not hand out; and it computes gradients only where its
    graph does: `deep_bench.network.differentiate` makes such a graph.

    Args:
        session: The session.
        inputs: The name of each input, and what the session calls it.
        outputs: What the session calls each output, and the name to return it under.
    """

    def __init__(self, session: ort.InferenceSession, inputs: Mapping[str, str], outputs: Mapping[str, str]) -> None:
        self.session = session
        on_gpu = session.get_providers()[0] in ("CUDAExecutionProvider", "TensorrtExecutionProvider")
        self.device = adapter = OnnxRuntimeAdapter(device="cuda" if on_gpu else "cpu")
        pairs = zip(inputs, session.get_inputs(), strict=True)
        self.inputs = tuple(_spec(name, value.type, value.shape) for name, value in pairs)
        self._taken = dict(inputs)
        specs = {value.name: _spec(value.name, value.type, value.shape) for value in session.get_outputs()}
        self.output_names = tuple(outputs.values())
        self.parameters = {}
        self.forms = Forms()
        self._own = tuple(outputs)
        self._memory = {o.name: "cpu" if is_narrow_type(o.type) else adapter.memory for o in session.get_outputs()}
        self._bindable = all(spec.is_tensor and spec.dtype != STRING for spec in (*self.inputs, *specs.values()))

    def forward(self, inputs: Mapping[str, Value]) -> dict[str, Value]:
        """Run the session; its outputs are allocated anew."""
        return self.bind(inputs)()

    def bind(self, inputs: Mapping[str, Value]) -> Callable[[], dict[str, Value]]:
        """A call without arguments, through ``run_with_iobinding``, or ``run`` where there are strings or sequences."""
        session, names, native_outputs = self.session, self.output_names, list(self._own)
        if not self._bindable:
            feeds = {self._taken[name]: map_arrays(to_feed, value) for name, value in inputs.items()}
            return lambda: dict(zip(names, session.run(native_outputs, feeds), strict=True))
        binding = session.io_binding()
        for name, value in inputs.items():
            binding.bind_ortvalue_input(self._taken[name], value)
        for name in native_outputs:
            binding.bind_output(name, self._memory[name])

        def call() -> dict[str, Value]:
            session.run_with_iobinding(binding)
            return dict(zip(names, binding.get_outputs(), strict=True))

        return call


def _spec(name: str, kind: str, dims: Sequence[int | str | None]) -> TensorSpec:
    """What a session says of a value, such as ``tensor(float)`` or ``optional(seq(tensor(int64)))``."""
    match = re.fullmatch(r"((?:optional\(|seq\()*)tensor\((\w+)\)\)*", kind)
    if match is None:
        raise Unsupported(f"{name!r} is a {kind}", "tensors, sequences and optionals of them")
    words: dict[str, Container] = {"optional": "optional", "seq": "sequence"}
    containers = tuple(words[word] for word in match[1].split("(") if word)
    code = onnx.TensorProto.DataType.Value(_ELEMENTS.get(match[2], match[2].upper()))
    dtype = STRING if code == onnx.TensorProto.STRING else np.dtype(onnx.helper.tensor_dtype_to_np_dtype(code))
    shape = tuple(d if isinstance(d, int | str) else f"{name}.{axis}" for axis, d in enumerate(dims))
    return TensorSpec(name, () if containers else shape, dtype, containers)
