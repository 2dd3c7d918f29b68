"""A training step together with other ranks."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

import numpy as np

import deep_bench
from deep_bench.arrays import ArrayFunctions
from deep_bench.distributed.communicators.communicator import Communicator
from deep_bench.distributed.communicators.counting import Counting
from deep_bench.distributed.communicators.local import LocalCommunicator
from deep_bench.distributed.flat import Buffers, Layout
from deep_bench.distributed.optimizer import DistributedOptimizer
from deep_bench.distributed.training.host import with_arithmetic
from deep_bench.distributed.training.same import check_same, structure
from deep_bench.distributed.training.synchronised import SynchronisedNormalization, synchronised
from deep_bench.errors import InvalidArgument, Unsupported
from deep_bench.framework import A, Adapter, Executor
from deep_bench.graph import Network, operator_name
from deep_bench.training.form import TrainingForm
from deep_bench.training.steps import SeparateStep, Step, Tree

_ADDRESS = re.compile(r" at 0x[0-9a-f]+")
Agreed: TypeAlias = "Callable[[Callable[[], Any]], Any]"
"""Gives what a rank makes by itself, once it is known that all ranks can."""

_PER_RANK = ("device", "threads")
"""What ranks may have each their own of."""

BY_THE_BATCH = (
    "batch normalization takes the mean and variance of each rank's own part of a batch: {ranks} ranks differ from one"
)
BY_ALL = "batch normalization takes the mean and variance of all ranks' samples of a step"


class DistributedStep(Step[A]):
    """The executor's gradients on this rank's samples, then the scheme's update.

    When it is made, on all ranks together, it sees that all have the same network, optimizer and versions, and gives all of
    them rank 0's parameters and running statistics; the optimizer's state is made from those.

    Each rank normalizes by its own samples (`remarks` say so of such networks). Its running statistics are its own too, and
    an evaluation takes rank 0's; or, with ``synchronise_statistics``, all ranks take their mean at each evaluation. As they
    are linear in what the batches gave, it makes no difference how often. If the executor's network is of a form that
    `synchronised` made, ranks normalize by the samples of all, and have the same statistics.

    Args:
        executor: A network with a loss, prepared with ``mode="train"``.
        optimizer: The scheme, around the rule.
        form: Says which inputs are statistics; none are without it.
        loss: Name of the loss.
        wrt: Names of the parameters to train; all by default.
        synchronise_statistics: Whether running statistics are averaged over ranks.
        agreed: Is given what this rank makes by itself, before any message; see `deep_bench.distributed.train`.

    Attributes:
        samples: How many samples this rank has in the next step; ``None``: all ranks have equally many.
        after_step: Called at the end of each step with the moment when its gradients were there.
        remarks: What is not as in a single process, in words.

    Raises:
        RanksDiffer: Ranks do not have the same.
        InvalidArgument: The optimizer is of one rank; or what `SeparateStep` refuses.
        Unsupported: The device's arrays have no arithmetic; see `distributed_step_on`.

    Example:
        >>> import deep_bench as db
        >>> from deep_bench.distributed.communicators.local import run_local
        >>> network = db.load("digits-cnn").with_loss("SoftmaxCrossEntropyLoss", output="logits", target="label")
        >>> digits = db.datasets["digits"]()
        >>> def on_rank(comm):
        ...     executor = db.frameworks["reference"]().prepare(network, mode="train")
        ...     scheme = db.distributed_optimizers["allreduce"](db.optimizers["sgd"](lr=0.1), comm)
        ...     step = DistributedStep(executor, scheme)
        ...     step(digits[np.arange(comm.rank, 8, 2)])
        ...     return step.snapshot()["parameters"]["head.weight"]
        >>> one, other = run_local(2, on_rank)
        >>> bool((one == other).all())
        True
    """

    def __init__(
        self,
        executor: Executor[A],
        optimizer: DistributedOptimizer[A, Any],
        *,
        form: TrainingForm | None = None,
        loss: str = "loss",
        wrt: Sequence[str] | None = None,
        synchronise_statistics: bool = False,
        agreed: Agreed = lambda make: make(),
    ) -> None:
        if not isinstance(optimizer, DistributedOptimizer):
            raise InvalidArgument(
                f"{type(optimizer).__name__} on several ranks", "one of db.distributed_optimizers around it"
            )
        self._step = agreed(partial(SeparateStep, executor, optimizer, form=form, loss=loss, wrt=wrt))
        self._normalization = _normalization(form.training if form is not None else executor.network)
        self.executor, self.optimizer, self.loss, self.rule = executor, optimizer, loss, optimizer
        self.device, self.comm = executor.device, optimizer.comm
        self.synchronise_statistics = synchronise_statistics
        self.samples: int | None = None
        self.after_step: Callable[[int], None] = _nothing
        self.remarks = self._remarks(form)
        check_same(self.comm, self._facts(form))
        if self._normalization is not None:
            self._normalization.apart()  # gradients may be on their way, by another thread, while it goes on
        self._share()

    # What it does

    def __call__(self, inputs: Mapping[str, A], told: Callable[[dict[str, A]], Any] | None = None) -> dict[str, A]:
        """Take a step; all ranks do so together, unless the scheme says otherwise."""
        if self._normalization is not None:
            self._normalization.samples = self.samples
        on_ready = self.optimizer.begin(self.samples)
        outputs = self._step(inputs, told, on_ready=on_ready, samples=self.samples)
        self.update_ns = self._step.update_ns
        self.after_step(self.update_ns or 0)
        return outputs

    @property
    def state(self) -> Any:
        """The scheme's state on this rank."""
        return self._step.state

    @property
    def parameters(self) -> Mapping[str, A]:
        """This rank's."""
        return self._step.parameters

    @property
    def statistics(self) -> Mapping[str, A]:
        """This rank's."""
        return self._step.statistics

    def snapshot(self) -> Tree:
        """This rank's; see `Step.snapshot`."""
        return self._step.snapshot()

    def restore(self, snapshot: Tree) -> None:
        """Go on from a snapshot of this rank; see `Step.restore`."""
        self._step.restore(snapshot)

    def average_statistics(self) -> None:
        """Give all ranks the mean of their running statistics; all call it together."""
        self.assign_statistics(mean_over_ranks(self.comm, self.statistics, self.device.xp))

    def assign_statistics(self, statistics: Mapping[str, np.ndarray]) -> None:
        """Go on with other running statistics, brought to their types."""
        dtype = self.device.xp.dtype
        self._step.assign_statistics({n: a.astype(dtype(self.statistics[n])) for n, a in statistics.items()})

    def hold(self, parameters: Mapping[str, A], state: Any) -> None:
        """Go on with what a server made of the parameters, and of the scheme's state."""
        self._step.hold(parameters, state)

    def serve(self, told: Callable[[dict[str, A], Any], None]) -> None:
        """Serve the workers until all have finished; see `DistributedOptimizer.serve`."""
        parameters = self._step.widened_parameters
        self.hold(*self.optimizer.serve(parameters, self.device.xp, state=self.state, told=told))

    def finish(self) -> None:
        """This rank takes no further step; see `DistributedOptimizer.finish`."""
        self.hold(*self.optimizer.finish(self.state, self._step.widened_parameters, self.device.xp))

    # Before the first step

    def _facts(self, form: TrainingForm | None) -> dict[str, str]:
        network = form.source if form is not None else self.executor.network
        framework = self.device.describe() if isinstance(self.device, Adapter) else {}
        description = {name: value for name, value in framework.items() if name not in _PER_RANK}
        return {
            "network": "none" if network is None else f"{network.name}, {structure(network)}",
            "trained parameters": ", ".join(self.parameters),
            "loss": self.loss,
            "optimizer": _ADDRESS.sub("", repr(self.optimizer)),
            "synchronised normalization": str(self._normalization is not None),
            "synchronised statistics": str(self.synchronise_statistics),
            "version of deep_bench": deep_bench.__version__,
            "version of NumPy": np.__version__,
            "framework": f"{getattr(self.device, 'name', type(self.device).__name__)}: {description}",
        }

    def _share(self) -> None:
        """Rank 0's parameters and statistics for all."""
        if self.comm.size == 1:
            return
        parameters = from_rank_0(self.comm, self.parameters, self.device.xp)
        statistics = from_rank_0(self.comm, self.statistics, self.device.xp)
        self._step.begin_with(parameters, statistics)

    def _remarks(self, form: TrainingForm | None) -> list[str]:
        network = form.training if form is not None else self.executor.network
        nodes = () if network is None else network.all_nodes()
        if self.comm.size == 1 or not any(operator_name(node) == "BatchNormalization" for node in nodes):
            return []
        if self._normalization is not None:
            return [BY_ALL]
        evaluated = "rank 0's" if self.optimizer.promise == "equal" else "their mean"
        how = f"each rank's own; evaluated with {evaluated}"
        if self.synchronise_statistics:
            how = "averaged over ranks at each evaluation"
        return [BY_THE_BATCH.format(ranks=self.comm.size), f"running statistics: {how}"]


