"""Parts of a network: ``extract``, that between named values; ``cuts``, the stages of a pipeline.

Sizes of a draft's values are fixed where a transformation cannot do without them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate
from math import prod

import numpy as np
import onnx_ir as ir
from onnx_ir.passes.common import LiftConstantsToInitializersPass

from deep_bench.errors import InvalidArgument, InvalidNetwork
from deep_bench.graph import Network, NetworkLike, as_network, operator_name
from deep_bench.graph.node import needs, prune
from deep_bench.network.transform.draft import Draft, item_named, runs
from deep_bench.operators.cost import KnownSizes, cost


def cuts(
    network: NetworkLike,
    parts: int,
    costs: str | Mapping[str, float] = "flops",
    *,
    inputs: Mapping[str, np.ndarray] | None = None,
) -> tuple[Network, ...]:
    """Cut a network into stages that follow each other, the most expensive one as cheap as possible.

    Among the cuts that do that, those over which the fewest bytes pass are taken. The nodes keep their order. Each stage
    takes inputs of the network and outputs of earlier stages, by name, so that the network is

    ``for stage in stages: values |= run(stage, {spec.name: values[spec.name] for spec in stage.inputs})``

    Args:
        network: A network of fixed sizes, or its file.
        parts: How many stages.
        costs: ``"flops"``, counted as in `deep_bench.operators.cost.Work`; ``"parameters"``; or name of a node to its cost
            (a measured time), other nodes cost nothing.
        inputs: Arrays to run the reference on, where shapes follow from a run only.

    Raises:
        InvalidArgument: Fewer than one stage, more than nodes, costs of another kind, or of a node that is not there; FLOPs
            of a node that nobody counted.
        InvalidNetwork: Shapes that are not known.

    Example:
        >>> import deep_bench as db
        >>> stages = cuts(db.load("digits-cnn").with_sizes({"batch": 1}), 3)
        >>> [len(stage.nodes) for stage in stages], [spec.name for spec in stages[-1].outputs]
        ([10, 5, 7], ['logits'])
    """
    network = as_network(network)
    draft = Draft(network, "cut", oldest=0)
    LiftConstantsToInitializersPass(lift_all_constants=True, size_limit=0)(draft.network.model)
    nodes = tuple(draft.graph)
    if not 1 <= parts <= len(nodes):
        raise InvalidArgument(f"{parts} stages", f"1 to {len(nodes)}, as many as {network.name} has nodes")
    sizes = FixedSizes(draft, inputs)
    weights = [_cost(draft, node, costs, sizes) for node in nodes]
    if isinstance(costs, Mapping):
        by_name = {str(n.name): n for n in network.nodes}
        for name in costs:
            item_named(by_name, name, "node", network.name)
    bounds = [0, *place_cuts(weights, _crossing_bytes(nodes, sizes), parts), len(nodes)]
    for value in (v for n in nodes for v in n.outputs if inputs is not None):
        shape = sizes.known(value)
        value.shape = value.shape if shape is None else ir.Shape(shape)
    lifted = Network(draft.network.model, name=network.name)
    return tuple(_stage(lifted, nodes, bounds[k], bounds[k + 1], k, parts) for k in range(parts))


def place_cuts(costs: list[float], crossing: list[int], parts: int) -> list[int]:
    """Where to cut a chain so that the most expensive part is as cheap as possible, and then the fewest bytes cross.

    Two dynamic programs over the number of parts and the end of the last one; both take ``parts * len(costs)**2`` steps.

    Args:
        costs: Of each link.
        crossing: The bytes over a cut before each link.
        parts: How many; none is empty.

    Returns:
        The index of the first link of each part but the first.

    Example:
        >>> place_cuts([1, 1, 4, 1, 1], [0, 9, 9, 1, 9], 2)
        [3]
    """
    total = np.array([0.0, *accumulate(costs)])
    count = len(costs)
    best = np.full((parts + 1, count + 1), np.inf)
    best[0, 0] = 0.0
    for k in range(1, parts + 1):
        for end in range(k, count + 1):
            best[k, end] = np.min(np.maximum(best[k - 1, :end], total[end] - total[:end]))
    limit = best[parts, count] * (1 + 1e-12)
    least = np.full((parts + 1, count + 1), np.inf)
    least[0, 0], came = 0.0, np.zeros((parts + 1, count + 1), int)
    over = np.array(crossing, float)
    over[0] = 0.0
    for k in range(1, parts + 1):
        for end in range(k, count + 1):
            candidates = np.where(total[end] - total[:end] <= limit, least[k - 1, :end] + over[:end], np.inf)
            came[k, end] = int(np.argmin(candidates))
            least[k, end] = candidates[came[k, end]]
    places, end = [], count
    for k in range(parts, 1, -1):
        end = int(came[k, end])
        places.append(end)
    return places[::-1]


def _cost(draft: Draft, node: ir.Node, costs: str | Mapping[str, float], sizes: FixedSizes) -> float:
    if isinstance(costs, Mapping):
        return float(costs.get(str(node.name), 0.0))
    if costs == "parameters":
        return float(sum(a.size for v in node.inputs if (a := draft.constant(v)) is not None))
    if costs == "flops":
        for value in node.outputs:
            if value.name:
                sizes.shape(value)
        estimate = cost(node, sizes.known)
        if estimate is None:
            raise InvalidArgument(
                f"costs 'flops' for node {node.name!r} ({operator_name(node)}), whose FLOPs are unknown",
                "standard operators without subgraphs, whose work follows from shapes",
                "give costs='parameters', or measured times by name: costs={'node': seconds, …}",
            )
        return float(estimate.flops)
    raise InvalidArgument(f"costs {costs!r}", "'flops', 'parameters', or a mapping from the names of nodes to numbers")


def _crossing_bytes(nodes: tuple[ir.Node, ...], sizes: FixedSizes) -> list[int]:
    """The bytes of the values that nodes before a cut give, and nodes after it need; for the cut before each node."""
    last = {v: i for i, node in enumerate(nodes) for v in needs(node)}
    change = np.zeros(len(nodes) + 1, np.int64)
    for index, node in enumerate(nodes):
        for value in node.outputs:
            if last.get(value, -1) > index:
                change[[index + 1, last[value] + 1]] += np.array([1, -1]) * sizes.nbytes(value)
    return [int(n) for n in np.cumsum(change)[: len(nodes)]]


def _stage(network: Network, nodes: tuple[ir.Node, ...], start: int, end: int, number: int, parts: int) -> Network:
    """The nodes from one cut to the next, as a network."""
    inside = nodes[start:end]
    inner_values = {v for n in inside for v in n.outputs}
    later = {v for n in nodes[end:] for v in needs(n)}
    needed = {v for n in inside for v in needs(n)} - inner_values
    fed = [v for v in [*network.graph.inputs, *(o for n in nodes[:start] for o in n.outputs)] if v in needed]
    outputs = [str(v.name) for n in inside for v in n.outputs if v in later or v.is_graph_output()]
    if not outputs:
        raise InvalidArgument(f"stage {number + 1} of {parts} of {network.name} gives nothing that is used", "fewer stages")
    names = [str(v.name) for v in fed if v.name not in network.graph.initializers]
    if not names:
        raise InvalidArgument(
            f"stage {number + 1} of {parts} of {network.name} depends on constants only", "fold(network) first"
        )
    stage = extract(network, names, outputs)
    return Network(stage.model, name=f"{network.name}, stage {number + 1} of {parts}")


def extract(network: NetworkLike, inputs: Sequence[str], outputs: Sequence[str]) -> Network:
    """The part of a network that computes some of its values from others.

    All values keep their names. What depends on no input of the network stays inside.

    Args:
        network: Any network, or its file.
        inputs: Names of the values to start from: inputs, initializers, or what nodes give.
        outputs: Names of the values to give.

    Raises:
        InvalidArgument: A value that the outermost graph does not have; an output that is an input; or an input of the
            network that the part needs and ``inputs`` does not have.
        InvalidNetwork: The type of one of these values is unknown before a run.

    Example:
        >>> import deep_bench as db
        >>> network = db.load("digits-cnn")
        >>> first = network.nodes[0].outputs[0].name
        >>> head = extract(network, [first], ["logits"])
        >>> [spec.name for spec in head.inputs] == [first], len(network.nodes) - len(head.nodes)
        (True, 1)
    """
    network = as_network(network)
    for kind, names in (("inputs", inputs), ("outputs", outputs)):
        if not names or len(set(names)) != len(names):
            raise InvalidArgument(f"{kind} {list(names)}", "at least one name, and none twice")
    draft = Draft(network, "extracted", oldest=0)
    fed = [_fed(draft, name) for name in inputs]
    results = [draft.value(name) for name in outputs]
    for value in results:
        if value.producer() is None:
            raise InvalidArgument(
                f"the output {value.name!r} is an input or a constant of the part", "what a node of it gives"
            )
        _declare(draft, value)
    draft.graph.outputs[:] = results
    originals = [v for v in draft.graph.inputs if v not in fed]
    draft.graph.inputs[:] = [*fed, *originals]
    prune(draft.graph)
    used = {v for n in draft.graph for v in needs(n)}
    missing = [str(v.name) for v in originals if v in used and v.name not in draft.graph.initializers]
    if missing:
        raise InvalidArgument(
            f"{', '.join(outputs)} of {network.name} needs, besides {', '.join(inputs)}, its input {missing[0]!r}",
            "inputs between which and the outputs lies all that the outputs need",
            f"add {', '.join(map(repr, missing))} to the inputs, or start further back",
        )
    draft.graph.inputs[:] = [v for v in draft.graph.inputs if v in fed or v.name in draft.graph.initializers]
    part = f"{network.name} from {', '.join(inputs)} to {', '.join(outputs)}"
    return Network(draft.network.model, name=part, source=None)


def _fed(draft: Draft, name: str) -> ir.Value:
    """The input that stands for a value."""
    value = draft.value(name)
    if value.is_graph_input() and name not in draft.graph.initializers:
        return value
    _declare(draft, value)
    if isinstance(value.type, ir.TensorType) and value.shape is None:
        draft.dims(value)  # raises: a network must say how many dimensions its inputs have
    stand_in = ir.Value(name=name, type=value.type, shape=value.shape)
    if value.is_graph_output():
        draft.graph.outputs[:] = [v for v in draft.graph.outputs if v is not value]
    value.replace_all_uses_with(stand_in)
    if name in draft.graph.initializers:
        del draft.graph.initializers[name]
        draft.graph.inputs[:] = [v for v in draft.graph.inputs if v is not value]
    value.name = draft.names.fresh(f"{name}.inside")
    draft.graph.inputs.append(stand_in)
    return stand_in


def _declare(draft: Draft, value: ir.Value) -> None:
    """State the type and the dimensions of a value, as inference knows them."""
    value_type = draft.knowledge.type_of(value)
    if value_type is None:
        raise InvalidNetwork(
            f"the type of {value.name!r} in {draft.source.name} is unknown before a run",
            "values whose types follow from the inputs",
            "choose a value beside it",
        )
    value.type = ir.serde.deserialize_type_proto_for_type(value_type)
    value.shape = ir.serde.deserialize_type_proto_for_shape(value_type) or value.shape


class FixedSizes:
    """Sizes of the values of a network's outermost graph.

    Args:
        draft: The network.
        inputs: Arrays to run the reference on, where shapes follow from a run only.

    Raises:
        InvalidInput: The inputs do not fit.
    """

    def __init__(self, draft: Draft, inputs: Mapping[str, np.ndarray] | None = None) -> None:
        self._name = draft.source.name
        with runs(draft.network):
            self.known = KnownSizes(draft.network, inputs)

    def shape(self, value: ir.Value) -> tuple[int, ...]:
        """The shape of a value.

        Raises:
            InvalidNetwork: It is not fixed.
        """
        shape = self.known(value)
        if shape is None:
            raise InvalidNetwork(
                f"the shape of {value.name!r} in {self._name} is unknown",
                "fixed shapes",
                "fix the sizes (network.with_sizes(…)), or give inputs to find the shapes in a run",
            )
        return shape

    def nbytes(self, value: ir.Value) -> int:
        """The size of a value in bytes; an element of no one size, a string, counts as a pointer of 8.

        Raises:
            InvalidNetwork: It is not fixed.
        """
        size = self.known.nbytes(value)
        return 8 * prod(self.shape(value)) if size is None else size
