"""The training loop, over any executor: what it is made of, the callbacks that it tells, and the other ranks of its run."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from math import nan
from time import perf_counter_ns
from typing import Any, Generic

import numpy as np

from deep_bench.errors import InvalidArgument, Unsupported
from deep_bench.events import Callback, Moment
from deep_bench.framework import A, Executor
from deep_bench.graph import Network, NetworkLike
from deep_bench.training.dataset import Dataset
from deep_bench.training.form import Feed, TrainingForm, training_form
from deep_bench.training.loader import Loader
from deep_bench.training.optimizer import Optimizer
from deep_bench.training.run_state import (
    EvaluationResult,
    History,
    Progress,
    check_identity,
    check_kind,
    identity_of,
    packed,
)
from deep_bench.training.samplers import Sampler, natural
from deep_bench.training.scores import Evaluation
from deep_bench.training.steps import SeparateStep, StepTaker, Tree, step_on

_READ_EVERY = 256
"""Losses stay on the device until this many steps are done, or somebody asks: reading one waits for the device."""


EPOCHS_DONE, STEPS_DONE, INTERRUPTED = "epochs done", "steps done", "interrupted"


class Ranks(ABC):
    """The other ranks of a run, as its trainer sees them. All ranks call these together, but for `draw` and `listening`."""

    alone = False
    """Whether there are none: then whatever the trainer has to say it may say at once."""
    lockstep = True
    """Whether all take each step together; else the order in which they do is not the same in every run."""

    @abstractmethod
    def listening(self, callbacks: Iterable[Callback]) -> tuple[Callback, ...]:
        """The callbacks that this rank tells of the run."""

    @abstractmethod
    def running(self, trainer: Trainer[Any]) -> AbstractContextManager[None]:
        """Entered before the first step of a run, left after its last."""

    @abstractmethod
    def serves(self, trainer: Trainer[Any]) -> bool:
        """Train as long as this rank does so without steps of its own; whether it did."""

    @abstractmethod
    def before_step(self, trainer: Trainer[Any], samples: int) -> int:
        """Agree on a step, or that there is none: then `Trainer.ending` says why.

        Args:
            trainer: This rank's.
            samples: How many samples this rank has in the step.

        Returns:
            How many all have.
        """

    @abstractmethod
    def after_steps(self, trainer: Trainer[Any]) -> None:
        """The last step of a run was taken on all ranks: agree why."""

    @abstractmethod
    def draw(self, form: TrainingForm, batch: Mapping[str, np.ndarray], seed: int, step: int) -> dict[str, np.ndarray]:
        """This rank's part of a step's uniform numbers; see `TrainingForm.draw`."""

    @abstractmethod
    def losses(self, own: Sequence[float]) -> list[float]:
        """The losses of the steps since this was called last, as all ranks together had them."""

    @abstractmethod
    def evaluated(self, trainer: Trainer[Any], evaluate: Callable[[Any, Any], dict[str, float]]) -> dict[str, float]:
        """The figures of an evaluation.

        Args:
            trainer: This rank's.
            evaluate: From native parameters and statistics to figures.
        """

    @abstractmethod
    def gathered(self, snapshot: Tree) -> Tree:
        """A snapshot of this rank, with what differs on others: on rank 0; elsewhere this rank's alone."""

    @abstractmethod
    def parted(self, trainer: Trainer[Any], snapshot: Tree | None) -> Tree:
        """This rank's snapshot, of what rank 0 has."""

    @abstractmethod
    def facts(self) -> Any:
        """What a record keeps of the ranks; ``None`` for nothing."""


