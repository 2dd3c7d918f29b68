"""``precision``: a network that holds its values in a narrower format."""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import ml_dtypes
import numpy as np
import onnx
import onnx_ir as ir

from deep_bench.check.oracle import settings_of
from deep_bench.errors import InvalidArgument
from deep_bench.graph import Network, NetworkLike, as_network
from deep_bench.graph.node import is_standard, operator_facts, operator_name, outer_values, schema, subgraphs
from deep_bench.network.transform.draft import Draft
from deep_bench.network.transform.equivalence import recast_name

Overflow = Literal["refuse", "keep", "saturate"]
_WIDE = (np.dtype(np.float32), np.dtype(np.float64))
"""The formats that are narrowed."""
_FORMATS = {"float16": np.dtype(np.float16), "bfloat16": np.dtype(ml_dtypes.bfloat16)}
_OLDEST_OPSET = {"float16": 13, "bfloat16": 22}
"""The first in which convolutions and pools take the format too."""


def precision(
    network: NetworkLike,
    to: str = "float16",
    *,
    keep: Sequence[str] = (),
    borders: bool = False,
    overflow: Overflow = "refuse",
) -> Network:
    """The network with float32 and float64 values held in a narrower format.

    Each node computes in ``to`` where its operator allows that; the others stay as they are, between casts, and so do nodes
    with graphs inside and the arithmetic of shapes. Results of nodes keep their names in whatever format; where both formats
    are needed, the other one is called ``name.float16``, ``name.float32`` or ``name.float64``.

    Args:
        network: Any network, or its file.
        to: ``"float16"`` or ``"bfloat16"``.
        keep: What stays as it is: names of nodes, with ``*`` and ``?``, or operators.
        borders: Whether inputs and outputs change their type too; otherwise they are cast.
        overflow: What to do about constants beyond the range of ``to``: ``"refuse"``; ``"keep"`` the nodes that use them in
            as they are; or ``"saturate"``: take the largest number instead (masks of -3.4e38).

    Raises:
        InvalidArgument: Another format; something to keep that is not there; or constants that overflow.

    Example:
        >>> import deep_bench as db
        >>> half = precision(db.load("digits-cnn"), "float16", keep=["Gemm"])
        >>> [str(spec) for spec in half.inputs], sum(node.op_type == "Cast" for node in half.nodes)
        (['image: float32[batch, 1, 8, 8]'], 2)
    """
    network = as_network(network)
    if to not in _FORMATS:
        raise InvalidArgument(f"the format {to!r}", f"one of {', '.join(_FORMATS)}")
    if overflow not in ("refuse", "keep", "saturate"):
        raise InvalidArgument(f"overflow {overflow!r}", "'refuse', 'keep' or 'saturate'")
    draft = Draft(network, "precision", _OLDEST_OPSET[to])
    retained = _nodes_to_keep(draft, keep)
    _Recast(draft, _FORMATS[to], retained, borders, overflow).run()
    return draft.finish()


def beyond_range(network: NetworkLike, to: str = "float16") -> dict[str, str]:
    """What the constants of a network lose in a narrower format, apart from rounding.

    Args:
        network: Any network, or its file.
        to: ``"float16"`` or ``"bfloat16"``.

    Returns:
        Name of an initializer to a sentence: how many elements overflow, or become 0.

    Example:
        >>> import deep_bench as db
        >>> beyond_range(db.load("digits-cnn"), "bfloat16")
        {}
    """
    network = as_network(network)
    losses = {}
    for name, array in network.initializers.items():
        if array.dtype in _WIDE and array.size:
            lost = _range_loss(array, _FORMATS[to])
            statements = [f"{count} of {array.size} elements {kind}" for kind, count in vars(lost).items() if count]
            if statements:
                losses[name] = "; ".join(statements)
    return losses


@dataclass(frozen=True)
class _RangeLoss:
    overflow: int
    vanish: int


def _range_loss(array: np.ndarray, form: np.dtype) -> _RangeLoss:
    with np.errstate(all="ignore"):
        narrow = array.astype(form).astype(np.float64)
    overflow = np.isinf(narrow) & np.isfinite(array)
    return _RangeLoss(int(overflow.sum()), int(((narrow == 0) & (array != 0)).sum()))


