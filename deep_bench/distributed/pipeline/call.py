"""One batch on its way through a pipeline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter_ns
from typing import Any

import numpy as np

from deep_bench.distributed.pipeline.batches import Batches
from deep_bench.distributed.pipeline.gradients import Sums
from deep_bench.distributed.pipeline.links import Arrays, Forms, Links
from deep_bench.distributed.pipeline.part import Part
from deep_bench.distributed.pipeline.schedules import Kind, Task
from deep_bench.distributed.pipeline.stages import Stage
from deep_bench.errors import InvalidInput
from deep_bench.tensor import TensorSpec


@dataclass(frozen=True, slots=True)
class Done:
    """A task of the last call.

    Args:
        kind: Which way.
        micro_batch: With which one.
        begin_ns: When its arrays were there,
        end_ns: and when its result was. The last stage of a training step does nothing on the way forward but to take what
            arrived: it computes both ways at once.
        kept: How many micro-batches the stage held the inputs of while it was done.
    """

    kind: Kind
    micro_batch: int
    begin_ns: int
    end_ns: int
    kept: int


@dataclass(slots=True)
class _Waiting:
    """What a stage holds of a micro-batch until that comes back."""

    inputs: dict[str, Any]
    arrived: Forms
    sent: Forms


@dataclass(frozen=True, slots=True, eq=False)
class Post:
    """What a rank needs to take its part in any call.

    Args:
        stages: All of them.
        part: This rank's, on its framework.
        links: To its neighbours.
        batches: How batches are cut.
        inputs: Of the whole network.
        loss: The output that is differentiated, if any.
    """

    stages: Sequence[Stage]
    part: Part[Any]
    links: Links
    batches: Batches
    inputs: Sequence[TensorSpec]
    loss: TensorSpec | None


class Call:
    """A batch on its way.

    Args:
        post: This rank's.
        inputs: The batch, or what this rank's stage takes of it.
        sums: What becomes of gradients; ``None`` if there is no way back.

    Attributes:
        samples: How many the batch has.
        done: The tasks that were done.
        span_ns: How long it took.

    Raises:
        InvalidInput: An unknown or missing input, no array of the framework, or fewer samples than micro-batches.
    """

    def __init__(self, post: Post, inputs: Mapping[str, Any], sums: Sums[Any] | None) -> None:
        self._post, self.sums = post, sums
        self._part, self._links, self._batches = post.part, post.links, post.batches
        self._stage = post.part.stage
        specs = {spec.name: spec for spec in post.inputs}
        unknown = [name for name in inputs if name not in specs]
        missing = [name for name in self._stage.fed if name not in inputs]
        if unknown or missing:
            came = f"unknown input {unknown[0]!r}" if unknown else f"input {missing[0]!r} is missing"
            raise InvalidInput(came, "; ".join(map(str, specs.values())))
        for name, x in inputs.items():
            post.part.check_native(specs[name], x)
        self._inputs = inputs
        self._sizes = self._batches.sizes({name: self._part.shape(x) for name, x in inputs.items()})
        self.samples = sum(self._sizes)
        self._weights = self._batches.weights(self._sizes)
        self._waiting: dict[int, _Waiting] = {}
        self._outputs: dict[int, Arrays] = {}
        self.done: list[Done] = []
        self.span_ns = 0

    def run(self, tasks: Sequence[Task]) -> Arrays:
        """Do the tasks, and give the outputs of the whole batch."""
        begin = perf_counter_ns()
        for index, task in enumerate(tasks):
            waiting_count = len(self._waiting)
            if task.kind == "forward":
                span = self._forward(task.micro_batch)
                waiting_count += self.sums is not None
            else:
                span = self._backward(task.micro_batch, last=index == len(tasks) - 1)
            self.done.append(Done(task.kind, task.micro_batch, *span, waiting_count))
        mine = {
            name: self._batches.joined(name, [self._outputs[k][name] for k in range(len(self._sizes))], self._weights)
            for name in self._stage.outputs
        }
        outputs: Arrays = {}
        for stage in self._post.stages:
            outputs |= self._links.from_stage(stage.number, mine, stage.outputs)
        self._links.wait()
        self.span_ns = perf_counter_ns() - begin
        return outputs

    def _forward(self, k: int) -> tuple[int, int]:
        stage = self._stage
        arrived = self._links.receive_on(stage.arriving)
        begin = perf_counter_ns()
        fed = {**self._piece(k), **{name: self._part.adapter.adopt(arrived[name]) for name in stage.taken}}
        outputs: Arrays = {}
        if self.sums is None or stage.made:
            outputs = self._part.forward(fed)
        end = perf_counter_ns()
        sent = self._links.send_on({name: outputs[name] if name in outputs else arrived[name] for name in stage.leaving})
        self._outputs[k] = {name: outputs[name] for name in stage.outputs if name in outputs}
        if self.sums is not None:
            self._waiting[k] = _Waiting(fed, {name: (x.shape, x.dtype) for name, x in arrived.items()}, sent)
        return begin, end

    def _backward(self, k: int, *, last: bool) -> tuple[int, int]:
        stage, sums, waiting = self._stage, self.sums, self._waiting.pop(k)
        assert sums is not None
        gradients = self._links.receive_back({name: waiting.sent[name] for name in stage.leaving if name in stage.returned})
        begin = perf_counter_ns()
        loss = self._post.loss
        if loss is not None and loss.name in stage.outputs:
            shape = tuple(int(d) for d in loss.shape)
            gradients[loss.name] = np.full(shape, self._weights[k], loss.dtype)
        outputs, slopes = self._part.backward(waiting.inputs, gradients, sums.names, sums.ready(last=last))
        for name in sums.names:
            (sums.finish if last else sums.add)(name, slopes[name])
        host_slopes = {name: self._part.host(slopes[name]) for name in stage.taken if name in stage.returned}
        back = {
            name: _total(name, host_slopes, gradients, waiting.arrived) for name in stage.arriving if name in stage.returned
        }
        end = perf_counter_ns()
        self._links.send_back(back)
        if not stage.made:
            self._outputs[k] = outputs
        return begin, end

    def _piece(self, k: int) -> dict[str, Any]:
        begin = sum(self._sizes[:k])
        return {
            name: self._part.piece(x, begin, begin + self._sizes[k]) if name in self._batches.cut else x
            for name, x in self._inputs.items()
            if name in self._stage.fed
        }


def _total(name: str, local: Arrays, passed: Arrays, forms: Forms) -> np.ndarray:
    """The gradient of a value that a stage uses, passes on, or both."""
    terms = [gradients[name] for gradients in (local, passed) if name in gradients]
    return np.asarray(sum(terms[1:], start=terms[0]), forms[name][1])
