"""One run of several: made, trained until its target or limit, and kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import perf_counter_ns
from typing import Any

from deep_bench.errors import InvalidArgument
from deep_bench.events import Callback
from deep_bench.measure.metric import Metric
from deep_bench.measure.record import ErrorRecord
from deep_bench.operators.pickled import loaded
from deep_bench.training.callbacks import EvaluateEvery, TargetReached, TimeLimit
from deep_bench.training.callbacks.watched import watched
from deep_bench.training.record import RunRecord, ScoreFacts
from deep_bench.training.runs.determinism import determinism
from deep_bench.training.runs.facts import data_facts, network_facts
from deep_bench.training.samplers.draws import natural
from deep_bench.training.trainer import Trainer

MakeTrainer = Callable[[int, Sequence[Callback]], Trainer[Any]]
"""From a seed, and callbacks to hand on, to a fresh trainer."""

_UNLIMITED = 2**62


@dataclass(frozen=True)
class Plan:
    """What all runs have in common.

    Args:
        label: What they run on.
        target: The score to reach, and its value; ``None`` to train until the limit.
        every: The number of samples between evaluations; ``None`` leaves that to the trainer.
        epochs: The most epochs.
        steps: The most steps.
        seconds: The most time.

    Raises:
        InvalidArgument: No limit, or a number that is no whole one.
    """

    label: str = ""
    target: tuple[str, float] | None = None
    every: int | None = None
    epochs: int | None = None
    steps: int | None = None
    seconds: float | None = None

    def __post_init__(self) -> None:
        if self.epochs is None and self.steps is None and self.seconds is None:
            raise InvalidArgument("runs without a limit", "epochs=…, steps=… or seconds=…: a run may never reach its target")
        for name, number in (("every", self.every), ("epochs", self.epochs), ("steps", self.steps)):
            if number is not None:
                natural(name, number)

    def callbacks(self) -> list[Callback]:
        """Fresh ones for a run."""
        callbacks: list[Callback] = []
        if self.every is not None:
            callbacks.append(EvaluateEvery(self.every))
        if self.target is not None:
            callbacks.append(TargetReached(*self.target))
        if self.seconds is not None:
            callbacks.append(TimeLimit(self.seconds))
        return callbacks


def train(make_trainer: MakeTrainer, seed: int, plan: Plan) -> RunRecord:
    """Make a trainer, and let it run.

    Raises:
        InvalidArgument: The trainer cannot be made, does not have the callbacks, or evaluates by samples already or nothing.
        UnknownName: It does not evaluate the score of the target.
    """
    callbacks, start = plan.callbacks(), perf_counter_ns()
    trainer = make_trainer(seed, callbacks)
    setup_ns = perf_counter_ns() - start
    if not isinstance(trainer, Trainer) or any(callback not in trainer.callbacks for callback in callbacks):
        raise InvalidArgument(
            f"make_trainer made a {type(trainer).__name__} without the callbacks that it was given",
            "a Trainer that has them: Trainer(…, callbacks=callbacks)",
        )
    if sum(isinstance(callback, EvaluateEvery) for callback in trainer.callbacks) > 1:
        raise InvalidArgument("a trainer that evaluates by samples twice", "every=… here, or an EvaluateEvery of its own")
    if plan.target is not None:
        watched(trainer.evaluation, plan.target[0], "the target")
    steps = _UNLIMITED if plan.epochs is None and plan.steps is None else plan.steps
    error: Exception | None = None
    try:
        trainer.run(plan.epochs, steps=steps)
    except Exception as raised:  # a run that fails is an outcome, as one that misses its target is
        error = raised
    return kept(trainer, label=plan.label, seed=seed, setup_ns=setup_ns, error=error)


def kept(
    trainer: Trainer[Any], *, label: str = "", seed: int | None = None, setup_ns: int = 0, error: Exception | None = None
) -> RunRecord:
    """The record of a trainer's run, as far as it is.

    Args:
        trainer: The trainer.
        label: What it ran on, beginning with the framework's name.
        seed: Of the run; by default the trainer's.
        setup_ns: What it took to make the trainer; by default what the trainer itself knows.
        error: What ended it.
    """
    device, scores = trainer.taker.device, trainer.evaluation.scores if trainer.evaluation is not None else {}
    run = RunRecord(
        label=label,
        seed=trainer.seed if seed is None else seed,
        framework=dict(device.describe()) if hasattr(device, "describe") else {},
        network=network_facts(trainer.form.source) if trainer.form is not None else None,
        data=data_facts(trainer),
        optimizer="" if trainer.taker.rule is None else repr(trainer.taker.rule),
        loss=trainer.taker.loss,
        scores={name: ScoreFacts(unit=score.unit, direction=score.direction) for name, score in scores.items()},
        every=next((c.samples for c in trainer.callbacks if isinstance(c, EvaluateEvery)), None),
        determinism=determinism(trainer, label),
        setup_ns=setup_ns or trainer.history.setup_ns,
        metrics=[callback.measurement() for callback in trainer.callbacks if isinstance(callback, Metric)],
        error=ErrorRecord.of(error) if error is not None else None,
        ranks=trainer.ranks.facts(),
    )
    run.keep(trainer.history)
    return run


class Apart:
    """A run in a process of its own; what a worker makes there.

    Args:
        make: The function that makes a trainer, pickled.
        seed: The run's.
        plan: What it shares with others.
    """

    def __init__(self, make: bytes, seed: int, plan: Plan) -> None:
        self.make: MakeTrainer = loaded(make, "make_trainer")
        self.seed, self.plan = seed, plan

    def train(self) -> str:
        """Let it run; its record as JSON."""
        run = train(self.make, self.seed, self.plan)
        run.process = True
        return run.model_dump_json()
