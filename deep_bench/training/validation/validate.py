"""``validate_training``: do frameworks take the training steps that they should?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np
from tqdm import tqdm

from deep_bench.check.thresholds import END_TO_END_RATIO, INFORMATION
from deep_bench.errors import InvalidArgument
from deep_bench.graph import NetworkLike
from deep_bench.network.training_step import training_step
from deep_bench.tensor import unit_roundoff
from deep_bench.training.feed import Feed
from deep_bench.training.form import TrainingForm, training_form
from deep_bench.training.optimizer import Optimizer
from deep_bench.training.samplers.draws import natural
from deep_bench.training.steps import Step, step_on
from deep_bench.training.validation.finite import apart, distance, size
from deep_bench.training.validation.noise import Oracle
from deep_bench.training.validation.result import LOSS, Chaos, Distance, Trained, Validation
from deep_bench.variant import Variant

_FEWEST = 1e-300
_SINGLE = np.dtype(np.float32)


def validate_training(
    network: NetworkLike,
    optimizer: Optimizer[Any, Any],
    batches: Iterable[Mapping[str, np.ndarray]],
    on: Sequence[str | Step[Any]] | Mapping[str, str | Step[Any]],
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
    systems = _systems(on, form, optimizer, loss)
    whole = training_step(form.training, loss, optimizer=optimizer)
    following, initial = {**whole.following, **form.state}, {**whole.initial, **form.initial}
    names = tuple(n for n in whole.initial if n in form.training.parameters)
    oracle = Oracle(whole, following, initial, samples=samples, seed=seed)
    watch = _Watch({n: np.asarray(initial[n]) for n in names}, loss, tuple(systems))
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


def _systems(on: Any, form: TrainingForm, optimizer: Optimizer[Any, Any], loss: str) -> dict[str, Step[Any]]:
    named = on if isinstance(on, Mapping) else {str(system): system for system in on}
    if not named:
        raise InvalidArgument("no systems to validate", "at least one framework, such as 'torch'")
    return {
        label: system if isinstance(system, Step) else step_on(Variant.parse(system).create(), form, optimizer, loss=loss)
        for label, system in named.items()
    }


class _Watch:
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
        self._by_rounding = {n: max(distance(noisy_run[n], plain[n]) for noisy_run in noisy_runs) for n in plain}
        come = {n: size(plain[n] - self.begin[n]) for n in self.names}
        self._drowned = {n for n in self.names if self._by_rounding[n] > INFORMATION * come[n]}
        if not self.chaos:
            self._led = [n for n in self.names if n not in self._drowned] or list(self.names)
        noise, way = (float(np.linalg.norm([sizes[n] for n in self._led])) for sizes in (self._by_rounding, come))
        share = noise / way if way else float(noise > 0)
        self.chaos.append(Chaos(len(self.chaos) + 1, min(share, 1.0), tuple(sorted(self._drowned))))
        if self.lost is None and not np.isfinite(plain[LOSS]) and not any(come.values()):
            self.lost = len(self.chaos)

    def system(self, label: str, step: Step[Any], outputs: Mapping[str, Any]) -> None:
        """What a system has after the same step."""
        device = step.device
        parameters = {n: np.asarray(device.to_numpy(w), np.float64) for n, w in step.parameters.items() if n in self._now}
        loss = np.asarray(device.to_numpy(outputs[self.loss]), np.float64)
        informative = {n: x for n, x in {LOSS: loss, **parameters}.items() if n not in self._drowned}
        errors = {n: distance(x, self._now[n]) for n, x in informative.items()}
        ratios = {n: self._ratio(n, e) for n, e in errors.items()}
        worst = max(ratios, key=lambda name: ratios[name])
        rounding, where = self._by_rounding[worst], apart(informative[worst], self._now[worst])
        self.distances[label].append(
            Distance(len(self.chaos), worst, errors[worst], rounding, ratios[worst], float(loss), where)
        )

    def _ratio(self, name: str, error: float) -> float:
        """Storing a value in its own format costs a rounding, even where the runs with rounding errors had none."""
        stored = unit_roundoff(self.formats.get(name, _SINGLE)) * size(self._now[name])
        explained = max(self._by_rounding[name], stored, _FEWEST)
        return error / explained if np.isfinite(explained) else 0.0

    def result(self, samples: int) -> Validation:
        """What all of it amounts to."""
        parts = next((c.step for c in self.chaos if c.share > INFORMATION), None)
        validation = Validation((), tuple(self.chaos), parts, samples, self.lost)
        systems = tuple(self._trained(label, distances, validation) for label, distances in self.distances.items())
        return replace(validation, systems=systems)

    def _trained(self, label: str, distances: Sequence[Distance], validation: Validation) -> Trained:
        informative = validation.told(distances)
        beyond = next((d for d in informative if d.ratio > END_TO_END_RATIO), None)
        if beyond is not None:
            far = f"{beyond.ratio:.3g} times as far from the oracle's as rounding explains"
            reason = f"after step {beyond.step}, {beyond.quantity} is {beyond.apart or far}"
            return Trained(label, "wrong", reason, beyond.step, tuple(distances))
        if not informative:
            reason = "rounding drowns everything from the first step on"
            return Trained(label, "no information", reason, None, tuple(distances))
        if self.lost == 1:
            reason = "the loss or the data are not finite from step 1 on"
            return Trained(label, "no information", reason, None, tuple(distances))
        return Trained(label, "right", "", None, tuple(distances))


def batches_of(loader: Any, epochs: int = 1_000_000) -> Iterator[Mapping[str, np.ndarray]]:
    """The batches of a loader, epoch after epoch."""
    for epoch in range(epochs):
        for _, batch in loader.epoch(epoch):
            yield batch
