"""A suite from whatever a caller has; of a network, its distinct nodes as cases, with how often each occurs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir

from deep_bench.errors import DeepBenchError, InvalidArgument, InvalidNetwork
from deep_bench.events import Moment, NodeEvent
from deep_bench.framework import check_inputs
from deep_bench.graph import Network, attributes, load
from deep_bench.graph.drawing import choose_sizes, draw_inputs
from deep_bench.graph.network import tensor_spec
from deep_bench.graph.node import as_array, is_standard, subgraphs
from deep_bench.operators.argument import Argument
from deep_bench.operators.case import Case, label_of
from deep_bench.operators.case_schema import input_names, row_of, spelled
from deep_bench.operators.draws import draw_of
from deep_bench.operators.suites.suite import Suite
from deep_bench.tensor import TensorSpec, is_float

_INFERRED_BYTES = 2**30
"""Networks with more than this in constants are too large for the inference, which serialises them."""


_SMALL = 4096
"""Elements of a value that is kept from a run, in case that it sets an operator up."""


class Values:
    """The description and, where they set an operator up, the contents of a network's values.

    Args:
        network: Its input dimensions must be fixed.
        inputs: Gives what the network is fed; called only if a run is needed.

    Attributes:
        failure: Why the run ended before its end, for messages.
    """

    def __init__(self, network: Network, inputs: Callable[[], Mapping[str, np.ndarray]]) -> None:
        self._network = network
        self._inputs = inputs
        self.failure = ""

    def spec(self, value: ir.Value) -> TensorSpec | None:
        """A value's shape and element type; ``None`` if not even a run shows them."""
        inferred = self._inferred.get(str(value.name))
        if inferred is not None and (not inferred.is_tensor or not inferred.open_dimensions):
            return inferred
        return self._run[0].get(str(value.name))

    def contents(self, value: ir.Value) -> np.ndarray | None:
        """A small value's elements, as a run shows them."""
        return self._run[1].get(str(value.name))

    @cached_property
    def _inferred(self) -> dict[str, TensorSpec]:
        specs = {spec.name: spec for spec in self._network.inputs}
        if sum(a.nbytes for a in self._network.initializers.values()) > _INFERRED_BYTES:
            return specs
        try:
            proto = onnx.shape_inference.infer_shapes(self._network.to_proto(), data_prop=True)
        except (onnx.shape_inference.InferenceError, RuntimeError):
            return specs
        for value in ir.from_proto(proto).graph.all_nodes():
            for output in value.outputs:
                if output.name and output.shape is not None:
                    _add(specs, output)
        return specs

    @cached_property
    def _run(self) -> tuple[dict[str, TensorSpec], dict[str, np.ndarray]]:
        """Descriptions and small contents of the outermost graph's values, by name."""
        from deep_bench import frameworks

        specs, contents = dict[str, TensorSpec](), dict[str, np.ndarray]()
        outputs = {str(node.name): [str(v.name) for v in node.outputs] for node in self._network.nodes}

        def note(name: str, value: Any) -> None:
            if name and isinstance(value, np.ndarray | np.generic):
                array = np.asarray(value)
                specs[name] = TensorSpec(name, array.shape, array.dtype)
                if array.size <= _SMALL:
                    contents[name] = array

        def tell(moment: Moment, event: NodeEvent) -> None:
            if moment is Moment.AFTER_NODE and event.node in outputs:
                for name, value in zip(outputs[event.node], event.outputs or (), strict=False):
                    note(name, value)

        inputs = self._inputs()
        for name, array in inputs.items():
            note(name, array)
        try:
            with np.errstate(all="ignore"):
                frameworks["reference"]().prepare(self._network).walk(inputs, tell)
        except DeepBenchError as error:
            self.failure = f", and the reference cannot run the network: {error.came}"
        except Exception as error:  # sizes and contents that nobody stated may make no sense to the network
            self.failure = f", and the network does not run on these inputs: {error}".partition("\n")[0]
        return specs, contents


def _add(specs: dict[str, TensorSpec], value: ir.Value) -> None:
    try:
        specs[str(value.name)] = tensor_spec(value)
    except InvalidNetwork:  # inference does not know its type
        return


_MOST_CONSTANT_ELEMENTS = 64
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
    groups: dict[Any, _Group] = {}
    left_out: dict[str, list[str]] = {}
    for node in fixed.nodes:
        if node.op_type == "Constant" and is_standard(node):
            continue
        try:
            case = _case(node, values)
        except _LeftOut as reason:
            left_out.setdefault(f"{node.op_type} ({reason})", []).append(str(node.name))
            continue
        groups.setdefault(_problem(case), _Group(case)).nodes.append(str(node.name))
    cases = [group.labelled(source.name) for group in groups.values()]
    missing = [f"left out: {description}: {len(nodes)}, such as {nodes[0]}" for description, nodes in left_out.items()]
    return Suite(source.name, cases, f"the nodes of {source.name}", notes=(*notes, *missing))


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
    if constant is not None and _is_constant(operator, name, constant):
        return Argument.constant(constant, name)
    if name in row_of(operator).constants:
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


def _is_constant(operator: str, name: str, array: np.ndarray) -> bool:
    """Whether a constant is part of the problem; otherwise it is a parameter, and drawn."""
    if name in row_of(operator).constants or array.size <= 1 or name.endswith("zero_point"):
        return True
    if is_float(array.dtype) or array.dtype.kind == "c" or (operator == "QLinearConv" and name == "B"):
        return False
    return array.dtype.kind not in "iuV" or array.dtype.itemsize > 1 or array.size <= _MOST_CONSTANT_ELEMENTS


def _problem(case: Case) -> Any:
    """What makes cases the same: their content, but for the numbers of scales and zero points."""
    plain = tuple(
        replace(a, value=None, draw="normal")
        if a is not None and a.value is not None and a.spec.name.endswith(("_scale", "zero_point"))
        else a
        for a in case.arguments
    )
    return replace(case, arguments=plain).problem


def suite_of(given: str | Path | Network | Suite | Case | Iterable[Case]) -> Suite:
    """A suite.

    Args:
        given: A suite; one case or several; a name in ``db.suites`` or an import path; a ``.toml`` file that holds a suite;
            an ``.onnx`` file or a network, whose nodes are taken.

    Raises:
        UnknownName: No such suite; the nearest name is suggested.
        InvalidArgument: A file that cannot be read, or that is neither, or something else than cases.

    Example:
        >>> suite_of("deepbench/gemm/device"), suite_of(Case.of("Gelu", (2, 3)))
        (Suite('deepbench/gemm/device', 13 cases), Suite('Gelu 2x3', 1 cases))
    """
    if isinstance(given, Suite):
        return given
    if isinstance(given, Case):
        return Suite(given.name, [given])
    if isinstance(given, Network):
        return _from_network(given)
    if isinstance(given, str | Path):
        suffix = Path(given).suffix
        if suffix == ".toml":
            return Suite.from_toml(given)
        if suffix == ".onnx":
            return _from_network(Path(given))
        from deep_bench import suites

        suite = suites[str(given)]
        if not isinstance(suite, Suite):
            raise InvalidArgument(f"{str(given)!r} is a {type(suite).__name__}", "a suite, or a function that makes one")
        return suite
    if isinstance(given, Iterable):
        return Suite("cases", list(given))
    raise InvalidArgument(f"{given!r} as a suite", "a name, a .toml or .onnx file, a network, a suite, or cases")


def _from_network(network: Network | Path) -> Suite:

    return cases_of(network)
