"""The networks that workloads train: the same loss and gradients everywhere, and what each promises."""

import numpy as np
import pytest

import deep_bench as db
from deep_bench.errors import InvalidArgument
from deep_bench.training.form import training_form
from deep_bench.training.networks import (
    digits_cnn,
    lenet,
    mlp,
    ncf,
    recurrent,
    temporal_convolution,
    transformer,
    with_loss,
)

CROSS_ENTROPY = ("SoftmaxCrossEntropyLoss", "logits")
MADE = {
    "mlp": (lambda: mlp(hidden=(16,), dropout=0.2), CROSS_ENTROPY),
    "lenet": (lambda: lenet((1, 12, 12), channels=(2, 3), hidden=(8,)), CROSS_ENTROPY),
    "digits-cnn": (digits_cnn, CROSS_ENTROPY),
    "transformer": (lambda: transformer(11, 6, layers=1, width=8, heads=2, dropout=0.1), CROSS_ENTROPY),
    "tied": (lambda: transformer(11, 6, layers=1, width=8, heads=2, tied=True), CROSS_ENTROPY),
    "ncf": (lambda: ncf(5, 7), ("BinaryCrossEntropy", "logit")),
    "lstm": (lambda: recurrent(9, 4, hidden=5), ("MeanSquaredError", "forecast")),
    "gru": (lambda: recurrent(9, 4, cell="GRU", hidden=5), ("MeanSquaredError", "forecast")),
    "rnn": (lambda: recurrent(9, 4, cell="RNN", hidden=5), ("MeanSquaredError", "forecast")),
    "temporal-convolution": (
        lambda: temporal_convolution(9, 4, channels=3, blocks=2, features=2),
        ("MeanSquaredError", "forecast"),
    ),
}
KINKS = {"digits-cnn": 3e-2}
"""What gradients may differ by, of the largest one: batch normalization brings many a ReLU within rounding of its kink."""

LARGEST = {"user": 5, "item": 7, "input": 11, "target": 10}


def fed(network, batch=6):
    """Random inputs; whole numbers below what they count."""
    generator, found = np.random.default_rng(0), {}
    for spec in network.inputs:
        shape = [batch if isinstance(d, str) else d for d in spec.shape]
        whole = spec.dtype == np.int64
        found[spec.name] = (
            generator.integers(LARGEST[spec.name], size=shape) if whole else generator.random(shape, np.float32)
        )
    return found


@pytest.fixture(scope="module")
def references():
    """Name to the form for training, inputs, and what the reference makes of them."""
    found = {}
    for name, (make, (loss, output)) in MADE.items():
        form = training_form(with_loss(make(), loss, output=output, target="target"))
        inputs = {**fed(form.training), **form.initial}
        executor = db.frameworks["reference"]().prepare(form.training, mode="train")
        found[name] = (form, inputs, executor.gradients(inputs, "loss"))
    return found


@pytest.mark.long
@pytest.mark.parametrize("framework", ["torch", "tensorflow", "onnxruntime"])
@pytest.mark.parametrize("name", MADE)
def test_the_same_loss_and_gradients_everywhere(name, framework, references):
    form, inputs, (outputs, gradients) = references[name]
    adapter = db.frameworks[framework]()
    executor = adapter.prepare(form.training, mode="train")
    found, slopes = executor.gradients({k: adapter.from_numpy(v) for k, v in inputs.items()}, "loss")
    assert sorted(slopes) == sorted(form.training.parameters) == sorted(gradients)
    np.testing.assert_allclose(adapter.to_numpy(found["loss"]), outputs["loss"], rtol=1e-5)
    for parameter, slope in gradients.items():
        scale = np.abs(slope).max() + 1e-7
        np.testing.assert_allclose(
            adapter.to_numpy(slopes[parameter]) / scale, slope / scale, atol=KINKS.get(name, 1e-4), err_msg=parameter
        )


@pytest.mark.parametrize("name", MADE)
def test_every_parameter_matters(name, references):
    _, _, (_, gradients) = references[name]
    assert all(np.abs(slope).max() > 0 for slope in gradients.values())


def run(network, inputs):
    return db.frameworks["reference"]().prepare(network)(inputs)


def test_a_transformer_sees_nothing_that_comes_later():
    network = transformer(11, 6, layers=2, width=8, heads=2)
    tokens = fed(network, 1)["input"]
    changed = tokens.copy()
    changed[0, 4] = (tokens[0, 4] + 1) % 11
    before, after = (run(network, {"input": t})["logits"] for t in (tokens, changed))
    assert np.array_equal(before[..., :4], after[..., :4])
    assert not np.allclose(before[..., 4:], after[..., 4:])


