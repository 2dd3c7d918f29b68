"""One sweep through a graph: types, shapes, known values, nodes that need not run.

Nodes that provably do nothing become other names of their inputs; results that are known beforehand are folded.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from deep_bench.adapters.lowering.control import CONTROL, GRADIENT, gradient
from deep_bench.adapters.lowering.infer import UNKNOWN, Inferred, bound, infer, partial, reference
from deep_bench.adapters.lowering.plan import DraftGraph, DraftStep, Fact, Shape, constant_fact, dtype_of_code, read_type
from deep_bench.errors import Unsupported
from deep_bench.graph.edit import Names
from deep_bench.graph.node import (
    KERNEL_DOMAIN,
    as_array,
    attributes,
    is_standard,
    kernel_of,
    operator_name,
    outer_values,
    settings,
    subgraphs,
)
from deep_bench.tensor import text

_FAR = 2**31 - 1
"""An end of a slice from here on means "to the end of any axis"."""


Inputs = Sequence[Fact | None]
Attributes = Mapping[str, Any]


def alias(node: ir.Node, inputs: Inputs, attributes: Attributes, shape: Shape | None) -> Fact | None:
    """The input whose value the node's first output has in any case, if the node does nothing.

    Args:
        node: The node.
        inputs: What is known of its inputs.
        attributes: Its stated attributes.
        shape: What is known of the shape of its first output.
    """
    if not is_standard(node) or not inputs or inputs[0] is None:
        return None
    data = inputs[0]
    if node.op_type in _SAME_SHAPE and shape is not None and shape == data.static_shape:
        return data
    rule = _RULES.get(node.op_type)
    return data if rule is not None and rule(inputs, attributes) else None


_SAME_SHAPE = {"Expand", "Flatten", "Reshape", "Squeeze", "Tile", "Unsqueeze"}
"""Operators that keep the order of elements: with the same shape, they do nothing."""


def _constant(inputs: Inputs, index: int) -> np.ndarray | None:
    fact = inputs[index] if index < len(inputs) else None
    return None if fact is None else fact.constant


def _omitted(inputs: Inputs, index: int) -> bool:
    return index >= len(inputs) or inputs[index] is None


def _cast(inputs: Inputs, attributes: Attributes) -> bool:
    return inputs[0] is not None and inputs[0].dtype is not None and inputs[0].dtype == dtype_of_code(attributes["to"])


def _cast_like(inputs: Inputs, _attributes: Attributes) -> bool:
    a, b = inputs[0], inputs[1]
    return a is not None and b is not None and a.dtype is not None and a.dtype == b.dtype


def _transpose(inputs: Inputs, attributes: Attributes) -> bool:
    permutation = attributes.get("perm")
    if permutation is None:
        shape = inputs[0].shape if inputs[0] is not None else None
        return shape is not None and len(shape) < 2
    return list(permutation) == sorted(permutation)


def _dropout(inputs: Inputs, _attributes: Attributes) -> bool:
    training = _constant(inputs, 2)
    return _omitted(inputs, 2) or (training is not None and not training.any())


def _slice(inputs: Inputs, _attributes: Attributes) -> bool:
    starts, ends, steps = (_constant(inputs, i) for i in (1, 2, 4))
    if starts is None or ends is None or (steps is None and not _omitted(inputs, 4)):
        return False
    if (starts != 0).any() or (steps is not None and (steps != 1).any()):
        return False
    return bool((ends >= _FAR).all()) or _covers(inputs, ends)


def _covers(inputs: Inputs, ends: np.ndarray) -> bool:
    axes = range(len(ends)) if _omitted(inputs, 3) else _constant(inputs, 3)
    shape = inputs[0].shape if inputs[0] is not None else None
    if axes is None or shape is None:
        return False
    sizes = [shape[int(axis)] for axis in axes]
    return all(end >= _FAR or (size is not None and end >= size) for end, size in zip(ends, sizes, strict=True))


def _pad(inputs: Inputs, _attributes: Attributes) -> bool:
    pads = _constant(inputs, 1)
    return pads is not None and not pads.any()


def _expand(inputs: Inputs, _attributes: Attributes) -> bool:
    target, shape = _constant(inputs, 1), inputs[0].shape if inputs[0] is not None else None
    return target is not None and shape is not None and bool((target == 1).all()) and target.size <= len(shape)


def _tile(inputs: Inputs, _attributes: Attributes) -> bool:
    repeats = _constant(inputs, 1)
    return repeats is not None and bool((repeats == 1).all())


def _reshape(inputs: Inputs, attributes: Attributes) -> bool:
    """Each axis is copied (0) or stated with the size it has; one may be left to be found (-1)."""
    target, shape = _constant(inputs, 1), inputs[0].shape if inputs[0] is not None else None
    if target is None or shape is None or target.size != len(shape):
        return False
    copies = not attributes.get("allowzero", 0)
    unchanged = [(copies and t == 0) or (s is not None and t == s) for t, s in zip(target.tolist(), shape, strict=True)]
    free = [axis for axis, equal in enumerate(unchanged) if not equal]
    if not free:
        return True
    other_sizes = [s for axis, s in enumerate(shape) if axis != free[0]]
    return len(free) == 1 and target[free[0]] == -1 and all(s is not None and s > 0 for s in other_sizes)


def _squeeze(inputs: Inputs, _attributes: Attributes) -> bool:
    axes = _constant(inputs, 1)
    return axes is not None and axes.size == 0


def _single(inputs: Inputs, _attributes: Attributes) -> bool:
    return len(inputs) == 1


def _always(_inputs: Inputs, _attributes: Attributes) -> bool:
    return True


_RULES: Mapping[str, Callable[[Inputs, Attributes], bool]] = {
    "Cast": _cast,
    "CastLike": _cast_like,
    "Concat": _single,
    "Dropout": _dropout,
    "Expand": _expand,
    "Identity": _always,
    "Max": _single,
    "Mean": _single,
    "Min": _single,
    "Pad": _pad,
    "Reshape": _reshape,
    "Slice": _slice,
    "Sum": _single,
    "Tile": _tile,
    "Transpose": _transpose,
    "Unsqueeze": _squeeze,
}


LIMIT = 2**20
"""Results up to this many bytes are computed once and kept; larger ones are computed in each call."""


_RANDOM = {
    "Bernoulli",
    "Dropout",
    "Multinomial",
    "RandomNormal",
    "RandomNormalLike",
    "RandomUniform",
    "RandomUniformLike",
}
_VIEWS = {"Cast", "Flatten", "Identity", "Reshape", "Slice", "Split", "Squeeze", "Transpose", "Unsqueeze"}
"""Operators whose result is hardly larger than their input, so that folding them costs no memory."""


_GROWING = {"ConstantOfShape", "Expand", "EyeLike", "OneHot", "Pad", "Range", "Resize", "Tile"}
"""Operators whose result can be much larger than their inputs: folded only if its shape is known."""


def fold(
    node: ir.Node, inputs: Sequence[Fact | None], outputs: Sequence[Fact], attributes: Mapping[str, Any]
) -> list[np.ndarray] | None:
    """The node's results, if all its inputs are known, they are the same each time, and they are small."""
    if node.op_type in _RANDOM or not all(f is None or f.constant is not None for f in inputs):
        return None
    function = reference(node)
    if function is None or not _is_small(node, inputs, outputs):
        return None
    try:
        result = bound(function, attributes, len(outputs))(*(None if f is None else f.constant for f in inputs))
    except Exception:
        return None  # not computable now: it fails in the run, with the adapter's own message
    arrays = [result] if len(outputs) == 1 else list(result)
    if len(arrays) != len(outputs) or not all(isinstance(a, np.ndarray | np.generic) for a in arrays):
        return None
    arrays = [np.asarray(a) for a in arrays]
    fits = node.op_type in _VIEWS or sum(a.nbytes for a in arrays) <= LIMIT
    return arrays if fits else None


