"""``train``: a recipe on several ranks, ready to run."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, replace
from functools import partial
from typing import Any, Literal, TypeAlias

import yaml

from deep_bench import distributed_optimizers
from deep_bench.distributed.communicators.communicator import Communicator
from deep_bench.distributed.communicators.counting import Counting
from deep_bench.distributed.optimizer import DistributedOptimizer
from deep_bench.distributed.training.samplers import Replicated, Reshuffled, Sharded
from deep_bench.distributed.training.step import check_normalization, distributed_step_on, with_arithmetic
from deep_bench.distributed.training.together import Together
from deep_bench.errors import CommunicationFailed, DeepBenchError, InvalidArgument, UnknownName
from deep_bench.events import Callback
from deep_bench.framework import Adapter
from deep_bench.network.adapter_process import as_adapter
from deep_bench.training.optimizer import Optimizer
from deep_bench.training.recipes import Recipe, load_recipe
from deep_bench.training.samplers import Sampler
from deep_bench.training.trainer import Trainer
from deep_bench.training.workload import Workload, workload
from deep_bench.training.workload import train as train_alone
from deep_bench.variant import Variant

Around: TypeAlias = Callable[[Optimizer[Any, Any], Communicator], DistributedOptimizer[Any, Any]]
"""From a rule and the ranks to a scheme."""


_PATH = re.compile(r"[^\W\d][\w.]*:[^\W\d]\w*(?=:|$)")
"""An import path, ``package.module:attribute``, which settings may follow."""


def scheme_of(text: str) -> Around:
    """What makes the scheme of a name with settings, ``name:setting=value,…``; values are read as in YAML.

    A scheme that is not registered is named by its import path, ``package.module:attribute:setting=value,…``.

    Raises:
        UnknownName: No such scheme, or one without this setting.
        InvalidArgument: No ``setting=value``, or one twice; or a path with no scheme behind it.

    Example:
        >>> import deep_bench as db
        >>> from deep_bench.distributed.communicators.local import LocalCommunicator
        >>> scheme_of("allreduce:bucket=1048576")(db.optimizers["sgd"](lr=0.1), LocalCommunicator()).bucket
        1048576
    """
    kind, settings = settings_of(text)

    def around(inner: Optimizer[Any, Any], comm: Communicator) -> DistributedOptimizer[Any, Any]:
        optimizer: DistributedOptimizer[Any, Any] = kind(inner, comm, **settings)
        return optimizer

    return around


def settings_of(text: str) -> tuple[Any, dict[str, Any]]:
    """The class of a scheme, and its settings; see `scheme_of`.

    Example:
        >>> settings_of("allreduce:overlap=true")[1]
        {'overlap': True}
    """
    name = name_of(text)
    kind, colon, tail = _kind_of(name), text[len(name) :][:1], text[len(name) + 1 :]
    pairs = [part.partition("=") for part in tail.split(",")] if colon else []
    if any(not setting or not value for setting, _, value in pairs):
        raise InvalidArgument(f"settings {tail!r} of {name}", "setting=value, separated by commas")
    setting_names = [field.name for field in fields(kind) if field.init and field.name not in ("inner", "comm")]
    settings: dict[str, Any] = {}
    for setting, _, value in pairs:
        if setting not in setting_names:
            raise UnknownName(f"setting of {name}", setting, setting_names)
        if setting in settings:
            raise InvalidArgument(f"{setting} more than once in {text!r}", "each setting once")
        settings[setting] = yaml.safe_load(value)
    return kind, settings


def name_of(text: str) -> str:
    """The name, or the import path, of a scheme without its settings.

    Example:
        >>> name_of("allreduce:overlap=true"), name_of("mine.schemes:Ring:every=2"), name_of("mine:Ring")
        ('allreduce', 'mine.schemes:Ring', 'mine:Ring')
    """
    first, path = text.partition(":")[0], _PATH.match(text)
    return path[0] if path and first not in distributed_optimizers else first


def _kind_of(name: str) -> type[DistributedOptimizer[Any, Any]]:
    try:
        kind = distributed_optimizers[name]
    except DeepBenchError:
        raise
    except Exception as error:  # whatever a module raises that is imported by its path
        raise InvalidArgument(
            f"distributed optimizer {name!r} cannot be imported: {type(error).__name__}: {error}", "a module that can be"
        ) from error
    if not isinstance(kind, type) or not issubclass(kind, DistributedOptimizer):
        raise InvalidArgument(f"distributed optimizer {name!r}: {kind!r}", "a subclass of DistributedOptimizer")
    return kind


Scaling: TypeAlias = Literal["strong", "weak"]
Samples: TypeAlias = Literal["sharded", "replicated", "reshuffled"]

OwnPart: TypeAlias = tuple[Workload, Together, Adapter[Any]]
"""What a rank makes by itself: its part of the workload, its side of what is arranged, its framework."""


SCALINGS: tuple[Scaling, ...] = ("strong", "weak")
SAMPLES: tuple[Samples, ...] = ("sharded", "replicated", "reshuffled")


def train(
    recipe: Recipe | str,
    on: str | Variant | Adapter[Any] = "torch",
    *,
    over: Communicator,
    scheme: str | Around = "allreduce",
    scaling: Scaling = "strong",
    samples: Samples = "sharded",
    synchronise_statistics: bool = False,
    synchronise_normalization: bool = False,
    seed: int | None = None,
    callbacks: Iterable[Callback] = (),
    stop_at_target: bool = True,
    local: Mapping[str, Any] | None = None,
    job: Mapping[str, Any] | None = None,
    remarks: Iterable[str] = (),
    agreed: Callable[[Callable[[], Any]], Any] = lambda make: make(),
    **loading: Any,
) -> Trainer[Any]:
    """A trainer that does this rank's part of what a recipe says; all ranks make theirs, and run it, together.

    Args:
        recipe: A recipe, or the name or file of one.
        on: A framework, or a variant of one.
        over: The ranks.
        scheme: What keeps them together: its name, with settings (``"decentralised:topology=ring"``), or what makes it of
            the recipe's optimizer and the ranks.
        scaling: ``"strong"``: the recipe's batch is that of all ranks together, and what is computed stays what it was;
            ``"weak"``: each rank has as many samples in a step, so that the batch grows with the ranks.
        samples: ``"sharded"``: each rank its part of every batch; ``"reshuffled"``: each its part of the set, another in
            every epoch; ``"replicated"``: all ranks all of them.
        synchronise_statistics: See `DistributedStep`.
        synchronise_normalization: See `distributed_step_on`.
        seed: Of this run; the recipe's first by default.
        callbacks: Told of moments, besides those that the recipe needs; see `Together`.
        stop_at_target: Whether the run ends when the recipe's target is reached.
        local: What is known of this process, and
        job: of what started all of them, for the record.
        remarks: What a report should say besides.
        agreed: Is given what each rank makes by itself, with no message to others; where ranks are to hear of it if one of
            them cannot, this tells them. All ranks call it equally often.
        **loading: Of `deep_bench.training.loader.Loader`.

    Raises:
        RanksDiffer: Ranks differ in what they are to train.
        InvalidArgument: Parts that do not go together.
        UnknownName: No such scheme, scaling or way to share samples.

    Example:
        >>> from deep_bench.distributed.communicators.local import run_local
        >>> def on_rank(comm):
        ...     return train("digits", on="reference", over=comm, seed=1).run(steps=3).losses.tolist()
        >>> one, other = run_local(2, on_rank)
        >>> one == other
        True
    """

    def own_part() -> OwnPart:
        work, optimizer, summary = _joined(recipe, over, scheme, scaling, samples, seed)
        adapter = with_arithmetic(as_adapter(on))
        if synchronise_normalization:
            check_normalization(adapter, optimizer)
        return work, Together(optimizer, local=local, job=job, remarks=[summary, *remarks]), adapter

    work, ranks, adapter = agreed(own_part)
    by_itself = _ByItself(agreed)

    def trainer() -> Trainer[Any]:
        return train_alone(
            work,
            adapter,
            callbacks=callbacks,
            stop_at_target=stop_at_target,
            ranks=ranks,
            make_step=partial(
                distributed_step_on,
                synchronise_statistics=synchronise_statistics,
                synchronise_normalization=synchronise_normalization,
                agreed=by_itself.step,
            ),
            **loading,
        )

    return by_itself.trainer(trainer)


class _ByItself:
    """A trainer of which all is made by each rank for itself, but for what the step says to others when it is made.

    Ranks agree twice: when the step is about to meet others, and in the end. Whoever fails before tells it there.

    Args:
        agreed: See `train`.
    """

    def __init__(self, agreed: Callable[[Callable[[], Any]], Any]) -> None:
        self._agreed, self._has_failed = agreed, False

    def step(self, make: Callable[[], Any]) -> Any:
        """What the step needs before it meets others."""
        try:
            return self._agreed(make)
        except Exception:
            self._has_failed = True
            raise

    def trainer(self, make: Callable[[], Trainer[Any]]) -> Trainer[Any]:
        """The trainer, if all ranks have theirs."""
        failure: Exception | None = None
        try:
            trainer = make()
        except CommunicationFailed:
            raise  # on all ranks, or for lack of one
        except Exception as error:
            if self._has_failed:
                raise
            failure = error

        def local_trainer() -> Trainer[Any]:
            if failure is not None:
                raise failure
            return trainer

        return self._agreed(local_trainer)


def _joined(
    recipe: Recipe | str, over: Communicator, scheme: str | Around, scaling: Scaling, samples: Samples, seed: int | None
) -> tuple[Workload, DistributedOptimizer[Any, Any], str]:
    """This rank's part of the workload, the scheme, and what a report should say; no rank hears of it."""
    if scaling not in SCALINGS or samples not in SAMPLES:
        raise UnknownName("scaling or way to share samples", f"{scaling}, {samples}", (*SCALINGS, *SAMPLES))
    loaded = recipe if isinstance(recipe, Recipe) else load_recipe(recipe)
    if scaling == "weak":
        loaded = loaded.changed(f"sampler.batch={loaded.fields.sampler.batch * over.size}")
    work, over = workload(loaded, seed), Counting(over)
    around = scheme_of(scheme) if isinstance(scheme, str) else scheme
    optimizer = around(work.optimizer, over)
    workers = over.size - 1 if optimizer.dedicated and over.size > 1 else over.size
    sampler = _shared(samples, work, max(over.rank - (over.size - workers), 0), workers)
    summary = f"{scaling} scaling: batches of {loaded.fields.sampler.batch} samples, {samples} over {workers} ranks"
    return replace(work, sampler=sampler, optimizer=optimizer), optimizer, summary


def _shared(samples: Samples, work: Workload, rank: int, size: int) -> Sampler:
    if samples == "replicated":
        return Replicated(work.sampler)
    if samples == "sharded":
        sharded = Sharded(work.sampler, rank, size)
        sharded.remarks()  # batches that are too small are refused before anything begins
        return sharded
    part = work.recipe.fields.sampler
    if part.name != "shuffled":
        raise InvalidArgument(
            f"samples='reshuffled' of the sampler {part.name}", "the sampler shuffled, or samples='sharded'"
        )
    return Reshuffled(work.dataset, part.batch, rank=rank, size=size, seed=work.seed, **part.settings)