def _nothing(computed_ns: int) -> None:
    """Nobody wants to know."""


def _normalization(network: Network | None) -> SynchronisedNormalization | None:
    kernels = () if network is None else network.kernels.values()
    return next((kernel for kernel in kernels if isinstance(kernel, SynchronisedNormalization)), None)


def distributed_step_on(
    adapter: Adapter[Any],
    form: TrainingForm,
    optimizer: DistributedOptimizer[Any, Any],
    *,
    loss: str = "loss",
    wrt: Sequence[str] | None = None,
    fused: bool | None = None,
    synchronise_statistics: bool = False,
    synchronise_normalization: bool = False,
    agreed: Agreed = lambda make: make(),
) -> DistributedStep[Any]:
    """Steps on a framework. Where its arrays have no arithmetic, updates are computed in NumPy.

    Args:
        adapter: The framework.
        form: The network's.
        optimizer: The scheme, around the rule.
        loss: Name of the loss.
        wrt: Names of the parameters to train; all by default.
        fused: As in `step_on`; other ranks' gradients cannot come into the middle of a graph.
        synchronise_statistics: See `DistributedStep`.
        synchronise_normalization: Whether batch normalizations take mean and variance over all ranks' samples of a step, so
            that N ranks do as one process does; each costs a message in each direction. See `SynchronisedNormalization`.
        agreed: See `DistributedStep`.

    Raises:
        Unsupported: ``fused=True``; or normalizations of ranks that do not take their steps together, or that are more
            threads of one process than the framework can have wait.
        RanksDiffer: Ranks do not have the same.
    """
    if fused:
        raise Unsupported("a step as one graph together with other ranks", "gradients and update apart: leave fused out")
    if synchronise_normalization:
        check_normalization(adapter, optimizer)
        form = synchronised(form, optimizer.comm)
    executor = with_arithmetic(adapter).prepare(form.training, mode="train")
    return DistributedStep(
        executor,
        optimizer,
        form=form,
        loss=loss,
        wrt=wrt,
        synchronise_statistics=synchronise_statistics,
        agreed=agreed,
    )


