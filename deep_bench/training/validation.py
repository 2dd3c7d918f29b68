"""Trainings of several systems, validated step by step against the oracle's, which takes each step in float64."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import islice
from math import inf
from pathlib import Path
from typing import Any, Literal

import numpy as np
from rich.table import Table
from tqdm import tqdm

from deep_bench import frameworks
from deep_bench.check.oracle import WideArithmetic, formats_of, settings_of
from deep_bench.check.thresholds import END_TO_END_RATIO, INFORMATION
from deep_bench.errors import InvalidArgument
from deep_bench.graph import NetworkLike
from deep_bench.network.train_step import TrainingStep, training_step
from deep_bench.records.table import figure_columns, text_of
from deep_bench.tensor import unit_roundoff
from deep_bench.training.form import Feed, training_form
from deep_bench.training.optimizer import Optimizer
from deep_bench.training.samplers import natural
from deep_bench.training.steps import StepTaker, step_on
from deep_bench.variant import Variant

__all__ = ["Chaos", "Distance", "Trained", "Validation", "batches_of", "validate_training"]


def finite_norm(x: np.ndarray) -> float:
    """The Euclidean norm of what is finite in an array."""
    return float(np.linalg.norm(x[np.isfinite(x)]))


def finite_distance(x: np.ndarray, y: np.ndarray) -> float:
    """The Euclidean distance: elements that are finite in neither count as equal, and one that is in one only as infinite.

    Example:
        >>> finite_distance(np.array([np.nan, 3.0, np.inf]), np.array([np.nan, 0.0, np.nan]))
        3.0
        >>> finite_distance(np.array([np.nan, 3.0]), np.array([1.0, 3.0]))
        inf
    """
    mine, theirs = np.isfinite(x), np.isfinite(y)
    both = mine & theirs
    return float("inf") if (mine != theirs).any() else float(np.linalg.norm(x[both] - y[both]))


def finiteness_difference(x: np.ndarray, expected: np.ndarray) -> str:
    """Where an array is finite and what was expected is not, or the reverse, in words; empty where they agree.

    Example:
        >>> finiteness_difference(np.array([np.nan, 3.0]), np.array([1.0, 3.0]))
        "not finite in 1 of 2 elements where the oracle's is"
    """
    mine, theirs = np.isfinite(x), np.isfinite(expected)
    lacking, beyond = int((theirs & ~mine).sum()), int((mine & ~theirs).sum())
    if lacking:
        return f"not finite in {lacking} of {x.size} elements where the oracle's is"
    return f"finite in {beyond} of {x.size} elements where the oracle's is not" if beyond else ""


Values = Mapping[str, np.ndarray]


class TrainingOracle:
    """Takes training steps in float64, once plainly and several times with the rounding errors of the working formats.

    Each run starts from the same parameters and gets the same batches; from then on it goes its own way, so that the
    distance of the runs from the plain one is what rounding makes of a correct training.

    Args:
        step: The whole step as a network.
        following: Input to the output that is its next value, for all that steps change.
        initial: The first value of each.
        samples: How many runs have rounding errors.
        seed: Of these.
    """

    def __init__(
        self, step: TrainingStep, following: Mapping[str, str], initial: Values, *, samples: int, seed: int
    ) -> None:
        self._network, self._following = step.network, following
        self._reference: Any = frameworks["reference"]().prepare(step.network)
        self._settings = settings_of(step.network.upgraded().graph)
        self._formats: Mapping[str, np.dtype] | None = None
        self._narrow = initial
        self._generators = [None, *(np.random.default_rng([seed, k]) for k in range(samples))]
        self._states: list[dict[str, Any]] = [dict(initial) for _ in self._generators]

    def step(self, batch: Values) -> list[dict[str, np.ndarray]]:
        """Take a step in all runs.

        Returns:
            The outputs of the plain run, then those of the others.
        """
        if self._formats is None:
            self._formats = formats_of(self._reference, {**batch, **self._narrow})
        all_outputs = []
        for number, generator in enumerate(self._generators):
            arithmetic = WideArithmetic(self._formats, self._settings, rng=generator)
            outputs = self._reference.evaluate({**batch, **self._states[number]}, arithmetic=arithmetic)
            self._states[number] = {name: outputs[output] for name, output in self._following.items()}
            all_outputs.append(outputs)
        return all_outputs

    def states(self, names: Sequence[str]) -> list[dict[str, np.ndarray]]:
        """Some of what the steps change, as each run has it now."""
        return [{name: np.asarray(state[name], np.float64) for name in names} for state in self._states]


Word = Literal["right", "wrong", "no information"]

LOSS = "the loss"


@dataclass(frozen=True, slots=True)
class Distance:
    """How far a system's training is from the oracle's after one step, in the quantity where that is least explained.

    Args:
        step: The number of steps taken.
        quantity: Name of the parameter, or ``"the loss"``.
        error: The Euclidean distance from the oracle's.
        rounding: That of the run with rounding errors that is farthest from the oracle's.
        ratio: ``error`` over ``rounding``.
        loss: The system's loss in this step.
        apart: Where it is finite and the oracle's is not, or the reverse; ``error`` is infinite there.
    """

    step: int
    quantity: str
    error: float
    rounding: float
    ratio: float
    loss: float
    apart: str = ""


@dataclass(frozen=True, slots=True)
class Chaos:
    """How far rounding alone carries the reference away from itself.

    Args:
        step: The number of steps taken.
        share: The distance of the farthest run with rounding errors from the plain one, over how far the parameters have
            come since the beginning; of all together that are not drowned from the first step on.
        drowned: Names of the parameters that tell nothing, since for them alone it is more than a tenth.
    """

    step: int
    share: float
    drowned: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Trained:
    """What is said of one system.

    Args:
        system: The system.
        word: *right*: rounding explains its distance from the oracle for as long as that can be told; *wrong*: it does not;
            *no information*: rounding drowned everything from the first step on, or nothing was finite.
        reason: Why.
        first: The first step where rounding does not explain it.
        distances: One for each step.
    """

    system: str
    word: Word
    reason: str
    first: int | None
    distances: tuple[Distance, ...]


@dataclass(frozen=True, slots=True)
class Validation:
    """Trainings of several systems against the oracle's.

    Args:
        systems: What is said of each.
        chaos: What rounding does to the reference, step by step.
        parts: The first step after which trajectories tell nothing any more, since rounding has carried the reference
            itself as far from itself; ``None`` if that did not happen.
        samples: How many runs with rounding errors there were.
        lost: The first step after which neither the oracle's loss nor any of its parameters is finite; ``None`` if that did
            not happen.
    """

    systems: tuple[Trained, ...]
    chaos: tuple[Chaos, ...]
    parts: int | None
    samples: int
    lost: int | None = None

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return all(system.word != "wrong" for system in self.systems)

    def __getitem__(self, system: str) -> Trained:
        for trained in self.systems:
            if trained.system == system:
                return trained
        raise KeyError(system)

    def table(self) -> str:
        """A row for each system, and what rounding does to the reference itself."""
        figures = figure_columns("worst step", "error", "by rounding", "ratio", "last loss")
        table = Table("system", "verdict", *figures, "in")
        for trained in self.systems:
            worst = max(self.informative(trained.distances) or trained.distances[:1], key=lambda d: d.ratio)
            cells = [str(worst.step), f"{worst.error:.2g}", f"{worst.rounding:.2g}", f"{worst.ratio:.3g}"]
            table.add_row(trained.system, trained.word, *cells, f"{trained.distances[-1].loss:.4g}", worst.quantity)
        reasons = [f"{trained.system}: {trained.reason}" for trained in self.systems if trained.reason]
        return text_of([table, *reasons, self.about_chaos()]) + "\n"

    __str__ = table

    def about_chaos(self) -> str:
        """From which step trajectories part for no other reason than rounding."""
        last, runs = self.chaos[-1], f"{self.samples} runs of the reference"
        if self.parts is None:
            text = f"After step {last.step} rounding alone ({runs}) makes {last.share:.2g} of the way of the parameters."
        else:
            text = (
                f"From step {self.parts} on trajectories part for no other reason than rounding: "
                f"it alone ({runs}) makes more than a tenth of the way of the parameters."
            )
        if self.lost is not None and (self.parts is None or self.lost < self.parts):
            text = f"From step {self.lost} on neither the oracle's loss nor a parameter is finite: see data and rate."
        first = self.chaos[0].drowned
        return text + (f" All of {', '.join(first)} is rounding from the first step on." if first else "")

    def informative(self, distances: Sequence[Distance]) -> Sequence[Distance]:
        """Those that tell something: before trajectories part, and until nothing is finite any more."""
        parts, lost = (inf if step is None else step for step in (self.parts, self.lost))
        return [d for d in distances if d.step < parts and d.step <= lost]

    def to_json(self) -> dict[str, Any]:
        """It in plain types."""
        return asdict(self)

    def save(self, path: str | Path) -> Path:
        """Write it as JSON."""
        Path(path).write_text(json.dumps(self.to_json(), indent=1) + "\n", encoding="utf-8")
        return Path(path)

    def plot(self, path: str | Path) -> Path:
        """Draw each system's distance from the oracle over the steps, beside what rounding explains."""
        from deep_bench.training.plots import draw_validation

        return draw_validation(self, path)


