"""Samples and labels that do not fit are refused before the step, wherever it is taken; the sample is named."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

import deep_bench as db
from deep_bench.errors import DeepBenchError, InvalidArgument, InvalidData, InvalidInput
from deep_bench.graph import Network
from deep_bench.training.form import FeedLimits, limits_of
from deep_bench.training.scores import Accuracy, Evaluation, MeanOutput
from deep_bench.training.sets import ArrayDataset
from deep_bench.training.trainer import Trainer
from deep_bench.training.validation import validate_training
from tests.training import small

SGD = db.optimizers["sgd"](lr=0.1)
PLAIN = small.network(dropout=False, normalized=False)


def points(**changed: Any) -> dict[str, np.ndarray]:
    return {**small.data(8)[np.arange(8)], **changed}


def labels(*wrong: int) -> np.ndarray:
    return np.array([0, 1, 2, 0, 1, 2, *wrong])


def on(framework: str, arrays: dict[str, np.ndarray], network: Network = PLAIN, **options: Any) -> Trainer[Any]:
    dataset = ArrayDataset(arrays)
    sampler = db.samplers["sequential"](dataset, batch_size=4)
    return Trainer.on(db.frameworks[framework](), network, SGD, dataset=dataset, sampler=sampler, **options)


@pytest.mark.parametrize("framework", ["reference", "torch", "onnxruntime"])
def test_a_label_out_of_range_is_refused_before_the_step(framework: str) -> None:
    if missing := db.frameworks.missing(framework):
        pytest.skip(f"{', '.join(missing)} is not installed")
    run = on(framework, points(label=labels(1, 3)))
    with pytest.raises(InvalidInput, match="sample 7: 3 in 'label'\nExpected: 0 to 2, classes") as found:
        run.run(epochs=1)
    assert any("in step 1 of the training" in note for note in found.value.__notes__)
    assert run.history.steps == 1


@pytest.mark.parametrize("framework", ["reference", "onnxruntime"])
def test_samples_that_do_not_fit_are_refused_before_the_step(framework: str) -> None:
    if missing := db.frameworks.missing(framework):
        pytest.skip(f"{', '.join(missing)} is not installed")
    for arrays, said in (
        (points(label=labels(1, -1)), "sample 7: -1 in 'label'"),
        (points(x=np.zeros((8, 5), np.float32)), "'x' has float32"),
        (points(x=np.zeros((8, small.FEATURES))), "'x' has float64"),
        (points(label=np.zeros((8, 1), np.int64)), "'label' has int64"),
        ({"x": points()["x"]}, "samples without 'label'"),
    ):
        with pytest.raises(InvalidInput, match=said):
            on(framework, arrays).run(steps=2)


def test_an_executor_alone_tells_its_labels_too() -> None:
    dataset = ArrayDataset(points(label=labels(0, -1)))
    executor = db.frameworks["reference"]().prepare(PLAIN, mode="train")
    with pytest.raises(InvalidInput, match="sample 7: -1"):
        Trainer(executor, SGD, dataset, db.samplers["shuffled"](dataset, batch_size=8)).run(epochs=1)
    with pytest.raises(InvalidInput, match="sample 7: -1"):
        Evaluation(executor, dataset, [MeanOutput], batch=3)(executor.parameters, {})
    with pytest.raises(InvalidInput, match="'x' has float32"):
        Evaluation(executor, ArrayDataset(points(x=np.zeros((8, 5), np.float32))), [MeanOutput])(executor.parameters, {})
    with pytest.raises(InvalidInput, match="sample 7 of its batch: -1"):
        validate_training(PLAIN, SGD, [dataset[np.arange(8)]], ["reference"], steps=1, samples=2, progress=False)


def test_what_is_to_be_ignored_is_in_range() -> None:
    bare = db.Network.from_proto(PLAIN.to_proto()).with_outputs(["logits"])
    network = bare.with_loss("SoftmaxCrossEntropyLoss", output="logits", target="class", ignore_index=-1, name="cost")
    limits = limits_of(network)[-1]
    assert limits == FeedLimits("class", 0, 2, "classes of the loss 'cost'", -1)
    limits.check(np.array([[0, -1], [2, 1]]))
    with pytest.raises(InvalidInput, match=r"sample 9: -2 in 'class'\nExpected: 0 to 2, .* or -1 to be ignored"):
        limits.check(np.array([[0, -1], [1, -2]]), numbers=[8, 9])
    limits.check(np.array([9.0]))
    limits.check(np.zeros((0, 3), np.int64))
    with pytest.raises(InvalidInput, match="255"):
        limits.check(np.array([255], np.uint8))


def test_indices_of_a_table_are_limited_by_it() -> None:
    text = """<ir_version: 10, opset_import: ["": 21]> g (int64[n] word) => (float[n,2] y)
        { number = Unsqueeze(word, axis)  y = Gather(table, number) }"""
    proto = onnx.parser.parse_model(text)
    table, axis = np.zeros((5, 2), np.float32), np.array([1])
    proto.graph.initializer.extend(onnx.numpy_helper.from_array(a, n) for a, n in ((table, "table"), (axis, "axis")))
    (limits,) = limits_of(db.Network.from_proto(proto))
    assert (limits.name, limits.low, limits.high) == ("word", -5, 4)
    with pytest.raises(InvalidInput, match="5 in 'word'\nExpected: -5 to 4, rows of 'table'"):
        limits.check(np.array([4, -5, 5]))


class Wrong:
    """A set of the user's own that gives samples in another form."""

    specs = ()

    def __init__(self, give: Any) -> None:
        self.give = give

    def __len__(self) -> int:
        return 8

    def __getitem__(self, indices: np.ndarray) -> Any:
        return self.give(indices)


class Numbers:
    """A sampler that gives these numbers."""

    def __init__(self, *numbers: int) -> None:
        self.numbers = numbers

    def __len__(self) -> int:
        return 1

    def epoch(self, number: int) -> Any:
        return iter([np.array(self.numbers)])


FITTING = Wrong(lambda i: {"x": np.zeros((len(i), 6))})


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize(
    ("dataset", "numbers", "kind", "said"),
    [
        (FITTING, (0, -1), InvalidArgument, "sample -1 of the Wrong\nExpected: 0 to 7"),
        (FITTING, (8,), InvalidArgument, "sample 8 of the Wrong"),
        (FITTING, (0.5,), InvalidArgument, "numbers of samples"),
        (Wrong(lambda i: (np.zeros((len(i), 6)), i)), (2, 3), InvalidData, r"a tuple for the samples \[2, 3\]"),
        (Wrong(lambda i: {"x": [0.0] * len(i)}), (2, 3), InvalidData, r"'x' is a list for the samples \[2, 3\]"),
        ([(np.zeros(6), 1)] * 8, (0, 1), InvalidArgument, "a list as a set"),
    ],
)
def test_samples_in_another_form_are_refused(
    dataset: Any, numbers: Any, kind: type[DeepBenchError], said: str, workers: int
) -> None:
    with pytest.raises(kind, match=said):
        list(db.training.Loader(dataset, Numbers(*numbers), workers=workers).epoch(0))


def test_scores_are_made_and_not_given() -> None:
    with pytest.raises(InvalidArgument, match="a Accuracy as what makes a score") as found:
        on("reference", points(), scores=[Accuracy("logits", "label")], held_out=small.data(8))
    assert "lambda" in str(found.value)