def check_normalization(adapter: Adapter[Any], optimizer: DistributedOptimizer[Any, Any]) -> None:
    """See that ranks can normalize by all their samples.

    Args:
        adapter: The framework.
        optimizer: The scheme.

    Raises:
        Unsupported: See `distributed_step_on`.
    """
    comm = optimizer.comm
    if comm.size == 1:
        return
    if not optimizer.lockstep:
        raise Unsupported(
            f"synchronise_normalization with {type(optimizer).__name__}, whose ranks take steps each on their own",
            "a scheme whose ranks take each step together, or normalization by each rank's own samples",
        )
    calls = getattr(adapter, "calls_at_once", None)
    inner = comm.inner if isinstance(comm, Counting) else comm
    if isinstance(inner, LocalCommunicator) and calls is not None and calls < comm.size:
        raise Unsupported(
            f"synchronise_normalization of {comm.size} ranks in one process on {adapter.name}, of which {calls} could wait",
            "as many of the framework's threads as ranks",
            f"{adapter.name}:threads={comm.size}, or eager=true; or ranks that are processes",
        )


def from_rank_0(comm: Communicator, arrays: Mapping[str, A], xp: ArrayFunctions[A]) -> dict[str, np.ndarray]:
    """Rank 0's arrays on all ranks; all call it together, with arrays alike."""
    buffers = Buffers(Layout.of(arrays, xp))
    buffers.pack(arrays, xp)
    for flat in buffers.flats:
        comm.broadcast(flat.view(np.uint8))
    return {name: np.array(buffers.parts[name]) for name in arrays}


def mean_over_ranks(comm: Communicator, arrays: Mapping[str, A], xp: ArrayFunctions[A]) -> dict[str, np.ndarray]:
    """The mean of all ranks' arrays, in float64; all call it together, with arrays alike."""
    host_arrays = {name: np.asarray(xp.host(array), np.float64) for name, array in arrays.items()}
    whole = np.concatenate([array.reshape(-1) for array in host_arrays.values()]) if host_arrays else np.zeros(0)
    whole = comm.allreduce(whole) / comm.size
    cuts = np.cumsum([array.size for array in host_arrays.values()])[:-1]
    parts = np.split(whole, cuts) if host_arrays else []
    return {name: part.reshape(host_arrays[name].shape) for name, part in zip(host_arrays, parts, strict=True)}
