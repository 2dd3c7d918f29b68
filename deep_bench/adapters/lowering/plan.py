"""A lowered network: what adapters build native code from; and what is known of a value when a network is prepared.

Builders ask a `Site` for types, ranks, shapes and settings, and are refused where these are not known yet. A draft is a
network that has been analysed, but has no native code yet.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import onnx
import onnx_ir as ir

from deep_bench.framework import Forms
from deep_bench.tensor import STRING, TensorSpec, is_float, is_integer, text


class NotNative(Exception):
    """Raised by an adapter's operator function: the framework has no code for this use of the operator."""


@dataclass(frozen=True, slots=True)
class Slot:
    """A value as one node sees it, with all that is known of it when the network is prepared.

    Args:
        name: The value's name; unique in the whole network, subgraphs included.
        dtype: Its element type, or ``None`` where that is not known (sequences, optionals).
        shape: Its dimensions, ``None`` for each that is open; or ``None`` if not even the rank is known.
        constant: Its contents, where they are known and never change.
    """

    name: str
    dtype: np.dtype | None = None
    shape: tuple[int | None, ...] | None = None
    constant: np.ndarray | None = None

    @property
    def rank(self) -> int | None:
        """The number of dimensions, if known."""
        return None if self.shape is None else len(self.shape)


@dataclass(frozen=True, slots=True)
class Site:
    """One node of a lowered graph, as an adapter's operator function reads it.

    Args:
        name: The node's name.
        operator: Its operator, as ``Conv`` or ``com.microsoft:FusedConv``.
        opset: The version of its operator's domain.
        attributes: The stated attributes as plain Python values; each graph among them is a `Plan`.
        inputs: One entry per input in ONNX's order; ``None`` for an omitted optional one.
        outputs: One entry per output; ``None`` for one that nobody asked for.
        origin: Name of the file's node that this one helps to compute; empty for a copy that no node asked for.
    """

    name: str
    operator: str
    opset: int
    attributes: Mapping[str, Any]
    inputs: tuple[Slot | None, ...]
    outputs: tuple[Slot | None, ...]
    origin: str = ""

    def attribute(self, name: str, default: Any = None) -> Any:
        """An attribute's value, or ``default`` where the node does not state it."""
        return self.attributes.get(name, default)

    def input(self, index: int) -> Slot | None:
        """An input, or ``None`` where it is omitted, be it with an empty name or at the end of the list."""
        return self.inputs[index] if index < len(self.inputs) else None

    def constant(self, index: int) -> np.ndarray | None:
        """The contents of an input that are known when the network is prepared; ``None`` if unknown or omitted."""
        slot = self.input(index)
        return None if slot is None else slot.constant

    def has(self, index: int) -> bool:
        """Whether an input is given."""
        return self.input(index) is not None

    def wants(self, index: int) -> bool:
        """Whether an output is used."""
        return index < len(self.outputs) and self.outputs[index] is not None


@dataclass(frozen=True, slots=True)
class Step:
    """A node with the native code that an adapter built for it.

    Args:
        site: What the node is.
        function: Takes one native array per input (``None`` for an omitted one); returns one native array, or a tuple of
            them where the site has several outputs. For sites with subgraphs, the arrays that the subgraphs capture follow
            the inputs, in the order of ``captures``.
        captures: Names of the outer values that the site's subgraphs use.
    """

    site: Site
    function: Callable[..., Any]
    captures: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Plan:
    """A graph whose every node has native code.

    Args:
        inputs: The graph's inputs.
        steps: The nodes in the order to run them. Nodes whose results are known constants, or used by nobody, are gone.
        outputs: Names of the values to return: results of steps, inputs, constants or captured values.
        constants: Name to contents of every constant that a step or an output uses in this graph (initializers, folded
            values); those of the outer graph are in the outer plan.
        captures: Names of the values that a subgraph takes from the graphs around it, constants of outer plans included.
        parameters: Names among ``constants`` that are the network's parameters.
    """

    inputs: tuple[Slot, ...]
    steps: tuple[Step, ...]
    outputs: tuple[str, ...]
    constants: Mapping[str, np.ndarray]
    captures: tuple[str, ...] = ()
    parameters: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Lowered:
    """What `lower` returns.

    Args:
        plan: The plan of the outermost graph; its outputs have the names that were asked for, in that order.
        forms: How each node of the network is run.
        absent: Names of the nodes that need not run: known results, other names of a value, branches that are never taken,
            results that nobody uses.
    """

    plan: Plan
    forms: Forms = field(default_factory=Forms)
    absent: tuple[str, ...] = ()


Shape: TypeAlias = tuple[int | None, ...]

DATA_LIMIT = 256
"""Constants with more elements never decide a shape, and are not given to shape inference."""


