"""``Pipeline``: a network in stages, one on each rank, which work on different micro-batches at the same time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter_ns
from types import MappingProxyType
from typing import Any, Generic, Literal, NamedTuple, TypeAlias
from zlib import crc32

import numpy as np
import onnx_ir as ir

from deep_bench.distributed.communicators.communicator import Communicator
from deep_bench.distributed.stages import Arrays, Forms, Links, Stage, StageExecutor, check_by_sample, stages_of
from deep_bench.distributed.training.messages import RanksDiffer, check_same, structure
from deep_bench.errors import InvalidArgument, InvalidInput, UnknownName, Unsupported
from deep_bench.facts import OPERATORS
from deep_bench.framework import A, Adapter, Executor, checked_request
from deep_bench.graph import Network, NetworkLike, as_network
from deep_bench.graph.node import operator_facts
from deep_bench.graph.shapes import Knowledge
from deep_bench.tensor import STRING, TensorSpec, is_float

Reduction = Literal["mean", "sum"]

_REDUCTIONS: Mapping[str, Reduction] = {"ReduceMean": "mean", "ReduceSum": "sum"}


class Batches:
    """How a network's batches are cut.

    Args:
        network: Whose.
        micro_batches: How many pieces.
        loss: Name of the output that is the loss, if there is one.
        reduction: What it is of its samples' losses; by default what its node says.

    Attributes:
        cut: Names of the inputs whose first axis is the batch.

    Raises:
        InvalidArgument: Fewer than one micro-batch; no input with an open first axis; no such loss; or a loss that is no
            scalar, or of which nobody knows how it follows from those of parts of the batch.
        Unsupported: Inputs that are no tensors, or outputs that cannot be put together.
    """

    def __init__(self, network: Network, micro_batches: int, loss: str | None, reduction: Reduction | None) -> None:
        if isinstance(micro_batches, bool) or not isinstance(micro_batches, int) or micro_batches < 1:
            raise InvalidArgument(f"micro_batches={micro_batches!r}", "a whole number of at least 1")
        self.count, self.loss = micro_batches, loss
        for spec in network.inputs:
            if not spec.is_tensor:
                raise Unsupported(f"the input {spec} of {network.name} in micro-batches", "inputs that are tensors")
        later = {d for spec in network.inputs for d in spec.shape[1:] if isinstance(d, str)}
        firsts = {spec.name: spec.shape[0] for spec in network.inputs if spec.shape}
        self.cut = tuple(name for name, d in firsts.items() if isinstance(d, str) and d not in later)
        self.open = frozenset(str(firsts[name]) for name in self.cut)
        if not self.cut:
            raise InvalidArgument(
                f"{network.name}, none of whose inputs has an open first axis: {', '.join(map(str, network.inputs))}",
                "an open batch size, since micro-batches are smaller than the batch",
                "load the network without fixing its sizes",
            )
        outputs = {spec.name: spec for spec in network.outputs}
        if loss is not None and loss not in outputs:
            raise InvalidArgument(
                f"{network.name} has no output {loss!r}",
                f"one of {', '.join(outputs)}",
                "network.with_loss(…), or loss=None",
            )
        for name, spec in outputs.items():
            if name != loss and (not spec.shape or isinstance(spec.shape[0], int)):
                raise Unsupported(
                    f"the output {spec} of {network.name} is not of each sample, and follows from no part of the batch",
                    "outputs whose first axis is the batch, and the loss",
                    "leave it out: network.with_outputs([…])",
                )
        if loss is not None and outputs[loss].shape not in ((), (1,)):
            raise InvalidArgument(f"the loss {outputs[loss]} of {network.name}", "a scalar")
        self.reduction = None if loss is None else _checked(network, loss, reduction)

    def sizes(self, shapes: Mapping[str, Sequence[int]]) -> list[int]:
        """How many samples each micro-batch has; they differ by at most one, the larger ones first.

        Args:
            shapes: Of inputs, one that is cut among them at least.

        Raises:
            InvalidInput: None of those that are cut, or of different sizes; or fewer samples than micro-batches.
        """
        batch_sizes = {name: shapes[name][0] for name in self.cut if name in shapes}
        if not batch_sizes:
            raise InvalidInput(f"inputs {', '.join(shapes) or '(none)'}", f"one of {', '.join(self.cut)}, to know the batch")
        samples = next(iter(batch_sizes.values()))
        if len(set(batch_sizes.values())) > 1:
            raise InvalidInput(f"batches of {', '.join(f'{n} in {name!r}' for name, n in batch_sizes.items())}", "one size")
        if samples < self.count:
            raise InvalidInput(
                f"a batch of {samples} samples in {self.count} micro-batches",
                "at least one sample in each",
                "fewer micro-batches, or a sampler that leaves no shorter batch at the end",
            )
        return [samples // self.count + (k < samples % self.count) for k in range(self.count)]

    def weights(self, sizes: Sequence[int]) -> list[float]:
        """What the loss of each micro-batch counts for in that of the batch."""
        return [1.0 if self.reduction == "sum" else size / sum(sizes) for size in sizes]

    def joined(self, name: str, parts: Sequence[np.ndarray], weights: Sequence[float]) -> np.ndarray:
        """An output of the batch, from those of all micro-batches."""
        if name != self.loss:
            return np.concatenate(parts)
        total = sum(weight * part.astype(np.float64) for weight, part in zip(weights, parts, strict=True))
        return np.asarray(total).astype(parts[0].dtype)


def _checked(network: Network, loss: str, declared: Reduction | None) -> Reduction:
    if declared is not None:
        if declared not in ("mean", "sum"):
            raise InvalidArgument(f"reduction={declared!r}", "'mean' or 'sum'")
        return declared
    node = next(v for v in network.graph.outputs if v.name == loss).producer()
    reduction = None if node is None else _reduction_of(node, Knowledge(network))
    if reduction is None:
        operator = "an input" if node is None else node.op_type
        losses = sorted((name for name, row in OPERATORS.items() if row.loss), reverse=True)
        raise InvalidArgument(
            f"the loss {loss!r} of {network.name}, which {operator} gives",
            f"a mean or a sum over the samples: {', '.join((*losses, *_REDUCTIONS))}",
            "say which it is: reduction='mean' or reduction='sum'",
        )
    return reduction


def _reduction_of(node: ir.Node, knowledge: Knowledge) -> Reduction | None:
    if node.op_type in _REDUCTIONS:
        dims = None if node.inputs[0] is None else knowledge.dims(node.inputs[0])
        of_samples = dims is not None and len(dims) > 0 and not isinstance(dims[0], int)
        return _REDUCTIONS[node.op_type] if of_samples else None
    if not operator_facts(node).loss:
        return None
    declared: Any = node.attributes.get("reduction")
    reduction: Reduction = "mean" if declared is None else declared.as_string()
    weighted = "weights per class" if len(node.inputs) > 2 and node.inputs[2] is not None else ""
    ignoring = "ignore_index" if "ignore_index" in node.attributes else ""
    if reduction == "mean" and (weighted or ignoring):
        raise Unsupported(
            f"node {node.name!r} ({node.op_type}) takes the mean with {weighted or ignoring}",
            "a mean in which all samples count alike: those that count differ from one micro-batch to the next",
            'reduction="sum"',
        )
    return reduction


Kind = Literal["forward", "backward"]


class Task(NamedTuple):
    """What a stage does next.

    Args:
        kind: Which way.
        micro_batch: With which one, from 0.
    """

    kind: Kind
    micro_batch: int


Schedule: TypeAlias = Callable[[int, int, int], tuple[Task, ...]]
"""From a stage's number, how many stages there are and how many micro-batches to what it does."""