def test_an_untrained_transformer_knows_nothing():
    network = transformer(64, 16).with_loss("SoftmaxCrossEntropyLoss", output="logits", target="target")
    tokens = np.random.default_rng(1).integers(64, size=(8, 16))
    assert abs(run(network, {"input": tokens, "target": tokens})["loss"] - np.log(64)) < 1.0


def test_a_temporal_convolution_sees_as_far_as_it_says():
    network = temporal_convolution(40, 2, channels=4, blocks=3)
    series = np.random.default_rng(0).random((1, 40, 1), np.float32)
    sees = 1 + 2 * 2 * (2**3 - 1)
    base = run(network, {"history": series})["forecast"]
    for place, changes in ((40 - sees, True), (40 - sees - 1, False)):
        other = series.copy()
        other[0, place] += 100
        assert np.array_equal(run(network, {"history": other})["forecast"], base) != changes


def test_dropout_acts_in_training_only():
    form = training_form(mlp(hidden=(16,), dropout=0.5))
    image = np.ones((1, 1, 8, 8), np.float32)
    draw = {spec.name: np.zeros((1, 16), np.float32) for spec in form.draws}
    assert not np.any(run(form.training, {"image": image, **draw})["logits"])
    assert np.any(run(form.evaluation, {"image": image})["logits"])


@pytest.mark.parametrize("logit", [-1e4, -90.0, -1.0, 0.0, 2.0, 90.0, 1e4])
@pytest.mark.parametrize("target", [0.0, 1.0, 0.25])
@pytest.mark.parametrize("framework", ["reference", "torch", "tensorflow", "onnxruntime"])
def test_binary_cross_entropy_for_any_logit(logit, target, framework, probability):
    executor, adapter = probability(framework)
    inputs = {"x": np.float32([[logit, logit]]), "t": np.float32([[target, target]])}
    outputs, slopes = executor.gradients({k: adapter.from_numpy(v) for k, v in inputs.items()}, "loss")
    y, t = np.float64(np.float32(logit)), np.float64(target)
    right = t * np.logaddexp(0, -y) + (1 - t) * np.logaddexp(0, y)
    np.testing.assert_allclose(adapter.to_numpy(outputs["loss"]), right, rtol=1e-6, atol=1e-38)
    sigmoid = np.exp(-np.logaddexp(0, -y))
    np.testing.assert_allclose(adapter.to_numpy(slopes["b"]), [(sigmoid - t) / 2] * 2, rtol=1e-5, atol=1e-7)


@pytest.fixture(scope="module")
def probability():
    """A logit that is an input plus a parameter of zeros, on each framework."""
    from deep_bench.tensor import TensorSpec
    from deep_bench.training.networks import NetworkBuilder as Build

    build = Build("identity", TensorSpec("x", ("batch", 2), np.dtype(np.float32)))
    network = build.finish({"logit": build["x"] + build.parameter("b", 2)})
    network = with_loss(network, "BinaryCrossEntropy", output="logit", target="t")
    made = {}

    def on(framework):
        if framework not in made:
            adapter = db.frameworks[framework]()
            made[framework] = (adapter.prepare(network, mode="train"), adapter)
        return made[framework]

    return on


@pytest.mark.parametrize(
    "make",
    [
        lambda: mlp(hidden=(0,)),
        lambda: mlp(activation="Softmax"),
        lambda: mlp(dropout=1.0),
        lambda: lenet((1, 8, 8)),
        lambda: lenet((28, 28)),
        lambda: lenet(window=4),
        lambda: transformer(width=10, heads=4),
        lambda: transformer(layers=1.5),
        lambda: ncf(users=0),
        lambda: recurrent(cell="lstm"),
        lambda: temporal_convolution(blocks=0),
        lambda: with_loss(ncf(), "BinaryCrossEntropy", output="logit"),
        lambda: with_loss(ncf(), "BinaryCrossEntropy", output="logits", target="t"),
        lambda: with_loss(ncf(), "BinaryCrossEntropy", output="logit", target="user"),
        lambda: with_loss(ncf(), "BinaryCrossEntropy", output="logit", target="t", reduction="sum"),
        lambda: with_loss(ncf(), "Hinge", output="logit", target="t"),
    ],
)
def test_bad_sizes_are_refused(make):
    with pytest.raises(InvalidArgument):
        make()