@dataclass(frozen=True, slots=True)
class Partial:
    """An integer tensor of which some elements are known: the shape of a value with open dimensions, for one.

    Args:
        values: The elements; those that are not known hold an arbitrary number.
        known: Which elements are known.
    """

    values: np.ndarray
    known: np.ndarray

    def entries(self) -> list[int | None]:
        """The elements in order, ``None`` for each unknown one."""
        return [int(v) if k else None for v, k in zip(self.values.ravel(), self.known.ravel(), strict=True)]


@dataclass(slots=True)
class Fact:
    """A value: its plan-wide name, and what is known of it.

    Args:
        name: Unique in the whole network.
        scope: The number of the graph that defines it.
        dtype: As in `Slot`.
        shape: As in `Slot`.
        constant: As in `Slot`; for a parameter that training changes it is ``None``.
        partial: What is known of its elements, if not all are.
        kind: The type of a value that is no tensor.
        stored: The contents of an initializer or a folded value, parameters included.
    """

    name: str
    scope: int
    dtype: np.dtype | None = None
    shape: Shape | None = None
    constant: np.ndarray | None = None
    partial: Partial | None = None
    kind: onnx.TypeProto | None = None
    stored: np.ndarray | None = None
    _proto: onnx.TypeProto | None = field(default=None, repr=False)

    @property
    def slot(self) -> Slot:
        """The value as an adapter sees it."""
        return Slot(self.name, self.dtype, self.shape, self.constant)

    @property
    def proto(self) -> onnx.TypeProto:
        """Its type as ONNX writes it; empty if nothing is known."""
        if self._proto is None:
            self._proto = self.kind if self.kind is not None else tensor_type(self.dtype, self.shape)
        return self._proto

    @property
    def static_shape(self) -> tuple[int, ...] | None:
        """The shape if all its dimensions are known."""
        return self.shape if self.shape is not None and None not in self.shape else None  # type: ignore[return-value]


def constant_fact(name: str, scope: int, array: np.ndarray, *, trained: bool = False) -> Fact:
    """A value with known contents; a parameter under training has a known shape only."""
    array = text(array)
    return Fact(name, scope, array.dtype, array.shape, constant=None if trained else array, stored=array)


def same_dimension(a: int | None, b: int | None) -> bool:
    """Whether two dimensions are known to be equal."""
    return a is not None and a == b


def join(a: Shape | None, b: Shape | None) -> Shape | None:
    """What holds of a shape that may be either of two."""
    if a is None or b is None or len(a) != len(b):
        return None
    return tuple(x if same_dimension(x, y) else None for x, y in zip(a, b, strict=True))


def tensor_type(dtype: np.dtype | None, shape: Sequence[int | None] | None) -> onnx.TypeProto:
    """An ONNX type; dimensions that are not known stay open."""
    proto = onnx.TypeProto()
    if dtype is not None:
        proto.tensor_type.elem_type = type_code(dtype)
        if shape is not None:
            dims = proto.tensor_type.shape.dim
            del dims[:]
            proto.tensor_type.shape.SetInParent()
            for size in shape:
                dim = dims.add()
                if size is not None:
                    dim.dim_value = size
    return proto


def container_type(spec: TensorSpec) -> onnx.TypeProto:
    """The ONNX type of a sequence or an optional, with elements of unknown shape."""
    proto = tensor_type(spec.dtype, None)
    for container in reversed(spec.containers):
        outer = onnx.TypeProto()
        (outer.sequence_type if container == "sequence" else outer.optional_type).elem_type.CopyFrom(proto)
        proto = outer
    return proto


@functools.cache
def type_code(dtype: np.dtype) -> int:
    """ONNX's number for an element type."""
    if dtype == STRING:
        return int(onnx.TensorProto.STRING)
    return int(onnx.helper.np_dtype_to_tensor_dtype(dtype))


@functools.cache
def dtype_of_code(code: int) -> np.dtype | None:
    """The element type behind ONNX's number, ``None`` for an undefined one."""
    if code == onnx.TensorProto.UNDEFINED:
        return None
    return STRING if code == onnx.TensorProto.STRING else np.dtype(onnx.helper.tensor_dtype_to_np_dtype(code))


def read_type(proto: onnx.TypeProto) -> tuple[np.dtype | None, Shape | None, onnx.TypeProto | None]:
    """An ONNX type as element type, shape, and, for what is no tensor, the type itself."""
    if not proto.HasField("tensor_type"):
        return None, None, proto if proto.WhichOneof("value") else None
    tensor = proto.tensor_type
    if not tensor.HasField("shape"):
        return dtype_of_code(tensor.elem_type), None, None
    dims = tuple(d.dim_value if d.HasField("dim_value") and d.dim_value >= 0 else None for d in tensor.shape.dim)
    return dtype_of_code(tensor.elem_type), dims, None


class NotKnownYet(NotNative):
    """The builder needs a type or rank that is only known when the network runs."""


