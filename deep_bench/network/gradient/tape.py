"""``Tape``: writes ONNX nodes at the end of a graph and learns the type of each value as it goes.

``Symbol`` is a value of a graph that is being written, with the arithmetic of an array. Whole graphs are copied under new
names, and their nodes moved to a tape.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import onnx_ir as ir

from deep_bench.errors import Unsupported, UnsupportedOperator
from deep_bench.graph import operator_name
from deep_bench.graph.edit import Names
from deep_bench.graph.node import as_array, settings, subgraphs
from deep_bench.graph.shapes import Knowledge

if TYPE_CHECKING:
    from deep_bench.network.gradient.backward import Backward

Operand: TypeAlias = "Symbol | float | Sequence[int] | np.ndarray"


class Symbol:
    """A value on a tape. Arithmetic on it writes ONNX nodes.

    A Python number takes the element type of the symbol beside it.

    Args:
        tape: Where nodes are written.
        value: The value that it stands for.
    """

    __slots__ = ("tape", "value")

    def __init__(self, tape: Tape, value: ir.Value) -> None:
        self.tape, self.value = tape, value

    # What is known of it

    @property
    def dtype(self) -> np.dtype:
        """The element type.

        Raises:
            Unsupported: It is unknown.
        """
        return self.tape.dtype_of(self.value)

    @property
    def rank(self) -> int:
        """The number of dimensions.

        Raises:
            Unsupported: It is unknown.
        """
        return len(self.dims)

    @property
    def dims(self) -> tuple[int | str | None, ...]:
        """The dimensions: a name, or ``None``, for one that only a run tells.

        Raises:
            Unsupported: Not even their number is known.
        """
        return self.tape.dims_of(self.value)

    @property
    def static_shape(self) -> tuple[int, ...] | None:
        """The shape, if all of it is known."""
        dims = self.tape.known_dims(self.value)
        return dims if dims is not None and all(isinstance(d, int) for d in dims) else None  # type: ignore[return-value]

    @property
    def shape(self) -> Symbol:
        """The shape as an int64 tensor: a constant where it is known."""
        dims = self.static_shape
        return self.tape.constant(dims, np.int64) if dims is not None else self.tape.Shape(self)

    @property
    def known(self) -> np.ndarray | None:
        """The contents, if they are known before any run."""
        return self.tape.contents(self.value)

    # Arithmetic

    def __add__(self, other: Operand) -> Symbol:
        return self.tape.Add(self, other)

    def __radd__(self, other: Operand) -> Symbol:
        return self.tape.Add(self._like(other), self)

    def __sub__(self, other: Operand) -> Symbol:
        return self.tape.Sub(self, other)

    def __rsub__(self, other: Operand) -> Symbol:
        return self.tape.Sub(self._like(other), self)

    def __mul__(self, other: Operand) -> Symbol:
        return self.tape.Mul(self, other)

    def __rmul__(self, other: Operand) -> Symbol:
        return self.tape.Mul(self._like(other), self)

    def __truediv__(self, other: Operand) -> Symbol:
        return self.tape.Div(self, other)

    def __rtruediv__(self, other: Operand) -> Symbol:
        return self.tape.Div(self._like(other), self)

    def __pow__(self, other: Operand) -> Symbol:
        return self.tape.Pow(self, other)

    def __matmul__(self, other: Symbol) -> Symbol:
        return self.tape.MatMul(self, other)

    def __neg__(self) -> Symbol:
        return self.tape.Neg(self)

    def __invert__(self) -> Symbol:
        return self.tape.Not(self)

    def __and__(self, other: Symbol) -> Symbol:
        return self.tape.And(self, other)

    def __or__(self, other: Symbol) -> Symbol:
        return self.tape.Or(self, other)

    def __gt__(self, other: Operand) -> Symbol:
        return self.tape.Greater(self, other)

    def __ge__(self, other: Operand) -> Symbol:
        return self.tape.GreaterOrEqual(self, other)

    def __lt__(self, other: Operand) -> Symbol:
        return self.tape.Less(self, other)

    def __le__(self, other: Operand) -> Symbol:
        return self.tape.LessOrEqual(self, other)

    def equals(self, other: Operand) -> Symbol:
        """Where two tensors are equal: booleans."""
        return self.tape.Equal(self, other)

    # Forms

    def cast(self, dtype: np.dtype | type | Symbol) -> Symbol:
        """The same values in another element type, or that of another symbol; itself where it has that already."""
        return self.tape.cast(self, dtype)

    def sum(self, axes: Sequence[int] | Symbol | None = None, *, keepdims: bool = False) -> Symbol:
        """The sum over some axes, or over all; over none for an empty list."""
        return self.tape.reduce("ReduceSum", self, axes, keepdims=keepdims)

    def mean(self, axes: Sequence[int] | Symbol | None = None, *, keepdims: bool = False) -> Symbol:
        """The mean over some axes, or over all."""
        return self.tape.reduce("ReduceMean", self, axes, keepdims=keepdims)

    def reshape(self, shape: Sequence[int] | Symbol) -> Symbol:
        """The same elements in another shape; a dimension of 0 is 0, and one of -1 is what is left."""
        return self.tape.reshape(self, shape)

    def expand(self, shape: Sequence[int] | Symbol) -> Symbol:
        """Repeated along axes of one element to a shape."""
        return self.tape.Expand(self, shape)

    def transpose(self, permutation: Sequence[int]) -> Symbol:
        """Its axes in another order."""
        return self.tape.Transpose(self, perm=list(permutation))

    def unsqueeze(self, *axes: int) -> Symbol:
        """With new axes of one element, at these positions of the result."""
        return self.tape.Unsqueeze(self, list(axes))

    def squeeze(self, *axes: int) -> Symbol:
        """Without these axes, which have one element."""
        return self.tape.Squeeze(self, list(axes))

    def slice(self, axis: int, start: Operand, end: Operand, step: int = 1) -> Symbol:
        """Part of an axis, as in Python."""
        ends = [e if isinstance(e, Symbol) else self.tape.constant([e], np.int64) for e in (start, end)]
        return self.tape.Slice(self, *ends, [axis], [step])

    def _like(self, operand: Any) -> Symbol:
        return operand if isinstance(operand, Symbol) else self.tape.constant(operand, self.dtype)

    def __repr__(self) -> str:
        return f"Symbol({self.value.name!r})"


_CONDITION = np.dtype(bool)


class Tape:
    """A graph that is being written.

    Every ONNX operator is a method: ``tape.Where(condition, x, y)`` writes a node and returns its output as a `Symbol`, or a
    tuple of them with ``outputs=n``. Attributes are keyword arguments; ``None`` is an omitted input. A number among the
    inputs becomes a constant of the element type of the first symbol that is no condition; a list becomes one of int64.

    Args:
        graph: Nodes are appended to it.
        names: Where new names come from.
        knowledge: What is known of the values.
        base: What new names start with.
    """

    def __init__(self, graph: ir.Graph, names: Names, knowledge: Knowledge, base: str) -> None:
        self.graph, self.names, self.knowledge, self.base = graph, names, knowledge, base
        self.written: list[ir.Node] = []
        self._constants: dict[tuple[str, tuple[int, ...], bytes], Symbol] = {}

    def __getattr__(self, op_type: str) -> Callable[..., Any]:
        if not op_type[:1].isupper():
            raise AttributeError(op_type)
        return lambda *inputs, **attributes: self.node(op_type, inputs, **attributes)

    # Writing

    def node(
        self,
        op_type: str,
        inputs: Sequence[Operand | None],
        *,
        outputs: int | None = None,
        domain: str = "",
        **attributes: Any,
    ) -> Any:
        """Write a node.

        Args:
            op_type: The operator.
            inputs: Symbols; numbers and arrays become constants; ``None`` where one is omitted.
            outputs: How many outputs it has; ``None`` for a single one, which is returned itself.
            domain: The operator's domain.
            **attributes: Its attributes; ``None`` for one to leave out.
        """
        fed = self._values(inputs)
        while fed and fed[-1] is None:
            fed.pop()
        node_attributes = ir.convenience.convert_attributes({k: v for k, v in attributes.items() if v is not None})
        values = [ir.Value(name=self.names.fresh(f"{self.base}.{op_type}")) for _ in range(outputs or 1)]
        node = ir.Node(
            domain, op_type, fed, node_attributes, outputs=values, name=self.names.fresh(f"{self.base}.{op_type}")
        )
        self.append(node)
        results = tuple(Symbol(self, value) for value in values)
        return results if outputs is not None else results[0]

    def append(self, node: ir.Node) -> None:
        """Write a node that was made elsewhere."""
        self.graph.append(node)
        self.written.append(node)
        self.knowledge.infer(node)

    def _values(self, inputs: Iterable[Operand | None]) -> list[ir.Value | None]:
        inputs = list(inputs)
        symbols = [i for i in inputs if isinstance(i, Symbol)]
        first = next((s for s in symbols if self.knowledge.dtype(s.value) != _CONDITION), symbols[0] if symbols else None)
        return [None if i is None else self._value(i, first) for i in inputs]

    def _value(self, operand: Operand, beside: Symbol | None) -> ir.Value:
        if isinstance(operand, Symbol):
            return operand.value
        if isinstance(operand, np.ndarray | np.generic):
            return self.constant(operand, operand.dtype).value
        if isinstance(operand, list | tuple):
            return self.constant(operand, np.int64).value
        if beside is None:
            raise TypeError(f"the element type of {operand!r} is unknown: write tape.constant(value, dtype)")
        return self.constant(operand, beside.dtype).value

    def constant(self, array: Any, dtype: np.dtype | type) -> Symbol:
        """A constant; the same contents share one."""
        array = np.asarray(array, dtype=dtype)
        key = (str(array.dtype), array.shape, array.tobytes())
        if key not in self._constants:
            tensor = ir.tensor(array)
            value = ir.Value(
                name=self.names.fresh(f"{self.base}.constant"),
                type=ir.TensorType(tensor.dtype),
                shape=ir.Shape(array.shape),
                const_value=tensor,
            )
            self.graph.register_initializer(value)
            self.knowledge.state(value, ir.to_proto(value).type)
            self._constants[key] = Symbol(self, value)
        return self._constants[key]

    # Forms that need more than one operator, or a choice

    def cast(self, x: Symbol, dtype: np.dtype | type | Symbol) -> Symbol:
        """``x`` in an element type, or in that of another symbol, known or not."""
        if isinstance(dtype, Symbol):
            target_dtype, source_dtype = self.knowledge.dtype(dtype.value), self.knowledge.dtype(x.value)
            if target_dtype is None or source_dtype is None:
                return self.CastLike(x, dtype)
            dtype = target_dtype
        if x.dtype == np.dtype(dtype):
            return x
        return self.Cast(x, to=int(ir.DataType.from_numpy(np.dtype(dtype))))

    def reduce(self, op_type: str, x: Symbol, axes: Sequence[int] | Symbol | None, *, keepdims: bool = False) -> Symbol:
        """A reduction over some axes; over all for ``None``; over none, ``x`` itself, for an empty list."""
        if axes is None:
            return self.node(op_type, [x], keepdims=int(keepdims))
        if isinstance(axes, Symbol):
            return self.node(op_type, [x, axes], keepdims=int(keepdims), noop_with_empty_axes=1)
        return self.node(op_type, [x, list(axes)], keepdims=int(keepdims)) if len(axes) else x

    def reshape(self, x: Symbol, shape: Sequence[int] | Symbol) -> Symbol:
        """``x`` in another shape, in which 0 means 0; itself where it has that shape already."""
        target = shape.known if isinstance(shape, Symbol) else np.asarray(shape)
        if target is not None and x.static_shape == tuple(target.tolist()):
            return x
        empty = target is None or (0 in target and -1 not in target)
        return self.Reshape(x, shape, allowzero=1 if empty else None)

    def concat(self, parts: Sequence[Symbol], axis: int = 0) -> Symbol:
        """Tensors one after the other; a single one is itself."""
        return parts[0] if len(parts) == 1 else self.Concat(*parts, axis=axis)

    def Pad(
        self, x: Symbol, pads: Operand, value: Operand | None = None, axes: Operand | None = None, *, mode: str | None = None
    ) -> Symbol:
        """``Pad``, of all axes where their number is known: ONNX Runtime's moving of transposes confuses those named."""
        dims = self.known_dims(x.value)
        named = axes.known if isinstance(axes, Symbol) else axes
        if named is not None and dims is not None:
            pads, axes = self._pads_of_all(pads, [int(axis) % len(dims) for axis in np.ravel(named)], len(dims)), None
        result: Symbol = self.node("Pad", [x, pads, value, axes], mode=mode)
        return result

    def _pads_of_all(self, pads: Operand, axes: Sequence[int], rank: int) -> Operand:
        places = [*axes, *(rank + axis for axis in axes)]
        pad_values = pads.known if isinstance(pads, Symbol) else pads
        full = np.zeros(2 * rank, np.int64)
        if pad_values is None:
            return self.ScatterElements(self.constant(full, np.int64), places, pads)
        full[places] = pad_values
        return full

    def zeros_like(self, x: Symbol) -> Symbol:
        """Zeros of the shape and the element type of ``x``; float32 for one of 8 bits, which no operator computes in."""
        if x.dtype.itemsize < 2:
            return self.constant(0, np.float32).expand(x.shape)
        if x.dtype.name == "bfloat16":  # ONNX Runtime expands none
            return self.constant(0, np.float32).expand(x.shape).cast(x.dtype)
        return self.constant(0, x.dtype).expand(x.shape) if x.static_shape != () else self.constant(0, x.dtype)

    def sum_to(self, x: Symbol, like: Symbol) -> Symbol:
        """The transpose of broadcasting ``like`` to the shape of ``x``: sums over what was repeated."""
        x_dims, like_dims = self.known_dims(x.value), self.known_dims(like.value)
        if x_dims is not None and like_dims is not None:
            aligned = (1,) * (len(x_dims) - len(like_dims)) + like_dims
            certain = all(a == b if isinstance(b, str) else b is not None for a, b in zip(x_dims, aligned, strict=True))
            if certain or x_dims == aligned:
                axes = [i for i, (a, b) in enumerate(zip(x_dims, aligned, strict=True)) if b == 1 and a != 1]
                extra = list(range(len(x_dims) - len(like_dims)))
                summed = x.sum(axes, keepdims=True) if axes else x
                return summed.squeeze(*extra) if extra else summed
        # the axes are found in the run: those along which ``like``, with ones before its shape, has one element
        missing = self.Size(x.shape) - self.Size(like.shape)
        shape = self.Concat(self.constant([1], np.int64).expand(missing.reshape([1])), like.shape, axis=0)
        axes = self.NonZero(shape.equals(1)).reshape([-1])
        return x.sum(axes, keepdims=True).reshape(like.shape)

    # What is known

    def dtype_of(self, value: ir.Value) -> np.dtype:
        """The element type of a value.

        Raises:
            Unsupported: It is unknown.
        """
        dtype = self.knowledge.dtype(value)
        if dtype is None:
            raise self.refusal(f"the element type of {value.name!r} is unknown before a run")
        return dtype

    def known_dims(self, value: ir.Value) -> tuple[int | str | None, ...] | None:
        """The dimensions of a value, as far as they are known; ``None`` if not even their number is."""
        return self.knowledge.dims(value)

    def dims_of(self, value: ir.Value) -> tuple[int | str | None, ...]:
        """The dimensions of a value.

        Raises:
            Unsupported: Not even their number is known.
        """
        dims = self.known_dims(value)
        if dims is None:
            raise self.refusal(f"the number of dimensions of {value.name!r} is unknown before a run")
        return dims

    def contents(self, value: ir.Value) -> np.ndarray | None:
        """The contents of a constant."""
        return None if value.is_graph_input() else as_array(value)

    def refusal(self, reason: str) -> Unsupported:
        """The error that says why this cannot be written."""
        return Unsupported(reason)


