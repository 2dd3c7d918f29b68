"""One sweep through a graph: types, shapes, known values, nodes that need not run."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
import onnx_ir as ir

from deep_bench.adapters.lowering.alias import alias
from deep_bench.adapters.lowering.control import CONTROL
from deep_bench.adapters.lowering.draft import Draft, DraftStep
from deep_bench.adapters.lowering.facts import Fact, constant_fact, read_type
from deep_bench.adapters.lowering.fold import fold
from deep_bench.adapters.lowering.gradient import GRADIENT, gradient
from deep_bench.adapters.lowering.infer import UNKNOWN, Inferred, infer, partial
from deep_bench.errors import Unsupported
from deep_bench.graph.attached import KERNEL_DOMAIN, kernel_of
from deep_bench.graph.node import as_array, attributes, is_standard, operator_name, outer_values, settings, subgraphs
from deep_bench.graph.upgrade.edit import Names
from deep_bench.tensor import text


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

    def graph(self, graph: ir.Graph, scope: int) -> Draft:
        """Analyse a graph whose inputs are bound already."""
        steps: list[DraftStep] = []
        self.nodes(graph, scope, steps)
        return Draft(
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
        kinds = _declared(node) if node.domain == KERNEL_DOMAIN else infer(node, inputs, self.opsets)
        has_kernel = kernel_of(node) is not None  # computes for itself what would be known otherwise
        source = None if has_kernel else alias(node, inputs, attribute_values, kinds[0][1])
        if source is not None and not any(_used(v) for v in node.outputs[1:]):
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


def _declared(node: ir.Node) -> list[Inferred]:
    """What is stated of the results of a node whose operator no standard has."""
    return [UNKNOWN if v.type is None else read_type(ir.to_proto(v).type) for v in node.outputs]


def _settle(fact: Fact, array: np.ndarray) -> None:
    fact.dtype, fact.shape, fact.constant, fact.stored = array.dtype, array.shape, array, array
    fact._proto = None


def _used(value: ir.Value) -> bool:
    return bool(value.uses()) or value.is_graph_output()


def _readable(value: Any) -> Any:
    return text(value) if isinstance(value, np.ndarray) else value