def gpipe(stage: int, stages: int, micro_batches: int) -> tuple[Task, ...]:
    """All micro-batches forward, then all of them back, the last one first.

    Example:
        >>> " ".join(f"{kind[0]}{number}" for kind, number in gpipe(0, 2, 3))
        'f0 f1 f2 b2 b1 b0'

    Source:
        Huang et al., *GPipe: efficient training of giant neural networks using pipeline parallelism*, NeurIPS 2019,
        section 2.2 and figure 2c.
    """
    del stage, stages
    forward = [Task("forward", k) for k in range(micro_batches)]
    return (*forward, *(Task("backward", k) for k in reversed(range(micro_batches))))


def one_forward_one_backward(stage: int, stages: int, micro_batches: int) -> tuple[Task, ...]:
    """As many micro-batches forward as there are later stages, then one forward and one back in turns, then the rest back.

    All gradients are there before parameters change (a *flush*), unlike in PipeDream itself.

    Example:
        >>> " ".join(f"{kind[0]}{number}" for kind, number in one_forward_one_backward(0, 2, 3))
        'f0 f1 b0 f2 b1 b2'

    Source:
        Narayanan et al., *Efficient large-scale language model training on GPU clusters using Megatron-LM*, SC 2021,
        section 2.2.1 and figure 4, after Narayanan et al., *PipeDream: generalized pipeline parallelism for DNN training*,
        SOSP 2019, section 3.2.
    """
    ahead = min(stages - 1 - stage, micro_batches)
    tasks = [Task("forward", k) for k in range(ahead)]
    for k in range(micro_batches - ahead):
        tasks += [Task("forward", ahead + k), Task("backward", k)]
    return (*tasks, *(Task("backward", k) for k in range(micro_batches - ahead, micro_batches)))


