"""One training step on a framework's own arrays: gradients and update apart, or all of it as one graph."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from time import perf_counter_ns
from typing import Any, ClassVar, Generic

import numpy as np

from deep_bench.arrays import leaves, mapped
from deep_bench.errors import InvalidArgument, Unsupported
from deep_bench.framework import A, Adapter, Device, Executor, names_once
from deep_bench.network.train_step import TrainingStep, check_types, evaluation_point, training_step, updated, working_type
from deep_bench.training.form import TrainingForm
from deep_bench.training.optimizer import Optimizer, check_home

Tree = dict[str, Any]
"""A tree of dicts whose leaves are arrays."""


class StepTaker(ABC, Generic[A]):
    """What takes training steps, and holds what they change.

    Attributes:
        device: Where the arrays live.
        loss: Name of the loss.
        rule: The optimizer.
        tells_gradients: Whether the gradients can be had before the update.
        update_ns: When the gradients of the last step were there; ``None`` where the update is part of the same graph.
    """

    device: Device[A]
    loss: str
    rule: Any = None
    tells_gradients: ClassVar[bool] = True
    update_ns: int | None = None

    @abstractmethod
    def __call__(self, inputs: Mapping[str, A], on_gradients: Callable[[dict[str, A]], Any] | None = None) -> dict[str, A]:
        """Take a step.

        Args:
            inputs: The data and the draws.
            on_gradients: Called with the gradients before the update, where they can be had.

        Returns:
            The network's outputs, from before the update.
        """

    @property
    @abstractmethod
    def parameters(self) -> Mapping[str, A]:
        """The parameters as they are now."""

    @property
    @abstractmethod
    def statistics(self) -> Mapping[str, A]:
        """The running statistics as they are now."""

    @abstractmethod
    def snapshot(self) -> Tree:
        """All that steps change, as NumPy arrays of its own: ``parameters``, ``statistics`` and ``optimizer``."""

    @abstractmethod
    def restore(self, snapshot: Tree) -> None:
        """Go on from a snapshot.

        Raises:
            InvalidArgument: It is one of another network or optimizer.
        """


class SeparateStep(StepTaker[A]):
    """The executor's gradients, then the optimizer's update on the same arrays.

    A rule of deep_bench updates parameters of less than 32 bits in float32, as `training_step` does, and keeps its state so;
    only their new value is rounded. One of a framework does as it does.

    Args:
        executor: A network with a loss, prepared with ``mode="train"``.
        optimizer: The rule.
        form: Says which inputs are statistics; none are without it.
        loss: Name of the loss.
        wrt: Names of the parameters to train; all by default.

    Raises:
        InvalidArgument: Nothing to train, a name that is no parameter, or an optimizer of another framework.
        Unsupported: The device's arrays have no arithmetic.
    """

    def __init__(
        self,
        executor: Executor[A],
        optimizer: Optimizer[A, Any],
        *,
        form: TrainingForm | None = None,
        loss: str = "loss",
        wrt: Sequence[str] | None = None,
    ) -> None:
        self.executor, self.optimizer, self.loss = executor, optimizer, loss
        self.rule = optimizer
        self.device = executor.device
        self._xp = executor.device.xp
        check_home(optimizer, executor.device)
        self._names = names_once(executor.parameters if wrt is None else wrt)
        if not self._names:
            raise InvalidArgument("nothing to train: the network has no parameters", "a network with parameters")
        if missing := [name for name in self._names if name not in executor.parameters]:
            raise InvalidArgument(f"no parameter {missing[0]!r} to train", f"some of {', '.join(executor.parameters)}")
        self._following = dict(form.state) if form is not None else {}
        initial = form.initial if form is not None else {}
        self._statistics = {name: self.device.from_numpy(array) for name, array in initial.items()}
        types = {name: self._xp.dtype(w) for name, w in self.parameters.items()} if optimizer.framework is None else {}
        # Parameters whose update is computed in a wider format; a framework's own optimizer takes them as they are.
        self._narrow = {name: dtype for name, dtype in types.items() if working_type(dtype) != dtype}
        self.state = optimizer.init(self._widened(self.parameters), self._xp)
        self._looks_ahead = optimizer.looks_ahead

    @property
    def parameters(self) -> Mapping[str, A]:
        """Those of the executor that are trained."""
        held = self.executor.parameters
        return {name: held[name] for name in self._names}

    @property
    def statistics(self) -> Mapping[str, A]:
        """The running means and variances."""
        return self._statistics

    def __call__(
        self,
        inputs: Mapping[str, A],
        on_gradients: Callable[[dict[str, A]], Any] | None = None,
        *,
        on_ready: Callable[[str, A], None] | None = None,
        **further: Any,
    ) -> dict[str, A]:
        """Take a step.

        Args:
            inputs: See `Step`.
            on_gradients: See `Step`.
            on_ready: See `Executor.gradients`; gradients are told in the type that the optimizer gets them in.
            **further: What the rule's ``update`` takes besides.
        """
        before = self._widened(self.parameters)
        fed = {**inputs, **self._statistics} if self._statistics else inputs
        if self._looks_ahead:
            self._assign(self._narrowed(evaluation_point(self.optimizer, before, self.state)))
        ready = self._widening(on_ready) if self._narrow and on_ready is not None else on_ready
        outputs, gradients = self.executor.gradients(fed, self.loss, wrt=self._names, on_ready=ready)
        self.update_ns = perf_counter_ns()
        if on_gradients is not None:
            on_gradients(gradients)

        def evaluate(parameters: Mapping[str, A]) -> tuple[A, dict[str, A]]:
            self._assign(self._narrowed(parameters))
            results, slopes = self.executor.gradients(fed, self.loss, wrt=self._names)
            return results[self.loss], self._widened(slopes)

        slopes = self._widened(gradients)
        after, self.state = updated(self.optimizer, slopes, self.state, before, self._xp, evaluate=evaluate, **further)
        if self._narrow:
            check_types(self.optimizer, before, after, self._xp)
        self._assign(self._narrowed(after))
        if self._following:
            self._statistics = {name: outputs[following] for name, following in self._following.items()}
        return outputs

    @property
    def widened_parameters(self) -> dict[str, A]:
        """The parameters as the optimizer has them."""
        return self._widened(self.parameters)

    def _widened(self, arrays: Mapping[str, A]) -> dict[str, A]:
        """Arrays of parameters, or gradients, as the optimizer computes with them."""
        cast = self._xp.cast
        return {**arrays, **{name: cast(arrays[name], working_type(dtype)) for name, dtype in self._narrow.items()}}

    def _widening(self, receiver: Callable[[str, A], None]) -> Callable[[str, A], None]:
        def ready(name: str, gradient: A) -> None:
            dtype = self._narrow.get(name)
            receiver(name, gradient if dtype is None else self._xp.cast(gradient, working_type(dtype)))

        return ready

    def _narrowed(self, arrays: Mapping[str, A]) -> Mapping[str, A]:
        """Parameters as the network has them."""
        if not self._narrow:
            return arrays
        return {**arrays, **{name: self._xp.cast(arrays[name], dtype) for name, dtype in self._narrow.items()}}

    def _assign(self, parameters: Mapping[str, A]) -> None:
        held = self.executor.parameters
        for name, value in parameters.items():
            if value is not held[name]:
                held[name] = value

    def begin_with(self, parameters: Mapping[str, np.ndarray], statistics: Mapping[str, np.ndarray]) -> None:
        """Begin anew with other parameters and statistics; the optimizer's state is made from them."""
        self._assign({name: self.device.from_numpy(array) for name, array in parameters.items()})
        self.assign_statistics(statistics)
        self.state = self.optimizer.init(self._widened(self.parameters), self._xp)

    def hold(self, parameters: Mapping[str, A], state: Any) -> None:
        """Go on with what somebody else made of the parameters, as the optimizer has them, and of its state."""
        self._assign(self._narrowed(parameters))
        self.state = state

    def assign_statistics(self, statistics: Mapping[str, np.ndarray]) -> None:
        """Go on with other running means and variances."""
        self._statistics = {name: self.device.from_numpy(array) for name, array in statistics.items()}

    def snapshot(self) -> Tree:
        """See `Step.snapshot`."""
        tree = {"parameters": dict(self.parameters), "statistics": self._statistics, "optimizer": self.state}
        return mapped(self.device.to_numpy, tree)

    def restore(self, snapshot: Tree) -> None:
        """See `Step.restore`."""
        check_alike(self.snapshot(), snapshot, grows=self.optimizer.framework is not None)
        self._assign({n: self.device.from_numpy(a) for n, a in snapshot["parameters"].items()})
        self._statistics = {n: self.device.from_numpy(a) for n, a in snapshot["statistics"].items()}
        self.state = self.optimizer.restored(mapped(self.device.from_numpy, snapshot["optimizer"]), self.parameters)


