"""A network of open batch size as the stages of a pipeline, and what passes between them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from numbers import Real

import onnx_ir as ir

from deep_bench.check.isolate import draws_at_random
from deep_bench.errors import InvalidArgument, Unsupported, shortened
from deep_bench.graph import Network
from deep_bench.graph.knowledge import Knowledge
from deep_bench.graph.node import as_array
from deep_bench.graph.prune import needs, prune
from deep_bench.network.transform import cuts as balanced
from deep_bench.network.transform.draft import found
from deep_bench.network.transform.extract import extract
from deep_bench.tensor import is_float


@dataclass(frozen=True, slots=True, eq=False)
class Stage:
    """The part of a network that one rank holds.

    Args:
        network: The part, with open sizes where the whole network has them.
        number: Which one, from 0.
        fed: The inputs of the whole network that it takes.
        arriving: Values from the stage before; those that only later stages need are among them.
        leaving: Values for the stage after.
        returned: Those of both whose gradients come back.
        parameters: Its own.
        outputs: The outputs of the whole network that it gives.
    """

    network: Network
    number: int
    fed: tuple[str, ...]
    arriving: tuple[str, ...]
    leaving: tuple[str, ...]
    returned: frozenset[str]
    parameters: tuple[str, ...]
    outputs: tuple[str, ...]

    @property
    def taken(self) -> tuple[str, ...]:
        """The arriving values that it needs itself."""
        input_names = {spec.name for spec in self.network.inputs}
        return tuple(name for name in self.arriving if name in input_names)

    @property
    def made(self) -> tuple[str, ...]:
        """The leaving values that it computes itself; it passes the others on."""
        return tuple(name for name in self.leaving if name not in self.arriving)


def stages_of(
    network: Network,
    count: int,
    *,
    loss: str | None,
    cuts: Sequence[str] | None = None,
    costs: str | Mapping[str, float] = "flops",
    sizes: Mapping[str, int] | None = None,
) -> tuple[Stage, ...]:
    """Cut a network into stages.

    Args:
        network: No open dimension is fixed in it that differs between micro-batches.
        count: How many stages.
        loss: Name of the output that is differentiated, if any.
        cuts: Name of the first node of each stage but the first. By default the most expensive stage is as cheap as
            possible, as `deep_bench.network.transform.cuts` finds.
        costs: What nodes cost, as there.
        sizes: Of open dimensions, to count costs at.

    Raises:
        InvalidArgument: More stages than nodes, cuts that are none, a stage that gives nothing, or takes nothing, or has no
            parameters though there is a loss; an output that no node computes; costs below 0, or no numbers.
        Unsupported: A parameter in several stages, or something else than tensors of numbers between two.

    Example:
        >>> import deep_bench as db
        >>> stages = stages_of(db.load("digits-cnn"), 3, loss=None, sizes={"batch": 1})
        >>> [(stage.arriving, stage.leaving) for stage in stages]
        [((), ('pooled', 'first_out')), (('pooled', 'first_out'), ('residual_sum',)), (('residual_sum',), ())]
    """
    whole = network.copy()
    prune(whole.graph)
    whole = Network(whole.model, name=network.name)
    nodes = [node for node in whole.graph if node.op_type != "Constant"]
    if not 1 <= count <= len(nodes):
        raise InvalidArgument(
            f"{count} stages of {network.name}", f"1 to {len(nodes)}, as many as it has nodes", "start fewer ranks"
        )
    _check_costs(costs)
    if cuts is None:
        parts = balanced(whole.with_sizes(sizes or {}), count, costs)
        node_names = [{str(node.name) for node in part.nodes} for part in parts]
        firsts = [min(i for i, node in enumerate(nodes) if node.name in names) for names in node_names]
    else:
        firsts = _chosen(nodes, cuts, count, network.name)
    stages = _Cutter(whole, nodes, firsts, loss).stages()
    if loss is not None:
        _check_trained(stages)
    return stages


def check_by_sample(network: Network) -> None:
    """Whether the nodes of a network can treat a micro-batch as a part of its batch, as far as their operators tell.

    Raises:
        Unsupported: One normalizes by the batch, or draws numbers at random.
    """
    for node in network.all_nodes():
        _check_by_sample(node)


def _check_by_sample(node: ir.Node) -> None:
    mode = node.attributes.get("training_mode")
    if node.op_type == "BatchNormalization" and mode is not None and mode.as_int():
        raise Unsupported(
            f"node {node.name!r} (BatchNormalization) normalizes by the batch, and a micro-batch has other statistics",
            "normalizations of each sample by itself (LayerNormalization, GroupNormalization), or by given statistics",
            "train with the running statistics fixed, or another normalization",
        )
    if draws_at_random(node) or _drops(node):
        raise Unsupported(
            f"node {node.name!r} ({node.op_type}) draws at random, and would draw anew when its stage is differentiated",
            "draws that are inputs of the network",
            "give db.training.training_form(network).training to the pipeline",
        )


def _drops(node: ir.Node) -> bool:
    """Whether this is a dropout that may drop something."""
    mode = node.inputs[2] if node.op_type == "Dropout" and len(node.inputs) > 2 else None
    if mode is None:
        return False
    constant = as_array(mode)
    return constant is None or bool(constant)


def _check_costs(costs: str | Mapping[str, float]) -> None:
    for name, value in costs.items() if isinstance(costs, Mapping) else ():
        if not isinstance(value, Real) or not 0 <= value < inf:
            raise InvalidArgument(
                f"costs of {value!r} for node {name!r}",
                "numbers from 0 on, such as measured seconds",
                "leave others out: they are 0",
            )


def _check_trained(stages: Sequence[Stage]) -> None:
    for stage in stages:
        if not stage.parameters:
            nodes = ", ".join(str(node.name) for node in stage.network.nodes)
            raise InvalidArgument(
                f"{stage.network.name} has no parameters to train: {shortened(nodes, 200)}",
                "parameters in every stage of a pipeline with a loss",
                "cut elsewhere (cuts=[first node of each stage but the first]), fewer ranks, or loss=None",
            )


def _chosen(nodes: Sequence[ir.Node], cuts: Sequence[str], count: int, network: str) -> list[int]:
    """The place of the first node of each stage, where the caller says which they are."""
    if isinstance(cuts, str) or len(cuts) != count - 1:
        raise InvalidArgument(f"cuts {cuts!r} for {count} stages", "the first node of each stage but the first: one fewer")
    places = {str(node.name): index for index, node in enumerate(nodes)}
    firsts = [0, *(found(places, name, "node", network) for name in cuts)]
    if sorted(set(firsts)) != firsts:
        raise InvalidArgument(f"cuts {list(cuts)}", "nodes in the order in which they run, each once and none the first")
    return firsts


class _Cutter:
    """What it takes to know the stages.

    Args:
        network: Without what no output needs.
        nodes: Its nodes but constants, in order.
        firsts: The place of each stage's first node.
        loss: Name of the loss.
    """

    def __init__(self, network: Network, nodes: Sequence[ir.Node], firsts: Sequence[int], loss: str | None) -> None:
        self._network, self._count = network, len(firsts)
        ends = [*firsts[1:], len(nodes)]
        self._parts = [nodes[begin:end] for begin, end in zip(firsts, ends, strict=True)]
        self._needed = [set().union(*(needs(node) for node in part)) for part in self._parts]
        self._made = {v: k for k, part in enumerate(self._parts) for node in part for v in node.outputs if v.name}
        self._last = {v: k for k in range(self._count) for v in self._needed[k]}
        self._knowledge = Knowledge(network)
        if constant := [str(v.name) for v in network.graph.outputs if v not in self._made]:
            raise InvalidArgument(
                f"the output {constant[0]!r} of {network.name}, which no stage computes", "outputs that nodes compute"
            )
        self._returned = set() if loss is None else self._on_the_way(nodes, loss)
        self._check_parameters()

    def stages(self) -> tuple[Stage, ...]:
        """All of them."""
        return tuple(self._stage(number) for number in range(self._count))

    def _stage(self, number: int) -> Stage:
        graph, needed = self._network.graph, self._needed[number]
        arriving, leaving = self._over(number), self._over(number + 1)
        for value in leaving:
            if self._knowledge.dtype(value) is None:
                raise Unsupported(
                    f"{value.name!r} passes between stages {number} and {number + 1}, and is no tensor of numbers",
                    "tensors of numbers between stages",
                    "cut elsewhere: cuts=[first node of each stage but the first]",
                )
        fed = _names(v for v in graph.inputs if v in needed and v.name not in graph.initializers)
        outputs = _names(v for v in graph.outputs if self._made.get(v) == number)
        local_names = _names(v for v in leaving if self._made[v] == number)
        needed_names = _names(v for v in arriving if v in needed)
        where = f"stage {number} of {self._count} of {self._network.name}"
        results = tuple(dict.fromkeys((*local_names, *outputs)))
        if not results or not (needed_names or fed):
            came = "gives nothing that is used" if not results else "depends on constants only"
            raise InvalidArgument(f"{where} {came}", "stages that take and give something", "cut elsewhere, or fewer stages")
        part = extract(self._network, [*needed_names, *fed], results)
        return Stage(
            Network(part.model, name=where),
            number,
            fed,
            _names(arriving),
            _names(leaving),
            frozenset(_names(v for v in {*arriving, *leaving} if v in self._returned)),
            tuple(name for name in self._network.parameters if graph.initializers[name] in needed),
            outputs,
        )

    def _over(self, number: int) -> list[ir.Value]:
        """What passes from the stages before one to it and those after, in the order in which it is made."""
        return [v for v, stage in self._made.items() if stage < number <= self._last.get(v, -1)]

    def _on_the_way(self, nodes: Sequence[ir.Node], loss: str) -> set[ir.Value]:
        """The values of real numbers that parameters have an influence on, and that have one on the loss."""
        parameters = set(self._network.parameters)
        influenced = {v for v in self._last if v.name in parameters}
        for node in nodes:
            if needs(node) & influenced:
                influenced.update(node.outputs)
        influences = {v for v in self._made if v.name == loss}
        for node in reversed(nodes):
            if influences.intersection(node.outputs):
                influences |= needs(node)
        both = [v for v in influenced & influences if v.name != loss]
        return {v for v in both if (dtype := self._knowledge.dtype(v)) is not None and is_float(dtype)}

    def _check_parameters(self) -> None:
        for name in self._network.parameters:
            users = [k for k in range(self._count) if self._network.graph.initializers[name] in self._needed[k]]
            if len(users) > 1:
                raise Unsupported(
                    f"parameter {name!r} of {self._network.name} is in stages {', '.join(map(str, users))}",
                    "each parameter in one stage",
                    "cut elsewhere, fewer stages, or a network that shares no parameter between layers (tied=False)",
                )


def _names(values: Iterable[ir.Value]) -> tuple[str, ...]:
    return tuple(str(v.name) for v in values)
