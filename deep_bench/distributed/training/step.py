"""A training step together with other ranks.

Batch normalization may go over the samples of all ranks; a framework whose arrays have no arithmetic gets NumPy arrays in
their place.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeAlias, cast
from zlib import crc32

import numpy as np
import onnx_ir as ir

import deep_bench
from deep_bench.arrays import NUMPY, ArrayFunctions, NumpyFunctions
from deep_bench.distributed.communicators.communicator import Communicator
from deep_bench.distributed.communicators.counting import Counting
from deep_bench.distributed.communicators.local import LocalCommunicator
from deep_bench.distributed.flat import Buffers, FlatLayout
from deep_bench.distributed.optimizer import DistributedOptimizer
from deep_bench.distributed.training.messages import RanksDiffer, check_same, numbered, structure
from deep_bench.errors import InvalidArgument, Unsupported
from deep_bench.framework import A, Adapter, Executor, Mode, map_arrays
from deep_bench.graph import Network, operator_name
from deep_bench.operators.operator import Operator
from deep_bench.training.form import TrainingForm
from deep_bench.training.steps import SeparateStep, StepTaker, Tree, has_arithmetic

Ready = Callable[[str, np.ndarray], None]


def with_arithmetic(adapter: Adapter[Any]) -> Adapter[Any]:
    """The adapter; or `OnHost` of it, where its arrays have no arithmetic."""
    return adapter if has_arithmetic(adapter) else HostAdapter(adapter)


class HostAdapter(Adapter[np.ndarray]):
    """An adapter with NumPy arrays for its own: each call copies what goes in and what comes out.

    Args:
        adapter: The framework.
    """

    name = "on host"
    runs_kernels = True  # as far as the framework does, which refuses them otherwise

    def __init__(self, adapter: Adapter[Any]) -> None:
        self._adapter = adapter
        self.name = adapter.name  # type: ignore[misc]

    def from_numpy(self, array: np.ndarray) -> np.ndarray:
        """A copy."""
        return np.array(array)

    def adopt(self, array: np.ndarray) -> np.ndarray:
        """The array itself."""
        return array

    def to_numpy(self, array: np.ndarray) -> np.ndarray:
        """A copy."""
        return np.array(array)

    def synchronize(self) -> None:
        """Return when the framework has done its work."""
        self._adapter.synchronize()

    @property
    def xp(self) -> NumpyFunctions:
        """NumPy's."""
        return NUMPY

    def prepare(self, network: Network, *, mode: Mode = "inference", outputs: Sequence[str] | None = None) -> HostExecutor:
        """See `Adapter.prepare`."""
        return HostExecutor(self, self._adapter, self._adapter.prepare(network, mode=mode, outputs=outputs))

    def describe(self) -> Mapping[str, str]:
        """The framework's facts."""
        return {**self._adapter.describe(), "updates": "NumPy"}


