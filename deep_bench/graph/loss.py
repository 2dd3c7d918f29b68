"""A network with a loss appended."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir

from deep_bench.errors import InvalidArgument, InvalidNetwork
from deep_bench.graph.network import Network
from deep_bench.graph.upgrade.edit import Names, inferred

_OLDEST_OPSET = 13
"""The first in which the losses take bfloat16, and reductions their axes as an input."""

_UPGRADED_TO = 21
"""What an older network is brought to: gradients are written in it too."""

_REDUCTIONS = ("mean", "none", "sum")
_ARGUMENTS = ("name", "output", "target")


def with_loss(network: Network, kind: str, *, output: str, target: str | None, name: str, **attributes: Any) -> Network:
    """See `Network.with_loss`."""
    if kind not in LOSSES:
        raise InvalidArgument(f"loss {kind!r}", f"one of {', '.join(LOSSES)}", _nearest(str(kind), LOSSES))
    _check_attributes(kind, attributes)
    for argument, value in {"output": output, "target": target, "name": name}.items():
        if value == "" or not isinstance(value, str | None if argument == "target" else str):
            raise InvalidArgument(f"{argument}={value!r}", "the name of a value")
    changed = (network if network.opset >= _OLDEST_OPSET else network.upgraded(_UPGRADED_TO)).copy()
    site = _Site(changed, output, name)
    if target is not None and target in site.values:
        raise InvalidArgument(f"{network.name} has a value {target!r} already", "a new name for the target")
    if name in site.values:
        raise InvalidArgument(f"{network.name} has a value {name!r} already", "a new name for the loss: name=…")
    takes_target = kind != "Sum"
    if takes_target != (target is not None):
        raise InvalidArgument(
            f"{kind} with target {target!r}",
            "the name of a new input, such as target='label'" if takes_target else "no target",
        )
    node_attributes = {key: int(value) if key == "ignore_index" else value for key, value in attributes.items()}
    LOSSES[kind](site, str(target), node_attributes)
    return Network(changed.model, name=network.name, source=None)


def _check_attributes(kind: str, attributes: Mapping[str, Any]) -> None:
    """Whether a loss has these attributes, with values that ONNX has for them."""
    allowed = ATTRIBUTES.get(kind, ())
    for name, value in attributes.items():
        if name not in allowed:
            advice = _nearest(name, (*allowed, *_ARGUMENTS))
            raise InvalidArgument(
                f"{kind} has no attribute {name!r}", f"some of {', '.join(allowed)}" if allowed else "no attributes", advice
            )
        if name == "reduction" and value not in _REDUCTIONS:
            raise InvalidArgument(
                f"reduction={value!r}", f"one of {', '.join(_REDUCTIONS)}", _nearest(str(value), _REDUCTIONS)
            )
        if name == "ignore_index" and (isinstance(value, bool) or not isinstance(value, int | np.integer)):
            raise InvalidArgument(f"ignore_index={value!r}", "an integer, the label of what does not count")


def _nearest(name: str, candidates: Iterable[str]) -> str:
    near = difflib.get_close_matches(name, list(candidates), n=1)
    return f"did you mean {near[0]!r}?" if near else ""


class _Site:
    """The end of a network, where nodes are appended."""

    def __init__(self, network: Network, output: str, name: str) -> None:
        self.graph, self._names, self._loss = network.graph, Names(network), name
        graph_values = (*self.graph.inputs, *self.graph.initializers.values(), *(v for n in self.graph for v in n.outputs))
        self.values = {str(v.name): v for v in graph_values}
        if output not in self.values:
            outputs = ", ".join(spec.name for spec in network.outputs)
            raise InvalidArgument(
                f"{network.name} has no value {output!r}", f"a value of its graph; its outputs are {outputs}"
            )
        self.y = self.values[output]
        inferred_type = inferred(network).get(output)
        if inferred_type is None or not inferred_type.elem_type:
            raise InvalidNetwork(f"the type of {output!r} in {network.name} is unknown", "a value with a declared type")
        self.dtype = ir.DataType(inferred_type.elem_type)
        self.dims: list[Any] | None = None
        if inferred_type.HasField("shape"):
            self.dims = [d.dim_value if d.HasField("dim_value") else (d.dim_param or None) for d in inferred_type.shape.dim]
        elif self.y.shape is not None:
            self.dims = list(self.y.shape)

    def target(self, name: str, dtype: ir.DataType, dims: list[Any]) -> ir.Value:
        """A new input."""
        value = ir.Value(name=name, type=ir.TensorType(dtype), shape=ir.Shape(dims))
        self.graph.inputs.append(value)
        return value

    def shape(self, least: int) -> list[Any]:
        """The dimensions of the output."""
        if self.dims is None or len(self.dims) < least:
            raise InvalidArgument(
                f"{self.y.name!r} has {'an unknown shape' if self.dims is None else f'shape {self.dims}'}",
                f"at least {least} dimensions, known before a run",
            )
        return self.dims

    def node(self, op_type: str, *inputs: ir.Value, name: str | None = None, **attributes: Any) -> ir.Value:
        """A new node, and its output."""
        output = ir.Value(name=name or self._names.fresh(f"{self._loss}.{op_type}"))
        node_attributes = ir.convenience.convert_attributes(attributes)
        self.graph.append(
            ir.Node(
                "", op_type, inputs, node_attributes, outputs=[output], name=self._names.fresh(f"{self._loss}.{op_type}")
            )
        )
        return output

    def end(self, op_type: str, *inputs: ir.Value, **attributes: Any) -> None:
        """The node that gives the loss: a scalar, unless ``reduction`` is ``"none"``."""
        loss = self.node(op_type, *inputs, name=self._loss, **attributes)
        loss.type = ir.TensorType(self.dtype)
        loss.shape = None if attributes.get("reduction") == "none" else ir.Shape([])
        self.graph.outputs.append(loss)


def _by_class(op_type: str) -> Callable[[_Site, str, Mapping[str, Any]], None]:
    """A loss of scores or log-probabilities [N, C, …] and labels [N, …]."""

    def append(site: _Site, target: str, attributes: Mapping[str, Any]) -> None:
        batch, _, *spatial = site.shape(2)
        labels = site.target(target, ir.DataType.INT64, [batch, *spatial])
        site.end(op_type, site.y, labels, **attributes)

    return append


def _mean_of(*op_types: str) -> Callable[..., None]:
    """The mean of a function of the difference between the output and a target of its shape."""

    def append(site: _Site, target: str, _: Mapping[str, Any]) -> None:
        difference = site.node("Sub", site.y, site.target(target, site.dtype, site.shape(0)))
        for op_type in op_types:
            inputs = (difference, difference) if op_type == "Mul" else (difference,)
            difference = site.node(op_type, *inputs)
        site.end("ReduceMean", difference, keepdims=0)

    return append


def _sum(site: _Site, _: str, __: Mapping[str, Any]) -> None:
    site.end("ReduceSum", site.y, keepdims=0)


LOSSES: Mapping[str, Callable[[_Site, str, Mapping[str, Any]], None]] = {
    "MeanAbsoluteError": _mean_of("Abs"),
    "MeanSquaredError": _mean_of("Mul"),
    "NegativeLogLikelihoodLoss": _by_class("NegativeLogLikelihoodLoss"),
    "SoftmaxCrossEntropyLoss": _by_class("SoftmaxCrossEntropyLoss"),
    "Sum": _sum,
}
"""Name to what appends the loss."""

ATTRIBUTES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {kind: tuple(onnx.defs.get_schema(kind).attributes) for kind in LOSSES if onnx.defs.has(kind)}
)
"""Name to the attributes of a loss that is an operator of ONNX; others have none."""
