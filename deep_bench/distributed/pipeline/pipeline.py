"""``Pipeline``: a network whose layers are spread over ranks, as an executor on each of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from deep_bench.distributed.communicators.communicator import Communicator
from deep_bench.distributed.pipeline.batches import Batches, Reduction
from deep_bench.distributed.pipeline.call import Call, Done, Post
from deep_bench.distributed.pipeline.gradients import Sums
from deep_bench.distributed.pipeline.links import Arrays, Links
from deep_bench.distributed.pipeline.part import Part
from deep_bench.distributed.pipeline.same_batch import check_same_batch
from deep_bench.distributed.pipeline.schedules import Task, bubble_share, schedule_of
from deep_bench.distributed.pipeline.stages import check_by_sample, stages_of
from deep_bench.distributed.training.same import check_same, structure
from deep_bench.errors import InvalidArgument, Unsupported
from deep_bench.framework import A, Adapter, Executor
from deep_bench.graph import NetworkLike, as_network
from deep_bench.request import checked_request


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
        schedule: ``"gpipe"`` or ``"1f1b"``: see `deep_bench.distributed.pipeline.schedules`.
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
        self._part = Part(adapter, self.stage, loss)
        self._links = Links(comm)
        self._post = Post(self._stages, self._part, self._links, self._batches, self.inputs, self._loss)
        self.parameters, self.forms = self._part.parameters, self._part.forms
        self._tasks = order(comm.rank, comm.size, micro_batches)
        self.done: tuple[Done, ...] = ()
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
        call = Call(self._post, inputs, sums)
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