class FusedStep(StepTaker[A]):
    """Forward, backward and update as one ONNX graph, in any runtime.

    Args:
        adapter: Where it runs.
        step: What `deep_bench.network.train_step` made.
        parameters: Which of its inputs are the parameters.
        form: Says which further inputs are statistics.
        loss: Name of the loss.
    """

    tells_gradients = False

    def __init__(
        self,
        adapter: Adapter[A],
        step: TrainingStep,
        parameters: Sequence[str],
        *,
        form: TrainingForm | None = None,
        loss: str = "loss",
    ) -> None:
        self.device, self.loss = adapter, loss
        self.executor = adapter.prepare(step.network)
        self._following = {**step.following, **(form.state if form is not None else {})}
        initial = {**step.initial, **(form.initial if form is not None else {})}
        self._held = {name: adapter.from_numpy(array) for name, array in initial.items()}
        self._parts = {
            "parameters": tuple(name for name in parameters if name in step.initial),
            "statistics": tuple(form.state) if form is not None else (),
        }

    @property
    def parameters(self) -> Mapping[str, A]:
        """Those that the graph was fed last."""
        return {name: self._held[name] for name in self._parts["parameters"]}

    @property
    def statistics(self) -> Mapping[str, A]:
        """The running means and variances."""
        return {name: self._held[name] for name in self._parts["statistics"]}

    def __call__(self, inputs: Mapping[str, A], on_gradients: Callable[[dict[str, A]], Any] | None = None) -> dict[str, A]:
        """Take a step."""
        del on_gradients
        outputs = self.executor.forward({**inputs, **self._held})
        self._held = {name: outputs[following] for name, following in self._following.items()}
        return outputs

    def snapshot(self) -> Tree:
        """See `Step.snapshot`."""
        part_names = {name for names in self._parts.values() for name in names}
        tree: Tree = {part: {n: self._held[n] for n in names} for part, names in self._parts.items()}
        tree["optimizer"] = {name: value for name, value in self._held.items() if name not in part_names}
        return mapped(self.device.to_numpy, tree)

    def restore(self, snapshot: Tree) -> None:
        """See `Step.restore`."""
        check_alike(self.snapshot(), snapshot)
        flat = {name: array for part in snapshot.values() for name, array in part.items()}
        self._held = {name: self.device.from_numpy(array) for name, array in flat.items()}