class SingleRank(Ranks):
    """A run without others."""

    alone = True

    def listening(self, callbacks: Iterable[Callback]) -> tuple[Callback, ...]:
        """All."""
        return tuple(callbacks)

    def running(self, trainer: Trainer[Any]) -> AbstractContextManager[None]:
        """Nothing."""
        del trainer
        return nullcontext()

    def serves(self, trainer: Trainer[Any]) -> bool:
        """It takes steps."""
        del trainer
        return False

    def before_step(self, trainer: Trainer[Any], samples: int) -> int:
        """All samples are its own."""
        del trainer
        return samples

    def after_steps(self, trainer: Trainer[Any]) -> None:
        """Nothing."""

    def draw(self, form: TrainingForm, batch: Mapping[str, np.ndarray], seed: int, step: int) -> dict[str, np.ndarray]:
        """The whole."""
        return form.draw(batch, seed, step)

    def losses(self, own: Sequence[float]) -> list[float]:
        """Its own."""
        return list(own)

    def evaluated(self, trainer: Trainer[Any], evaluate: Callable[[Any, Any], dict[str, float]]) -> dict[str, float]:
        """Of its parameters."""
        return evaluate(trainer.taker.parameters, trainer.taker.statistics)

    def gathered(self, snapshot: Tree) -> Tree:
        """As it is."""
        return snapshot

    def parted(self, trainer: Trainer[Any], snapshot: Tree | None) -> Tree:
        """As it is."""
        del trainer
        return {} if snapshot is None else snapshot

    def facts(self) -> None:
        """Nothing."""


TRAINING = (
    Moment.BEFORE_RUN,
    Moment.BEFORE_EPOCH,
    Moment.BEFORE_STEP,
    Moment.AFTER_GRADIENTS,
    Moment.AFTER_STEP,
    Moment.AFTER_EVALUATION,
    Moment.AFTER_EPOCH,
    Moment.AFTER_RUN,
)
"""The moments of a training run."""


class Listeners:
    """Callbacks by moment. Nobody who asked for a moment costs nothing at it.

    Args:
        callbacks: Those that have an attribute ``moments`` are told of these only.
        tells_gradients: Whether gradients can be had before the update.

    Attributes:
        spent_ns: What callbacks took since `forget`, in nanoseconds.

    Raises:
        InvalidArgument: Something that cannot be called.
        Unsupported: A callback asks for gradients that are not to be had.
    """

    def __init__(self, callbacks: Iterable[Callback], *, tells_gradients: bool) -> None:
        self.all = tuple(callbacks)
        self.spent_ns = 0
        self._by_moment: dict[Moment, list[Callback]] = {}
        for callback in self.all:
            if not callable(callback):
                raise InvalidArgument(f"a {type(callback).__name__} as a callback", "something that can be called")
            moments = getattr(callback, "moments", None)
            if moments is not None and Moment.AFTER_GRADIENTS in moments and not tells_gradients:
                raise Unsupported(
                    f"{name_of(callback)} asks for gradients, and here the whole step is one graph",
                    "a framework with gradients and update apart",
                    "train in the reference, torch or TensorFlow, or leave this callback out",
                )
            for moment in TRAINING if moments is None else moments:
                self._by_moment.setdefault(moment, []).append(callback)

    def __contains__(self, moment: Moment) -> bool:
        return moment in self._by_moment

    def tell(self, moment: Moment, index: int, progress: Progress) -> None:
        """Tell those that asked for a moment; one that returns ``True`` stops the run."""
        if moment not in self._by_moment:
            return
        start = perf_counter_ns()
        for callback in self._by_moment[moment]:
            try:
                stops = callback(moment, index, perf_counter_ns(), progress)
            except Exception as error:
                error.add_note(f"raised by the callback {name_of(callback)}, {moment.value}")
                raise
            if stops:
                progress.stop(f"{name_of(callback)} asked to")
        self.spent_ns += perf_counter_ns() - start

    def forget(self) -> int:
        """What callbacks took since this was called last."""
        spent, self.spent_ns = self.spent_ns, 0
        return spent

    def keepers(self) -> dict[str, Any]:
        """Callbacks with a state of their own (``snapshot`` and ``restore``), by name."""
        stateful = [c for c in dict.fromkeys(self.all) if hasattr(c, "snapshot")]
        return {f"{number} {type(c).__name__}": c for number, c in enumerate(stateful)}


def name_of(callback: Callback) -> str:
    """What to call a callback: the name of its function, or of its class."""
    return getattr(callback, "__name__", type(callback).__name__)


SINGLE_RANK = SingleRank()
"""A run without others."""


