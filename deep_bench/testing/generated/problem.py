"""One operator on given inputs, as a case with the reference's outputs."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import helper

from deep_bench.graph import OPSET
from deep_bench.reference.operators import find
from deep_bench.tensor import STRING
from deep_bench.testing.case import Case


@dataclass(frozen=True)
class Problem:
    """One use of an operator.

    Args:
        operator: As ONNX spells it.
        inputs: Arrays, lists of arrays for sequences, ``None`` for omitted ones.
        attributes: By ONNX's names.
        outputs: How many results are asked for.
        domain: The operator's.
    """

    operator: str
    inputs: Sequence[Any]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    outputs: int = 1
    domain: str = ""

    def results(self) -> tuple[Any, ...]:
        """What the reference gives.

        Raises:
            LookupError: It has no such operator.
        """
        function = find(self.domain, self.operator)
        if function is None:
            raise LookupError(f"{self.operator} has no reference")
        settings = {n: v for n, v in self.attributes.items() if v is not None}
        if "n_outputs" in inspect.signature(function).parameters:
            settings["n_outputs"] = self.outputs
        with np.errstate(all="ignore"):
            found = function(*self.inputs, **settings)
        results = (found if isinstance(found, tuple) else (found,))[: self.outputs]
        return tuple(r if isinstance(r, list) or r is None else np.asarray(r) for r in results)

    def case(self, name: str) -> Case:
        """It as a case: a network of one node, its inputs, and the reference's outputs."""
        results = self.results()
        given = [f"x{i}" if value is not None else "" for i, value in enumerate(self.inputs)]
        made = [f"y{i}" for i in range(len(results))]
        settings = {n: _attribute(v) for n, v in self.attributes.items() if v is not None}
        node = helper.make_node(self.operator, given, made, name=self.operator, domain=self.domain, **settings)
        fed = [(n, v) for n, v in zip(given, self.inputs, strict=True) if n]
        graph = helper.make_graph(
            [node], name, [_info(n, v) for n, v in fed], [_info(*pair) for pair in zip(made, results, strict=True)]
        )
        opsets = [helper.make_opsetid("", OPSET)]
        if self.domain:
            opsets.append(helper.make_opsetid(self.domain, 1))
        model = helper.make_model(graph, opset_imports=opsets)
        model.ir_version = helper.find_min_ir_version_for(opsets[:1])
        return Case(name, "generated", model, tuple(v for _, v in fed), results, rtol=1e-5, atol=1e-7)


def _attribute(value: Any) -> Any:
    return onnx.numpy_helper.from_array(value) if isinstance(value, np.ndarray) else value


def _info(name: str, value: Any) -> onnx.ValueInfoProto:
    if isinstance(value, list):
        element = helper.make_tensor_type_proto(_code(value[0]) if value else onnx.TensorProto.FLOAT, None)
        return helper.make_value_info(name, helper.make_sequence_type_proto(element))
    return helper.make_tensor_value_info(name, _code(value), np.shape(value))


def _code(value: Any) -> int:
    dtype = np.asarray(value).dtype
    return int(onnx.TensorProto.STRING if dtype == STRING or dtype.kind in "UT" else helper.np_dtype_to_tensor_dtype(dtype))
