"""A case as a network of a single node."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from deep_bench.errors import DeepBenchError, InvalidArgument, InvalidNetwork
from deep_bench.graph import OPSET, Network
from deep_bench.graph.attached import attach_function
from deep_bench.operators.case_schema import output_names, schema_of, signature, split, version_of
from deep_bench.tensor import STRING, TensorSpec

if TYPE_CHECKING:
    from deep_bench.operators.case import Case


def build(case: Case) -> Network:
    """The network, its outputs declared as far as they are known before a run.

    Raises:
        InvalidArgument: The shapes, element types or attributes do not fit each other.
    """
    proto = _model(case, [_declared(spec) for spec in case.results])
    network = Network.from_proto(proto, name=case.name)
    if not isinstance(case.operator, str):
        attach_function(network.nodes[0], case.operator)
    return network


def infer_outputs(case: Case) -> tuple[TensorSpec, ...]:
    """Name, shape and element type of each output: by the operator's schema, or else by running it once.

    Raises:
        InvalidArgument: The shapes, element types or attributes do not fit each other.
    """
    if not isinstance(case.operator, str):
        return _observed_function(case, case.operator)
    inferred = _inferred(case) if schema_of(case.domain, case.op_type) is not None else None
    return inferred if inferred is not None else _observed(case)


def _inferred(case: Case) -> tuple[TensorSpec, ...] | None:
    names = _output_names(case)
    proto = _model(case, [onnx.ValueInfoProto(name=name) for name in names])
    _state_defaults(proto.graph.node[0])
    try:
        onnx.checker.check_node(proto.graph.node[0], _context(proto))
        inferred_model = onnx.shape_inference.infer_shapes(proto, check_type=True, strict_mode=True, data_prop=True)
    except (onnx.shape_inference.InferenceError, onnx.checker.ValidationError) as error:
        raise InvalidArgument(
            f"{describe(case)} do not fit each other: {_reason(error)}", signature(case.operator)
        ) from error
    results = [_spec(value) for value in inferred_model.graph.output]
    return tuple(r for r in results if r is not None) if None not in results else None


def _state_defaults(node: onnx.NodeProto) -> None:
    """State all defaults: onnx 1.23 loses those of MeanVarianceNormalization and STFT, and infers something else."""
    schema = schema_of(node.domain, node.op_type)
    if schema is None:
        return
    names = {attribute.name for attribute in node.attribute}
    node.attribute.extend(a.default_value for n, a in schema.attributes.items() if a.default_value.name and n not in names)


def _output_names(case: Case) -> tuple[str, ...]:
    return output_names(case.operator, case.outputs, [a.spec.name for a in case.arguments if a is not None])


def _context(proto: onnx.ModelProto) -> Any:
    context = onnx.checker.C.CheckerContext()
    context.ir_version = proto.ir_version
    context.opset_imports = {o.domain: o.version for o in proto.opset_import}
    return context


def _reason(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip() and not line.startswith("==>")]
    return lines[0].rpartition("): ")[2] if lines else type(error).__name__


def _spec(value: onnx.ValueInfoProto) -> TensorSpec | None:
    kind = value.type.tensor_type
    if not value.type.HasField("tensor_type") or not kind.elem_type or not kind.HasField("shape"):
        return None
    shape = tuple(
        d.dim_value if d.HasField("dim_value") else d.dim_param or f"{value.name}.{i}" for i, d in enumerate(kind.shape.dim)
    )
    string = kind.elem_type == onnx.TensorProto.STRING
    return TensorSpec(value.name, shape, STRING if string else np.dtype(helper.tensor_dtype_to_np_dtype(kind.elem_type)))


def _observed(case: Case) -> tuple[TensorSpec, ...]:
    """From a run of the reference, for operators that no schema describes."""
    from deep_bench import frameworks

    names = _output_names(case)
    unknown = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None) for name in names]
    try:
        network = Network.from_proto(_model(case, unknown))
        with np.errstate(all="ignore"):
            outputs = frameworks["reference"]().prepare(network)(case.arrays())
    except InvalidNetwork as error:
        raise InvalidArgument(f"{describe(case)} cannot be run: {error.came}", signature(case.operator)) from error
    except DeepBenchError:
        raise
    except Exception as error:
        raise _not_run(case, error) from error
    for name, value in outputs.items():
        if not isinstance(value, np.ndarray | np.generic):
            raise InvalidArgument(
                f"{case.op_type} gives {name} as a {type(value).__name__}", "an operator that gives tensors"
            )
    return tuple(TensorSpec(name, np.shape(outputs[name]), np.asarray(outputs[name]).dtype) for name in names)


def _observed_function(case: Case, function: Callable[..., Any]) -> tuple[TensorSpec, ...]:
    arrays = case.arrays()
    inputs = [None if a is None else a.value if a.value is not None else arrays[a.spec.name] for a in case.arguments]
    try:
        with np.errstate(all="ignore"):
            result = function(*inputs, **case.attributes)
    except DeepBenchError:
        raise
    except Exception as error:
        raise _not_run(case, error) from error
    results = result if isinstance(result, tuple) else (result,)
    if len(results) != case.outputs:
        raise InvalidArgument(
            f"{case.op_type} returned {len(results)} arrays, and its case says outputs={case.outputs}", "the same number"
        )
    names = _output_names(case)
    return tuple(TensorSpec(n, np.shape(r), np.asarray(r).dtype) for n, r in zip(names, results, strict=True))


def _not_run(case: Case, error: Exception) -> InvalidArgument:
    return InvalidArgument(f"{describe(case)} cannot be run: {type(error).__name__}: {error}", "inputs that it takes")


def describe(case: Case) -> str:
    """The operator with what it is given, for messages."""
    arguments = ", ".join("(omitted)" if a is None else str(a) for a in case.arguments)
    settings = ", ".join(f"{name}={value}" for name, value in case.attributes.items())
    return f"{case.op_type}({arguments}{'; ' if settings else ''}{settings})"


def _model(case: Case, outputs: Sequence[onnx.ValueInfoProto]) -> onnx.ModelProto:
    arguments = [a for a in case.arguments if a is not None]
    node = onnx.NodeProto(op_type=case.op_type, domain=case.domain, name=case.op_type)
    node.input.extend("" if a is None else a.spec.name for a in case.arguments)
    node.output.extend(value.name for value in outputs)
    node.attribute.extend(_attributes(case.operator, case.attributes))
    graph = helper.make_graph(
        [node],
        case.op_type,
        [_declared(a.spec) for a in arguments if a.value is None],
        outputs,
        [_tensor(a.value, a.spec.name) for a in arguments if a.value is not None],
    )
    opsets = [helper.make_opsetid("", OPSET)]
    if case.domain:
        opsets.append(helper.make_opsetid(case.domain, version_of(case.domain, case.op_type)))
    model = helper.make_model(graph, opset_imports=opsets, producer_name="deep_bench")
    model.ir_version = helper.find_min_ir_version_for(opsets[:1])
    return model


def _declared(spec: TensorSpec) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(spec.name, type_code(spec.dtype), spec.shape)


def type_code(dtype: np.dtype) -> int:
    """ONNX's number of an element type."""
    return int(onnx.TensorProto.STRING if dtype == STRING else helper.np_dtype_to_tensor_dtype(dtype))


