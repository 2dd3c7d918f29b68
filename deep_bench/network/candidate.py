"""Smaller networks made from a network, and the search for the smallest.

Some of its nodes are fed with the oracle's values where the others were; nodes are bypassed; outputs, dimensions, attributes
and numbers become fewer or simpler, where shapes allow.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations, islice
from typing import Any, TypeVar

import numpy as np
import onnx_ir as ir

from deep_bench.check.oracle import WideArithmetic, formats_of, narrowed, settings_of
from deep_bench.errors import UnsupportedOperator, WorkerDied
from deep_bench.graph import Network, operator_name
from deep_bench.graph.node import as_array, outer_values, subgraphs
from deep_bench.measure.progress import Bars
from deep_bench.study.judging import quiet
from deep_bench.tensor import is_float

_CONSTANT_UP_TO = 64


@dataclass(frozen=True, eq=False)
class Candidate:
    """A network with its inputs.

    Args:
        network: No open dimensions.
        inputs: Name to array.
        known: Name to the oracle's value, as far as they are known from a larger network.
    """

    network: Network
    inputs: Mapping[str, np.ndarray]
    known: Mapping[str, np.ndarray] = field(default_factory=dict)

    @cached_property
    def values(self) -> Mapping[str, np.ndarray]:
        """The oracle's value of every tensor of the outermost graph, in the network's element types.

        Raises:
            UnsupportedOperator: A node has no reference.
        """
        if self.known:
            return self.known
        return oracle_values(self.network, self.inputs)

    @cached_property
    def comparable(self) -> bool:
        """Whether every node has a reference, so that there is an oracle."""
        from deep_bench import frameworks

        try:
            frameworks["reference"]().prepare(self.network)
        except UnsupportedOperator:
            return False
        return True

    @property
    def nodes(self) -> list[str]:
        """The names of the nodes that compute something."""
        return [str(n.name) for n in self.network.nodes if n.op_type != "Constant"]

    @property
    def size(self) -> int:
        """The number of elements of all inputs and weights."""
        return sum(a.size for a in (*self.inputs.values(), *self.network.initializers.values()))

    def expected(self) -> dict[str, np.ndarray]:
        """The oracle's outputs, in the network's element types."""
        values = {**self.inputs, **self.network.initializers, **self.values}
        return {spec.name: values[spec.name] for spec in self.network.outputs if spec.name in values}


def oracle_values(network: Network, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The oracle's value of every tensor that a node of the outermost graph gives, in the network's element types."""
    from deep_bench import frameworks

    reference = frameworks["reference"]().prepare(network)
    formats = formats_of(reference, inputs)
    upgraded = network.upgraded()
    outermost = {str(v.name) for node in upgraded.nodes for v in node.outputs if v.name}
    values: dict[str, np.ndarray] = {}

    def observe(step: Any, arrays: Sequence[Any], results: Sequence[Any]) -> None:  # noqa: ARG001 (an Observer)
        for name, y in zip(step.outputs, results, strict=False):
            if name in outermost and isinstance(y, np.ndarray | np.generic):
                values[name] = narrowed(np.asarray(y), formats.get(name))

    reference.evaluate(inputs, arithmetic=WideArithmetic(formats, settings_of(upgraded.graph)), observe=observe)
    constants = ((str(v.name), as_array(v)) for node in network.nodes for v in node.outputs if v.name)
    values.update({name: array for name, array in constants if array is not None})
    return values


def keep_nodes(whole: Candidate, names: Collection[str], *, outputs: Collection[str] | None = None) -> Candidate | None:
    """The network of these nodes alone: what others gave them is fed, what they give to others is returned.

    Args:
        whole: The network they are from.
        names: Names of nodes.
        outputs: Which of the values to return; by default all that the others or the caller used.

    Returns:
        ``None`` where that cannot be: a value that would have to be fed is not known or no tensor, or nothing is left.
    """
    changed = whole.network.copy()
    graph = changed.graph
    selected = {*names}
    dropped = [n for n in graph if n.name not in selected and not (n.op_type == "Constant" and _is_read(n, selected))]
    gone = set(dropped)
    owners = dict(_owners(graph))
    returned = [
        v
        for node in graph
        if node not in gone and node.op_type != "Constant"
        for v in node.outputs
        if v.name and (v.is_graph_output() or any(owners[u.node] in gone for u in v.uses()))
    ]
    returned = [v for v in returned if outputs is None or v.name in outputs]
    if not returned:
        return None
    feeds = dict(whole.inputs)
    for node in dropped:
        for value in node.outputs:
            if not value.name or all(owners[u.node] in gone for u in value.uses()):
                continue
            if value.name not in whole.values or _leaves_subgraph(value, graph, gone):
                return None
            _replace(graph, value, whole.values[value.name], feeds)
    graph.outputs[:] = returned
    _remove(graph, dropped)
    return finished(changed, feeds, whole.values if dropped else whole.known)