def dtype_of(site: Site, index: int = 0) -> np.dtype:
    """The element type of an input.

    Raises:
        NotKnownYet: It is not known.
    """
    slot = site.input(index)
    if slot is None or slot.dtype is None:
        raise NotKnownYet(f"the type of input {index} is not known before it runs")
    return slot.dtype


def output_dtype(site: Site, index: int = 0) -> np.dtype:
    """The element type of an output.

    Raises:
        NotKnownYet: It is not known.
    """
    slot = site.outputs[index]
    if slot is None or slot.dtype is None:
        raise NotKnownYet(f"the type of output {index} is not known before it runs")
    return slot.dtype


def kind_of(site: Site, index: int = 0) -> str:
    """``"float"``, ``"integer"``, ``"bool"`` or ``"complex"``."""
    dtype = dtype_of(site, index)
    if is_float(dtype):
        return "float"
    if is_integer(dtype):
        return "integer"
    return "bool" if dtype == np.bool_ else "complex"


def dims_of(site: Site, index: int = 0) -> tuple[int | None, ...]:
    """The dimensions of an input, ``None`` for each that is open.

    Raises:
        NotKnownYet: Not even their number is known.
    """
    slot = site.input(index)
    if slot is None or slot.shape is None:
        raise NotKnownYet(f"the rank of input {index} is not known before it runs")
    return slot.shape


def rank_of(site: Site, index: int = 0) -> int:
    """The rank of an input.

    Raises:
        NotKnownYet: It is not known.
    """
    return len(dims_of(site, index))


def static_shape(site: Site, index: int = 0) -> tuple[int, ...] | None:
    """The shape of an input, if all of it is known."""
    slot = site.input(index)
    if slot is None or slot.shape is None or any(d is None for d in slot.shape):
        return None
    return tuple(d for d in slot.shape if d is not None)


def ints(site: Site, index: int) -> tuple[int, ...] | None:
    """A constant input as Python integers; ``None`` if unknown or omitted."""
    array = site.constant(index)
    return None if array is None else tuple(int(v) for v in np.asarray(array).reshape(-1))


def dynamic(site: Site, index: int) -> bool:
    """Whether an input is given but not known before it runs."""
    return site.has(index) and site.constant(index) is None


def constant(site: Site, index: int, what: str) -> np.ndarray | None:
    """A given input's contents; ``None`` if it is omitted.

    Raises:
        NotKnownYet: It is given, but not known before the network runs.
    """
    if dynamic(site, index):
        raise NotKnownYet(f"{what} is not known before it runs")
    return site.constant(index)


@dataclass(slots=True)
class DraftGraph:
    """A graph: the nodes that must run, in order.

    Args:
        scope: Its number.
        inputs: Its inputs.
        steps: Its nodes.
        outputs: Its outputs, in order.
    """

    scope: int
    inputs: list[Fact]
    steps: list[DraftStep]
    outputs: list[Fact]

    @property
    def uses(self) -> list[Fact]:
        """Every value that a step or an output uses."""
        by_name = {f.name: f for step in self.steps for f in step.uses} | {f.name: f for f in self.outputs}
        return list(by_name.values())

    @property
    def captures(self) -> list[Fact]:
        """What it takes from the graphs around it."""
        return [f for f in self.uses if f.scope != self.scope]

    def prune(self) -> None:
        """Drop the steps whose results nobody uses."""
        needed = {f.name for f in self.outputs}
        live_steps = []
        for step in reversed(self.steps):
            if any(f.name in needed for f in step.outputs):
                live_steps.append(step)
                needed |= {f.name for f in step.uses}
        self.steps = live_steps[::-1]


@dataclass(slots=True)
class DraftStep:
    """A node that must run.

    Args:
        node: The node as the network has it.
        attributes: Its attributes as plain values, without its graphs.
        inputs: What is known of its inputs; ``None`` for an omitted one.
        outputs: What is known of its outputs.
        bodies: Its graphs, by attribute.
        captured: What graphs of its that are not among ``bodies`` take from around them.
        differentiated: Whether its graphs must be native throughout, since derivatives are taken of them.
    """

    node: ir.Node
    attributes: Mapping[str, Any]
    inputs: list[Fact | None]
    outputs: list[Fact]
    bodies: Mapping[str, DraftGraph] = field(default_factory=dict)
    captured: list[Fact] = field(default_factory=list)
    differentiated: bool = False

    @property
    def uses(self) -> list[Fact]:
        """Everything that must exist before it runs."""
        return [f for f in self.inputs if f is not None] + self.captures

    @property
    def captures(self) -> list[Fact]:
        """What its graphs take from around them."""
        by_name = {f.name: f for body in self.bodies.values() for f in body.captures} | {f.name: f for f in self.captured}
        return list(by_name.values())
