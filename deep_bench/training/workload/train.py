"""``train``: a recipe on a framework, ready to run."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from time import perf_counter_ns
from typing import Any

from deep_bench.errors import InvalidArgument
from deep_bench.events import Callback
from deep_bench.framework import Adapter
from deep_bench.network.suspect import as_adapter
from deep_bench.training.callbacks import EvaluateEvery, TargetReached
from deep_bench.training.ranks import ALONE, Ranks
from deep_bench.training.recipes import Recipe, load_recipe
from deep_bench.training.steps import Step, step_on
from deep_bench.training.trainer import Trainer
from deep_bench.training.workload.workload import Workload, workload
from deep_bench.variant import Variant


def train(
    recipe: Recipe | Workload | str,
    on: str | Variant | Adapter[Any] = "torch",
    *,
    seed: int | None = None,
    callbacks: Iterable[Callback] = (),
    stop_at_target: bool = True,
    fused: bool | None = None,
    ranks: Ranks = ALONE,
    make_step: Callable[..., Step[Any]] = step_on,
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
