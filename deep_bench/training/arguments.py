"""What a trainer is made of, from the arguments that it is given."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from deep_bench.errors import InvalidArgument
from deep_bench.framework import Executor
from deep_bench.training.dataset import Dataset
from deep_bench.training.feed import Feed
from deep_bench.training.form import TrainingForm
from deep_bench.training.loader import Loader
from deep_bench.training.optimizer import Optimizer
from deep_bench.training.sampler import Sampler
from deep_bench.training.steps import SeparateStep, Step


def taker_of(executor: Any, optimizer: Any, form: TrainingForm | None, loss: str, wrt: Sequence[str] | None) -> Step[Any]:
    """What takes the steps: the step that is given, or one of an executor and an optimizer."""
    if isinstance(executor, Step):
        if optimizer is not None or wrt is not None:
            raise InvalidArgument("a step with an optimizer or parameters beside it", "those that the step was made with")
        return executor
    if not isinstance(executor, Executor):
        raise InvalidArgument(f"a {type(executor).__name__} to train", "an executor prepared with mode='train'")
    if not isinstance(optimizer, Optimizer):
        raise InvalidArgument(f"optimizer={optimizer!r}", "an Optimizer, such as db.optimizers['adam']()")
    return SeparateStep(executor, optimizer, form=form, loss=loss, wrt=wrt)


def loader_of(loader: Loader | None, dataset: Dataset | None, sampler: Sampler | None, preparation: Any) -> Loader:
    """What gives the batches: the loader that is given, or one of its parts."""
    if loader is not None:
        if dataset is not None or sampler is not None or preparation is not None:
            raise InvalidArgument("a loader and parts of one", "loader=…, or dataset=… and sampler=…")
        return loader
    if dataset is None or sampler is None:
        raise InvalidArgument("no data", "dataset=… and sampler=…, or loader=…")
    return Loader(dataset, sampler, preparation=preparation)


def feed_of(taker: Step[Any], form: TrainingForm | None) -> Feed:
    """What takes the inputs that come from the training set out of a batch."""
    if form is not None:
        return Feed(form.data, form.training)
    executor: Executor[Any] = taker.executor  # type: ignore[attr-defined]
    return Feed([spec for spec in executor.inputs if spec.name not in taker.statistics], executor.network)