def finished(
    changed: Network, feeds: Mapping[str, np.ndarray], values: Mapping[str, np.ndarray], *, keep_values: bool = True
) -> Candidate:
    """A candidate of a graph that was changed: without what nothing uses, its outputs declared as they are.

    Args:
        changed: The network; it is changed further.
        feeds: Arrays of its inputs, and perhaps of more.
        values: The oracle's values.
        keep_values: Whether these still hold.
    """
    graph = changed.graph
    # drop nodes, inputs and initializers that no output depends on
    needed = True
    while needed:
        idle = [n for n in graph if not any(v.uses() or v.is_graph_output() for v in n.outputs)]
        _remove(graph, idle)
        needed = bool(idle)
    captured = {v for n in graph for b in subgraphs(n).values() for v in outer_values(b)}
    used = {v for n in graph for v in n.inputs if v is not None} | captured | set(graph.outputs)
    for name in [n for n, v in graph.initializers.items() if v not in used]:
        del graph.initializers[name]
    graph.inputs[:] = [v for v in graph.inputs if v in used]
    for node in graph:
        for value in node.outputs:
            value.shape = None
    for value in graph.outputs:
        if (array := values.get(str(value.name))) is not None:
            declare(value, array)
    network = Network(changed.model, name=changed.name)
    fed = {spec.name: feeds[spec.name] for spec in network.inputs}
    return Candidate(network, fed, values if keep_values else {})


def declare(value: ir.Value, array: np.ndarray) -> None:
    """Give a value the element type and shape of an array."""
    strings = array.dtype == object or array.dtype.kind in "US"
    value.type = ir.TensorType(ir.DataType.STRING if strings else ir.DataType.from_numpy(array.dtype))
    value.shape = ir.Shape(array.shape)


def _is_read(constant: ir.Node, names: set[str]) -> bool:
    """Whether a constant feeds one of these nodes, or a subgraph."""
    return any(u.node.name in names or u.node.graph is not constant.graph for u in constant.outputs[0].uses())


def _owners(graph: ir.Graph) -> Iterator[tuple[ir.Node, ir.Node]]:
    """Every node, those in subgraphs included, with the node of the outermost graph that it is part of."""
    for node in graph:
        yield node, node
        for body in subgraphs(node).values():
            yield from ((inner, node) for inner in body.all_nodes())


def _leaves_subgraph(value: ir.Value, graph: ir.Graph, gone: set[ir.Node]) -> bool:
    """Whether a kept node's subgraph returns the value itself, which no use says."""
    bodies = [b for n in graph if n not in gone for b in subgraphs(n).values()]
    return any(value in outer_values(b) and not any(value in n.inputs for n in b.all_nodes()) for b in bodies)


def _replace(graph: ir.Graph, value: ir.Value, array: np.ndarray, feeds: dict[str, np.ndarray]) -> None:
    """Feed a value instead of computing it: integers that may be shapes or indices as a constant, the rest as an input."""
    name = str(value.name)
    fresh = ir.Value(name=name)
    declare(fresh, array)
    ir.convenience.replace_all_uses_with(value, fresh)
    value.name = f"{name} before"
    if not is_float(array.dtype) and array.size <= _CONSTANT_UP_TO and array.dtype != object:
        fresh.const_value = ir.tensor(array, name=name)
        graph.initializers[name] = fresh
    else:
        graph.inputs.append(fresh)
        feeds[name] = array


def _remove(graph: ir.Graph, nodes: Sequence[ir.Node]) -> None:
    """Take nodes out, so that neither they nor their subgraphs use anything any more."""
    for node in nodes:
        for inner in (node, *(n for body in subgraphs(node).values() for n in body.all_nodes())):
            for place in range(len(inner.inputs)):
                inner.replace_input_with(place, None)
    graph.remove(nodes, safe=True)


