"""What an operator's schema says, for naming and checking the parts of a case."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
from onnx.defs import OpSchema

from deep_bench.errors import InvalidArgument, UnknownName
from deep_bench.facts import OperatorFacts, facts_of
from deep_bench.graph import OPSET
from deep_bench.graph.node import FUNCTION_DOMAIN, is_standard
from deep_bench.tensor import STRING

Option = OpSchema.FormalParameterOption
SEPARATOR = "::"


def split(operator: str | Callable[..., Any]) -> tuple[str, str]:
    """The domain and the name: ``""`` for ONNX's own operators, ``"numpy"`` for functions.

    Example:
        >>> split("Gemm"), split("com.microsoft::FusedGemm"), split(np.tanh)
        (('', 'Gemm'), ('com.microsoft', 'FusedGemm'), ('numpy', 'tanh'))
    """
    if not isinstance(operator, str):
        return FUNCTION_DOMAIN, getattr(operator, "__name__", type(operator).__name__)
    domain, separator, name = operator.rpartition(SEPARATOR)
    return ("" if domain == "ai.onnx" else domain, name) if separator else ("", operator)


def spelled(node: ir.Node) -> str:
    """A node's operator as cases and `split` spell it.

    Example:
        >>> spelled(ir.Node("com.microsoft", "FusedGemm", [])), spelled(ir.Node("ai.onnx", "Gemm", []))
        ('com.microsoft::FusedGemm', 'Gemm')
    """
    return node.op_type if is_standard(node) else f"{node.domain}{SEPARATOR}{node.op_type}"


@cache
def schema_of(domain: str, name: str) -> OpSchema | None:
    """The newest schema that this library knows; ``None`` for operators of domains outside the ONNX standard.

    Raises:
        UnknownName: The domain is ONNX's, and has no such operator.
    """
    if domain == "":
        try:
            return onnx.defs.get_schema(name, OPSET, "")
        except onnx.defs.SchemaError:
            pass
    elif onnx.defs.has(name, domain):
        return onnx.defs.get_schema(name, domain=domain)
    if domain == "" and name == "SimplifiedLayerNormalization":
        return None  # ONNX Runtime's own, in ONNX's domain
    names = [s.name for s in onnx.defs.get_all_schemas() if s.domain == domain]
    if domain == "" or names:
        raise UnknownName("operator", name, names)
    return None


def row_of(operator: str | Callable[..., Any]) -> OperatorFacts:
    """What is known of an operator, spelled as for `split`; of a function nothing is.

    Example:
        >>> row_of("Reshape").constants, row_of(np.tanh).constants
        (('shape',), ())
    """
    domain, name = split(operator)
    return facts_of(name, domain)


def version_of(domain: str, name: str) -> int:
    """The version of a domain's operator set that a node of it is written in."""
    schema = schema_of(domain, name) if domain != FUNCTION_DOMAIN else None
    return OPSET if domain == "" else schema.since_version if schema is not None else 1


def input_names(operator: str | Callable[..., Any], count: int) -> tuple[str, ...]:
    """Names for ``count`` inputs: the schema's or the function's own, the variadic ones numbered.

    Example:
        >>> input_names("Gemm", 2), input_names("Concat", 3), input_names("com.microsoft::BiasGelu", 2)
        (('A', 'B'), ('inputs_0', 'inputs_1', 'inputs_2'), ('x0', 'x1'))
    """
    domain, name = split(operator)
    if not isinstance(operator, str):
        try:
            parameters = inspect.signature(operator).parameters.values()
        except (ValueError, TypeError):  # built into NumPy without a signature
            return tuple(f"x{i}" for i in range(count))
        names = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
        variadic = next((p.name for p in parameters if p.kind is p.VAR_POSITIONAL), "x")
        return tuple(names[i] if i < len(names) else f"{variadic}_{i - len(names)}" for i in range(count))
    schema = schema_of(domain, name)
    if schema is None:
        return tuple(f"x{i}" for i in range(count))
    return _formal_names(schema.inputs, count)


def output_names(operator: str | Callable[..., Any], count: int, taken: Collection[str] = ()) -> tuple[str, ...]:
    """Names for ``count`` outputs, as `input_names`; those that an input has already get ``_out`` at their end."""
    domain, name = split(operator)
    schema = schema_of(domain, name) if isinstance(operator, str) else None
    if schema is not None:
        names = _formal_names(schema.outputs, count)
    else:
        names = ("y",) if count == 1 else tuple(f"y{i}" for i in range(count))
    return tuple(f"{n}_out" if n in taken else n for n in names)


def _formal_names(formals: Sequence[Any], count: int) -> tuple[str, ...]:
    plain = [f.name for f in formals if f.option != Option.Variadic]
    variadic = next((f.name for f in formals if f.option == Option.Variadic), "more")
    return tuple(plain[i] if i < len(plain) else f"{variadic}_{i - len(plain)}" for i in range(count))