SCHEDULES: Mapping[str, Schedule] = MappingProxyType({"1f1b": one_forward_one_backward, "gpipe": gpipe})
"""By name."""


def schedule_of(name: str) -> Schedule:
    """A schedule.

    Raises:
        UnknownName: There is none of that name.
    """
    if name not in SCHEDULES:
        raise UnknownName("schedule", name, SCHEDULES)
    return SCHEDULES[name]


def bubble_share(stages: int, micro_batches: int) -> float:
    r"""The share of all stages' time in which they wait, where all tasks of a kind take equally long and messages no time.

    .. math:: \frac{p - 1}{m + p - 1}

    for :math:`p` stages and :math:`m` micro-batches, in both schedules.

    Example:
        >>> bubble_share(stages=4, micro_batches=8)
        0.2727272727272727

    Source:
        Huang et al., NeurIPS 2019, section 2.3. Narayanan et al., SC 2021, section 2.2.1, give the same time as a share of
        the others': :math:`(p - 1) / m`.
    """
    return (stages - 1) / (micro_batches + stages - 1)


def most_kept(schedule: str, stage: int, stages: int, micro_batches: int) -> int:
    """How many micro-batches a stage keeps the inputs of at most: those that went forward and not yet back.

    Example:
        >>> [most_kept("gpipe", stage, 4, 8) for stage in range(4)], [most_kept("1f1b", stage, 4, 8) for stage in range(4)]
        ([8, 8, 8, 8], [4, 3, 2, 1])
    """
    held = most = 0
    for kind, _ in schedule_of(schedule)(stage, stages, micro_batches):
        held += 1 if kind == "forward" else -1
        most = max(most, held)
    return most


_MOST = 2**18
"""Elements of an input that are looked at, at the same places of every sample: a large one takes long to read."""


_ABSENT = -1


