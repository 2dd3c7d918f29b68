"""A stage made ready on a framework: its values forward, its gradients back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property
from typing import Any, Generic

import numpy as np

from deep_bench.distributed.pipeline.links import Arrays
from deep_bench.distributed.pipeline.pulled import Pulled, pulled
from deep_bench.distributed.pipeline.stages import Stage
from deep_bench.errors import InvalidArgument, InvalidInput
from deep_bench.framework import A, Adapter, Executor
from deep_bench.tensor import TensorSpec
from deep_bench.training.steps import has_arithmetic


class Part(Generic[A]):
    """What one rank computes.

    The way back runs the stage forward again, since an executor keeps nothing between calls: of a micro-batch that waits, a
    rank holds what arrived, and none of the values in between.

    Args:
        adapter: The framework.
        stage: The stage.
        loss: Name of the loss, which some stage gives.

    Source:
        Huang et al., NeurIPS 2019, section 2.3 (re-materialization).
    """

    def __init__(self, adapter: Adapter[A], stage: Stage, loss: str | None) -> None:
        self.adapter, self.stage = adapter, stage
        self._takes_numpy = isinstance(adapter.from_numpy(np.zeros(1, np.float32)), np.ndarray)
        self.arithmetic = has_arithmetic(adapter)
        pulls = [name for name in stage.made if name in stage.returned]
        pulls += [name for name in stage.outputs if name == loss]
        self._pulled: Pulled | None = pulled(stage.network, pulls) if pulls else None
        self._backward = adapter.prepare(stage.network if self._pulled is None else self._pulled.network, mode="train")
        self.parameters = _Parameters(self._backward, stage.parameters)
        self.forms = self._backward.forms

    @cached_property
    def _forward(self) -> Executor[A]:
        """With the same parameters; made when it is first needed, as the last stage of training does without."""
        executor = self._backward if self._pulled is None else self.adapter.prepare(self.stage.network, mode="train")
        self.parameters.follow(executor)
        return executor

    def forward(self, inputs: Mapping[str, A]) -> Arrays:
        """What the stage gives."""
        recorded: AbstractContextManager[Any] = self.adapter.xp.untracked() if self.arithmetic else nullcontext()
        with recorded:
            outputs = self._forward.forward(inputs)
        return {name: self.host(x) for name, x in outputs.items()}

    def backward(
        self,
        inputs: Mapping[str, A],
        gradients: Mapping[str, np.ndarray],
        trained: Sequence[str],
        ready: Callable[[str, A], None] | None,
    ) -> tuple[Arrays, dict[str, A]]:
        """What the stage gives, and the gradients of parameters and of what arrived.

        Args:
            inputs: What it was fed.
            gradients: Of the loss, with respect to what leaves it.
            trained: Names of the parameters.
            ready: See `Executor.gradients`.
        """
        wrt = [*trained, *(name for name in self.stage.taken if name in self.stage.returned)]
        if self._pulled is None or not wrt:
            outputs = self.forward(inputs) if self.stage.outputs else {}
            return outputs, {name: self._zeros(name, inputs) for name in wrt}
        fed = {**inputs, **{seed: self.adapter.adopt(gradients[name]) for name, seed in self._pulled.seeds.items()}}
        results, slopes = self._backward.gradients(fed, self._pulled.loss, wrt=wrt, on_ready=ready)
        return {name: self.host(results[name]) for name in self.stage.outputs}, slopes

    def host(self, x: A) -> np.ndarray:
        """The contents of a native array that nobody changes."""
        if not self.arithmetic:
            return self.adapter.to_numpy(x)
        self.adapter.synchronize()
        return self.adapter.xp.host(x)

    def check_native(self, spec: TensorSpec, x: Any) -> None:
        """Refuse a NumPy array where the framework has arrays of its own."""
        if isinstance(x, np.ndarray) and not self._takes_numpy:
            raise InvalidInput(
                f"input {spec.name!r} is a {type(x).__name__}",
                f"{spec}, as a native array of this rank's framework",
                "convert it: pipeline.device.from_numpy(array)",
            )

    def shape(self, x: A) -> tuple[int, ...]:
        """The sizes of a native array."""
        return self.adapter.xp.shape(x) if self.arithmetic else self.adapter.to_numpy(x).shape

    def piece(self, x: A, begin: int, end: int) -> A:
        """Some of the samples of an input."""
        if self.arithmetic:
            rows: A = x[begin:end]  # type: ignore[index]
            return rows
        return self.adapter.from_numpy(self.adapter.to_numpy(x)[begin:end])

    def _zeros(self, name: str, inputs: Mapping[str, A]) -> A:
        like = self.parameters[name] if name in self.stage.parameters else inputs[name]
        return self.adapter.from_numpy(np.zeros_like(self.adapter.to_numpy(like)))


class _Parameters(MutableMapping[str, Any]):
    """The parameters of a stage, in all executors that have them.

    Args:
        first: The executor that they are read from.
        names: Which.
    """

    def __init__(self, first: Executor[Any], names: Sequence[str]) -> None:
        self._first, self._names = first, tuple(names)
        self._others: list[Executor[Any]] = []

    def follow(self, executor: Executor[Any]) -> None:
        """Let another executor have them too."""
        if executor is not self._first:
            self._others.append(executor)
            for name in self._names:
                executor.parameters[name] = self._first.parameters[name]

    def __getitem__(self, name: str) -> Any:
        if name not in self._names:
            raise KeyError(name)
        return self._first.parameters[name]

    def __setitem__(self, name: str, value: Any) -> None:
        if name not in self._names:
            raise InvalidArgument(f"this stage has no parameter {name!r}", f"one of {', '.join(self._names) or '(none)'}")
        self._first.parameters[name] = value
        for executor in self._others:
            executor.parameters[name] = self._first.parameters[name]

    def __delitem__(self, name: str) -> None:
        raise InvalidArgument(f"parameter {name!r} cannot be removed", "an assignment")

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)