class HostExecutor(Executor[np.ndarray]):
    """A framework's executor, fed and asked in NumPy arrays.

    Args:
        device: What it says its device is.
        adapter: That of the framework.
        executor: The framework's.
    """

    def __init__(self, device: HostAdapter, adapter: Adapter[Any], executor: Executor[Any]) -> None:
        self.device, self._adapter, self._executor = device, adapter, executor
        self.inputs, self.output_names = executor.inputs, executor.output_names
        self.forms, self.network = executor.forms, executor.network
        self.parameters = _HostParameters(adapter, executor.parameters)

    def forward(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """See `Executor.forward`."""
        return self._host(self._executor.forward(self._native(inputs)))

    def bind(self, inputs: Mapping[str, np.ndarray]) -> Callable[[], dict[str, np.ndarray]]:
        """See `Executor.bind`."""
        call = self._executor.bind(self._native(inputs))
        return lambda: self._host(call())

    def gradients(
        self, inputs: Mapping[str, np.ndarray], loss: str, *, wrt: Sequence[str] | None = None, on_ready: Ready | None = None
    ) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
        """See `Executor.gradients`."""
        copied: dict[str, np.ndarray] = {}

        def ready(name: str, gradient: Any) -> None:
            copied[name] = self._adapter.to_numpy(gradient)
            cast(Ready, on_ready)(name, copied[name])

        callback = None if on_ready is None else ready
        outputs, gradients = self._executor.gradients(self._native(inputs), loss, wrt=wrt, on_ready=callback)
        remaining = {name: gradient for name, gradient in gradients.items() if name not in copied}
        host_gradients = {**self._host(remaining), **copied}
        return self._host(outputs), {name: host_gradients[name] for name in gradients}

    def _native(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        return {name: map_arrays(self._adapter.from_numpy, value) for name, value in inputs.items()}

    def _host(self, outputs: Mapping[str, Any]) -> dict[str, Any]:
        self._adapter.synchronize()
        return {name: map_arrays(self._adapter.to_numpy, value) for name, value in outputs.items()}


class _HostParameters(MutableMapping[str, np.ndarray]):
    """A copy of the parameters, which the framework is given at every assignment."""

    def __init__(self, adapter: Adapter[Any], held: MutableMapping[str, Any]) -> None:
        self._adapter, self._held = adapter, held
        self._copies: dict[str, np.ndarray] = {}

    def __getitem__(self, name: str) -> np.ndarray:
        if name not in self._copies:
            self._copies[name] = self._adapter.to_numpy(self._held[name])
        return self._copies[name]

    def __setitem__(self, name: str, value: np.ndarray) -> None:
        self._held[name] = self._adapter.from_numpy(value)
        self._copies[name] = value

    def __delitem__(self, name: str) -> None:
        raise InvalidArgument(f"parameter {name!r} cannot be deleted", "an assignment")

    def __iter__(self) -> Iterator[str]:
        return iter(self._held)

    def __len__(self) -> int:
        return len(self._held)


class SynchronisedNormalization(Operator[np.ndarray]):
    r"""Batch normalization in training mode, with the mean and variance of all ranks' samples. For each channel

    .. math::
        \mu = k + \frac1N \sum d, \quad \sigma^2 = \frac1N \sum d^2 - (\mu - k)^2, \quad
        \hat x = \frac{x - \mu}{\sqrt{\sigma^2 + \epsilon}}, \quad y = \gamma \hat x + \beta,

    where :math:`d = x - k` is the distance from the running mean before the step, which all ranks have in common, and sums
    go over the :math:`N` elements of all ranks, in float64. Near the mean, no digits are lost in the difference. One sum
    over ranks has all of it: numbers of elements, :math:`\sum d` and :math:`\sum d^2`.

    Rank :math:`r` has a share :math:`w_r` of the samples, and its loss is the mean over these, so that the loss of all is
    :math:`L = \sum_r w_r L_r`. With :math:`g = \partial L_r / \partial y` on each rank,

    .. math::
        \frac{\partial L_r}{\partial x} = \frac{\gamma}{\sqrt{\sigma^2 + \epsilon}} \Big( g - \frac{1}{w_r N}
        \Big(\sum_s w_s \sum g + \hat x \sum_s w_s \sum g \hat x\Big) \Big)

    is what gives, weighted by :math:`w_r` and summed, the gradients of :math:`L`; those of :math:`\gamma` and :math:`\beta`
    are this rank's own, to be summed as all others are. One sum over ranks has :math:`\sum g` and :math:`\sum g d` beside
    what the forward pass summed, so that nothing is kept from there.

    All ranks call it in the same order, as those that run the same network one node at a time do.

    Args:
        comm: The ranks.

    Attributes:
        samples: How many samples this rank has in the step; ``None``: all ranks have equally many.

    Example:
        >>> import deep_bench as db
        >>> from deep_bench.distributed.communicators.local import run_local
        >>> one, zero, how = np.ones(1), np.zeros(1), {"epsilon": 0.0, "momentum": 0.0, "training_mode": 1}
        >>> def on_rank(comm):
        ...     x = np.array([[1.0], [3.0]]) + 4 * comm.rank
        ...     return [y.ravel().tolist() for y in SynchronisedNormalization(comm).forward(x, one, zero, zero, one, **how)]
        >>> run_local(2, on_rank)[0][1:]
        [[4.0], [5.0]]

    Source:
        Ioffe and Szegedy, *Batch normalization*, ICML 2015, algorithm 1 and the equations of section 3; statistics over
        devices, with gradients: Zhang et al., *Context encoding for semantic segmentation*, CVPR 2018, section 3.1. Sums
        about a value near the mean: Chan, Golub and LeVeque, *Algorithms for computing the sample variance*, The American
        Statistician 37(3), 1983.
    """

    computes = "BatchNormalization"

    def __init__(self, comm: Communicator) -> None:
        self._comm = comm
        self.samples: int | None = None

    def apart(self) -> None:
        """Have ranks of its own, so that its messages never meet others'; all ranks call it together."""
        group = self._comm.split(0, self._comm.rank)
        assert group is not None
        self._comm = group

    def forward(
        self,
        x: np.ndarray,
        scale: np.ndarray,
        bias: np.ndarray,
        mean: np.ndarray,
        variance: np.ndarray,
        *,
        epsilon: float,
        momentum: float,
        training_mode: int,
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """See ONNX BatchNormalization (15) in training mode; all ranks together.

        Args:
            x: Of shape (samples, channels, …), this rank's.
            scale: Of shape (channels,).
            bias: Of shape (channels,).
            mean: Before the step, of shape (channels,); the same on all ranks.
            variance: Before the step, of shape (channels,).
            epsilon: Added to the variance.
            momentum: What of the running statistics stays.
            training_mode: 1.

        Returns:
            y, and the running mean and variance after the step, which are the same on all ranks.

        Raises:
            InvalidArgument: In another mode.
        """
        if not training_mode:
            raise InvalidArgument("batch normalization by running statistics", "training_mode=1: others need no ranks")
        distance = _distance(x, mean)
        count, total, squares = self._summed(_moments(distance))
        of_all = _Moments.of(count[0], total, squares, epsilon)
        y = (distance - _wide(of_all.offset)) * _wide(of_all.slope * scale) + _wide(bias)
        following = [(mean, mean + of_all.offset), (variance, of_all.variance)]
        after = [(old * momentum + new * (1 - momentum)).astype(old.dtype) for old, new in following]
        return y.reshape(x.shape).astype(x.dtype), *after

    def backward(
        self,
        grads: Sequence[np.ndarray | None],
        inputs: Sequence[np.ndarray | None],
        outputs: Sequence[np.ndarray],
        **attributes: Any,
    ) -> tuple[np.ndarray | None, ...]:
        """The gradients of this rank's loss, as above; those of the running statistics are none."""
        del outputs
        epsilon: float = attributes["epsilon"]
        x, scale, bias, mean, _ = inputs
        if grads[0] is None:
            return (None,) * len(inputs)
        assert x is not None and scale is not None and bias is not None and mean is not None  # noqa: PT018
        distance, weight = _distance(x, mean), self.samples or 1
        g = grads[0].reshape(distance.shape).astype(np.float64)
        local_sum, along = _sum(g), _sum(g, distance)
        samples = np.full_like(local_sum, weight)
        sums = self._summed([*_moments(distance), samples, weight * local_sum, weight * along])
        count, total, squares, samples, summed, summed_along = sums
        of_all = _Moments.of(count[0], total, squares, epsilon)
        level = summed / (weight * count)
        tilt = of_all.slope**2 * (summed_along - of_all.offset * summed) / (weight * count)
        centred = distance - _wide(of_all.offset)
        dx = (g - _wide(level) - centred * _wide(tilt)) * _wide(of_all.slope * scale)
        dscale = of_all.slope * (along - of_all.offset * local_sum)
        return dx.reshape(x.shape).astype(x.dtype), dscale.astype(scale.dtype), local_sum.astype(bias.dtype), None, None

    def _summed(self, rows: Sequence[np.ndarray]) -> np.ndarray:
        return self._comm.allreduce(np.stack(rows))


@dataclass(frozen=True)
class _Moments:
    """Of each channel: how far its mean is from the value that distances were taken from; its variance; what scales it."""

    offset: np.ndarray
    variance: np.ndarray
    slope: np.ndarray

    @classmethod
    def of(cls, count: float, total: np.ndarray, squares: np.ndarray, epsilon: float) -> _Moments:
        offset = total / count
        variance = np.maximum(squares / count - offset**2, 0)
        return cls(offset, variance, 1 / np.sqrt(variance + epsilon))


def _distance(x: np.ndarray, mean: np.ndarray) -> np.ndarray:
    """From the running mean, of shape (samples, channels, elements)."""
    return x.reshape(len(x), len(mean), -1).astype(np.float64) - _wide(mean)


def _wide(channels: np.ndarray) -> np.ndarray:
    return channels.astype(np.float64)[:, None]


def _sum(*factors: np.ndarray) -> np.ndarray:
    """Of each channel the sum of products, of shape (channels,)."""
    return np.einsum(",".join(["ncl"] * len(factors)) + "->c", *factors)


def _moments(distance: np.ndarray) -> list[np.ndarray]:
    channels = distance.shape[1]
    count = distance.size / channels
    return [np.full(channels, count), _sum(distance), _sum(distance, distance)]


def synchronised(form: TrainingForm, comm: Communicator) -> TrainingForm:
    """The form whose batch normalizations take mean and variance over all ranks' samples in a step.

    Args:
        form: The network's.
        comm: The ranks.

    Returns:
        The same form where there is nothing to synchronise: with one rank, or without batch normalizations.

    Example:
        >>> import deep_bench as db
        >>> from deep_bench.distributed.communicators.local import run_local
        >>> form = db.training.training_form(db.load("digits-cnn"))
        >>> run_local(2, lambda comm: len(synchronised(form, comm).training.kernels))
        [5, 5]
    """
    if comm.size == 1 or not any(_is_batch(node) for node in form.training.all_nodes()):
        return form
    return replace(form, training=form.training.replace(_is_batch, SynchronisedNormalization(comm)))


def _is_batch(node: ir.Node) -> bool:
    return operator_name(node) == "BatchNormalization"


_ADDRESS = re.compile(r" at 0x[0-9a-f]+")
Agreed: TypeAlias = "Callable[[Callable[[], Any]], Any]"
"""Gives what a rank makes by itself, once it is known that all ranks can."""


_PER_RANK = ("device", "threads")
"""What ranks may have each their own of."""


BY_THE_BATCH = (
    "batch normalization takes the mean and variance of each rank's own part of a batch: {ranks} ranks differ from one"
)
BY_ALL = "batch normalization takes the mean and variance of all ranks' samples of a step"


class DistributedStep(StepTaker[A]):
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

    def __call__(self, inputs: Mapping[str, A], on_gradients: Callable[[dict[str, A]], Any] | None = None) -> dict[str, A]:
        """Take a step; all ranks do so together, unless the scheme says otherwise."""
        if self._normalization is not None:
            self._normalization.samples = self.samples
        on_ready = self.optimizer.begin(self.samples)
        outputs = self._step(inputs, on_gradients, on_ready=on_ready, samples=self.samples)
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

    def serve(self, after_update: Callable[[dict[str, A], Any], None]) -> None:
        """Serve the workers until all have finished; see `DistributedOptimizer.serve`."""
        parameters = self._step.widened_parameters
        self.hold(*self.optimizer.serve(parameters, self.device.xp, state=self.state, after_update=after_update))

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
    buffers = Buffers(FlatLayout.of(arrays, xp))
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


def check_equal(comm: Communicator, parameters: Mapping[str, Any], xp: ArrayFunctions[Any], scheme: str) -> None:
    """Whether all ranks hold the same parameters, bit for bit; all call it together.

    Raises:
        RanksDiffer: They do not; on all ranks.

    Example:
        >>> from deep_bench.arrays import NUMPY
        >>> from deep_bench.distributed.communicators.local import run_local
        >>> def on_rank(comm):
        ...     try:
        ...         check_equal(comm, {"w": np.ones(2) * (comm.rank == 2)}, NUMPY, "allreduce")
        ...     except RanksDiffer as error:
        ...         return error.came
        >>> run_local(3, on_rank)[0]
        'allreduce promises equal parameters on all ranks: those of ranks 2 are not those of rank 0'
    """
    checksum = 0
    for array in parameters.values():
        checksum = crc32(np.ascontiguousarray(xp.host(array)).view(np.uint8).reshape(-1).data, checksum)
    sums = comm.allgather(np.array([checksum], np.int64)).reshape(-1)
    deviating = np.flatnonzero(sums != sums[0]).tolist()
    if deviating:
        raise RanksDiffer(
            f"{scheme} promises equal parameters on all ranks: those of ranks {numbered(deviating)} are not those of rank 0",
            "the same gradients and the same update everywhere",
            "look for ranks with another processor or another number of threads, or for a fault of the scheme",
        )


def mean_and_drift(
    comm: Communicator, parameters: Mapping[str, Any], xp: ArrayFunctions[Any]
) -> tuple[dict[str, np.ndarray], float]:
    r"""The mean :math:`\bar x` of all ranks' parameters in float64, and :math:`\max_i \lVert x_i - \bar x \rVert_2`.

    All call it together.

    Example:
        >>> from deep_bench.arrays import NUMPY
        >>> from deep_bench.distributed.communicators.local import run_local
        >>> run_local(2, lambda comm: mean_and_drift(comm, {"w": np.array([6.0, 8.0]) * comm.rank}, NUMPY))[0]
        ({'w': array([3., 4.])}, 5.0)
    """
    mean = mean_over_ranks(comm, parameters, xp)
    squared = sum(float(np.sum((np.asarray(xp.host(x), np.float64) - mean[name]) ** 2)) for name, x in parameters.items())
    return mean, float(np.sqrt(comm.allreduce(np.array([squared]), "max")[0]))
