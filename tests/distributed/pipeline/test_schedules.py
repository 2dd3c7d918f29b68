"""The order of tasks beside the reference, which knows rules only and no order."""

from fractions import Fraction

import numpy as np
import pytest

from deep_bench import frameworks
from deep_bench.distributed.pipeline import SCHEDULES, bubble_share, most_kept, schedule_of
from deep_bench.errors import UnknownName
from deep_bench.reference.distributed import pipeline as reference
from tests.distributed.pipeline.problems import assert_right, on_ranks, problem

SIZES = [(stages, micro_batches) for stages in range(1, 6) for micro_batches in range(1, 9)]


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_every_stage_does_what_the_reference_does(schedule):
    for stages, micro_batches in SIZES:
        found = [list(schedule_of(schedule)(stage, stages, micro_batches)) for stage in range(stages)]
        assert found == reference.order(schedule, stages, micro_batches)
        share = reference.waiting_share(schedule, stages, micro_batches)
        assert share == Fraction(stages - 1, micro_batches + stages - 1)
        assert bubble_share(stages, micro_batches) == float(share)


def test_a_schedule_that_nobody_knows():
    with pytest.raises(UnknownName, match="did you mean '1f1b'"):
        schedule_of("1f1")


class Linear:
    """A linear layer; with ReLU or, the last one, the mean cross-entropy."""

    def __init__(self, name, last):
        self.weight, self.bias, self.last = f"{name}.weight", f"{name}.bias", last

    def forward(self, parameters, x, labels):
        y = self._linear(parameters, x)
        return -np.mean(np.log(self._chances(y))[np.arange(len(y)), labels]) if self.last else np.maximum(y, 0)

    def backward(self, parameters, x, labels, gradient):
        y = self._linear(parameters, x)
        if self.last:
            slope = (self._chances(y) - np.eye(y.shape[1])[labels]) / len(y) * gradient
        else:
            slope = gradient * (y > 0)
        before = (slope @ parameters[self.weight].T).reshape(x.shape)
        return before, {self.weight: x.reshape(len(x), -1).T @ slope, self.bias: slope.sum(axis=0)}

    def _linear(self, parameters, x):
        return x.reshape(len(x), -1) @ parameters[self.weight] + parameters[self.bias]

    def _chances(self, y):
        power = np.exp(y - y.max(axis=1, keepdims=True))
        return power / power.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_gradients_add_up_as_in_the_reference(schedule):
    network, batch = problem("mlp")
    layers = [Linear(name, last=name == "head") for name in ("layer1", "layer2", "head")]
    own = [{name: network.parameters[name] for name in (layer.weight, layer.bias)} for layer in layers]
    cut = np.split(np.arange(7), [2, 4, 6])
    pieces = [(batch["image"][rows], batch["label"][rows]) for rows in cut]
    loss, expected, kept = reference.gradients(layers, own, pieces, schedule)
    assert_right("mlp", {name: x.astype(np.float32) for one in expected for name, x in one.items()})

    cuts = ["layer2.MatMul_1", "head.MatMul_1"]
    ranks = on_ranks(frameworks["reference"](), "mlp", 3, schedule=schedule, cuts=cuts)
    for number, rank in enumerate(ranks):
        done = rank.pipeline.done
        assert [(task.kind, task.micro_batch) for task in done] == reference.order(schedule, 3, 4)[number]
        assert max(task.kept for task in done) == kept[number] == most_kept(schedule, number, 3, 4)
        assert list(rank.gradients) == list(expected[number])
        assert float(rank.outputs["loss"]) == pytest.approx(loss, rel=1e-6)