Predicate = Callable[[Network, Mapping[str, np.ndarray]], bool]
"""Whether a network on some inputs still shows what is looked for."""


T = TypeVar("T")


class OutOfTimeError(Exception):
    """The time for the search is spent."""


class Search:
    """Asks a predicate about candidates, and keeps the smallest that satisfies it.

    Args:
        predicate: What must stay true.
        start: A candidate that satisfies it.
        budget: Seconds for the search.
        bars: Shows progress.

    Attributes:
        predicate: As given.
        best: The smallest candidate so far that satisfies the predicate.
        tried: How many candidates the predicate was asked about.
        crashed: On how many a framework's process ended; the predicate has the attribute ``deaths``, if it counts them.
        failed: How many it failed on with another exception, which counts as *no*.
        first_failure: The first of these exceptions in one line.
        steps: What made the network smaller, in order.
    """

    def __init__(self, predicate: Predicate, start: Candidate, budget: float, bars: Bars) -> None:
        self.best = start
        self.tried = self.failed = self.crashed = 0
        self.first_failure = ""
        self.steps: list[str] = []
        self.predicate, self._bars = predicate, bars
        self._start, self._budget = time.monotonic(), budget
        self._shown = 0.0
        self._refused: set[str] = set()

    def check(self) -> float:
        """The seconds since the start.

        Raises:
            OutOfTimeError: The time is spent.
        """
        elapsed = time.monotonic() - self._start
        if elapsed > self._budget:
            raise OutOfTimeError
        return elapsed

    def holds(self, candidate: Candidate) -> bool:
        """Ask the predicate; what it said no to once is not asked again.

        Raises:
            OutOfTimeError: The time is spent.
        """
        elapsed = self.check()
        self._bars.at(f"{len(self.best.nodes)} nodes, {self.best.size} numbers, {self.tried} tried")
        self._bars.advance(elapsed - self._shown)
        self._shown = elapsed
        # what tells a candidate from others: its network and inputs
        digest = hashlib.sha256(candidate.network.to_proto().SerializeToString(deterministic=True))
        for name, array in candidate.inputs.items():
            content = repr(array.tolist()).encode() if array.dtype == object else array.tobytes()
            digest.update(f"{name} {array.dtype} {array.shape} ".encode() + content)
        key = digest.hexdigest()
        if key in self._refused:
            return False
        self.tried += 1
        if self._asked(candidate):
            return True
        self._refused.add(key)
        return False

    def _asked(self, candidate: Candidate) -> bool:
        before = self._deaths()
        try:
            with quiet():
                return bool(self.predicate(candidate.network, candidate.inputs))
        except WorkerDied:  # it shows a crash, which is not what is looked for
            return False
        except Exception as error:  # a candidate on which the question has no answer shows nothing
            self.failed += 1
            self.first_failure = self.first_failure or f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"[:200]
            return False
        finally:
            self.crashed += self._deaths() > before

    def _deaths(self) -> int:
        return int(getattr(self.predicate, "deaths", 0))

    def offer(self, candidate: Candidate | None, what: str) -> bool:
        """Take a smaller candidate, if there is one and the predicate holds for it.

        Args:
            candidate: What it may be reduced to; ``None`` where that cannot be.
            what: What was done, for `steps`.
        """
        if candidate is None or not self.holds(candidate):
            return False
        self.best = candidate
        self.steps.append(what)
        return True


