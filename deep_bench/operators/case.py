"""The case: one problem for a kernel to solve, made from shapes, arrays and attributes; and as a network of a single node.

What it is made from is checked against the operator's schema. Tables call it by its sizes, in the order in which the
operator's literature gives them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import prod
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper
from onnx.defs import OpSchema

from deep_bench.errors import DeepBenchError, InvalidArgument, InvalidNetwork
from deep_bench.graph import OPSET, Network
from deep_bench.graph.node import attach_function
from deep_bench.operators.argument import Argument, Attributes, Draw, content, element_type
from deep_bench.operators.case_schema import (
    allowed_types,
    check_attributes,
    check_count,
    formal_at,
    input_names,
    output_names,
    row_of,
    schema_of,
    signature,
    split,
    version_of,
)
from deep_bench.operators.draws import draw, draw_of, limit_of
from deep_bench.tensor import STRING, TensorSpec, is_float, is_inexact, text


@dataclass(frozen=True, eq=False)
class Case:
    """One use of an operator: what it is given, but for the numbers, which a seed decides.

    Most are made by `Case.of`. Cases are values: they cannot be changed, compare by content, and survive pickling (with a
    function of the user's as far as that does).

    Args:
        operator: An ONNX operator (``"Gemm"``, ``"com.microsoft::BiasGelu"``), or a NumPy function that a person can read.
        arguments: Its inputs in order, ``None`` for omitted ones.
        attributes: By the operator's names; what is left out has its default.
        label: How tables call it, such as ``"5124x700x2048"``.
        tags: Words to choose cases by.
        count: How often it occurs in the network that it is from.
        source: Where its sizes are from.
        outputs: How many results are asked for.

    Attributes:
        arguments: As given, each under the name that the operator's schema or the function has for it.

    Example:
        >>> case = Case.of("Gemm", (2, 3), (3, 4), transA=0)
        >>> case.label, [str(a) for a in case.arguments], [str(r) for r in case.results]
        ('2x4x3', ['A: float32[2, 3]', 'B: float32[3, 4]'], ['Y: float32[2, 4]'])
        >>> {name: array.shape for name, array in case.arrays(seed=7).items()}
        {'A': (2, 3), 'B': (3, 4)}
    """

    operator: str | Callable[..., Any]
    arguments: tuple[Argument | None, ...]
    attributes: Mapping[str, Any] = field(default_factory=Attributes)
    label: str = ""
    tags: frozenset[str] = frozenset()
    count: int = 1
    source: str = ""
    outputs: int = 1

    def __post_init__(self) -> None:
        if self.count < 1 or self.outputs < 1:
            raise InvalidArgument(f"a case with count={self.count} and outputs={self.outputs}", "numbers of at least 1")
        names = input_names(self.operator, len(self.arguments))
        named = (None if a is None else a.named(n) for a, n in zip(self.arguments, names, strict=True))
        object.__setattr__(self, "arguments", tuple(named))
        object.__setattr__(self, "attributes", Attributes(self.attributes))
        object.__setattr__(self, "tags", frozenset(self.tags))

    @classmethod
    def of(
        cls,
        operator: str | Callable[..., Any],
        *inputs: Any,
        dtype: str | np.dtype | type | None = None,
        label: str | None = None,
        tags: Iterable[str] = (),
        count: int = 1,
        source: str = "",
        outputs: int | None = None,
        draws: Mapping[str, Draw] | None = None,
        settings: Mapping[str, Any] | None = None,
        **attributes: Any,
    ) -> Case:
        """A case from shapes.

        Args:
            operator: As for `Case`.
            *inputs: In order: a shape, which is drawn; an array, a number or a list, which is constant; text such as
                ``"int32[2, 3]"`` for a shape with an element type; an `Argument`; ``None`` for an omitted input.
            dtype: Of all inputs whose schema allows it, float32 by default. Others (indices, masks) have what their schema
                prefers.
            label: How tables call it; made from the sizes by default.
            tags, count, source: As for `Case`.
            outputs: How many results are asked for; by default those that the operator must give.
            draws: Input name to how it is drawn, where that is not what the operator's own table says.
            settings: Attributes whose names are taken by one of these arguments (``dtype``).
            **attributes: The operator's, by ONNX's names; or keyword arguments of the function.

        Raises:
            UnknownName: ONNX has no such operator.
            InvalidArgument: The inputs or attributes are not such as the operator's schema has them, or do not fit each
                other.

        Example:
            >>> Case.of("Gelu", (2, 3)).label
            '2x3'
            >>> Case.of("Reshape", (2, 3), [3, 2]).results[0].shape
            (3, 2)
            >>> str(Case.of("Gather", (100, 8), (4,), dtype="bfloat16").arguments[1])
            'indices: int64[4]'
        """
        node_attributes, draws = {**(settings or {}), **attributes}, draws or {}
        read = [_read(value) for value in inputs]
        domain, name = split(operator)
        schema = schema_of(domain, name) if isinstance(operator, str) else None
        if schema is not None:
            check_count(name, schema, read)
            check_attributes(name, schema, node_attributes)
        types = _element_types(name, schema, read, None if dtype is None else element_type(dtype))
        arguments = tuple(None if v is None else _argument(v, t) for v, t in zip(read, types, strict=True))
        names = input_names(operator, len(arguments))
        for drawn_name in draws:
            if drawn_name not in names:
                inputs_of = f"one of its inputs: {', '.join(names)}"
                raise InvalidArgument(f"a draw for {drawn_name!r}", inputs_of, signature(operator))
        if outputs is None:  # as few as the operator can give
            outputs = 1 if schema is None else max(1, schema.min_output)
            if name == "Split":
                sizes = read[1] if len(read) > 1 else None
                listed = len(sizes) if isinstance(sizes, np.ndarray | list) else None
                outputs = int(node_attributes.get("num_outputs", 1)) if listed is None else listed
        case = cls(operator, arguments, node_attributes, outputs=outputs)
        for argument in case.arguments:
            if argument is not None and argument.value is None and argument.spec.name in row_of(operator).constants:
                raise InvalidArgument(
                    f"{case.op_type} with {argument} to be drawn",
                    f"the numbers that {argument.spec.name} holds, since they decide what {case.op_type} does",
                    f"give a list or an array; a shape is a tuple, a constant of shape {list(argument.shape)} a list",
                )
        drawn = tuple(_with_draw(case, i, supplied, draws) for i, supplied in enumerate(read))
        case = cls(operator, drawn, node_attributes, outputs=outputs)
        if schema is not None:
            case.results  # noqa: B018 (what does not fit is refused here, not at the first run)
        shown = label_of(case) if label is None else label
        return cls(operator, drawn, node_attributes, shown, frozenset(tags), count, source, outputs)

    @property
    def domain(self) -> str:
        """The operator's domain: ``""`` for ONNX's own, ``"numpy"`` for a function."""
        return split(self.operator)[0]

    @property
    def op_type(self) -> str:
        """The operator's or the function's name, without its domain."""
        return split(self.operator)[1]

    @property
    def name(self) -> str:
        """The operator and the label, for tables that hold more than one operator."""
        return self.label if self.label.startswith(self.op_type) else f"{self.op_type} {self.label}".strip()

    @property
    def drawn(self) -> tuple[TensorSpec, ...]:
        """The inputs that are not constant, in order: the inputs of its network."""
        return tuple(a.spec for a in self.arguments if a is not None and a.value is None)

    @cached_property
    def results(self) -> tuple[TensorSpec, ...]:
        """What it gives. A dimension that only a run shows has a name; an operator without a schema is run once.

        Raises:
            InvalidArgument: The shapes, element types or attributes do not fit each other.
        """
        if not isinstance(self.operator, str):
            return _observed_function(self, self.operator)
        inferred = _inferred(self) if schema_of(self.domain, self.op_type) is not None else None
        return inferred if inferred is not None else _observed(self)

    @cached_property
    def problem(self) -> tuple[Any, ...]:
        """What there is to compute, hashable: the same for cases that differ in label, tags, count and source only."""
        contents = tuple(None if a is None else a.content for a in self.arguments)
        return (self.operator, contents, content(self.attributes), self.outputs)

    def network(self) -> Network:
        """It as a network of one node, which is named after the operator, in opset `deep_bench.graph.OPSET`.

        Inputs and outputs have the names of the operator's schema, variadic ones numbered; constants are initializers. A
        function becomes a node of the domain ``numpy``.

        Raises:
            InvalidArgument: The shapes, element types or attributes do not fit each other.

        Example:
            >>> network = Case.of("Concat", (2, 3), (2, 4), axis=1).network()
            >>> [str(s) for s in network.inputs], [str(s) for s in network.outputs]
            (['inputs_0: float32[2, 3]', 'inputs_1: float32[2, 4]'], ['concat_result: float32[2, 7]'])
        """
        proto = _model(self, [_declared(spec) for spec in self.results])
        network = Network.from_proto(proto, name=self.name)
        if not isinstance(self.operator, str):
            attach_function(network.nodes[0], self.operator)
        return network

    def arrays(self, seed: int = 0, distribution: str = "normal") -> dict[str, np.ndarray]:
        """Contents for the inputs that are not constant.

        Each argument has a generator of its own, made from the seed and its place: the same seed gives the same arrays.

        Args:
            seed: Names the contents.
            distribution: One of `deep_bench.operators.draws.DISTRIBUTIONS`.

        Raises:
            UnknownName: No such distribution, or no such draw.
            InvalidArgument: A function that draws gives another shape or element type than the argument has.
        """
        contents = {}
        for i, argument in enumerate(self.arguments):
            if argument is not None and argument.value is None:
                rng = np.random.default_rng([seed, i])
                limit = limit_of(self, i) if distribution in ("huge", "wide", "special") else None
                contents[argument.spec.name] = draw(argument, rng, distribution, limit)
        return contents

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Case) and self._content == other._content

    def __hash__(self) -> int:
        return hash(self._content)

    @property
    def _content(self) -> tuple[Any, ...]:
        return (self.problem, self.label, self.tags, self.count, self.source)

    def __str__(self) -> str:
        return self.name


InputForm = np.ndarray | tuple[int, ...] | list[Any] | Argument | TensorSpec | int | float | bool | None

_WRITTEN = re.compile(r"(\w+)\s*\[([\d\s,]*)\]")
_PREFERRED = tuple(map(np.dtype, ("float32", "int64", "uint8", "int8", "int32", "bool")))


def _with_draw(case: Case, index: int, supplied: InputForm, draws: Mapping[str, Draw]) -> Argument | None:
    """The argument, with the draw that the caller names for it, or else its operator's own."""
    argument = case.arguments[index]
    if argument is None or argument.value is not None:
        return argument
    if argument.spec.name in draws:
        return Argument(argument.spec, draw=draws[argument.spec.name])
    return argument if isinstance(supplied, Argument) else Argument(argument.spec, draw=draw_of(case, index))


def _read(value: Any) -> InputForm:
    """What a caller wrote for an input."""
    if value is None or isinstance(value, Argument | TensorSpec | np.ndarray | list | bool | int | float):
        return value
    if isinstance(value, np.generic):
        return np.asarray(value)
    if isinstance(value, str):
        match = _WRITTEN.fullmatch(value.strip())
        if match is None:
            raise InvalidArgument(f"an input {value!r}", "an element type and a shape, such as 'float16[2, 3]'")
        sizes = tuple(int(d) for d in match[2].split(",") if d.strip())
        return TensorSpec("", sizes, element_type(match[1]))
    if isinstance(value, tuple) and all(isinstance(d, int | np.integer) and d >= 0 for d in value):
        return tuple(map(int, value))
    raise InvalidArgument(
        f"an input {value!r}",
        "a shape such as (2, 3) with sizes of at least 0, an array, a number, 'int64[2, 3]', an Argument, or None",
    )


def _dtype_of_input(value: InputForm) -> np.dtype | None:
    """The element type that an input states by itself: a list of numbers, or one alone, states none."""
    return value.dtype if isinstance(value, np.ndarray | Argument | TensorSpec) else None


def _element_types(
    name: str, schema: OpSchema | None, supplied: Sequence[InputForm], target_dtype: np.dtype | None
) -> tuple[np.dtype | None, ...]:
    """The element type of each input: stated by itself, or that of others of the same variable, or the preferred one."""
    if schema is None:
        return tuple(_dtype_of_input(v) or _plain(v) or target_dtype or np.dtype("float32") for v in supplied)
    allowed = [allowed_types(schema, i) for i in range(len(supplied))]
    if target_dtype is not None and not any(target_dtype in types for types in allowed):
        listed = "; ".join(f"{formal_at(schema, i).name}: {', '.join(map(str, t))}" for i, t in enumerate(allowed))
        raise InvalidArgument(f"{name} of {target_dtype}", listed or "no inputs")
    bound: dict[str, tuple[np.dtype, str]] = {}
    for i, value in enumerate(supplied):
        value_dtype, formal = _dtype_of_input(value), formal_at(schema, i)
        if value_dtype is None or not formal.is_homogeneous:
            continue
        if value_dtype not in allowed[i]:
            raise InvalidArgument(f"{name} with {formal.name} of {value_dtype}", f"one of {', '.join(map(str, allowed[i]))}")
        first, where = bound.setdefault(formal.type_str, (value_dtype, formal.name))
        if first != value_dtype:
            raise InvalidArgument(
                f"{name} with {where} of {first} and {formal.name} of {value_dtype}", "one element type for both"
            )
    return tuple(
        _dtype_of_input(v) or _chosen(formal_at(schema, i), allowed[i], bound, target_dtype) if v is not None else None
        for i, v in enumerate(supplied)
    )


def _plain(value: InputForm) -> np.dtype | None:
    """What whole numbers, truth values and strings are where no schema says it; real ones are like the drawn inputs."""
    if not isinstance(value, list | int | float):
        return None
    array = text(np.asarray(value))
    return None if array.dtype.kind == "f" else array.dtype


def _chosen(
    formal: Any, allowed: Sequence[np.dtype], bound: Mapping[str, tuple[np.dtype, str]], target_dtype: np.dtype | None
) -> np.dtype:
    if formal.type_str in bound:
        return bound[formal.type_str][0]
    preferred = (*(() if target_dtype is None else (target_dtype,)), *_PREFERRED)
    return next((t for t in preferred if t in allowed), allowed[0])


def _argument(value: InputForm, dtype: np.dtype | None) -> Argument:
    if isinstance(value, Argument):
        return value
    if isinstance(value, TensorSpec):
        return Argument(value)
    if isinstance(value, tuple):
        return Argument(TensorSpec("", value, dtype or np.dtype("float32")))
    array = text(np.asarray(value))
    if not isinstance(value, np.ndarray) and dtype is not None and array.dtype != dtype:
        if (array.dtype.kind == "f" and not is_inexact(dtype)) or array.dtype == STRING:
            raise InvalidArgument(f"the constant {value!r}", f"numbers of {dtype}")
        array = array.astype(dtype)
    return Argument.constant(array)


def _inferred(case: Case) -> tuple[TensorSpec, ...] | None:
    proto = _model(case, [onnx.ValueInfoProto(name=name) for name in _output_names(case)])
    node, schema = proto.graph.node[0], schema_of(case.domain, case.op_type)
    if schema is not None:  # onnx 1.23 loses the defaults of MeanVarianceNormalization and STFT, and infers something else
        present = {attribute.name for attribute in node.attribute}
        defaults = {n: a.default_value for n, a in schema.attributes.items()}
        node.attribute.extend(value for n, value in defaults.items() if value.name and n not in present)
    try:
        onnx.checker.check_node(node, _context(proto))
        inferred_model = onnx.shape_inference.infer_shapes(proto, check_type=True, strict_mode=True, data_prop=True)
    except (onnx.shape_inference.InferenceError, onnx.checker.ValidationError) as error:
        raise InvalidArgument(
            f"{describe(case)} do not fit each other: {_reason(error)}", signature(case.operator)
        ) from error
    results = [_spec(value) for value in inferred_model.graph.output]
    return tuple(r for r in results if r is not None) if None not in results else None


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


def with_dtype(case: Case, dtype: str | np.dtype | type) -> Case:
    """A case whose floating-point inputs are of another type; those that the operator wants in a fixed one stay.

    Args:
        case: The case.
        dtype: The type.

    Raises:
        InvalidArgument: None of its inputs may be of that type.

    Example:
        >>> [str(a) for a in with_dtype(Case.of("Gather", (9, 4), (2,)), "float16").arguments]
        ['data: float16[9, 4]', 'indices: int64[2]']
    """
    target_dtype = element_type(dtype)
    schema = schema_of(case.domain, case.op_type) if isinstance(case.operator, str) else None
    arguments: list[Argument | None] = []
    for i, argument in enumerate(case.arguments):
        free = schema is None or (
            target_dtype in allowed_types(schema, i) and not formal_at(schema, i).type_str.startswith("tensor(")
        )
        if argument is None or not is_float(argument.dtype) or not free:
            arguments.append(argument)
            continue
        value = None if argument.value is None else argument.value.astype(target_dtype)
        arguments.append(Argument(replace(argument.spec, dtype=target_dtype), value, argument.draw))
    if not any(a is not None and a.dtype == target_dtype for a in arguments):
        raise InvalidArgument(f"{case.name} in {target_dtype}", f"a type that {signature(case.operator)} takes")
    return replace(case, arguments=tuple(arguments))


def label_of(case: Case) -> str:
    """A label made from the sizes.

    ``MxNxK`` for matrix products, with ``T`` for each side that is transposed; the shape for a single input; else the shapes
    of all drawn inputs with more than one element.

    Example:
        >>> from deep_bench.operators.case import Case
        >>> Case.of("Gemm", (3, 2), (3, 4), transA=1).label, Case.of("Softmax", (8, 10)).label
        ('2x4x3 TN', '8x10')
        >>> Case.of("Conv", (1, 3, 8, 8), (4, 3, 3, 3)).label
        '1x3x8x8 4x3x3x3'
    """
    shapes = [a.shape for a in case.arguments if a is not None]
    if case.operator == "Gemm":
        return _gemm(case, shapes)
    if case.operator in ("MatMul", "MatMulInteger") and all(len(shape) > 1 for shape in shapes[:2]):
        a, b = shapes[:2]
        batch = max(a[:-2], b[:-2], key=prod)
        return (f"{label_sizes(batch)} " if batch else "") + f"{a[-2]}x{b[-1]}x{a[-1]}"
    drawn = [a.shape for a in case.arguments if a is not None and a.value is None] or shapes
    large = [shape for shape in drawn if prod(shape) != 1] or drawn[:1]
    return " ".join(map(label_sizes, large))


def label_sizes(shape: Sequence[int]) -> str:
    """A shape as ``"2x3"``; ``"scalar"`` without dimensions.

    Example:
        >>> label_sizes((2, 3)), label_sizes(())
        ('2x3', 'scalar')
    """
    return "x".join(map(str, shape)) or "scalar"


def _gemm(case: Case, shapes: Sequence[tuple[int, ...]]) -> str:
    sides = [bool(case.attributes.get(name, 0)) for name in ("transA", "transB")]
    a, b = (shape[::-1] if turned else shape for shape, turned in zip(shapes[:2], sides, strict=True))
    turned = " " + "".join("T" if side else "N" for side in sides) if any(sides) else ""
    return f"{a[0]}x{b[1]}x{a[1]}{turned}"