class Trainer(Generic[A]):
    """Trains a network: data, gradients, update, evaluation, and callbacks told of each.

    Args:
        executor: The network with its loss, prepared with ``mode="train"``; or a `Step` that does without one.
        optimizer: The update rule; one of ``db.optimizers``, or a subclass of `deep_bench.training.Optimizer`.
        dataset: What it learns from.
        sampler: Which samples come when.
        loss: Name of the loss.
        form: What `training_form` said of the network: statistics and draws; without it there are none.
        wrt: Names of the parameters to train; all by default.
        preparation: What is done to each batch; see `deep_bench.training.preparation`.
        loader: In place of ``dataset``, ``sampler`` and ``preparation``: what gives the batches.
        evaluation: How it is evaluated, and
        every: after how many steps; 0 for the end of each epoch.
        callbacks: Told of moments; those that have an attribute ``moments`` of these only.
        seed: Of the draws.
        ranks: The others that train the same network; see `deep_bench.distributed`.

    Attributes:
        progress: Where the run is.
        wish, ending: Why somebody on this rank asked to stop, and why all ranks do; empty while the run goes on.

    Raises:
        InvalidArgument: Nothing to train, or arguments that do not go together.
        Unsupported: The framework's arrays have no arithmetic; `Trainer.on` makes the whole step one graph there.

    Example:
        >>> import deep_bench as db
        >>> network = db.load("digits-cnn").with_loss("SoftmaxCrossEntropyLoss", output="logits", target="label")
        >>> executor = db.frameworks["reference"]().prepare(network, mode="train")
        >>> digits = db.datasets["digits"]("train")
        >>> sampler = db.samplers["shuffled"](digits, batch_size=64, seed=1)
        >>> trainer = Trainer(executor, db.optimizers["sgd"](lr=0.01), dataset=digits, sampler=sampler)
        >>> history = trainer.run(steps=3)
        >>> history.steps, history.samples, history.stopped_because
        (3, 192, 'steps done')
    """

    def __init__(
        self,
        executor: Executor[A] | StepTaker[A],
        optimizer: Optimizer[A, Any] | None = None,
        dataset: Dataset | None = None,
        sampler: Sampler | None = None,
        *,
        loss: str = "loss",
        form: TrainingForm | None = None,
        wrt: Sequence[str] | None = None,
        preparation: Any = None,
        loader: Loader | None = None,
        evaluation: Evaluation[A] | None = None,
        every: int = 0,
        callbacks: Iterable[Callback] = (),
        seed: int = 0,
        ranks: Ranks = SINGLE_RANK,
    ) -> None:
        if isinstance(executor, StepTaker):
            if optimizer is not None or wrt is not None:
                came = "a step with an optimizer or parameters beside it"
                raise InvalidArgument(came, "those that the step was made with")
            self.taker: StepTaker[A] = executor
        elif not isinstance(executor, Executor):
            raise InvalidArgument(f"a {type(executor).__name__} to train", "an executor prepared with mode='train'")
        elif not isinstance(optimizer, Optimizer):
            raise InvalidArgument(f"optimizer={optimizer!r}", "an Optimizer, such as db.optimizers['adam']()")
        else:
            self.taker = SeparateStep(executor, optimizer, form=form, loss=loss, wrt=wrt)
        if loader is not None:
            if dataset is not None or sampler is not None or preparation is not None:
                raise InvalidArgument("a loader and parts of one", "loader=…, or dataset=… and sampler=…")
            self.loader = loader
        elif dataset is None or sampler is None:
            raise InvalidArgument("no data", "dataset=… and sampler=…, or loader=…")
        else:
            self.loader = Loader(dataset, sampler, preparation=preparation)
        self.evaluation, self.every, self.seed = evaluation, natural("every", every), seed
        self.form, self.ranks, self.history = form, ranks, History()
        self._identity = identity_of(self.taker, self.loader, seed)
        if form is not None:
            self._feed = Feed(form.data, form.training)
        else:
            prepared: Executor[Any] = self.taker.executor  # type: ignore[attr-defined]
            self._feed = Feed([spec for spec in prepared.inputs if spec.name not in self.taker.statistics], prepared.network)
        self.progress = Progress(self, self.history)
        self.callbacks = tuple(callbacks)
        self._listeners = Listeners(ranks.listening(self.callbacks), tells_gradients=self.taker.tells_gradients)
        self._unread: list[A] = []
        self._began_ns: int | None = None
        self._before_ns = 0
        self.ending = self.wish = ""

    @classmethod
    def on(
        cls,
        adapter: Any,
        network: NetworkLike,
        optimizer: Optimizer[A, Any],
        *,
        loss: str = "loss",
        wrt: Sequence[str] | None = None,
        make_step: Callable[..., StepTaker[A]] = step_on,
        fused: bool | None = None,
        scores: Sequence[Callable[[], Any]] = (),
        held_out: Dataset | None = None,
        evaluation_batch: int = 256,
        **options: Any,
    ) -> Trainer[A]:
        """A trainer of a network on a framework: normalizations and dropouts in training mode, evaluation beside it.

        Args:
            adapter: A framework (``db.frameworks["torch"]()``).
            network: With a loss.
            optimizer: The update rule.
            loss: Name of the loss.
            wrt: Names of the parameters to train.
            make_step: Makes what takes the steps, of ``adapter``, form and ``optimizer``.
            fused: Whether the whole step is one ONNX graph; by default only where arrays have no arithmetic.
            scores: How it is evaluated, on
            held_out: these samples,
            evaluation_batch: so many at a time.
            **options: Of `Trainer`.
        """
        start = perf_counter_ns()
        form = training_form(network)
        step: StepTaker[A] = make_step(adapter, form, optimizer, loss=loss, wrt=wrt, fused=fused)
        evaluation = None
        if scores:
            if held_out is None:
                raise InvalidArgument("scores without samples", "held_out: a data set to evaluate on")
            evaluation = Evaluation(adapter.prepare(form.evaluation, mode="train"), held_out, scores, batch=evaluation_batch)
        trainer = cls(step, form=form, loss=loss, evaluation=evaluation, **options)
        trainer.history.setup_ns = perf_counter_ns() - start
        return trainer

    @property
    def epoch(self) -> int:
        """The number of whole epochs done."""
        return self.progress.epoch

    def run(self, epochs: int | None = None, *, steps: int | None = None) -> History:
        """Train until so many epochs or steps are done, those before included; or a callback asks to stop; or Ctrl-C.

        Args:
            epochs: The number of epochs since the beginning.
            steps: The number of steps since the beginning.

        Returns:
            The history, which `Trainer.history` is too; it says why training stopped.

        Raises:
            InvalidArgument: Neither is given, or one is negative or no whole number.
            InvalidInput: The samples do not fit the network, or have a label or an index that it does not have.
        """
        if epochs is None and steps is None:
            raise InvalidArgument("run() without an end", "a number of epochs, of steps, or both")
        epochs, steps = (n if n is None else natural(name, n) for name, n in (("epochs", epochs), ("steps", steps)))
        self.ending = self.wish = ""
        if self._began_ns is None:
            self._began_ns = perf_counter_ns() - self._before_ns
        self._tell(Moment.BEFORE_RUN, self.progress.step)
        try:
            with self.ranks.running(self):
                if not self.ranks.serves(self):
                    while not self.ending:
                        if epochs is not None and self.progress.epoch >= epochs:
                            self.ending = EPOCHS_DONE
                        elif steps is not None and self.progress.step >= steps:
                            self.ending = STEPS_DONE
                        else:
                            self._epoch(steps)
                self.ranks.after_steps(self)
                self._settle()
        except KeyboardInterrupt:
            self.ending = INTERRUPTED
        finally:
            self.read_losses()
            self.history.stopped_because = self.ending
            self._tell(Moment.AFTER_RUN, self.progress.step)
        return self.history

    def stop(self, reason: str) -> None:
        """Stop after this step.

        Args:
            reason: What `History.stopped_because` will say.
        """
        self.wish = self.wish or reason
        if self.ranks.alone:
            self.ending = self.wish

    def evaluate(self) -> EvaluationResult:
        """Evaluate the network as it is now, and note it in the history.

        Raises:
            InvalidArgument: The trainer was made without an evaluation.
        """
        if self.evaluation is None:
            raise InvalidArgument("no evaluation", "a trainer made with evaluation=…, or by Trainer.on with scores=[…]")
        if not self.ranks.alone:
            self._settle()
        start = self._now()
        figures = self.ranks.evaluated(self, self.evaluation)
        timestamp, progress = self._now(), self.progress
        evaluation = EvaluationResult(
            progress.step, progress.epoch, self.history.samples, timestamp, timestamp - start, figures
        )
        self.history.evaluations.append(evaluation)
        progress.evaluated = evaluation
        self._tell(Moment.AFTER_EVALUATION, progress.step)
        return evaluation

    def trained(self) -> Network:
        """The network that the trainer was made with, with parameters and statistics as they are now.

        Raises:
            InvalidArgument: It was made without a form, so that it does not know the network.
        """
        if self.form is None:
            raise InvalidArgument("a trainer that does not know its network", "one made with form=…, or by Trainer.on")
        step = self.taker.snapshot()
        return self.form.trained(step["parameters"], step["statistics"])

    def note(self, samples: int, *, ends_epoch: bool = False) -> None:
        """Note an update that another rank's gradient made, as a step: its loss is NaN until that rank tells it.

        Args:
            samples: How many samples it had.
            ends_epoch: Whether an epoch ends with it.
        """
        number, timestamp = self.progress.step, self._now()
        self.history.stamps.extend((self.history.wall_ns, timestamp, timestamp, timestamp, timestamp))
        self.history.sizes.append(samples)
        self.history.losses.append(nan)
        self._end_step(number)
        if ends_epoch:
            self._end_epoch()

    # Its state

    def snapshot(self) -> Tree:
        """All that is needed to go on exactly from here, as arrays; on rank 0 that of all ranks, which all take together."""
        self._settle()
        progress = self.progress
        position = np.array([progress.epoch, progress.position, self._now(), self.seed], np.int64)
        snapshots = {name: c.snapshot() for name, c in self._listeners.keepers().items()}
        return self.ranks.gathered(
            {
                "step": self.taker.snapshot(),
                "history": self.history.as_tree(),
                "position": position,
                "callbacks": snapshots,
                "identity": packed(self._identity),
            }
        )

    def restore(self, snapshot: Tree | None, *, changed: bool = False) -> None:
        """Go on from a snapshot: what follows is what would have followed there.

        Args:
            snapshot: What `snapshot` gave, or a checkpoint; of several ranks that of rank 0 counts.
            changed: Go on although the framework, the optimizer's settings, the order of the samples, the data or the seed
                are others.

        Raises:
            InvalidArgument: It is one of another network, optimizer, order, data set or seed, or of other callbacks; or no
                snapshot at all.
        """
        snapshot = self.ranks.parted(self, snapshot)
        if missing := {"step", "history", "position", "callbacks", "identity"} - set(snapshot):
            raise InvalidArgument(f"a snapshot without {sorted(missing)[0]}", "what Trainer.snapshot gave, or a checkpoint")
        check_identity(self._identity, snapshot["identity"], changed=changed)
        epoch, position, elapsed_ns, _ = map(int, snapshot["position"])
        keepers = self._listeners.keepers()
        if sorted(keepers) != sorted(snapshot["callbacks"]):
            raise InvalidArgument(f"a snapshot with the callbacks {sorted(snapshot['callbacks'])}", f"{sorted(keepers)}")
        try:
            self.taker.restore(snapshot["step"])
        except InvalidArgument as error:  # if it is for the state of another optimizer, that is said
            if snapshot["step"].get("parameters", {}).keys() == self.taker.parameters.keys():
                check_kind(self._identity["optimizer"], snapshot["identity"], error)
            raise
        for name, keeper in keepers.items():
            keeper.restore(snapshot["callbacks"][name])
        self.history = History.of_tree(snapshot["history"])
        self.progress = Progress(self, self.history, epoch, position)
        self._before_ns, self._began_ns = elapsed_ns, None

    # The loop

    def _epoch(self, steps: int | None) -> None:
        progress = self.progress
        if progress.position == 0:
            self._tell(Moment.BEFORE_EPOCH, progress.epoch)
        batches = iter(self.loader.epoch(progress.epoch, progress.position))
        try:
            while not self.ending and (steps is None or progress.step < steps):
                start = self._now()
                batch = next(batches, None)
                if batch is None:
                    self._end_epoch()
                    return
                where = f"in step {progress.step} of the training, batch {progress.position} of epoch {progress.epoch}"
                try:
                    self._step(start, *batch)
                except Exception as error:
                    error.add_note(where)
                    raise
        finally:
            if (close := getattr(batches, "close", None)) is not None:
                close()

    def _end_epoch(self) -> None:
        progress = self.progress
        if progress.position == 0:
            raise InvalidArgument("an epoch without a single batch", "a sampler that gives some", "take smaller batches")
        progress.epoch, progress.position = progress.epoch + 1, 0
        if self.evaluation is not None and not self.every:
            self.evaluate()
        self._tell(Moment.AFTER_EPOCH, progress.epoch - 1)

    def _step(self, start: int, indices: np.ndarray, batch: Mapping[str, np.ndarray]) -> None:
        progress = self.progress
        loaded, number = self._now(), progress.step
        if not len(indices):
            raise InvalidArgument("a batch without samples", "batches of at least one", "look at the sampler")
        samples = self.ranks.before_step(self, len(indices))
        if self.ending:
            return
        agreeing = self._now() - loaded
        progress.indices, progress.batch = indices, batch
        self._listeners.forget()
        self._tell(Moment.BEFORE_STEP, number)
        before = self._listeners.forget()
        fed = self._feed(batch, indices)
        if self.form is not None:
            fed |= self.ranks.draw(self.form, batch, self.seed, number)
        inputs = {name: self.taker.device.adopt(array) for name, array in fed.items()}
        moved = self._now()
        receiver = self._with_gradients if self.taker.tells_gradients and Moment.AFTER_GRADIENTS in self._listeners else None
        outputs = self.taker(inputs, receiver)
        done = self._now()
        amid = self._listeners.forget()
        computed = done if self.taker.update_ns is None else self.taker.update_ns - (self._began_ns or 0) + amid
        # What callbacks took is no part of the step; to agree with other ranks is part of the update.
        shown = (start + before, loaded + before, moved - agreeing, computed - amid - agreeing, done - amid)
        self.history.stamps.extend(stamp + amid for stamp in shown)
        self.history.sizes.append(samples)
        self._unread.append(outputs[self.taker.loss])
        if len(self._unread) >= _READ_EVERY:
            self._settle()
        progress.outputs = outputs
        self._end_step(number)

    def _end_step(self, number: int) -> None:
        self.progress.position += 1
        if self.evaluation is not None and self.every and self.progress.step % self.every == 0:
            self.evaluate()
        self._tell(Moment.AFTER_STEP, number)

    def _with_gradients(self, gradients: Mapping[str, A]) -> None:
        self.progress.gradients = gradients
        self._tell(Moment.AFTER_GRADIENTS, self.progress.step)
        self.progress.gradients = {}

    def _tell(self, moment: Moment, index: int) -> None:
        self._listeners.tell(moment, index, self.progress)

    def _now(self) -> int:
        return perf_counter_ns() - (self._began_ns or 0)

    def read_losses(self) -> None:
        """Bring losses that are on the device into the history, and wait for it; ranks together do so now and then."""
        if self.ranks.alone:
            self._settle()

    def _settle(self) -> None:
        device = self.taker.device
        local_losses = [float(device.to_numpy(loss)) for loss in self._unread]
        self._unread.clear()
        self.history.losses.extend(self.ranks.losses(local_losses))

    def read_loss(self, outputs: Mapping[str, A]) -> float:
        """The loss among native outputs, as a number."""
        return float(self.taker.device.to_numpy(outputs[self.taker.loss]))
