"""One operator on given inputs, as a case with the reference's outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import helper

from deep_bench.graph import OPSET, Network
from deep_bench.reference.network import ReferenceAdapter
from deep_bench.reference.operators import find, takes_count
from deep_bench.tensor import STRING
from deep_bench.testing.case import Case

Type = onnx.TypeProto


@dataclass(frozen=True)
class Problem:
    """One use of an operator.

    Args:
        operator: As ONNX spells it.
        inputs: Arrays, lists of arrays for sequences, ``None`` for omitted ones.
        attributes: By ONNX's names; subgraphs among them read ``outer`` as ``outer0``, ``outer1`` and so on.
        outputs: How many results are asked for.
        domain: The operator's.
        outer: Values that subgraphs read from around them.
        types: Which input has which type, where its value does not tell: an empty sequence, anything optional.
        output_types: The same of outputs.
    """

    operator: str
    inputs: Sequence[Any]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    outputs: int = 1
    domain: str = ""
    outer: Sequence[Any] = ()
    types: Mapping[int, Type] = field(default_factory=dict)
    output_types: Mapping[int, Type] = field(default_factory=dict)

    def results(self) -> tuple[Any, ...]:
        """What the reference gives; where there are subgraphs, as a network.

        Raises:
            LookupError: It has no such operator.
        """
        if any(isinstance(value, onnx.GraphProto) for value in self.attributes.values()):
            return self._run()
        function = find(self.domain, self.operator)
        if function is None:
            raise LookupError(f"{self.operator} has no reference")
        settings = {n: _as_stored(v) for n, v in self.attributes.items() if v is not None}
        if takes_count(function):
            settings["n_outputs"] = self.outputs
        with np.errstate(all="ignore"):
            output = function(*self.inputs, **settings)
        results = (output if isinstance(output, tuple) else (output,))[: self.outputs]
        return tuple(r if isinstance(r, list) or r is None else np.asarray(r) for r in results)

    def case(self, name: str) -> Case:
        """It as a case: a network of one node, its inputs, and the reference's outputs."""
        results = self.results()
        model = self._model(name, [self._made(i, value) for i, value in enumerate(results)])
        return Case(name, "generated", model, tuple(self._fed().values()), results, rtol=1e-5, atol=1e-7)

    def _made(self, i: int, value: Any) -> onnx.ValueInfoProto:
        return _info(f"y{i}", value, self.output_types.get(i))

    def _run(self) -> tuple[Any, ...]:
        unknown = [helper.make_tensor_value_info(f"y{i}", onnx.TensorProto.FLOAT, None) for i in range(self.outputs)]
        network = Network.from_proto(self._model(self.operator, unknown))
        return tuple(ReferenceAdapter().prepare(network)(self._fed()).values())

    def _fed(self) -> dict[str, Any]:
        """Name to value of the graph's inputs."""
        node_inputs = {f"x{i}": v for i, v in enumerate(self.inputs) if v is not None or i in self.types}
        return node_inputs | {f"outer{i}": v for i, v in enumerate(self.outer)}

    def _model(self, name: str, outputs: Sequence[onnx.ValueInfoProto]) -> onnx.ModelProto:
        fed = self._fed()
        input_names = [f"x{i}" if f"x{i}" in fed else "" for i in range(len(self.inputs))]
        settings = {n: _attribute(v) for n, v in self.attributes.items() if v is not None}
        node = helper.make_node(
            self.operator, input_names, [v.name for v in outputs], name=self.operator, domain=self.domain, **settings
        )
        types = {f"x{i}": kind for i, kind in self.types.items()}
        graph = helper.make_graph([node], name, [_info(n, v, types.get(n)) for n, v in fed.items()], outputs)
        opsets = [helper.make_opsetid("", OPSET)]
        if self.domain:
            opsets.append(helper.make_opsetid(self.domain, 1))
        model = helper.make_model(graph, opset_imports=opsets)
        model.ir_version = helper.find_min_ir_version_for(opsets[:1])
        return model


def _as_stored(value: Any) -> Any:
    """An attribute's value as a file keeps it: numbers in float32."""
    if isinstance(value, float):
        return float(np.float32(value))
    return tuple(map(_as_stored, value)) if isinstance(value, tuple | list) else value


def _attribute(value: Any) -> Any:
    return onnx.numpy_helper.from_array(value) if isinstance(value, np.ndarray) else value


def _info(name: str, value: Any, kind: Type | None = None) -> onnx.ValueInfoProto:
    return helper.make_value_info(name, kind or type_of(value))


def type_of(value: Any) -> Type:
    """The type of an array, or of a list of arrays; an empty list's elements are taken to be in float32.

    Example:
        >>> type_of([np.zeros(2, np.int64)]).sequence_type.elem_type.tensor_type.elem_type
        7
    """
    if isinstance(value, list):
        element = helper.make_tensor_type_proto(_code(value[0]) if value else onnx.TensorProto.FLOAT, None)
        return helper.make_sequence_type_proto(element)
    return helper.make_tensor_type_proto(_code(value), np.shape(value))


def _code(value: Any) -> int:
    return code_of(np.asarray(value).dtype)


def code_of(dtype: np.dtype) -> int:
    """ONNX's number of an element type.

    Example:
        >>> code_of(np.dtype("int64"))
        7
    """
    return int(onnx.TensorProto.STRING if dtype == STRING or dtype.kind in "UT" else helper.np_dtype_to_tensor_dtype(dtype))
