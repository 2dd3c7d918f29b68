"""The distinct nodes of a network as cases, with how often each occurs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir

from deep_bench.errors import DeepBenchError, InvalidNetwork
from deep_bench.framework import check_inputs
from deep_bench.graph import Network, attributes, load
from deep_bench.graph.drawing import draw_inputs
from deep_bench.graph.node import as_array, is_standard, subgraphs
from deep_bench.graph.sizes import choose_sizes
from deep_bench.operators.argument import Argument
from deep_bench.operators.case import Case
from deep_bench.operators.case_label import label_of
from deep_bench.operators.case_schema import input_names, spelled
from deep_bench.operators.draws_table import draw_of, is_setting
from deep_bench.operators.suites.suite import Suite
from deep_bench.operators.suites.values import Values
from deep_bench.tensor import TensorSpec, is_float

_KEPT_ELEMENTS = 64
"""Whole numbers of 8 bits and fewer are settings up to here, and quantised weights beyond."""

_NAMED = 3
"""How many nodes a case's source names."""


class _LeftOut(Exception):
    """Why a node makes no case."""


def cases_of(
    network: str | Path | Network,
    inputs: Mapping[str, np.ndarray] | None = None,
    sizes: Mapping[str, int] | None = None,
    *,
    seed: int = 0,
) -> Suite:
    """Every distinct node of a network as a case, in order of first occurrence; ``count`` says how often it occurs.

    Two nodes are the same if operator, attributes, shapes, element types and constants are. Parameters are drawn; what sets
    an operator up (shapes, axes, limits, small whole numbers) is constant. Scales and zero points of a quantisation are
    those of the first such node. Where shapes, or numbers that the network computes for a setting, are not known before, the
    reference runs the network once.

    Args:
        network: A network, a file, or the name of one that ships. It is upgraded first.
        inputs: Name to array, for sizes that depend on contents; drawn by default.
        sizes: Open dimension to size; by default as for ``db.run``.
        seed: Of the inputs, if they are drawn.

    Returns:
        A suite; its notes say which sizes were chosen, and which nodes are left out and why: those that hold graphs, and
        those with sequences.

    Raises:
        InvalidNetwork: The network cannot be used.
        InvalidInput: The inputs do not fit it.
        InvalidArgument: A size for a dimension that is not open.

    Example:
        >>> suite = cases_of("digits-cnn", sizes={"batch": 8})
        >>> case = suite.case("Conv 8x32x4x4 32x32x3x3")
        >>> case.count, case.attributes["pads"], [str(a) for a in case.arguments]
        (2, (1, 1, 1, 1), ['X: float32[8, 32, 4, 4]', 'W: float32[32, 32, 3, 3]'])
    """
    source = (network if isinstance(network, Network) else load(network)).without_kernels()
    for spec in source.inputs:
        if not spec.is_tensor:
            raise InvalidNetwork(f"{source.name} has the input {spec}", "tensors, since only their sizes are known")
    chosen = choose_sizes(source, sizes or {}, inputs=inputs)
    fixed = (source.with_sizes(chosen.all) if chosen.all else source).upgraded()
    fed = check_inputs(fixed.inputs, inputs) if inputs is not None else None
    values = Values(fixed, lambda: draw_inputs(fixed, seed) if fed is None else fed)
    notes = [f"{name} = {size}, which nobody stated" for name, size in chosen.chosen.items()]
    return _collect(source.name, fixed, values, notes)


@dataclass
class _Group:
    """Nodes that pose the same problem."""

    case: Case
    nodes: list[str] = field(default_factory=list)

    def labelled(self, network: str) -> Case:
        extra = len(self.nodes) - _NAMED
        named = ", ".join(self.nodes[:_NAMED]) + (f" and {extra} more" if extra > 0 else "")
        case = self.case
        return replace(
            case,
            label=f"{case.op_type} {label_of(case)}",
            tags=frozenset({network, case.op_type}),
            count=len(self.nodes),
            source=f"{network}: {named}",
        )


def _collect(name: str, network: Network, values: Values, notes: Sequence[str]) -> Suite:
    groups: dict[Any, _Group] = {}
    left_out: dict[str, list[str]] = {}
    for node in network.nodes:
        if node.op_type == "Constant" and is_standard(node):
            continue
        try:
            case = _case(node, values)
        except _LeftOut as reason:
            left_out.setdefault(f"{node.op_type} ({reason})", []).append(str(node.name))
            continue
        groups.setdefault(_problem(case), _Group(case)).nodes.append(str(node.name))
    cases = [group.labelled(name) for group in groups.values()]
    missing = [f"left out: {description}: {len(nodes)}, such as {nodes[0]}" for description, nodes in left_out.items()]
    return Suite(name, cases, f"the nodes of {name}", notes=(*notes, *missing))


def _case(node: ir.Node, values: Values) -> Case:
    """One node as a case.

    Raises:
        _LeftOut: It holds graphs, or what it is given is no tensor of a known size.
    """
    if subgraphs(node):
        raise _LeftOut("it holds a graph")
    operator = spelled(node)
    try:
        names = input_names(operator, len(node.inputs))
        arguments = tuple(
            None if value is None else _argument(operator, name, value, values)
            for name, value in zip(names, node.inputs, strict=True)
        )
        output_count = max((i + 1 for i, v in enumerate(node.outputs) if v.name), default=1)
        case = Case(operator, arguments, attributes(node), outputs=output_count)
        case = replace(case, arguments=tuple(_drawn(case, i) for i in range(len(arguments))))
        case.results  # noqa: B018 (what cannot be made a network is left out)
    except DeepBenchError as error:
        raise _LeftOut(error.came) from error
    return case


def _drawn(case: Case, index: int) -> Argument | None:
    argument = case.arguments[index]
    if argument is None or argument.value is not None:
        return argument
    return replace(argument, draw=draw_of(case, index))


def _argument(operator: str, name: str, value: ir.Value, values: Values) -> Argument:
    constant = as_array(value)
    if constant is not None and _is_kept(operator, name, constant):
        return Argument.constant(constant, name)
    if is_setting(operator, name):
        contents = constant if constant is not None else values.contents(value)
        if contents is None:
            raise _LeftOut(f"its {name} is not known{values.failure}")
        return Argument.constant(contents, name)
    spec = values.spec(value) if constant is None else TensorSpec(name, constant.shape, constant.dtype)
    if spec is None:
        raise _LeftOut(f"the size of its {name} is not known{values.failure}")
    if not spec.is_tensor:
        raise _LeftOut(f"its {name} is a {spec.containers[0]}")
    return Argument(spec)


def _is_kept(operator: str, name: str, array: np.ndarray) -> bool:
    """Whether a constant is part of the problem; otherwise it is a parameter, and drawn."""
    if is_setting(operator, name) or array.size <= 1 or name.endswith("zero_point"):
        return True
    if is_float(array.dtype) or array.dtype.kind == "c" or (operator == "QLinearConv" and name == "B"):
        return False
    return array.dtype.kind not in "iuV" or array.dtype.itemsize > 1 or array.size <= _KEPT_ELEMENTS


def _problem(case: Case) -> Any:
    """What makes cases the same: their content, but for the numbers of scales and zero points."""
    plain = tuple(
        replace(a, value=None, draw="normal")
        if a is not None and a.value is not None and a.spec.name.endswith(("_scale", "zero_point"))
        else a
        for a in case.arguments
    )
    return replace(case, arguments=plain).problem