def formal_at(schema: OpSchema, index: int) -> Any:
    """What the schema says of input ``index``; further ones are the last's if that is variadic."""
    return schema.inputs[min(index, len(schema.inputs) - 1)]


def signature(operator: str | Callable[..., Any]) -> str:
    """An operator's inputs and attributes in one line, for messages.

    Example:
        >>> signature("Gemm")
        'Gemm(A, B, [C]; alpha=1.0, beta=1.0, transA=0, transB=0)'
    """
    domain, name = split(operator)
    schema = schema_of(domain, name) if isinstance(operator, str) else None
    if schema is None:
        return name
    inputs = ", ".join(_formal_text(formal) for formal in schema.inputs)
    settings = ", ".join(_attribute_text(attribute) for _, attribute in sorted(schema.attributes.items()))
    return f"{name}({inputs}{'; ' if settings else ''}{settings})"


def _formal_text(formal: Any) -> str:
    if formal.option == Option.Variadic:
        return f"{formal.name}_0, {formal.name}_1, …"
    return f"[{formal.name}]" if formal.option == Option.Optional else str(formal.name)


def _attribute_text(attribute: Any) -> str:
    if not attribute.default_value.name:
        return f"{attribute.name}: {attribute.type.name.lower()}" if attribute.required else f"[{attribute.name}]"
    value = onnx.helper.get_attribute_value(attribute.default_value)
    return f"{attribute.name}={value.decode() if isinstance(value, bytes) else value}"


def check_count(operator: str, schema: OpSchema, given: Sequence[Any]) -> None:
    """Refuse a number of inputs that the operator does not take, and ``None`` for one that it needs.

    Raises:
        InvalidArgument: It says what the operator takes.
    """
    if not schema.min_input <= len(given) <= schema.max_input:
        raise InvalidArgument(f"{operator} of {len(given)} input{'s' * (len(given) != 1)}", signature(operator))
    for i, value in enumerate(given):
        formal = formal_at(schema, i)
        if value is None and formal.option != Option.Optional:
            raise InvalidArgument(f"{operator} without its input {formal.name}", signature(operator))


def check_attributes(operator: str, schema: OpSchema, given: Mapping[str, Any]) -> None:
    """Refuse attributes that the operator does not have, graphs, and the absence of those that it needs.

    Raises:
        InvalidArgument: It names the nearest attribute, or the one that is missing.
        UnknownName: A text that an attribute cannot be.
    """
    for name in given:
        if name not in schema.attributes:
            near = difflib.get_close_matches(name, schema.attributes, n=1)
            advice = f"did you mean {near[0]!r}?" if near else ""
            raise InvalidArgument(f"{operator} has no attribute {name!r}", signature(operator), advice)
        if schema.domain == "":
            check_choice(operator, name, given[name])
    for name, attribute in schema.attributes.items():
        if attribute.type in (OpSchema.AttrType.GRAPH, OpSchema.AttrType.GRAPHS) and (attribute.required or name in given):
            raise InvalidArgument(
                f"{operator} with the graph {name!r}",
                "an operator without graphs among its attributes",
                "put it into a network, and run that: db.run(network)",
            )
        if attribute.required and name not in given:
            raise InvalidArgument(f"{operator} without its attribute {name!r}", signature(operator))


def allowed_types(schema: OpSchema, index: int) -> tuple[np.dtype, ...]:
    """The element types that the schema allows for a tensor as input ``index``.

    Example:
        >>> allowed_types(schema_of("", "Gather"), 1)
        (dtype('int32'), dtype('int64'))
    """
    names = (
        t.removeprefix("tensor(").removesuffix(")") for t in sorted(formal_at(schema, index).types) if t[:7] == "tensor("
    )
    return tuple(map(_dtype, names))


@cache
def _dtype(name: str) -> np.dtype:
    number = onnx.TensorProto.DataType.Value(name.upper())
    return STRING if number == onnx.TensorProto.STRING else np.dtype(onnx.helper.tensor_dtype_to_np_dtype(number))


def check_choice(operator: str, attribute: str, value: Any) -> None:
    """Refuse a text that an attribute cannot be.

    Args:
        operator: An operator of ONNX's own domain.
        attribute: The attribute.
        value: What it is to be; what is no text is left to others.

    Raises:
        UnknownName: It names the texts that it can be.

    Example:
        >>> check_choice("Gelu", "approximate", "tanh")
    """
    choices = facts_of(operator).choices.get(attribute, "").split()
    text = value.decode(errors="replace") if isinstance(value, bytes) else value
    if choices and isinstance(text, str) and text not in choices:
        raise UnknownName(f"{attribute} of {operator}", text, choices)
