"""The stages of a pipeline: how a network is cut, what passes between stages, and each made ready on a framework."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from math import inf
from numbers import Real
from typing import Any, Generic, TypeAlias

import ml_dtypes
import numpy as np
import onnx_ir as ir

from deep_bench.distributed.communicators.communicator import Communicator, Request
from deep_bench.errors import InvalidArgument, InvalidInput, Unsupported, shortened
from deep_bench.framework import A, Adapter, Executor
from deep_bench.graph import Network
from deep_bench.graph.node import as_array, needs, operator_facts, prune
from deep_bench.graph.shapes import Knowledge
from deep_bench.network.transform.draft import Draft, item_named
from deep_bench.network.transform.stages import cuts as balanced
from deep_bench.network.transform.stages import extract
from deep_bench.tensor import TensorSpec, is_float
from deep_bench.training.steps import has_arithmetic


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
            possible, as `deep_bench.network.transform.stages` finds.
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
    for name, value in costs.items() if isinstance(costs, Mapping) else ():
        if not isinstance(value, Real) or not 0 <= value < inf:
            raise InvalidArgument(
                f"costs of {value!r} for node {name!r}",
                "numbers from 0 on, such as measured seconds",
                "leave others out: they are 0",
            )
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
        mode = node.attributes.get("training_mode")
        if node.op_type == "BatchNormalization" and mode is not None and mode.as_int():
            raise Unsupported(
                f"node {node.name!r} (BatchNormalization) normalizes by the batch, and a micro-batch has other statistics",
                "normalizations of each sample by itself (LayerNormalization, GroupNormalization), or by given statistics",
                "train with the running statistics fixed, or another normalization",
            )
        if operator_facts(node).random or _drops(node):
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
    firsts = [0, *(item_named(places, name, "node", network) for name in cuts)]
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
        for name in self._network.parameters:
            users = [k for k in range(self._count) if self._network.graph.initializers[name] in self._needed[k]]
            if len(users) > 1:
                raise Unsupported(
                    f"parameter {name!r} of {self._network.name} is in stages {', '.join(map(str, users))}",
                    "each parameter in one stage",
                    "cut elsewhere, fewer stages, or a network that shares no parameter between layers (tied=False)",
                )

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


def _names(values: Iterable[ir.Value]) -> tuple[str, ...]:
    return tuple(str(v.name) for v in values)


Arrays: TypeAlias = "dict[str, np.ndarray]"
Forms: TypeAlias = "dict[str, tuple[tuple[int, ...], np.dtype]]"
"""Name to shape and element type."""


_SHAPES, _VALUES, _GRADIENTS = 821, 822, 823

_TYPES: tuple[np.dtype, ...] = tuple(
    np.dtype(kind)
    for kind in (
        *(np.bool_, np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64),
        *(np.float16, np.float32, np.float64, np.complex64, np.complex128),
        *(ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2),
    )
)
"""Told by their number: all ranks have the same version."""


_MOST_DIMENSIONS = 8
_WIDTH = 2 + _MOST_DIMENSIONS


class Links:
    """Messages between neighbours, as bytes; what is sent is held until it has arrived, and nobody waits for that.

    The shapes of values go ahead of them. Gradients have those of the values that they are of.

    Args:
        comm: The ranks, one for each stage, in order.
    """

    def __init__(self, comm: Communicator) -> None:
        self._comm = comm
        self._under_way: list[tuple[Request, np.ndarray]] = []

    def send_on(self, values: Mapping[str, np.ndarray]) -> Forms:
        """Send values to the stage after; returns what they look like."""
        if values:
            self._send(np.concatenate([_described(name, x) for name, x in values.items()]), self._comm.rank + 1, _SHAPES)
        for x in values.values():
            self._send(_as_bytes(x), self._comm.rank + 1, _VALUES)
        return {name: (x.shape, x.dtype) for name, x in values.items()}

    def receive_on(self, names: Sequence[str]) -> Arrays:
        """The values that the stage before sent."""
        if not names:
            return {}
        header = np.empty(len(names) * _WIDTH, np.int64)
        self._comm.recv(header, self._comm.rank - 1, _SHAPES)
        rows = header.reshape(-1, _WIDTH)
        forms = {name: _form(row) for name, row in zip(names, rows, strict=True)}
        return self._receive(forms, self._comm.rank - 1, _VALUES)

    def send_back(self, gradients: Mapping[str, np.ndarray]) -> None:
        """Send gradients to the stage before."""
        for x in gradients.values():
            self._send(_as_bytes(x), self._comm.rank - 1, _GRADIENTS)

    def receive_back(self, forms: Forms) -> Arrays:
        """The gradients that the stage after sent."""
        return self._receive(forms, self._comm.rank + 1, _GRADIENTS)

    def from_stage(self, number: int, arrays: Mapping[str, np.ndarray], names: Sequence[str]) -> Arrays:
        """What one stage has, on all; all call this together."""
        if self._comm.size == 1 or not names:
            return dict(arrays)
        mine = self._comm.rank == number
        header = np.concatenate([_described(name, arrays[name]) for name in names]) if mine else None
        header = self._comm.broadcast(np.empty(len(names) * _WIDTH, np.int64) if header is None else header, number)
        received = {}
        for name, row in zip(names, header.reshape(-1, _WIDTH), strict=True):
            out = arrays[name] if mine else _empty(*_form(row))
            self._comm.broadcast(_as_bytes(out), number)
            received[name] = out
        return received

    def wait(self) -> None:
        """Return when everything that was sent may be changed."""
        for request, _ in self._under_way:
            request.wait()
        self._under_way = []

    def _send(self, x: np.ndarray, to: int, tag: int) -> None:
        self._under_way = [entry for entry in self._under_way if not entry[0].test()]
        self._under_way.append((self._comm.isend(x, to, tag), x))

    def _receive(self, forms: Forms, source: int, tag: int) -> Arrays:
        arrays = {name: _empty(*form) for name, form in forms.items()}
        begun = [self._comm.irecv(_as_bytes(x), source, tag) for x in arrays.values()]
        for request in begun:
            request.wait()
        return arrays


def _empty(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    return np.empty(shape, dtype)


def _as_bytes(x: np.ndarray) -> np.ndarray:
    """The bytes of an array, in its own memory where they follow each other."""
    flat = np.ascontiguousarray(x).reshape(-1)
    return flat.view(np.uint8)


def _described(name: str, x: np.ndarray) -> np.ndarray:
    if x.dtype not in _TYPES or x.ndim > _MOST_DIMENSIONS:
        raise Unsupported(
            f"{name!r} passes between stages, of type {x.dtype} and {x.ndim} dimensions",
            f"at most {_MOST_DIMENSIONS} dimensions of {', '.join(map(str, _TYPES))}",
        )
    row = np.zeros(_WIDTH, np.int64)
    row[:2] = _TYPES.index(x.dtype), x.ndim
    row[2 : 2 + x.ndim] = x.shape
    return row


def _form(row: np.ndarray) -> tuple[tuple[int, ...], np.dtype]:
    return tuple(row[2 : 2 + int(row[1])].tolist()), _TYPES[int(row[0])]


@dataclass(frozen=True, slots=True, eq=False)
class PullbackNetwork:
    r"""A network with the further output :math:`\sum_k \langle y_k, g_k \rangle` of some outputs :math:`y_k`.

    Its gradient is the product of the :math:`g_k` with the network's Jacobian, so that anything which differentiates a
    scalar can take a stage's backward pass.

    Args:
        network: With the :math:`g_k` as further inputs.
        loss: Name of the sum.
        seeds: Name of each :math:`y_k` to that of :math:`g_k`.
    """

    network: Network
    loss: str
    seeds: Mapping[str, str]


def pullback_network(network: Network, outputs: Sequence[str]) -> PullbackNetwork:
    """Such a network; sizes stay open.

    Args:
        network: A stage.
        outputs: Which; at least one, of real numbers.

    Example:
        >>> import deep_bench as db
        >>> [str(spec) for spec in pullback_network(db.load("digits-cnn"), ["logits"]).network.inputs]
        ['image: float32[batch, 1, 8, 8]', 'logits.gradient: float32[batch, 10]']
    """
    draft = Draft(network, "pulled")
    seeds: dict[str, str] = {}
    total: ir.Value | None = None
    for name in outputs:
        value = draft.value(name)
        seed = ir.Value(name=draft.names.fresh(f"{name}.gradient"), type=value.type, shape=value.shape)
        draft.graph.inputs.append(seed)
        seeds[name] = str(seed.name)
        product = _appended(draft, "Mul", value, seed)
        term = _appended(draft, "ReduceSum", product, keepdims=0)
        if value.dtype != draft.value(outputs[0]).dtype:
            term = _appended(draft, "CastLike", term, draft.value(outputs[0]))
        total = term if total is None else _appended(draft, "Add", total, term)
    assert total is not None
    total.name = draft.names.fresh("pulled")
    total.type, total.shape = draft.value(outputs[0]).type, ir.Shape([])
    draft.graph.outputs.append(total)
    return PullbackNetwork(draft.finish(), str(total.name), seeds)


def _appended(draft: Draft, operator: str, *inputs: ir.Value, **attributes: int) -> ir.Value:
    settings = [ir.AttrInt64(name, value) for name, value in attributes.items()]
    output = ir.Value(name=draft.names.fresh(f"pulled.{operator}"))
    draft.graph.append(
        ir.Node("", operator, inputs, settings, outputs=[output], name=draft.names.fresh(f"pulled.{operator}"))
    )
    return output


class StageExecutor(Generic[A]):
    """What one rank computes.

    The way back runs the stage forward again, since an executor keeps nothing between calls: of a micro-batch that waits, a
    rank holds what arrived, and none of the values in between.

    Args:
        adapter: The framework.
        stage: The stage.
        loss: Name of the loss, which some stage gives.

    Source:
        Huang et al., NeurIPS 2019, section 2.3 (re-materialization).
    """

    def __init__(self, adapter: Adapter[A], stage: Stage, loss: str | None) -> None:
        self.adapter, self.stage = adapter, stage
        self._takes_numpy = isinstance(adapter.from_numpy(np.zeros(1, np.float32)), np.ndarray)
        self.arithmetic = has_arithmetic(adapter)
        pulls = [name for name in stage.made if name in stage.returned]
        pulls += [name for name in stage.outputs if name == loss]
        self._pulled: PullbackNetwork | None = pullback_network(stage.network, pulls) if pulls else None
        self._backward = adapter.prepare(stage.network if self._pulled is None else self._pulled.network, mode="train")
        self.parameters = _StageParameters(self._backward, stage.parameters)
        self.forms = self._backward.forms

    @cached_property
    def _forward(self) -> Executor[A]:
        """With the same parameters; made when it is first needed, as the last stage of training does without."""
        executor = self._backward if self._pulled is None else self.adapter.prepare(self.stage.network, mode="train")
        self.parameters.follow(executor)
        return executor

    def forward(self, inputs: Mapping[str, A]) -> Arrays:
        """What the stage gives."""
        recorded: AbstractContextManager[Any] = self.adapter.xp.untracked() if self.arithmetic else nullcontext()
        with recorded:
            outputs = self._forward.forward(inputs)
        return {name: self.host(x) for name, x in outputs.items()}

    def backward(
        self,
        inputs: Mapping[str, A],
        gradients: Mapping[str, np.ndarray],
        trained: Sequence[str],
        ready: Callable[[str, A], None] | None,
    ) -> tuple[Arrays, dict[str, A]]:
        """What the stage gives, and the gradients of parameters and of what arrived.

        Args:
            inputs: What it was fed.
            gradients: Of the loss, with respect to what leaves it.
            trained: Names of the parameters.
            ready: See `Executor.gradients`.
        """
        wrt = [*trained, *(name for name in self.stage.taken if name in self.stage.returned)]
        if self._pulled is None or not wrt:
            outputs = self.forward(inputs) if self.stage.outputs else {}
            return outputs, {name: self._zeros(name, inputs) for name in wrt}
        fed = {**inputs, **{seed: self.adapter.adopt(gradients[name]) for name, seed in self._pulled.seeds.items()}}
        results, slopes = self._backward.gradients(fed, self._pulled.loss, wrt=wrt, on_ready=ready)
        return {name: self.host(results[name]) for name in self.stage.outputs}, slopes

    def host(self, x: A) -> np.ndarray:
        """The contents of a native array that nobody changes."""
        if not self.arithmetic:
            return self.adapter.to_numpy(x)
        self.adapter.synchronize()
        return self.adapter.xp.host(x)

    def check_native(self, spec: TensorSpec, x: Any) -> None:
        """Refuse a NumPy array where the framework has arrays of its own."""
        if isinstance(x, np.ndarray) and not self._takes_numpy:
            raise InvalidInput(
                f"input {spec.name!r} is a {type(x).__name__}",
                f"{spec}, as a native array of this rank's framework",
                "convert it: pipeline.device.from_numpy(array)",
            )

    def shape(self, x: A) -> tuple[int, ...]:
        """The sizes of a native array."""
        return self.adapter.xp.shape(x) if self.arithmetic else self.adapter.to_numpy(x).shape

    def piece(self, x: A, begin: int, end: int) -> A:
        """Some of the samples of an input."""
        if self.arithmetic:
            rows: A = x[begin:end]  # type: ignore[index]
            return rows
        return self.adapter.from_numpy(self.adapter.to_numpy(x)[begin:end])

    def _zeros(self, name: str, inputs: Mapping[str, A]) -> A:
        like = self.parameters[name] if name in self.stage.parameters else inputs[name]
        return self.adapter.from_numpy(np.zeros_like(self.adapter.to_numpy(like)))


class _StageParameters(MutableMapping[str, Any]):
    """The parameters of a stage, in all executors that have them.

    Args:
        first: The executor that they are read from.
        names: Which.
    """

    def __init__(self, first: Executor[Any], names: Sequence[str]) -> None:
        self._first, self._names = first, tuple(names)
        self._others: list[Executor[Any]] = []

    def follow(self, executor: Executor[Any]) -> None:
        """Let another executor have them too."""
        if executor is not self._first:
            self._others.append(executor)
            for name in self._names:
                executor.parameters[name] = self._first.parameters[name]

    def __getitem__(self, name: str) -> Any:
        if name not in self._names:
            raise KeyError(name)
        return self._first.parameters[name]

    def __setitem__(self, name: str, value: Any) -> None:
        if name not in self._names:
            raise InvalidArgument(f"this stage has no parameter {name!r}", f"one of {', '.join(self._names) or '(none)'}")
        self._first.parameters[name] = value
        for executor in self._others:
            executor.parameters[name] = self._first.parameters[name]

    def __delitem__(self, name: str) -> None:
        raise InvalidArgument(f"parameter {name!r} cannot be removed", "an assignment")

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)
