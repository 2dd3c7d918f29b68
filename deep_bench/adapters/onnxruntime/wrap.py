"""``wrap``: an ``InferenceSession`` that somebody else made, as an executor."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort

from deep_bench.adapters.onnxruntime.adapter import OnnxRuntimeAdapter
from deep_bench.adapters.onnxruntime.arrays import Value, is_narrow_type, to_feed
from deep_bench.adapters.wrapping import each_once, own_or_given
from deep_bench.errors import InvalidArgument, Unsupported
from deep_bench.framework import Executor, Forms, map_arrays
from deep_bench.tensor import STRING, Container, TensorSpec

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
