"""Replaying nodes: each one alone, in the system under test, on the oracle's inputs.

Networks are made that hold many single nodes of another network side by side, each with inputs of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import onnx_ir as ir

from deep_bench.check.arithmetic import Recall
from deep_bench.check.estimate import Deviations, Expectation
from deep_bench.check.oracle import SAMPLES, Truth, WideArithmetic, formats_of, settings_of
from deep_bench.check.subject import named
from deep_bench.graph import Network
from deep_bench.graph.node import as_array, keep_attached, operator_facts, operator_name, subgraphs
from deep_bench.tensor import is_inexact

_CHUNK_BYTES = 96 * 2**20
_CHUNK_NODES = 250
_SMALL = 128 * 2**10
_LARGE = 8 * 2**20
_KEPT_BYTES = 2 * 2**30

Expected = Expectation | np.ndarray
"""What a node may return: an estimate for floating point, else the one right array."""


@dataclass(frozen=True, slots=True)
class IsolatedNodes:
    """Single nodes side by side.

    Args:
        network: The nodes; its outputs are all of theirs, under their own names.
        inputs: What to feed.
        nodes: The nodes as the original network has them.
    """

    network: Network
    inputs: Mapping[str, np.ndarray]
    nodes: tuple[ir.Node, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Chunk:
    """Nodes that are replayed in one call, and what each output may be.

    Args:
        isolated: The nodes.
        expected: What their outputs may be.
        whole: Whether they are a network of a single node, and its own evaluations with rounding errors said so.
    """

    isolated: IsolatedNodes
    expected: Mapping[str, Expected]
    whole: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class NodeReplay:
    """One node's outputs as the system under test computed them, or the reason why it did not."""

    node: ir.Node
    expected: Mapping[str, Expected]
    actual: Mapping[str, np.ndarray]
    refused: str = ""

    @property
    def operator(self) -> str:
        """The operator, as messages name it."""
        return operator_name(self.node)

    def norm_wise(self) -> NodeReplay:
        """The same, expected to be accurate relative to its largest elements only."""
        expected = {n: e.norm_wise() if isinstance(e, Expectation) else e for n, e in self.expected.items()}
        return replace(self, expected=expected)


def evaluations(isolated: IsolatedNodes, samples: int, **options: Any) -> Iterator[dict[str, Any]]:
    """The outputs of isolated nodes: first the oracle's, then those of evaluations with rounding errors.

    Args:
        isolated: The nodes, and their inputs in the network's element types.
        samples: How many evaluations with rounding errors.
        options: Passed on to `WideArithmetic`.
    """
    from deep_bench import frameworks

    reference = frameworks["reference"]().prepare(isolated.network.without_kernels())
    formats = formats_of(reference, isolated.inputs)
    settings = settings_of(isolated.network.upgraded().graph)
    recall = Recall()
    for k in range(-1, samples):
        rng = np.random.default_rng([2, k]) if k >= 0 else None
        arithmetic = WideArithmetic(formats, settings, rng=rng, recall=recall, **options)
        yield reference.evaluate(isolated.inputs, arithmetic=arithmetic)


def expectations(isolated: IsolatedNodes, samples: int, **options: Any) -> dict[str, Expected]:
    """What the outputs of isolated nodes may be, estimated from evaluations with rounding errors."""
    rounds = evaluations(isolated, samples, **options)
    return _gathered(isolated, next(rounds), rounds)


def _gathered(
    isolated: IsolatedNodes, outputs: Mapping[str, Any], rounds: Iterable[Mapping[str, Any]]
) -> dict[str, Expected]:
    """What the outputs may be, from the oracle's and those of evaluations with rounding errors."""
    oracle = {spec.name: np.asarray(outputs[spec.name]) for spec in isolated.network.outputs}
    rounded = {n: Deviations(y) for n, y in oracle.items() if is_inexact(y.dtype)}
    for sample in rounds if rounded else ():
        for name, deviations in rounded.items():
            deviations.add(np.asarray(sample[name]))
    forms = {spec.name: spec.dtype for spec in isolated.network.outputs}
    return {n: rounded[n].expectation(forms[n]) if n in rounded else y for n, y in oracle.items()}


def replay(truth: Truth, subject: Any) -> Iterator[NodeReplay]:
    """Run every node of the network alone in the system under test.

    Args:
        truth: Of the network.
        subject: The system under test; nodes come in the form of the network that it runs.
    """
    for chunk in _chunks(truth, subject.upgrades):
        yield from _run(truth, subject, chunk)