def check_same_batch(
    comm: Communicator, samples: int, inputs: Sequence[TensorSpec], batch: Mapping[str, np.ndarray]
) -> None:
    """Compare the sizes of all ranks' batches, and each input among the ranks that have it; all call this together.

    Args:
        comm: The ranks.
        samples: How many this rank was given.
        inputs: Of the whole network.
        batch: What this rank was given of them.

    Raises:
        RanksDiffer: On all ranks.

    Example:
        >>> from deep_bench.distributed.communicators.local import run_local
        >>> spec = TensorSpec("x", ("n",), np.dtype(np.float32))
        >>> def on_rank(comm):
        ...     try:
        ...         check_same_batch(comm, 2, [spec], {"x": np.array([1, comm.rank // 2])})
        ...     except RanksDiffer as error:
        ...         return error.came
        >>> run_local(3, on_rank)[1]
        "ranks 0 and 2 of a pipeline were given different batches: other values of 'x'"
    """
    sums = [checksum(batch[spec.name], spec) if spec.name in batch else _ABSENT for spec in inputs]
    rows = comm.allgather(np.array([samples, *sums], np.int64))
    for place, column in enumerate(rows.T):
        having = np.flatnonzero(column != _ABSENT)
        differing = having[column[having] != column[having[:1]]]
        if len(differing):
            first, second = int(having[0]), int(differing[0])
            difference = (
                f"other values of {inputs[place - 1].name!r}" if place else f"{column[first]} and {column[second]} samples"
            )
            raise RanksDiffer(
                f"ranks {first} and {second} of a pipeline were given different batches: {difference}",
                "the same whole batch on all ranks, of which each takes what its stage needs",
                "a sampler that is not sharded, with the same seed on all ranks; "
                "for a part of the batch on each rank: a scheme, such as allreduce",
            )


