"""``micro_batch``: nodes that take their batch in pieces, so that they need less memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import onnx
import onnx_ir as ir

from deep_bench.errors import InvalidArgument, Unsupported
from deep_bench.facts import OPERATORS
from deep_bench.framework import Adapter
from deep_bench.graph import Network, NetworkLike, as_network
from deep_bench.graph.drawing import draw_inputs
from deep_bench.graph.node import attributes, is_standard, operator_facts, operator_name
from deep_bench.measure.timing import Block, sample_block
from deep_bench.network.transform.draft import Draft
from deep_bench.network.transform.stages import FixedSizes, extract
from deep_bench.variant import Variant


@dataclass(frozen=True, slots=True)
class Cost:
    """What a node costs for a piece of its batch.

    Args:
        seconds: Its time.
        nbytes: The memory that it needs while it runs, in bytes.
    """

    seconds: float
    nbytes: int


Table: TypeAlias = Mapping[str, Mapping[int, Cost]]
"""Name of a node to piece size to cost."""


def micro_batch(network: NetworkLike, memory: int, table: Table | None = None, *, on: str = "onnxruntime") -> Network:
    r"""The network with the batch of some nodes split, so that each stays under a memory bound in the least predicted time.

    A node becomes a ``Split`` along the batch, one node for each piece, and a ``Concat``; its output keeps its name. The
    sizes of the pieces are chosen by `plan_pieces`. Nodes that are fastest whole, and fit, stay as they are.

    Args:
        network: A network with a fixed batch, or its file.
        memory: The bound in bytes, for each node while it runs.
        table: What nodes cost, by the size of a piece; the nodes in it are those that may be split. By default the
            convolutions, as `measure_pieces` finds them.
        on: Where to measure, if there is no table: ``"onnxruntime:threads=1"``.

    Raises:
        InvalidArgument: The bound cannot be kept, a node is not there, or sizes do not add up to its batch.
        Unsupported: A node that does not treat the samples of its batch each by itself.

    Example:
        >>> import deep_bench as db
        >>> network = db.load("digits-cnn").with_sizes({"batch": 4})
        >>> conv = network.nodes[0]
        >>> table = {conv.name: {1: Cost(1e-5, 1_000), 2: Cost(1.5e-5, 2_000), 4: Cost(2e-5, 4_000)}}
        >>> split = micro_batch(network, 2_500, table)
        >>> [node.op_type for node in split.nodes[:4]]
        ['Split', 'Conv', 'Conv', 'Concat']

    Source:
        Ben-Nun et al., *A Modular Benchmarking Infrastructure for High-Performance and Reproducible Deep Learning*, IPDPS
        2019, section V, which takes an integer program; Oyama et al., *Accelerating Deep Learning Frameworks with
        Micro-batches*, CLUSTER 2018, which takes dynamic programming.
    """
    network = as_network(network)
    draft = Draft(network, "micro")
    shapes = FixedSizes(draft)
    if table is None:
        chosen = [str(n.name) for n in draft.graph if is_standard(n) and n.op_type in ("Conv", "ConvTranspose")]
        if not chosen:
            raise InvalidArgument(f"{network.name}, which has no convolution", "a table with the nodes to split")
        table = measure_pieces(network, chosen, on=on)
    for name, costs in table.items():
        node = draft.node(name)
        pieces = plan_pieces(costs, _batch_of(draft, node, shapes), memory, name)
        if len(pieces) > 1:
            _split(draft, node, pieces)
    return draft.finish()


def plan_pieces(costs: Mapping[int, Cost], batch: int, memory: int, node: str = "") -> tuple[int, ...]:
    r"""The sizes of pieces that make up a batch in the least time, each within a memory bound.

    With :math:`T(0) = 0`, it is :math:`T(n) = \min_s t(s) + T(n - s)` over the sizes :math:`s \le n` whose memory is within
    the bound; of several best choices one with the fewest pieces.

    Args:
        costs: Size of a piece to its cost.
        batch: What the sizes add up to.
        memory: The bound in bytes.
        node: Whose costs they are, for messages.

    Returns:
        The sizes, the largest first.

    Raises:
        InvalidArgument: No piece is within the bound, or those that are do not add up to the batch.

    Example:
        >>> plan_pieces({1: Cost(1.0, 10), 2: Cost(1.5, 20), 4: Cost(2.0, 40)}, 5, 25)
        (2, 2, 1)
    """
    usable = {size: cost.seconds for size, cost in costs.items() if 0 < size <= batch and cost.nbytes <= memory}
    least = min((cost.nbytes for size, cost in costs.items() if 0 < size <= batch), default=None)
    if not usable:
        raise InvalidArgument(
            f"a memory bound of {memory} bytes for node {node!r}",
            f"at least the {least} bytes of its smallest piece" if least is not None else f"costs of pieces up to {batch}",
        )
    best: list[tuple[float, int, int]] = [(0.0, 0, 0)]
    for total in range(1, batch + 1):
        ways = [(best[total - s][0] + t, best[total - s][1] + 1, s) for s, t in usable.items() if s <= total]
        best.append(min(ways, default=(float("inf"), 0, 0)))
    if best[batch][0] == float("inf"):
        raise InvalidArgument(
            f"pieces of {', '.join(map(str, sorted(usable)))} for the batch of {batch} of node {node!r}",
            "sizes within the memory bound that add up to it",
            "add a piece of 1 to the table",
        )
    pieces, remaining = [], batch
    while remaining:
        pieces.append(best[remaining][2])
        remaining -= pieces[-1]
    return tuple(sorted(pieces, reverse=True))


def measure_pieces(
    network: NetworkLike,
    nodes: Sequence[str],
    *,
    on: str = "onnxruntime",
    sizes: Sequence[int] | None = None,
    calls: int = 20,
) -> dict[str, dict[int, Cost]]:
    """Measure nodes alone, for pieces of their batch.

    The time is the median of some calls in this process, on inputs drawn at random, all sizes in turns; pieces also
    have their share of the time that splitting the input and joining the result takes. The memory is what a piece's input
    and result take, and the columns of im2col for a convolution: what a plain implementation needs.

    Args:
        network: A network with a fixed batch, or its file.
        nodes: Names of the nodes.
        on: Framework and options.
        sizes: Of pieces; by default the powers of two below the batch, and the batch.
        calls: How many to take the median of.

    Raises:
        InvalidArgument: A node that is not there.
        Unsupported: A node that does not treat the samples of its batch each by itself.
    """
    network = as_network(network)
    draft = Draft(network, "micro")
    shapes = FixedSizes(draft)
    variant = Variant.parse(on)
    adapter, alone_on_cpu = variant.create(), variant.options.get("threads") == "1"
    table: dict[str, dict[int, Cost]] = {}
    for name in nodes:
        node = draft.node(name)
        whole = _batch_of(draft, node, shapes)
        chosen = sizes if sizes is not None else sorted({*(2**k for k in range(whole.bit_length())), whole})
        data, result = str(node.inputs[0].name) if node.inputs[0] is not None else "", str(node.outputs[0].name)
        alone = {s: _of_size(extract(network, [data], [result]), s) for s in chosen if 0 < s <= whole}
        seconds = _median_seconds(adapter, alone, calls, cpu_time=alone_on_cpu)
        copies = {
            i: _copies(draft, v, shapes)
            for i, v in enumerate((node.inputs[0], node.outputs[0]))
            if v is not None and whole > 1
        }
        copying = sum(_median_seconds(adapter, copies, calls, cpu_time=alone_on_cpu).values()) / 2
        table[name] = {
            size: Cost(t + (copying * size / whole if size < whole else 0.0), size * _bytes_of_sample(node, shapes))
            for size, t in seconds.items()
        }
    return table


def _copies(draft: Draft, value: ir.Value, shapes: FixedSizes) -> Network:
    """A network that splits a tensor like this value in two along the batch, and joins it again: it copies it twice."""
    shape, dtype = shapes.shape(value), draft.knowledge.dtype(value)
    kind = onnx.helper.np_dtype_to_tensor_dtype(dtype if dtype is not None else np.dtype(np.float32))
    x, y = (onnx.helper.make_tensor_value_info(name, kind, shape) for name in "xy")
    sizes = onnx.numpy_helper.from_array(np.array([shape[0] // 2, shape[0] - shape[0] // 2]), "sizes")
    nodes = [
        onnx.helper.make_node("Split", ["x", "sizes"], ["a", "b"], axis=0),
        onnx.helper.make_node("Concat", ["a", "b"], ["y"], axis=0),
    ]
    graph = onnx.helper.make_graph(nodes, "copies", [x], [y], [sizes])
    return Network.from_proto(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 21)], ir_version=10))


def _of_size(network: Network, size: int) -> Network:
    value = network.graph.inputs[0]
    assert value.shape is not None
    value.shape = ir.Shape([size, *list(value.shape)[1:]])
    for output in network.graph.outputs:
        if output.shape is not None:
            output.shape = ir.Shape([size, *list(output.shape)[1:]])
    return Network(network.model, name=network.name)


def _median_seconds(
    adapter: Adapter[Any], networks: Mapping[int, Network], calls: int, *, cpu_time: bool
) -> dict[int, float]:
    """The median time of each network, measured in turns, so that what disturbs one disturbs all.

    On a busy machine the kernel takes the CPU away from long calls more often than from short ones. Such samples count with
    their CPU time, where all work is in one thread; else only the least of them counts, and only where there are no others.
    """
    bound = {}
    for size, network in networks.items():
        native = {name: adapter.from_numpy(x) for name, x in draw_inputs(network, 0).items()}
        bound[size] = adapter.prepare(network).bind(native)
    by_size: dict[int, list[Block]] = {size: [] for size in networks}
    rng = np.random.default_rng(0)
    for _ in range(calls):
        for size in rng.permutation(list(bound)).tolist():
            call, wait = bound[size], adapter.synchronize
            by_size[size].append(sample_block(call, wait, min_ns=0, min_calls=1, resumed=True, cpu_time=cpu_time))
    return {size: _typical(blocks) for size, blocks in by_size.items()}


def _typical(blocks: Sequence[Block]) -> float:
    cpu_times = [b.calls_cpu_ns for b in blocks]
    times = [float(b.calls_ns[0]) if cpu is None else float(cpu[0]) for b, cpu in zip(blocks, cpu_times, strict=True)]
    calm = [t for t, b, cpu in zip(times, blocks, cpu_times, strict=True) if cpu is not None or not b.preempted[0]]
    return (float(np.median(calm)) if calm else min(times)) * 1e-9


def _bytes_of_sample(node: ir.Node, shapes: FixedSizes) -> int:
    data, result = node.inputs[0], node.outputs[0]
    assert data is not None
    data_shape, out = shapes.shape(data), shapes.shape(result)
    total = (shapes.nbytes(data) + shapes.nbytes(result)) // data_shape[0]
    if node.op_type in ("Conv", "ConvTranspose") and node.inputs[1] is not None:
        kernel = int(np.prod(shapes.shape(node.inputs[1])[2:], dtype=np.int64))
        places, channels = (out, data_shape[1]) if node.op_type == "Conv" else (data_shape, out[1])
        element = shapes.nbytes(data) // max(1, int(np.prod(data_shape, dtype=np.int64)))
        total += element * channels * kernel * int(np.prod(places[2:], dtype=np.int64))
    return total


def _batch_of(draft: Draft, node: ir.Node, shapes: FixedSizes) -> int:
    """The batch of a node.

    Raises:
        Unsupported: Its samples are not each treated by itself, or more than its first input changes with the batch.
    """
    allowed = operator_facts(node).by_sample
    shared = all(v is None or draft.constant(v) is not None for v in node.inputs[1:]) and _bias_is_shared(draft, node)
    if allowed is None or not allowed(attributes(node), len(node.outputs)) or not shared or node.inputs[0] is None:
        splittable = sorted(name for name, row in OPERATORS.items() if row.by_sample is not None)
        raise Unsupported(
            f"node {node.name!r} ({operator_name(node)}) cannot be split along its batch",
            f"one of {', '.join(splittable)}, whose other inputs are constants that all samples share",
            "leave it out of the table",
        )
    return shapes.shape(node.inputs[0])[0]


def _bias_is_shared(draft: Draft, node: ir.Node) -> bool:
    if node.op_type != "Gemm" or len(node.inputs) < 3:
        return True
    bias = draft.constant(node.inputs[2])
    return bias is None or bias.ndim < 2 or bias.shape[0] == 1


def _split(draft: Draft, node: ir.Node, pieces: Sequence[int]) -> None:
    """Put a node for each piece in the place of a node."""
    result, name = node.outputs[0], str(node.outputs[0].name)
    tape = draft.tape()
    sizes = draft.initializer(f"{name}.pieces", np.array(pieces, np.int64))
    assert node.inputs[0] is not None
    parts = [ir.Value(name=draft.names.fresh(f"{name}.in")) for _ in pieces]
    axis = [ir.AttrInt64("axis", 0)]
    tape.append(ir.Node("", "Split", [node.inputs[0], sizes], axis, outputs=parts, name=draft.names.fresh(f"{name}.Split")))
    outputs = []
    for part in parts:
        out = ir.Value(name=draft.names.fresh(f"{name}.piece"))
        inputs = [part, *node.inputs[1:]]
        node_attributes = list(node.attributes.values())
        label = draft.names.fresh(f"{node.name}.piece")
        tape.append(
            ir.Node(node.domain, node.op_type, inputs, node_attributes, outputs=[out], version=node.version, name=label)
        )
        outputs.append(out)
    whole = ir.Value(name=draft.names.fresh(f"{name}.whole"))
    tape.append(ir.Node("", "Concat", outputs, axis, outputs=[whole], name=draft.names.fresh(f"{name}.Concat")))
    draft.supplant(result, whole)