def copied(graph: ir.Graph, tape: Tape) -> ir.Graph:
    """A copy of a subgraph in which every node and value has a new name; what it takes from around it stays.

    What is known of a value is known of its copy.
    """
    clone = graph.clone(allow_outer_scope_values=True)
    _rename(graph, clone, tape)
    return clone


def _rename(graph: ir.Graph, clone: ir.Graph, tape: Tape) -> None:
    names, knowledge = tape.names, tape.knowledge

    def rename(old: ir.Value, new: ir.Value) -> None:
        if old.name:
            new.name = names.fresh(f"{old.name}.again")
            knowledge.state(new, knowledge.type_of(old))

    old_initializers = [v for v in graph.initializers.values() if not v.is_graph_input()]
    theirs = [v for v in clone.initializers.values() if not v.is_graph_input()]
    for old_value, new_value in zip([*graph.inputs, *old_initializers], [*clone.inputs, *theirs], strict=True):
        rename(old_value, new_value)
    for old, new in zip(graph, clone, strict=True):
        new.name = names.fresh(f"{old.name}.again")
        for old_value, new_value in zip(old.outputs, new.outputs, strict=True):
            rename(old_value, new_value)
        for inner, copy in zip(subgraphs(old).values(), subgraphs(new).values(), strict=True):
            _rename(inner, copy, tape)