def _is_small(node: ir.Node, inputs: Sequence[Fact | None], outputs: Sequence[Fact]) -> bool:
    if node.op_type in _VIEWS:
        return True
    shapes = [f.static_shape for f in outputs]
    if all(s is not None for s in shapes):
        sizes = [int(np.prod(s)) * (f.dtype.itemsize if f.dtype else 8) for s, f in zip(shapes, outputs, strict=True) if s]
        return sum(sizes) <= LIMIT
    input_bytes = sum(f.constant.nbytes for f in inputs if f is not None and f.constant is not None)
    return node.op_type not in _GROWING and input_bytes <= LIMIT


class Analysis:
    """What is known of every value met so far.

    Args:
        names: The names that are taken.
        trained: Names of the parameters that change between calls, and are therefore not known.
        opsets: The version of each domain but the default one.
    """

    def __init__(self, names: Names, trained: Collection[str], opsets: Mapping[str, int]) -> None:
        self.names = names
        self.trained = trained
        self.opsets = opsets
        self._facts: dict[ir.Value, Fact] = {}
        self._unique: dict[ir.Value, str] = {}
        self._given: set[str] = set()
        self._scopes = 0

    def new_scope(self) -> int:
        """A number for a graph."""
        self._scopes += 1
        return self._scopes

    def fact(self, value: ir.Value) -> Fact:
        """What is known of a value that was met before."""
        return self._facts[value]

    def bind(self, value: ir.Value, fact: Fact) -> Fact:
        """Let a value be this from now on."""
        self._facts[value] = fact
        return fact

    def name(self, value: ir.Value) -> str:
        """A value's name, changed only where another graph has used it already."""
        if value not in self._unique:
            name = value.name or self.names.fresh("unnamed")
            self._unique[value] = name if name not in self._given else self.names.fresh(name)
            self._given.add(self._unique[value])
        return self._unique[value]

    def graph(self, graph: ir.Graph, scope: int) -> DraftGraph:
        """Analyse a graph whose inputs are bound already."""
        steps: list[DraftStep] = []
        self.nodes(graph, scope, steps)
        return DraftGraph(
            scope, [self.fact(v) for v in graph.inputs if v in self._facts], steps, [self.fact(v) for v in graph.outputs]
        )

    def nodes(self, graph: ir.Graph, scope: int, steps: list[DraftStep]) -> None:
        """Analyse a graph's initializers and nodes, as part of the graph ``scope``."""
        for name, value in graph.initializers.items():
            if value.const_value is None:
                raise Unsupported(f"initializer {name!r} has no contents")
            trained = value.name in self.trained
            self.bind(value, constant_fact(self.name(value), scope, value.const_value.numpy(), trained=trained))
        for node in graph:
            self._node(node, scope, steps)

    def _node(self, node: ir.Node, scope: int, steps: list[DraftStep]) -> None:
        inputs = [None if v is None else self.fact(v) for v in node.inputs]
        if node.op_type == "Constant" and is_standard(node):
            return self._constant(node, scope)
        if operator_name(node) == GRADIENT:
            return self._gradient(node, inputs, scope, steps)
        bodies = subgraphs(node)
        if bodies:
            return self._control(node, inputs, bodies, scope, steps)
        attribute_values = {n: _readable(a) for n, a in settings(node).items()}
        kinds = _declared_types(node) if node.domain == KERNEL_DOMAIN else infer(node, inputs, self.opsets)
        has_kernel = kernel_of(node) is not None  # computes for itself what would be known otherwise
        source = None if has_kernel else alias(node, inputs, attribute_values, kinds[0][1])
        if source is not None and not any(bool(v.uses()) or v.is_graph_output() for v in node.outputs[1:]):
            self.bind(node.outputs[0], source)
            return None
        outputs = [
            self.bind(v, Fact(self.name(v), scope, dtype, shape, kind=kind))
            for v, (dtype, shape, kind) in zip(node.outputs, kinds, strict=True)
        ]
        if not has_kernel and self._known(node, inputs, outputs, attribute_values):
            return None
        steps.append(DraftStep(node, attribute_values, inputs, outputs))
        return None

    def _known(
        self, node: ir.Node, inputs: list[Fact | None], outputs: list[Fact], attribute_values: Mapping[str, Any]
    ) -> bool:
        arrays = fold(node, inputs, outputs, attribute_values)
        if arrays is not None:
            for fact, array in zip(outputs, arrays, strict=True):
                _settle(fact, text(array))
            return True
        partial_value = partial(node, inputs, attribute_values) if is_standard(node) else None
        if partial_value is None:
            return False
        if partial_value.known.all():
            dtype = outputs[0].dtype or partial_value.values.dtype
            _settle(outputs[0], np.asarray(partial_value.values, dtype))
            return True
        outputs[0].partial = partial_value
        return False

    def _constant(self, node: ir.Node, scope: int) -> None:
        value = node.outputs[0]
        array = None if "sparse_value" in node.attributes else as_array(value)
        if array is None:
            raise Unsupported(f"node {node.name!r} is a Constant without a dense value")
        self.bind(value, constant_fact(self.name(value), scope, array))

    def _control(
        self,
        node: ir.Node,
        inputs: list[Fact | None],
        bodies: Mapping[str, ir.Graph],
        scope: int,
        steps: list[DraftStep],
    ) -> None:
        condition = inputs[0].constant if node.op_type == "If" and inputs[0] is not None else None
        if condition is not None:
            branch = bodies["then_branch" if condition.item() else "else_branch"]
            self.nodes(branch, scope, steps)
            for outer, inner in zip(node.outputs, branch.outputs, strict=True):
                self.bind(outer, self.fact(inner))
            return None
        attribute_values = {n: _readable(a) for n, a in attributes(node).items() if n not in bodies}
        rule = CONTROL.get(node.op_type) if is_standard(node) else None
        if rule is None:
            return self._opaque(node, inputs, bodies, scope, steps)
        drafts, outputs = rule(self, node, inputs, attribute_values, scope)
        for value, fact in zip(node.outputs, outputs, strict=True):
            self.bind(value, fact)
        steps.append(DraftStep(node, attribute_values, inputs, outputs, drafts))
        return None

    def _opaque(
        self,
        node: ir.Node,
        inputs: list[Fact | None],
        bodies: Mapping[str, ir.Graph],
        scope: int,
        steps: list[DraftStep],
    ) -> None:
        """A node whose graphs mean something only in the body that the standard expands it into."""
        outputs = [
            self.bind(v, Fact(self.name(v), scope, dtype, shape, kind=kind))
            for v, (dtype, shape, kind) in zip(node.outputs, infer(node, inputs, self.opsets), strict=True)
        ]
        captured = [self.fact(v) for graph in bodies.values() for v in outer_values(graph)]
        attribute_values = {n: _readable(a) for n, a in attributes(node).items() if n not in bodies}
        steps.append(DraftStep(node, attribute_values, inputs, outputs, captured=captured))

    def _gradient(self, node: ir.Node, inputs: list[Fact | None], scope: int, steps: list[DraftStep]) -> None:
        draft = gradient(self, node, inputs)
        outputs = [
            self.bind(v, Fact(self.name(v), scope, None if x is None else x.dtype, None if x is None else x.shape))
            for v, x in zip(node.outputs, inputs, strict=False)
        ]
        attribute_values = {n: _readable(a) for n, a in attributes(node).items()}
        steps.append(DraftStep(node, attribute_values, inputs, outputs, {"graph": draft}, differentiated=True))


def _declared_types(node: ir.Node) -> list[Inferred]:
    """What is stated of the results of a node whose operator no standard has."""
    return [UNKNOWN if v.type is None else read_type(ir.to_proto(v).type) for v in node.outputs]


def _settle(fact: Fact, array: np.ndarray) -> None:
    fact.dtype, fact.shape, fact.constant, fact.stored = array.dtype, array.shape, array, array
    fact._proto = None


def _readable(value: Any) -> Any:
    return text(value) if isinstance(value, np.ndarray) else value