_FEWEST = 1e-300
_SINGLE = np.dtype(np.float32)


def validate_training(
    network: NetworkLike,
    optimizer: Optimizer[Any, Any],
    batches: Iterable[Mapping[str, np.ndarray]],
    on: Sequence[str | StepTaker[Any]] | Mapping[str, str | StepTaker[Any]],
    *,
    steps: int = 20,
    loss: str = "loss",
    samples: int = 8,
    seed: int = 0,
    progress: bool = True,
) -> Validation:
    r"""Train on several frameworks from the same parameters and batches, and compare each step with the oracle's.

    The oracle takes the whole step, forward, backward and update, in float64. Beside it run ``samples`` trainings with the
    rounding errors of the working formats (Monte Carlo arithmetic). A system is *right* while its distance from the oracle
    (the Euclidean one, in every parameter and in the loss) is at most 16 times that of the run with rounding errors that is
    farthest; single runs scatter, since all errors are carried on by the same few directions.

    Trainings are chaotic: what rounding does grows from step to step. A parameter that rounding has carried a tenth of the
    way that it has come tells nothing any more: from the first step on where its true gradient is zero, as that of a bias
    before a normalization. Once that holds for all others together, trajectories have parted, and the result says when.

    What is finite neither in a system nor in the oracle agrees; what is in one of them only does not. Where neither the
    oracle's loss nor any of its parameters is finite, the data or the training are to blame, and nothing more is told.

    Args:
        network: With a loss; see `training_form`.
        optimizer: The update rule, traced for the oracle, so none of a framework's own.
        batches: What each step is fed, by the names of the network's inputs.
        on: Frameworks with options, or steps made elsewhere (`Step`, for another optimizer than the oracle's), by label.
        steps: How many steps at most.
        loss: Name of the loss.
        samples: How many runs with rounding errors.
        seed: Of these, and of the draws of dropouts.
        progress: Whether to show a bar, on a terminal.

    Raises:
        InvalidArgument: No batches, no systems, or fewer than two samples; numbers that are no whole ones;
            or an optimizer that forgets a parameter.
        InvalidInput: A batch does not fit the network, or has a label or an index that it does not have.

    Example:
        >>> import deep_bench as db
        >>> network = db.load("digits-cnn").with_loss("SoftmaxCrossEntropyLoss", output="logits", target="label")
        >>> digits = db.datasets["digits"]("train")
        >>> batches = [digits[np.arange(8 * k, 8 * k + 8)] for k in range(2)]
        >>> found = validate_training(network, db.optimizers["sgd"](lr=0.01), batches, ["reference"], samples=2)
        >>> found["reference"].word, len(found.chaos)
        ('right', 2)

    Source:
        Parker, *Monte Carlo arithmetic*, UCLA CSD-970002, 1997, for runs with rounding errors.
    """
    if natural("samples", samples) < 2 or natural("steps", steps) < 1:
        raise InvalidArgument(f"{steps} steps with {samples} runs with rounding errors", "at least 1 and 2")
    form = training_form(network)
    named = on if isinstance(on, Mapping) else {str(system): system for system in on}
    if not named:
        raise InvalidArgument("no systems to validate", "at least one framework, such as 'torch'")
    systems: dict[str, StepTaker[Any]] = {
        label: system
        if isinstance(system, StepTaker)
        else step_on(Variant.parse(system).create(), form, optimizer, loss=loss)
        for label, system in named.items()
    }
    whole = training_step(form.training, loss, optimizer=optimizer)
    following, initial = {**whole.following, **form.state}, {**whole.initial, **form.initial}
    names = tuple(n for n in whole.initial if n in form.training.parameters)
    oracle = TrainingOracle(whole, following, initial, samples=samples, seed=seed)
    watch = _DistanceWatch({n: np.asarray(initial[n]) for n in names}, loss, tuple(systems))
    shown = tqdm(islice(batches, steps), total=steps, desc="training", leave=False, disable=None if progress else True)
    feed = Feed(form.data, form.training)
    for number, batch in enumerate(shown):
        fed = feed(batch)
        fed |= form.draw(fed, seed, number)
        expected = oracle.step(fed)
        watch.oracle(expected, oracle.states(names))
        for label, step in systems.items():
            try:
                outputs = step({name: step.device.from_numpy(array) for name, array in fed.items()})
            except Exception as error:
                error.add_note(f"in step {number} of {label}")
                raise
            watch.system(label, step, outputs)
    if not watch.chaos:
        raise InvalidArgument("no batches to train on", "at least one")
    return watch.result(samples)