def checksum(x: np.ndarray, spec: TensorSpec) -> int:
    """The CRC-32 of an input, of some elements of each sample where it is large; the same where a framework has fewer bits.

    Example:
        >>> spec = TensorSpec("x", ("n",), np.dtype(np.int64))
        >>> one, same, other = np.array([1, 2]), np.array([1, 2], np.int32), np.array([2, 1])
        >>> checksum(one, spec) == checksum(same, spec) != checksum(other, spec)
        True
    """
    rows = x.reshape(len(x), -1) if x.ndim and x.size else x.reshape(1, -1)
    sample = rows[:, :: -(-x.size // _MOST) or 1]
    if spec.dtype == STRING:
        contents = repr(sample.tolist()).encode()
    else:
        with np.errstate(over="ignore"):
            contents = sample.astype(np.float32 if is_float(spec.dtype) else spec.dtype).tobytes()
    return crc32(contents, crc32(repr(x.shape).encode()))


class Sums(Generic[A]):
    """The sums so far, which are told as soon as they are final.

    Args:
        part: Whose parameters.
        names: Which.
        on_ready: See `Executor.gradients`.
    """

    def __init__(self, part: StageExecutor[A], names: Sequence[str], on_ready: Callable[[str, A], None] | None) -> None:
        self._part, self.names, self._on_ready = part, tuple(names), on_ready
        self._native: dict[str, A] = {}
        self._host: dict[str, np.ndarray] = {}
        self._final: dict[str, A] = {}

    def ready(self, *, last: bool) -> Callable[[str, A], None] | None:
        """What an executor is to call with the gradients of a micro-batch, after the last of which they are final."""
        return self.finish if last and self._on_ready is not None else None

    def add(self, name: str, gradient: A) -> None:
        """Add that of a micro-batch."""
        if self._part.arithmetic:
            xp = self._part.adapter.xp
            with xp.untracked():
                before: Any = self._native.get(name)
                self._native[name] = gradient if before is None else xp.array(before + gradient)
        else:
            addend = self._part.host(gradient)
            self._host[name] = self._host[name] + addend if name in self._host else addend

    def finish(self, name: str, gradient: A) -> None:
        """Add that of the last micro-batch, unless that was done already."""
        if name in self._final or name not in self.names:
            return
        self.add(name, gradient)
        native = self._part.arithmetic
        self._final[name] = self._native[name] if native else self._part.adapter.from_numpy(self._host[name])
        if self._on_ready is not None:
            self._on_ready(name, self._final[name])

    def found(self) -> dict[str, A]:
        """All of them, in the order in which they were asked for."""
        return {name: self._final[name] for name in self.names}


@dataclass(frozen=True, slots=True)
class CompletedTask:
    """A task of the last call.

    Args:
        kind: Which way.
        micro_batch: With which one.
        begin_ns: When its arrays were there,
        end_ns: and when its result was. The last stage of a training step does nothing on the way forward but to take what
            arrived: it computes both ways at once.
        kept: How many micro-batches the stage held the inputs of while it was done.
    """

    kind: Kind
    micro_batch: int
    begin_ns: int
    end_ns: int
    kept: int


@dataclass(slots=True)
class _Waiting:
    """What a stage holds of a micro-batch until that comes back."""

    inputs: dict[str, Any]
    arrived: Forms
    sent: Forms


@dataclass(frozen=True, slots=True, eq=False)
class Post:
    """What a rank needs to take its part in any call.

    Args:
        stages: All of them.
        part: This rank's, on its framework.
        links: To its neighbours.
        batches: How batches are cut.
        inputs: Of the whole network.
        loss: The output that is differentiated, if any.
    """

    stages: Sequence[Stage]
    part: StageExecutor[Any]
    links: Links
    batches: Batches
    inputs: Sequence[TensorSpec]
    loss: TensorSpec | None


class BatchPass:
    """A batch on its way.

    Args:
        post: This rank's.
        inputs: The batch, or what this rank's stage takes of it.
        sums: What becomes of gradients; ``None`` if there is no way back.

    Attributes:
        samples: How many the batch has.
        done: The tasks that were done.
        span_ns: How long it took.

    Raises:
        InvalidInput: An unknown or missing input, no array of the framework, or fewer samples than micro-batches.
    """

    def __init__(self, post: Post, inputs: Mapping[str, Any], sums: Sums[Any] | None) -> None:
        self._post, self.sums = post, sums
        self._part, self._links, self._batches = post.part, post.links, post.batches
        self._stage = post.part.stage
        specs = {spec.name: spec for spec in post.inputs}
        unknown = [name for name in inputs if name not in specs]
        missing = [name for name in self._stage.fed if name not in inputs]
        if unknown or missing:
            came = f"unknown input {unknown[0]!r}" if unknown else f"input {missing[0]!r} is missing"
            raise InvalidInput(came, "; ".join(map(str, specs.values())))
        for name, x in inputs.items():
            post.part.check_native(specs[name], x)
        self._inputs = inputs
        self._sizes = self._batches.sizes({name: self._part.shape(x) for name, x in inputs.items()})
        self.samples = sum(self._sizes)
        self._weights = self._batches.weights(self._sizes)
        self._waiting: dict[int, _Waiting] = {}
        self._outputs: dict[int, Arrays] = {}
        self.done: list[CompletedTask] = []
        self.span_ns = 0

    def run(self, tasks: Sequence[Task]) -> Arrays:
        """Do the tasks, and give the outputs of the whole batch."""
        begin = perf_counter_ns()
        for index, task in enumerate(tasks):
            waiting_count = len(self._waiting)
            if task.kind == "forward":
                span = self._forward(task.micro_batch)
                waiting_count += self.sums is not None
            else:
                span = self._backward(task.micro_batch, last=index == len(tasks) - 1)
            self.done.append(CompletedTask(task.kind, task.micro_batch, *span, waiting_count))
        mine = {
            name: self._batches.joined(name, [self._outputs[k][name] for k in range(len(self._sizes))], self._weights)
            for name in self._stage.outputs
        }
        outputs: Arrays = {}
        for stage in self._post.stages:
            outputs |= self._links.from_stage(stage.number, mine, stage.outputs)
        self._links.wait()
        self.span_ns = perf_counter_ns() - begin
        return outputs

    def _forward(self, k: int) -> tuple[int, int]:
        stage = self._stage
        arrived = self._links.receive_on(stage.arriving)
        begin = perf_counter_ns()
        fed = {**self._piece(k), **{name: self._part.adapter.adopt(arrived[name]) for name in stage.taken}}
        outputs: Arrays = {}
        if self.sums is None or stage.made:
            outputs = self._part.forward(fed)
        end = perf_counter_ns()
        sent = self._links.send_on({name: outputs[name] if name in outputs else arrived[name] for name in stage.leaving})
        self._outputs[k] = {name: outputs[name] for name in stage.outputs if name in outputs}
        if self.sums is not None:
            self._waiting[k] = _Waiting(fed, {name: (x.shape, x.dtype) for name, x in arrived.items()}, sent)
        return begin, end

    def _backward(self, k: int, *, last: bool) -> tuple[int, int]:
        stage, sums, waiting = self._stage, self.sums, self._waiting.pop(k)
        assert sums is not None
        gradients = self._links.receive_back({name: waiting.sent[name] for name in stage.leaving if name in stage.returned})
        begin = perf_counter_ns()
        loss = self._post.loss
        if loss is not None and loss.name in stage.outputs:
            shape = tuple(int(d) for d in loss.shape)
            gradients[loss.name] = np.full(shape, self._weights[k], loss.dtype)
        outputs, slopes = self._part.backward(waiting.inputs, gradients, sums.names, sums.ready(last=last))
        for name in sums.names:
            (sums.finish if last else sums.add)(name, slopes[name])
        host_slopes = {name: self._part.host(slopes[name]) for name in stage.taken if name in stage.returned}
        back = {
            name: _total(name, host_slopes, gradients, waiting.arrived) for name in stage.arriving if name in stage.returned
        }
        end = perf_counter_ns()
        self._links.send_back(back)
        if not stage.made:
            self._outputs[k] = outputs
        return begin, end

    def _piece(self, k: int) -> dict[str, Any]:
        begin = sum(self._sizes[:k])
        return {
            name: self._part.piece(x, begin, begin + self._sizes[k]) if name in self._batches.cut else x
            for name, x in self._inputs.items()
            if name in self._stage.fed
        }


def _total(name: str, local: Arrays, passed: Arrays, forms: Forms) -> np.ndarray:
    """The gradient of a value that a stage uses, passes on, or both."""
    terms = [gradients[name] for gradients in (local, passed) if name in gradients]
    return np.asarray(sum(terms[1:], start=terms[0]), forms[name][1])


@dataclass(frozen=True, slots=True)
class Bubble:
    """The share of all ranks' time in which they computed nothing.

    Args:
        measured: Of the last call.
        formula: As `bubble_share` has it, which leaves out messages and stages of different cost.
    """

    measured: float
    formula: float


class Pipeline(Executor[A]):
    r"""One stage of a network on each rank; activations go from rank to rank, and gradients back.

    All ranks make it together, and call it together, with the same batch, which each call compares: the first stages
    need the data, the last one the labels, and inputs that a rank's stage does not take may be left out there. A batch
    of :math:`n` samples is cut into :math:`m` micro-batches of :math:`n_k` samples, which differ by at most one, and the
    gradients are those of the batch,

    .. math:: \nabla L = \sum_k \frac{n_k}{n} \nabla L_k

    for a loss that is a mean over samples; for a sum, without the weights. ``parameters`` and gradients are those of the
    rank's own stage, outputs those of the whole network on every rank. So a `SeparateStep` or `Trainer` on each rank trains
    the whole network, with any optimizer that updates each parameter by itself (`Optimizer.separable`).

    Samples must not depend on each other. `BatchNormalization` by the batch is refused, as are random operators; draws that
    are inputs, as `training_form` makes them for dropout, are cut with the batch. That nothing else mixes samples nobody
    checks.

    Args:
        adapter: The framework of this rank; others may have others.
        network: With an open batch size, and a loss (`Network.with_loss`).
        comm: The ranks: as many stages.
        micro_batches: How many.
        schedule: ``"gpipe"`` or ``"1f1b"``: see `deep_bench.distributed.pipeline`.
        cuts: Name of the first node of each stage but the first; by default stages cost as nearly the same as can be.
        costs: What nodes cost: ``"flops"``, ``"parameters"``, or name of a node to a measured time.
        sizes: Of open dimensions other than the batch, to count FLOPs at.
        loss: Name of the loss; ``None`` for a network that is only evaluated.
        reduction: Whether the loss is a ``"mean"`` or a ``"sum"`` over samples; by default what the node that gives it says.

    Attributes:
        stage: This rank's `Stage`.
        done: The tasks of the last call on this rank, in order.

    Raises:
        InvalidArgument: More ranks than nodes, an unknown cut or loss, a fixed batch size, costs that are no numbers
            from 0 on, a stage without parameters though there is a loss.
        Unsupported: A parameter in several stages, or nodes that need the whole batch.
        RanksDiffer: Ranks have different networks or settings.

    Example:
        >>> import deep_bench as db
        >>> from deep_bench.distributed import run_local
        >>> network = db.load("digits-cnn").with_loss("SoftmaxCrossEntropyLoss", output="logits", target="label")
        >>> batch = {"image": np.ones((6, 1, 8, 8), np.float32), "label": np.arange(6)}
        >>> def on_rank(comm):
        ...     pipeline = Pipeline(db.frameworks["reference"](), network, comm, micro_batches=4, schedule="1f1b")
        ...     outputs, gradients = pipeline.gradients(batch, "loss")
        ...     return len(gradients), round(float(outputs["loss"]), 3), max(task.kept for task in pipeline.done)
        >>> run_local(3, on_rank)
        [(9, 2.926, 3), (5, 2.926, 2), (5, 2.926, 1)]

    Source:
        Huang et al., NeurIPS 2019 (GPipe); Narayanan et al., SOSP 2019 (PipeDream) and SC 2021 (Megatron-LM), section 2.2.
    """

    def __init__(
        self,
        adapter: Adapter[A],
        network: NetworkLike,
        comm: Communicator,
        micro_batches: int = 4,
        schedule: Literal["gpipe", "1f1b"] = "gpipe",
        cuts: Sequence[str] | None = None,
        *,
        costs: str | Mapping[str, float] = "flops",
        sizes: Mapping[str, int] | None = None,
        loss: str | None = "loss",
        reduction: Reduction | None = None,
    ) -> None:
        whole = as_network(network)
        order = schedule_of(schedule)
        check_by_sample(whole)
        self._batches = Batches(whole, micro_batches, loss, reduction)
        counted = {**dict.fromkeys(self._batches.open, 1), **(sizes or {})}
        self._stages = stages_of(whole, comm.size, loss=loss, cuts=cuts, costs=costs, sizes=counted)
        settings = {"micro-batches": str(micro_batches), "schedule": schedule}
        cut_at = "; ".join(" ".join(stage.leaving) for stage in self._stages)
        check_same(comm, {"network": structure(whole), "cuts": cut_at, **settings})
        self.comm, self.schedule, self.stage = comm, schedule, self._stages[comm.rank]
        self.device, self.network = adapter, whole
        self.inputs = whole.inputs
        self.output_names = tuple(spec.name for spec in whole.outputs)
        self._loss = None if loss is None else next(spec for spec in whole.outputs if spec.name == loss)
        self._part = StageExecutor(adapter, self.stage, loss)
        self._links = Links(comm)
        self._post = Post(self._stages, self._part, self._links, self._batches, self.inputs, self._loss)
        self.parameters, self.forms = self._part.parameters, self._part.forms
        self._tasks = order(comm.rank, comm.size, micro_batches)
        self.done: tuple[CompletedTask, ...] = ()
        self._span_ns = 0

    # What an executor does

    def forward(self, inputs: Mapping[str, A]) -> dict[str, A]:
        """Run the network; all ranks call this together."""
        return self._called(inputs, None, [Task("forward", k) for k in range(self._batches.count)])

    def bind(self, inputs: Mapping[str, A]) -> Callable[[], dict[str, A]]:
        """A call without arguments; all ranks call it together."""
        return lambda: self.forward(inputs)

    def gradients(
        self,
        inputs: Mapping[str, A],
        loss: str,
        *,
        wrt: Sequence[str] | None = None,
        on_ready: Callable[[str, A], None] | None = None,
    ) -> tuple[dict[str, A], dict[str, A]]:
        """Run the network forward and back; all ranks call this together.

        Args:
            inputs: Name to native array; those that this rank's stage does not take may be left out.
            loss: The one that the pipeline was made for.
            wrt: Names of parameters of this rank's stage; all by default.
            on_ready: Called with a name and its gradient when all micro-batches are in it.

        Raises:
            InvalidArgument: Another loss, or a name that is no parameter of this stage.
            InvalidInput: A missing or unknown input, or fewer samples than micro-batches.
            RanksDiffer: Ranks were given different batches, as by a sharded sampler.
            Unsupported: Gradients with respect to inputs.
        """
        if self._loss is None or loss != self._loss.name:
            expected = "none: it was made with loss=None" if self._loss is None else repr(self._loss.name)
            raise InvalidArgument(f"loss {loss!r} of a pipeline", expected, "Pipeline(…, loss=…)")
        sums = Sums(self._part, self._asked(wrt), on_ready)
        outputs = self._called(inputs, sums, self._tasks)
        return outputs, sums.found()

    # What only a pipeline has

    def gathered(self) -> dict[str, np.ndarray]:
        """All stages' parameters, on every rank; all call this together.

        They are what `deep_bench.training.TrainingForm.trained` takes.
        """
        local_arrays = {name: self._part.adapter.to_numpy(self.parameters[name]) for name in self.parameters}
        arrays: Arrays = {}
        for stage in self._stages:
            arrays |= self._links.from_stage(stage.number, local_arrays, stage.parameters)
        return arrays

    def bubble(self) -> Bubble:
        """The share of time without work in the last call, over all ranks, which call this together.

        The time is that of the rank for which the call took longest; ranks that share cores wait for those too.

        Raises:
            InvalidArgument: There was no call yet.
        """
        if not self.done:
            raise InvalidArgument("the bubble of a pipeline that was not called yet", "a call before")
        busy = self.comm.allreduce(np.array([sum(task.end_ns - task.begin_ns for task in self.done)], np.int64))
        longest = self.comm.allreduce(np.array([self._span_ns], np.int64), "max")
        measured = 1 - int(busy[0]) / (self.comm.size * int(longest[0]))
        return Bubble(measured, bubble_share(self.comm.size, self._batches.count))

    def _called(self, inputs: Mapping[str, A], sums: Sums[A] | None, tasks: Sequence[Task]) -> dict[str, A]:
        call = BatchPass(self._post, inputs, sums)
        if self.comm.size > 1:
            arrays = {name: self._part.host(x) for name, x in inputs.items()}
            check_same_batch(self.comm, call.samples, self.inputs, arrays)
        outputs = call.run(tasks)
        self.done, self._span_ns = tuple(call.done), call.span_ns
        return {name: self._part.adapter.adopt(outputs[name]) for name in self.output_names}

    def _asked(self, wrt: Sequence[str] | None) -> tuple[str, ...]:
        assert self._loss is not None
        parameter_names = self.stage.parameters
        if wrt is None:
            return parameter_names
        for name in wrt if not isinstance(wrt, str) else ():
            holder = next((stage.number for stage in self._stages if name in stage.parameters), None)
            if holder is not None and name not in parameter_names:
                raise InvalidArgument(
                    f"the gradient of {name!r} on rank {self.comm.rank}",
                    f"that of parameters of its stage, {', '.join(parameter_names) or 'which has none'}; "
                    f"rank {holder} has {name!r}",
                    "wrt=None for those of the rank's stage",
                )
            if holder is None and name in [spec.name for spec in self.inputs]:
                raise Unsupported(
                    f"the gradient of a pipeline with respect to its input {name!r}", "names of parameters", "one process"
                )
        return checked_request(self.stage.network.name, [self._loss.name], parameter_names, (), self._loss.name, wrt)
