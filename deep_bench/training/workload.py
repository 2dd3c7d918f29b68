"""From a recipe to a training run on a framework."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property, partial
from inspect import signature
from time import perf_counter_ns
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deep_bench import datasets, networks, optimizers
from deep_bench.errors import InvalidArgument
from deep_bench.events import Callback
from deep_bench.framework import Adapter
from deep_bench.graph import Network, load
from deep_bench.network.adapter_process import as_adapter
from deep_bench.training.callbacks import EvaluateEvery, TargetReached
from deep_bench.training.compose import chain
from deep_bench.training.dataset import Dataset, description_of
from deep_bench.training.form import TrainingForm, training_form
from deep_bench.training.initial import initialize
from deep_bench.training.loader import Loader
from deep_bench.training.networks import with_loss
from deep_bench.training.optimizer import Optimizer, WarmUp
from deep_bench.training.preparation import Preparation
from deep_bench.training.recipes import load_recipe
from deep_bench.training.recipes.recipe import CHAIN, SCHEDULES, Recipe, is_file, sampler_named, seeded
from deep_bench.training.recipes.splits import SPLITS, Batch, Prepare
from deep_bench.training.samplers import Sampler
from deep_bench.training.scores import Score
from deep_bench.training.steps import StepTaker, step_on
from deep_bench.training.trainer import SINGLE_RANK, Ranks, Trainer
from deep_bench.variant import Variant

__all__ = ["Workload", "train", "workload"]


@dataclass(frozen=True, eq=False)
class Workload:
    """What a run of a recipe is made of, before any framework.

    Args:
        recipe: The recipe.
        seed: Of parameters, order of the samples, draws, and what preparation leaves to chance.
        network: With its parameters and loss.
        dataset: The samples to train on.
        held_out: The samples to evaluate on, prepared.
        preparation: What is done with each batch of the first, if anything.
        sampler: Which samples come when.
        optimizer: The update rule.
    """

    recipe: Recipe
    seed: int
    network: Network
    dataset: Dataset
    held_out: Dataset
    preparation: Prepare | None
    sampler: Sampler
    optimizer: Optimizer[Any, Any]

    @cached_property
    def form(self) -> TrainingForm:
        """The network's forms for training and evaluation."""
        return training_form(self.network)

    @property
    def scores(self) -> list[Callable[[], Score]]:
        """What makes each score anew."""
        return [partial(self.recipe.score, number) for number in range(len(self.recipe.fields.scores))]

    def loader(self, **options: Any) -> Loader:
        """What gives the batches.

        Args:
            **options: Of `Loader`: workers, processes, prefetch.
        """
        return Loader(self.dataset, self.sampler, preparation=self.preparation, **options)


def workload(recipe: Recipe, seed: int | None = None) -> Workload:
    """What a recipe makes with a seed.

    Args:
        recipe: The recipe.
        seed: Of this run; the recipe's first by default.

    Raises:
        InvalidArgument: Settings that do not go together.
        InvalidData: Data that are not there, or do not suit the split.

    Example:
        >>> from deep_bench.training.recipes import load_recipe
        >>> found = workload(load_recipe("digits"), seed=3)
        >>> len(found.dataset), len(found.held_out), [str(spec) for spec in found.network.inputs]
        (1442, 355, ['image: float32[batch, 1, 8, 8]', 'label: int64[batch]'])
    """
    fields = recipe.fields
    seed = fields.seeds[0] if seed is None else seed
    make = partial(datasets[fields.data.name], **fields.data.settings)
    divided = SPLITS[fields.data.split.name](make, **fields.data.split.settings)
    make_sampler = sampler_named(fields.sampler.name)
    seed_options = seeded(make_sampler, seed)
    sampler = make_sampler(divided.train, fields.sampler.batch, **seed_options, **fields.sampler.settings)
    steps = [*fields.augmentation, *fields.preparation]
    parts = [divided.prepare(seed)] if divided.prepare else []
    parts += [Preparation(steps, seed=seed)] if steps else []
    return Workload(
        recipe,
        seed,
        _network(recipe, seed),
        divided.train,
        PreparedSet(divided.held_out, Preparation(fields.preparation, seed=seed))
        if fields.preparation
        else divided.held_out,
        InTurn(tuple(parts)) if parts else None,
        sampler,
        _optimizer(recipe, len(sampler) * fields.epochs),
    )


def _network(recipe: Recipe, seed: int) -> Network:
    fields = recipe.fields
    name, initial, loss = fields.network.name, fields.initialization, fields.loss
    network = load(name) if is_file(name) else networks[name](**fields.network.settings)
    if initial is not None:
        network = initialize(network, seed, **initial.model_dump())
    return with_loss(network, loss.name, output=loss.output, target=loss.target, **loss.settings)