class _DistanceWatch:
    """Gathers the distances step by step; of what they are made of, nothing is kept."""

    def __init__(self, begin: Mapping[str, np.ndarray], loss: str, systems: Sequence[str]) -> None:
        self.names, self.loss = tuple(begin), loss
        self.begin = {name: array.astype(np.float64) for name, array in begin.items()}
        self.formats = {name: array.dtype for name, array in begin.items()}
        self.chaos: list[Chaos] = []
        self.distances: dict[str, list[Distance]] = {label: [] for label in systems}
        self._now: Mapping[str, np.ndarray] = {}
        self._by_rounding: dict[str, float] = {}
        self._drowned: set[str] = set()
        self._led: list[str] = []
        self.lost: int | None = None

    def oracle(self, outputs: Sequence[Mapping[str, np.ndarray]], states: Sequence[Mapping[str, np.ndarray]]) -> None:
        """What the plain run gave, and those with rounding errors."""
        plain, *noisy_runs = [
            {**state, LOSS: np.asarray(o[self.loss], np.float64)} for o, state in zip(outputs, states, strict=True)
        ]
        self._now = plain
        self._by_rounding = {n: max(finite_distance(noisy_run[n], plain[n]) for noisy_run in noisy_runs) for n in plain}
        come = {n: finite_norm(plain[n] - self.begin[n]) for n in self.names}
        self._drowned = {n for n in self.names if self._by_rounding[n] > INFORMATION * come[n]}
        if not self.chaos:
            self._led = [n for n in self.names if n not in self._drowned] or list(self.names)
        noise, way = (float(np.linalg.norm([sizes[n] for n in self._led])) for sizes in (self._by_rounding, come))
        share = noise / way if way else float(noise > 0)
        self.chaos.append(Chaos(len(self.chaos) + 1, min(share, 1.0), tuple(sorted(self._drowned))))
        if self.lost is None and not np.isfinite(plain[LOSS]) and not any(come.values()):
            self.lost = len(self.chaos)

    def system(self, label: str, step: StepTaker[Any], outputs: Mapping[str, Any]) -> None:
        """What a system has after the same step."""
        device = step.device
        parameters = {n: np.asarray(device.to_numpy(w), np.float64) for n, w in step.parameters.items() if n in self._now}
        loss = np.asarray(device.to_numpy(outputs[self.loss]), np.float64)
        informative = {n: x for n, x in {LOSS: loss, **parameters}.items() if n not in self._drowned}
        errors = {n: finite_distance(x, self._now[n]) for n, x in informative.items()}
        ratios = {n: self._ratio(n, e) for n, e in errors.items()}
        worst = max(ratios, key=lambda name: ratios[name])
        rounding, where = self._by_rounding[worst], finiteness_difference(informative[worst], self._now[worst])
        self.distances[label].append(
            Distance(len(self.chaos), worst, errors[worst], rounding, ratios[worst], float(loss), where)
        )

    def _ratio(self, name: str, error: float) -> float:
        """Storing a value in its own format costs a rounding, even where the runs with rounding errors had none."""
        stored = unit_roundoff(self.formats.get(name, _SINGLE)) * finite_norm(self._now[name])
        explained = max(self._by_rounding[name], stored, _FEWEST)
        return error / explained if np.isfinite(explained) else 0.0

    def result(self, samples: int) -> Validation:
        """What all of it amounts to."""
        parts = next((c.step for c in self.chaos if c.share > INFORMATION), None)
        validation = Validation((), tuple(self.chaos), parts, samples, self.lost)
        systems = tuple(self._trained(label, distances, validation) for label, distances in self.distances.items())
        return replace(validation, systems=systems)

    def _trained(self, label: str, distances: Sequence[Distance], validation: Validation) -> Trained:
        informative = validation.informative(distances)
        beyond = next((d for d in informative if d.ratio > END_TO_END_RATIO), None)
        word: Word = "no information"
        if beyond is not None:
            far = f"{beyond.ratio:.3g} times as far from the oracle's as rounding explains"
            word, reason = "wrong", f"after step {beyond.step}, {beyond.quantity} is {beyond.apart or far}"
        elif not informative:
            reason = "rounding drowns everything from the first step on"
        elif self.lost == 1:
            reason = "the loss or the data are not finite from step 1 on"
        else:
            word, reason = "right", ""
        return Trained(label, word, reason, beyond.step if beyond is not None else None, tuple(distances))


def batches_of(loader: Any, epochs: int = 1_000_000) -> Iterator[Mapping[str, np.ndarray]]:
    """The batches of a loader, epoch after epoch."""
    for epoch in range(epochs):
        for _, batch in loader.epoch(epoch):
            yield batch