def inlined(graph: ir.Graph, inputs: Sequence[Symbol], tape: Tape) -> list[Symbol]:
    """Move the nodes of a graph, whose names must be new, to a tape.

    Args:
        graph: It is empty afterwards.
        inputs: What stands for its inputs.
        tape: Where the nodes go.

    Returns:
        Its outputs.
    """
    stands_for = dict(zip(graph.inputs, inputs, strict=True))
    outputs = [stands_for.get(v, Symbol(tape, v)) for v in graph.outputs]
    graph.outputs.clear()
    for inner, outer in stands_for.items():
        inner.replace_all_uses_with(outer.value)
    for name, value in list(graph.initializers.items()):
        del graph.initializers[name]
        tape.graph.register_initializer(value)
        tape.knowledge.state(value, ir.to_proto(value).type)
    for node in list(graph):
        graph.remove(node)
        tape.append(node)
    return outputs


class Site:
    """A node on the way back.

    Args:
        node: The node of the forward graph.
        tape: Where the gradient is written.
        backward: What calls the rule; a rule for a node with graphs calls it again for these.
        gradients: Of each output; ``None`` for one that the loss does not depend on.
        wanted: The values whose gradients are asked for.

    Attributes:
        op: The tape: ``at.op.Where(…)`` writes a node.
    """

    def __init__(
        self,
        node: ir.Node,
        tape: Tape,
        backward: Backward,
        gradients: Sequence[Symbol | None],
        wanted: Callable[[ir.Value], bool],
    ) -> None:
        self.node, self.op, self.backward, self._wanted = node, tape, backward, wanted
        self._gradients = tuple(gradients)

    @property
    def inputs(self) -> tuple[Symbol | None, ...]:
        """The inputs of the node; ``None`` where one is omitted."""
        return tuple(None if v is None else Symbol(self.op, v) for v in self.node.inputs)

    @property
    def attributes(self) -> Mapping[str, Any]:
        """The attributes that the node states, and defaults that are real numbers; graphs apart."""
        inner = subgraphs(self.node)
        return {name: value for name, value in settings(self.node).items() if name not in inner}

    @property
    def y(self) -> Symbol:
        """The first output."""
        return self.output(0)

    def output(self, index: int) -> Symbol:
        """An output of the node; it is added to the node if nobody asked for it before."""
        if index >= len(self.node.outputs):
            self.node.resize_outputs(index + 1)
        value = self.node.outputs[index]
        if not value.name:
            value.name = self.op.names.fresh(f"{self.node.name}.output_{index}")
            self.op.knowledge.infer(self.node)
        return Symbol(self.op, value)

    @property
    def dy(self) -> Symbol:
        """The gradient of the first output, zeros if the loss does not depend on it."""
        return self.gradient(0)

    def gradient(self, index: int) -> Symbol:
        """The gradient of an output, zeros if the loss does not depend on it."""
        gradient = self.gradient_or_none(index)
        return self.op.zeros_like(self.output(index)) if gradient is None else gradient

    def gradient_or_none(self, index: int) -> Symbol | None:
        """The gradient of an output; ``None`` if there is no such output, or the loss does not depend on it."""
        return self._gradients[index] if index < len(self._gradients) else None

    def wants(self, index: int) -> bool:
        """Whether the gradient of an input is asked for; of others it need not be written."""
        value = self.node.inputs[index] if index < len(self.node.inputs) else None
        return value is not None and self._wanted(value)

    def wants_value(self, value: ir.Value) -> bool:
        """Whether the gradient of a value is asked for, one that the node's graphs take from around it, say."""
        return self._wanted(value)

    def through(self, function: Callable[..., Symbol | Sequence[Symbol]], *inputs: Symbol | None) -> list[Symbol | None]:
        """The gradients of the node's inputs by those of a function that computes the same.

        Args:
            function: Writes nodes that compute the node's outputs from ``inputs``; they are differentiated in turn.
            *inputs: What it is called with.

        Returns:
            One gradient for each of ``inputs``; ``None`` where it is omitted, or not asked for.
        """
        start = len(self.op.written)
        result = function(*inputs)
        outputs = [result] if isinstance(result, Symbol) else list(result)
        seeds = {y.value: dy for i, y in enumerate(outputs) if (dy := self.gradient_or_none(i)) is not None}
        targets = list(dict.fromkeys(x.value for x in inputs if x is not None and self._wanted(x.value)))
        gradients = self.backward.run(self.op, self.op.written[start:], seeds, targets)
        # Where one value is fed twice, its whole gradient belongs to the first place.
        return [None if x is None else gradients.pop(x.value, None) for x in inputs]

    def refusal(self, reason: str) -> Unsupported:
        """The error that says why this node has no gradient here."""
        return UnsupportedOperator(
            str(self.node.name), operator_name(self.node), self.op.knowledge.opset, f"it has no gradient: {reason}"
        )