def _tensor(array: np.ndarray, name: str = "") -> onnx.TensorProto:
    return numpy_helper.from_array(array, name)


def _attributes(operator: str | Callable[..., Any], attributes: Mapping[str, Any]) -> list[onnx.AttributeProto]:
    domain, name = split(operator)
    schema = schema_of(domain, name) if isinstance(operator, str) else None
    protos = []
    for key, value in attributes.items():
        if value is None:
            continue
        kind = schema.attributes[key].type if schema is not None and key in schema.attributes else None
        protos.append(_attribute(name, key, value, kind))
    return protos


def _attribute(operator: str, name: str, value: Any, kind: Any) -> onnx.AttributeProto:
    stored = _tensor(value) if isinstance(value, np.ndarray) else _scalars(value)
    code = None if kind is None else onnx.AttributeProto.AttributeType.Value(kind.name)
    if code == onnx.AttributeProto.FLOAT and isinstance(stored, int):
        stored = float(stored)
    if code == onnx.AttributeProto.FLOATS and isinstance(stored, tuple):
        stored = tuple(map(float, stored))
    try:
        return helper.make_attribute(name, stored, attr_type=code)
    except (TypeError, ValueError) as error:
        expected = "a number, a string, a list of one kind of these, or an array" if kind is None else kind.name.lower()
        raise InvalidArgument(f"{operator} with {name}={value!r}", f"{name} of type {expected}") from error


def _scalars(value: Any) -> Any:
    """NumPy's scalars and flags as plain numbers."""
    if isinstance(value, tuple):
        return tuple(map(_scalars, value))
    if isinstance(value, np.generic):
        return value.item()
    return int(value) if isinstance(value, bool) else value