def step_on(
    adapter: Adapter[A],
    form: TrainingForm,
    optimizer: Optimizer[A, Any],
    *,
    loss: str = "loss",
    wrt: Sequence[str] | None = None,
    fused: bool | None = None,
) -> StepTaker[A]:
    """Steps on a framework.

    Args:
        adapter: The framework.
        form: The network's.
        optimizer: The rule.
        loss: Name of the loss.
        wrt: Names of the parameters to train; all by default.
        fused: Whether the whole step is one graph; by default only where the arrays have no arithmetic.
    """
    if not (fused if fused is not None else not has_arithmetic(adapter)):
        return SeparateStep(adapter.prepare(form.training, mode="train"), optimizer, form=form, loss=loss, wrt=wrt)
    step = training_step(form.training, loss, optimizer=optimizer, wrt=wrt)
    names = tuple(form.training.parameters if wrt is None else wrt)
    fused_step = FusedStep(adapter, step, names, form=form, loss=loss)
    fused_step.rule = optimizer
    return fused_step


def has_arithmetic(device: Device[Any]) -> bool:
    """Whether optimizers can compute on a device's arrays."""
    try:
        return device.xp is not None
    except Unsupported:
        return False


def check_alike(now: Tree, snapshot: Tree, *, grows: bool = False) -> None:
    """Whether a snapshot is of the same network and optimizer.

    Args:
        now: A snapshot of what is to be restored.
        snapshot: What it is restored from.
        grows: Whether the optimizer's state may have more leaves later on than it has now.

    Raises:
        InvalidArgument: It lacks an array, has another one, or one of another shape or type.
    """
    current, saved = leaves(now), leaves(snapshot)
    for name in (*current, *saved):
        if grows and name not in current and name[0] == "optimizer":
            continue
        if name not in saved or name not in current:
            raise InvalidArgument(
                f"a snapshot that {'lacks' if name in current else 'has'} {'/'.join(name)}",
                "one of the same network and optimizer",
            )
        mine, theirs = (np.asarray(tree[name]) for tree in (current, saved))
        if (mine.shape, mine.dtype) != (theirs.shape, theirs.dtype):
            raise InvalidArgument(
                f"a snapshot with {'/'.join(name)}: {theirs.dtype}{list(theirs.shape)}", f"{mine.dtype}{list(mine.shape)}"
            )