def minimise(items: Sequence[T], still: Callable[[Sequence[T]], bool]) -> list[T]:
    """A part of ``items`` for which ``still`` holds, and from which no single one can be left out: delta debugging.

    Args:
        items: A sequence for which it holds.
        still: Asked of parts, in order; it keeps what it accepts.

    Example:
        >>> minimise(range(100), lambda part: 17 in part and 60 in part)
        [17, 60]

    Source:
        Zeller and Hildebrandt, *Simplifying and Isolating Failure-Inducing Input*, IEEE TSE 28(2), 2002, section 3.
    """
    retained, pieces = list(items), 2
    while len(retained) > 1:
        size = -(-len(retained) // pieces)
        parts = [retained[i : i + size] for i in range(0, len(retained), size)]
        alone = next((part for part in parts if still(part)), None) if pieces <= len(retained) else None
        if alone is not None:
            retained, pieces = alone, 2
            continue
        complements = ([x for p in parts if p is not part for x in p] for part in parts) if len(parts) > 2 else iter(())
        without = next((complement for complement in complements if still(complement)), None)
        if without is not None:
            retained, pieces = without, max(pieces - 1, 2)
        elif pieces >= len(retained):
            break
        else:
            pieces = min(2 * pieces, len(retained))
    return retained


def fewer_nodes(search: Search) -> None:
    """Keep as few nodes as will do, fed with the oracle's values where the others were."""
    whole = search.best

    def still(names: Sequence[str]) -> bool:
        chosen = keep_nodes(whole, names)
        return search.offer(chosen, f"{len(names)} of {len(whole.nodes)} nodes kept, the oracle's values fed to them")

    minimise(whole.nodes, still)


def fewer_outputs(search: Search) -> None:
    """Return as few values as will do, without the nodes that only served the others."""
    whole = search.best

    def still(names: Sequence[str]) -> bool:
        chosen = keep_nodes(whole, whole.nodes, outputs=names)
        return search.offer(chosen, f"{len(names)} of {len(whole.network.outputs)} outputs kept")

    minimise([spec.name for spec in whole.network.outputs], still)


def bypass(search: Search) -> None:
    """Let what reads a node read one of its inputs of the same shape and type instead."""
    tried: set[str] = set()
    while len(search.best.nodes) > 1:
        node = next((n for n in search.best.network.nodes if n.op_type != "Constant" and n.name not in tried), None)
        if node is None:
            return
        search.check()
        tried.add(str(node.name))
        for place, source in enumerate(node.inputs):
            if source is not None and _alike(search.best, source, node):
                description = f"node {node.name!r} ({operator_name(node)}) bypassed"
                if search.offer(_without(search.best, str(node.name), place), description):
                    break


def _alike(candidate: Candidate, source: ir.Value, node: ir.Node) -> bool:
    arrays = {**candidate.values, **candidate.network.initializers, **candidate.inputs}
    a, b = arrays.get(str(source.name)), arrays.get(str(node.outputs[0].name))
    return a is not None and b is not None and a.shape == b.shape and a.dtype == b.dtype and len(node.outputs) == 1


def _without(candidate: Candidate, name: str, place: int) -> Candidate | None:
    """The candidate with readers of a node's output reading one of its inputs; ``None`` if it returns that output."""
    changed = candidate.network.copy()
    node = next(n for n in changed.nodes if n.name == name)
    (output,), source = node.outputs, node.inputs[place]
    if source is None or output.is_graph_output():
        return None
    ir.convenience.replace_all_uses_with(output, source)
    changed.graph.remove(node, safe=True)
    result = finished(changed, candidate.inputs, {}, keep_values=False)
    return with_declared_outputs(result) if candidate.comparable else result


def with_declared_outputs(candidate: Candidate) -> Candidate | None:
    """The candidate with its outputs declared as the oracle gives them; ``None`` where the reference cannot run it."""
    try:
        with quiet():
            values = candidate.values
    except Exception:  # the change made a network that means nothing: the reference may fail in any way
        return None
    return finished(candidate.network.copy(), candidate.inputs, values)


Axis = tuple[str, int]
"""The name of an input or weight, and one of its axes."""


_MOST_CHOICES = 48


def shrink(search: Search) -> None:
    """Cut dimensions of inputs and weights down, those of one size together or some of them.

    Which of them belong together is found by trying: what the reference cannot run is no network.
    """
    if not search.best.comparable:
        return
    tried: set[tuple[tuple[Axis, ...], int, int]] = set()
    while _step(search, tried):
        pass


def _step(search: Search, tried: set[tuple[tuple[Axis, ...], int, int]]) -> bool:
    """Make one dimension smaller; whether one could be."""
    groups = _groups(search.best)
    for size in sorted(groups, reverse=True):
        for smaller in dict.fromkeys((1, 2, size // 2)):
            if smaller >= size:
                continue
            for axes in islice(_choices(groups[size]), _MOST_CHOICES):
                if (axes, size, smaller) in tried:
                    continue
                search.check()
                tried.add((axes, size, smaller))
                description = f"size {size} cut to {smaller} in {', '.join(dict.fromkeys(name for name, _ in axes))}"
                if search.offer(_cut(search.best, axes, smaller), description):
                    return True
    return False


def _groups(candidate: Candidate) -> dict[int, list[Axis]]:
    """The axes of inputs and weights by their size."""
    groups: dict[int, list[Axis]] = {}
    for name, array in (*candidate.inputs.items(), *candidate.network.initializers.items()):
        for axis, size in enumerate(array.shape):
            if size > 1:
                groups.setdefault(size, []).append((name, axis))
    return groups


def _choices(axes: Sequence[Axis]) -> Iterator[tuple[Axis, ...]]:
    """All of the axes, then most of them, down to each alone."""
    for count in range(len(axes), 0, -1):
        yield from combinations(axes, count)


def _cut(candidate: Candidate, axes: Sequence[Axis], size: int) -> Candidate | None:
    arrays = {**candidate.inputs, **candidate.network.initializers}
    cut: dict[str, np.ndarray] = {}
    for name, axis in axes:
        array = cut.get(name, arrays[name])
        cut[name] = np.ascontiguousarray(array[(slice(None),) * axis + (slice(0, size),)])
    return with_declared_outputs(with_arrays(candidate, cut))


def with_arrays(candidate: Candidate, arrays: Mapping[str, np.ndarray]) -> Candidate:
    """The candidate with other inputs and weights."""
    changed = candidate.network.copy()
    graph = changed.graph
    for value in graph.inputs:
        if (array := arrays.get(str(value.name))) is not None:
            declare(value, array)
    for name, value in graph.initializers.items():
        if name in arrays:
            value.const_value = ir.tensor(arrays[name], name=name)
            declare(value, arrays[name])
    return finished(changed, {**candidate.inputs, **arrays}, {}, keep_values=False)


_SIMPLER: tuple[tuple[str, Callable[[np.ndarray], np.ndarray]], ...] = (
    ("zeros", np.zeros_like),
    ("ones", np.ones_like),
    ("whole numbers", lambda x: np.round(x.astype(np.float64)).astype(x.dtype)),
    ("eighths", lambda x: (np.round(x.astype(np.float64) * 8) / 8).astype(x.dtype)),
)


def simpler_attributes(search: Search) -> None:
    """Leave out attributes, or set the numbers in lists to ones or zeros."""
    if not search.best.comparable:
        return
    for node in search.best.network.nodes:
        for attribute in list(node.attributes.values()):
            for changed, description in _variants(search.best, str(node.name), attribute):
                search.check()
                if search.offer(
                    with_declared_outputs(changed), f"attribute {attribute.name!r} of {node.name!r} {description}"
                ):
                    break


def _variants(candidate: Candidate, node: str, attribute: ir.Attr) -> Iterator[tuple[Candidate, str]]:
    if attribute.type in (ir.AttributeType.GRAPH, ir.AttributeType.TENSOR, ir.AttributeType.GRAPHS):
        return
    yield _with_attribute(candidate, node, attribute.name, None), "left out"
    if attribute.type is not ir.AttributeType.INTS:
        return
    for number in (1, 0):
        simple = [number] * len(attribute.as_ints())
        if simple != list(attribute.as_ints()):
            yield _with_attribute(candidate, node, attribute.name, simple), f"set to {simple}"


def _with_attribute(candidate: Candidate, node: str, name: str, value: list[int] | None) -> Candidate:
    changed = candidate.network.copy()
    attributes = next(n for n in changed.nodes if n.name == node).attributes
    if value is None:
        del attributes[name]
    else:
        attributes[name] = ir.AttrInt64s(name, value)
    return finished(changed, candidate.inputs, {}, keep_values=False)


def simpler_values(search: Search) -> None:
    """Make floating-point inputs and weights zeros, ones, whole numbers or eighths."""
    if not search.best.comparable:
        return
    for name in [*search.best.inputs, *search.best.network.initializers]:
        for description, function in _SIMPLER:
            search.check()
            array = {**search.best.inputs, **search.best.network.initializers}.get(name)
            if array is None or not is_float(array.dtype):
                break
            with np.errstate(all="ignore"):
                simple = np.asarray(function(array))
            if np.array_equal(simple, array, equal_nan=True):
                break
            if search.offer(with_declared_outputs(with_arrays(search.best, {name: simple})), f"{name!r} made {description}"):
                break