def _nodes_to_keep(draft: Draft, keep: Sequence[str]) -> set[str]:
    retained: set[str] = set()
    for pattern in keep:
        named = [
            str(n.name) for n in draft.graph if operator_name(n) == pattern or fnmatch.fnmatchcase(str(n.name), pattern)
        ]
        if not named:
            operators = ", ".join(sorted({operator_name(n) for n in draft.graph}))
            raise InvalidArgument(
                f"{pattern!r} to keep as it is, which {draft.source.name} does not have",
                f"the name of a node, with * and ?, or an operator: {operators}",
            )
        retained.update(named)
    return retained


class _Recast:
    """Walks a network and brings node after node to a narrower format."""

    def __init__(self, draft: Draft, form: np.dtype, retained: set[str], borders: bool, overflow: Overflow) -> None:
        self.draft, self.form, self.kept, self.borders, self.overflow = draft, form, retained, borders, overflow
        self.settings = settings_of(draft.graph)
        self.low = ir.DataType.from_numpy(form)
        self._made: dict[tuple[ir.Value, np.dtype], ir.Value] = {}
        self._lowered: dict[ir.Value, np.dtype] = {}

    def run(self) -> None:
        """Recast all nodes, then the inputs that they left, then the outputs."""
        knowledge = self.draft.knowledge
        if self.borders:
            for value in self.draft.graph.inputs:
                if knowledge.dtype(value) in _WIDE and value.name not in self.draft.graph.initializers:
                    self._retype(value)
        for node in tuple(self.draft.graph):
            indices = self._lowered_inputs(node)
            if indices and self._lower(node, indices):
                continue
            self._restore(node)
        for value in list(self.draft.graph.outputs):
            self._return(value)

    def _lowered_inputs(self, node: ir.Node) -> list[int]:
        """The inputs of a node that can be of the narrower format; none if the node stays as it is."""
        operator_schema = schema(node, self.draft.network.opset) if is_standard(node) else None
        settings = any(str(v.name) in self.settings for v in node.outputs if v.name)
        stays = str(node.name) in self.kept or operator_facts(node).states_type
        if operator_schema is None or subgraphs(node) or settings or stays:
            return []
        types = {c.type_param_str: set(c.allowed_type_strs) for c in operator_schema.type_constraints}
        indices = []
        for index, value in enumerate(node.inputs):
            formal = operator_schema.inputs[min(index, len(operator_schema.inputs) - 1)]
            allowed = types.get(formal.type_str, {formal.type_str})
            if value is not None and self._is_wide(value) and f"tensor({self.form.name})" in allowed:
                indices.append(index)
        if self.overflow == "keep" and any(self._overflows(node.inputs[i]) for i in indices):
            return []
        return indices

    def _is_wide(self, value: ir.Value) -> bool:
        return self.draft.knowledge.dtype(value) in _WIDE or value in self._lowered

    def _overflows(self, value: ir.Value | None) -> bool:
        array = self.draft.constant(value)
        return array is not None and array.dtype in _WIDE and _range_loss(array, self.form).overflow > 0

    def _lower(self, node: ir.Node, indices: Sequence[int]) -> bool:
        """Let a node compute in the narrower format, if its result is then in that format, as inference says."""
        knowledge, before = self.draft.knowledge, list(node.inputs)
        value_types = {v: knowledge.type_of(v) for v in node.outputs}
        for index in indices:
            node.replace_input_with(index, self._in(before[index], self.form, node))
        knowledge.infer(node)
        if any(knowledge.dtype(v) == self.form for v in node.outputs):
            lowered = [v for v in node.outputs if v.name and knowledge.dtype(v) == self.form]
            for value in lowered:
                value.type = ir.TensorType(self.low)
            self._lowered |= {v: self._before(value_types[v], before) for v in lowered}
            return True
        for index, original in enumerate(before):
            node.replace_input_with(index, original)
        for value, form in value_types.items():
            knowledge.state(value, form)
        return False

    def _before(self, value_type: Any, inputs: Sequence[ir.Value | None]) -> np.dtype:
        """The format that a value had: the one that was known, else the widest of what it is computed from."""
        if value_type is not None:
            return np.dtype(onnx.helper.tensor_dtype_to_np_dtype(value_type.tensor_type.elem_type))
        forms = [self._lowered.get(v, self.draft.knowledge.dtype(v)) for v in inputs if v is not None]
        return max((f for f in forms if f in _WIDE), key=lambda f: f.itemsize)

    def _restore(self, node: ir.Node) -> None:
        """Let a node that stays as it is have its inputs so, and the graphs in it what they take from around them."""
        for index, value in enumerate(node.inputs):
            if value is not None and value in self._lowered:
                node.replace_input_with(index, self._in(value, self._lowered[value], node))
        for graph in subgraphs(node).values():
            for value in outer_values(graph):
                if value in self._lowered:
                    wide = self._in(value, self._lowered[value], node)
                    for use in [u for u in value.uses() if u.node.graph is not self.draft.graph]:
                        use.node.replace_input_with(use.idx, wide)
                    for inner in (graph, *graph.subgraphs()):
                        inner.outputs[:] = [wide if v is value else v for v in inner.outputs]

    def _in(self, value: ir.Value | None, form: np.dtype, node: ir.Node) -> ir.Value:
        """A value in a format: itself, a constant of that format, or a cast."""
        assert value is not None
        if self.draft.knowledge.dtype(value) == form:
            return value
        if (value, form) not in self._made:
            array = self.draft.constant(value)
            name = recast_name(str(value.name), form)
            if array is not None:
                result = self.draft.initializer(name, self._narrow(array, value, node))
            else:
                result = ir.Value(name=self.draft.names.fresh(name))
                to = ir.AttrInt64("to", int(ir.DataType.from_numpy(form)))
                cast = ir.Node("", "Cast", [value], [to], outputs=[result], name=self.draft.names.fresh(f"{name}.Cast"))
                self.draft.graph.append(cast)
                self.draft.knowledge.infer(cast)
            self._made[value, form] = result
        return self._made[value, form]

    def _narrow(self, array: np.ndarray, value: ir.Value, node: ir.Node) -> np.ndarray:
        lost = _range_loss(array, self.form).overflow
        if lost and self.overflow == "refuse":
            largest = float(np.max(np.abs(array[np.isfinite(array)])))
            raise InvalidArgument(
                f"{lost} of {array.size} elements of the constant {value.name!r} of node {node.name!r} "
                f"({operator_name(node)}) overflow in {self.form.name}: up to {largest:.4g}",
                f"constants up to {float(ml_dtypes.finfo(self.form).max):.4g}",
                f"keep the node as it is (keep=[{str(node.name)!r}], or overflow='keep'), or overflow='saturate'",
            )
        if lost:
            limit = float(ml_dtypes.finfo(self.form).max)
            array = np.where(np.isfinite(array), np.clip(array, -limit, limit), array)
        return array.astype(self.form)

    def _retype(self, value: ir.Value) -> None:
        value_type = self.draft.knowledge.type_of(value)
        assert value_type is not None
        before, value_type.tensor_type.elem_type = value_type.tensor_type.elem_type, int(self.low)
        value.type = ir.TensorType(self.low)
        self._lowered[value] = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(before))

    def _return(self, value: ir.Value) -> None:
        """Give an output in the type that it shall have, under its name."""
        knowledge, producer = self.draft.knowledge, value.producer()
        form = knowledge.dtype(value)
        if producer is None or form is None or not self._is_wide(value):
            return
        target_form = self.form if self.borders else self._lowered.get(value, form)
        if form == target_form:
            return
        shape, name = value.shape, str(value.name)
        result = self._in(value, target_form, producer)
        value.name = self.draft.names.fresh(recast_name(name, form))
        knowledge.state(value, knowledge.type_of(result))
        result.name, result.shape = name, shape
        result.type = ir.TensorType(ir.DataType.from_numpy(target_form))
        self.draft.graph.outputs[:] = [result if v is value else v for v in self.draft.graph.outputs]