def _run(truth: Truth, subject: Any, chunk: Chunk) -> Iterator[NodeReplay]:
    """One chunk; if it fails as a whole, its halves, down to single nodes."""
    nodes = chunk.isolated.nodes
    try:
        actual = subject.run(chunk.isolated.network, chunk.isolated.inputs)
    except Exception as error:  # whatever a framework raises: the node at fault is found below
        if len(nodes) == 1:
            yield NodeReplay(nodes[0], chunk.expected, {}, refused=_first_line(error))
            return
        form = form_of(truth.network, subject.upgrades)
        for part in (nodes[: len(nodes) // 2], nodes[len(nodes) // 2 :]):
            yield from _run(truth, subject, Chunk(isolate(form, part, truth.values), chunk.expected))
        return
    actual = named(actual, (spec.name for spec in chunk.isolated.network.outputs))
    for node in nodes:
        names = [str(v.name) for v in node.outputs if v.name in chunk.expected]
        yield NodeReplay(node, {n: chunk.expected[n] for n in names}, {n: actual[n] for n in names})


def form_of(network: Network, upgrades: bool) -> Network:
    """The form of a network that a system under test runs."""
    return network.upgraded() if upgrades else network


def _chunks(truth: Truth, upgrades: bool) -> Iterator[Chunk]:
    """The chunks of a network; kept for the next system under test as far as memory allows."""
    cache: dict[int, Chunk] = truth.replays.setdefault(upgrades, {})
    form = form_of(truth.network, upgrades)
    used = 0
    for number, (nodes, samples) in enumerate(_groups(form, truth)):
        chunk = cache.get(number)
        if chunk is None:
            isolated = isolate(form, nodes, truth.values)
            whole = _is_whole(truth, form, isolated, samples)
            chunk = Chunk(isolated, _expected(truth, form, nodes, samples, whole), whole)
        used += sum(3 * (e.value.nbytes if isinstance(e, Expectation) else e.nbytes) for e in chunk.expected.values())
        if used < _KEPT_BYTES:
            cache[number] = chunk
        yield chunk


def expected_of_whole(truth: Truth, upgrades: bool) -> dict[str, Expectation]:
    """What the outputs of a network of a single node may be, if `replay` found that out; else nothing.

    Args:
        truth: Of the network.
        upgrades: As of the system under test that was replayed.
    """
    chunks: Mapping[int, Chunk] = truth.replays.get(upgrades, {})
    expectations = [chunk.expected.items() for chunk in chunks.values() if chunk.whole]
    return {name: e for items in expectations for name, e in items if isinstance(e, Expectation)}


def _expected(truth: Truth, form: Network, nodes: Sequence[ir.Node], samples: int, whole: bool) -> dict[str, Expected]:
    """What the outputs of nodes may be; a node that both forms of the network have alike is estimated once."""
    estimates: dict[str, Expected] = {}
    for chunks in truth.replays.values():
        for chunk in chunks.values():
            alike = {_identity(n) for n in chunk.isolated.nodes}
            shared = [n for n in nodes if _identity(n) in alike]
            estimates |= {str(v.name): chunk.expected[v.name] for n in shared for v in n.outputs if v.name in chunk.expected}
    missing = [n for n in nodes if not any(v.name in estimates for v in n.outputs)]
    if not missing:
        return estimates
    isolated = isolate(form, missing, truth.values)
    return estimates | (_gathered(isolated, truth.outputs, truth.samples) if whole else expectations(isolated, samples))


def _is_whole(truth: Truth, form: Network, isolated: IsolatedNodes, samples: int) -> bool:
    """Whether isolated nodes are a network of a single node, of which enough evaluations with rounding errors are known."""
    if len(truth.samples) < samples or sum(1 for _ in form.all_nodes()) > 1:
        return False
    return all(isinstance(truth.outputs.get(spec.name), np.ndarray) for spec in isolated.network.outputs)


def _identity(node: ir.Node) -> tuple[object, ...]:
    """What two forms of a network have in common where upgrading left a node as it was: its operator, inputs and outputs."""
    values = (*node.inputs, None, *node.outputs)
    return (node.domain, node.op_type, *(None if v is None else v.name for v in values))


def _groups(form: Network, truth: Truth) -> Iterator[tuple[Sequence[ir.Node], int]]:
    """Nodes in groups of bounded size, each with how many samples its estimates are made from."""
    usual = SAMPLES[truth.effort]
    tiers: dict[int, list[ir.Node]] = {}
    for node in replayable(form, truth.values):
        samples = samples_for(_size(node, truth.values), usual)
        tiers.setdefault(samples, []).append(node)
    for samples, members in tiers.items():
        group: list[ir.Node] = []
        total = 0
        for node in members:
            size = _size(node, truth.values)
            if group and (total + size > _CHUNK_BYTES or len(group) == _CHUNK_NODES):
                yield group, samples
                group, total = [], 0
            group.append(node)
            total += size
        yield group, samples


def samples_for(size: int, usual: int) -> int:
    """How many evaluations with rounding errors an estimate is made from: fewer for large arrays, which pool neighbours.

    Args:
        size: Bytes that go into and come out of the nodes.
        usual: How many evaluations of the whole network the effort makes.
    """
    return max(8, usual) if size <= _SMALL else usual if size <= _LARGE else usual // 2


def _size(node: ir.Node, values: Mapping[str, np.ndarray]) -> int:
    names = (str(v.name) for v in (*node.inputs, *node.outputs) if v is not None)
    return sum(values[name].nbytes for name in names if name in values)


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)[:300]


SUFFIX = "__replayed"
"""What is added to the name of a value that is fed to a node alone."""


def replayable(network: Network, values: Mapping[str, np.ndarray]) -> Iterator[ir.Node]:
    """The nodes, those in subgraphs included, that can be run alone: all inputs and outputs are known tensors."""
    for node in network.all_nodes():
        if node.op_type == "Constant" or operator_facts(node).random or subgraphs(node):
            continue
        inputs = [v for v in node.inputs if v is not None]
        inputs_known = all(v.name in values or as_array(v) is not None for v in inputs)
        if inputs_known and any(v.name in values for v in node.outputs):
            yield node


def isolate(network: Network, nodes: Sequence[ir.Node], values: Mapping[str, np.ndarray]) -> IsolatedNodes:
    """A network of these nodes alone.

    Args:
        network: The network they are from.
        nodes: Some of its nodes.
        values: Name to array of every value that they read or write. Initializers and constants stay what they are, so
            that a runtime knows them when it prepares.
    """
    fed: dict[str, ir.Value] = {}
    constants: dict[str, ir.Value] = {}
    copies = [_copy(node, values, fed, constants) for node in nodes]
    outputs = [v for copy in copies for v in copy.outputs if v.name]
    graph = ir.Graph(
        tuple(fed.values()),
        outputs,
        nodes=copies,
        initializers=tuple(constants.values()),
        opset_imports=dict(network.graph.opset_imports),
        name="replay",
    )
    model = ir.Model(graph, ir_version=network.model.ir_version, functions=tuple(network.model.functions.values()))
    feeds = {name: values[name.removesuffix(SUFFIX)] for name in fed}
    return IsolatedNodes(Network(model, name=f"{network.name} replayed"), feeds, tuple(nodes))


def _copy(
    node: ir.Node, values: Mapping[str, np.ndarray], fed: dict[str, ir.Value], constants: dict[str, ir.Value]
) -> ir.Node:
    inputs = [None if v is None else _source(v, values, fed, constants) for v in node.inputs]
    outputs = [ir.Value(name=v.name if v.name in values else "") for v in node.outputs]
    for value in outputs:
        if value.name:
            _declare(value, values[value.name])
    copy = ir.Node(
        node.domain,
        node.op_type,
        inputs,
        list(node.attributes.values()),
        overload=node.overload,
        outputs=outputs,
        version=node.version,
        name=node.name,
    )
    keep_attached(node, copy)
    return copy


def _source(
    value: ir.Value, values: Mapping[str, np.ndarray], fed: dict[str, ir.Value], constants: dict[str, ir.Value]
) -> ir.Value:
    name = str(value.name)
    array = as_array(value)
    if array is not None:
        if name not in constants:
            tensor = value.const_value if value.const_value is not None else ir.tensor(array, name=name)
            constants[name] = ir.Value(name=f"{name}{SUFFIX}", const_value=tensor)
            _declare(constants[name], array)
        return constants[name]
    fresh = f"{name}{SUFFIX}"
    if fresh not in fed:
        fed[fresh] = ir.Value(name=fresh)
        _declare(fed[fresh], values[name])
    return fed[fresh]


def _declare(value: ir.Value, array: np.ndarray) -> None:
    strings = array.dtype == object or array.dtype.kind in "US"
    value.type = ir.TensorType(ir.DataType.STRING if strings else ir.DataType.from_numpy(array.dtype))
    value.shape = ir.Shape(array.shape)