def _optimizer(recipe: Recipe, total: int) -> Optimizer[Any, Any]:
    fields = recipe.fields
    part, settings = fields.optimizer, fields.optimizer.settings
    if part.schedule is not None:
        settings["lr"] = _rate(recipe, total)
    optimizer: Optimizer[Any, Any] = optimizers[part.name](**settings)
    return chain(*(CHAIN[entry.name](**entry.settings) for entry in fields.chain), optimizer) if fields.chain else optimizer


def _rate(recipe: Recipe, total: int) -> Any:
    part = recipe.fields.optimizer
    assert part.schedule is not None
    schedule = part.schedule
    kind, steps = SCHEDULES[schedule.name], schedule.steps or max(total - schedule.warm_up, 1)
    lasting = {"steps": steps} if "steps" in signature(kind).parameters else {}
    rate = kind(part.settings["lr"], **lasting, **schedule.settings)
    return WarmUp(rate, schedule.warm_up) if schedule.warm_up else rate


@dataclass(frozen=True, eq=False)
class InTurn:
    """Several preparations, one after the other.

    Args:
        parts: The preparations.
    """

    parts: tuple[Prepare, ...]

    def __call__(self, batch: Batch, numbers: NDArray[np.int64], epoch: int) -> Batch:
        """What is made of a batch."""
        for part in self.parts:
            batch = part(batch, numbers, epoch)
        return batch


class PreparedSet:
    """A set whose samples are prepared, as in epoch 0.

    Args:
        dataset: The set.
        preparation: What is done with them.
    """

    def __init__(self, dataset: Dataset, preparation: Preparation) -> None:
        self._dataset, self._preparation = dataset, preparation
        self.description = description_of(dataset)
        self.specs = tuple(dataset.specs)

    def __len__(self) -> int:
        return len(self._dataset)

    def __getitem__(self, indices: Any) -> Batch:
        """The samples of these numbers, prepared."""
        return self._preparation(self._dataset[indices], np.asarray(indices), 0)


def train(
    recipe: Recipe | Workload | str,
    on: str | Variant | Adapter[Any] = "torch",
    *,
    seed: int | None = None,
    callbacks: Iterable[Callback] = (),
    stop_at_target: bool = True,
    fused: bool | None = None,
    ranks: Ranks = SINGLE_RANK,
    make_step: Callable[..., StepTaker[Any]] = step_on,
    **loading: Any,
) -> Trainer[Any]:
    """A trainer that does what a recipe says on a framework; ``trainer.run(epochs=…)`` runs it.

    Args:
        recipe: A recipe, the name or file of one, or what `workload` made of one.
        on: A framework, or a variant of one (``"torch:threads=1"``).
        seed: Of this run; the recipe's first by default.
        callbacks: Told of moments, besides those that the recipe needs.
        stop_at_target: Whether the run ends when the recipe's target is reached.
        fused: Whether the whole step is one ONNX graph; see `Trainer.on`.
        ranks: The others that train the same network; see `deep_bench.distributed`.
        make_step: See `Trainer.on`.
        **loading: Of `deep_bench.training.loader.Loader`: workers, processes, prefetch.

    Raises:
        InvalidArgument: Parts of the recipe that do not go together, or an optimizer of another framework.
        InvalidData: Data that are not there.
        Unsupported: The framework cannot train this network.

    Example:
        >>> trainer = train("digits", on="reference", seed=1)
        >>> history = trainer.run(steps=3)
        >>> history.samples
        192
    """
    start = perf_counter_ns()
    job = _workload(recipe, seed)
    fields = job.recipe.fields
    adapter = as_adapter(on)
    _check_framework(adapter, job)
    recipe_callbacks: list[Callback] = [EvaluateEvery(fields.evaluation.every)] if fields.evaluation.every else []
    if stop_at_target:
        recipe_callbacks += [TargetReached(name, value) for name, value in fields.target.items()]
    trainer: Trainer[Any] = Trainer.on(
        adapter,
        job.network,
        job.optimizer,
        fused=fused,
        ranks=ranks,
        make_step=make_step,
        loader=job.loader(**loading),
        callbacks=[*recipe_callbacks, *callbacks],
        seed=job.seed,
        scores=job.scores,
        held_out=job.held_out,
        evaluation_batch=fields.evaluation.batch,
    )
    trainer.history.setup_ns = perf_counter_ns() - start
    return trainer


def _workload(recipe: Recipe | Workload | str, seed: int | None) -> Workload:
    if isinstance(recipe, Workload):
        if seed is not None and seed != recipe.seed:
            raise InvalidArgument(f"seed={seed} for a workload made with {recipe.seed}", "no seed")
        return recipe
    return workload(recipe if isinstance(recipe, Recipe) else load_recipe(recipe), seed)


def _check_framework(adapter: Adapter[Any], job: Workload) -> None:
    framework = job.optimizer.framework
    if framework is not None and framework != adapter.name.partition(":")[0]:
        raise InvalidArgument(
            f"the optimizer {job.recipe.fields.optimizer.name} on {adapter.name}",
            f"an optimizer of any framework, or {framework}",
            "optimizer.name=adam",
        )
