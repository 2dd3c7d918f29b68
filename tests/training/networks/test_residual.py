"""Residual networks: as many parameters as the paper says, and the same loss and gradients everywhere."""

import numpy as np
import pytest

import deep_bench as db
from deep_bench.errors import InvalidArgument
from deep_bench.training.form import training_form
from deep_bench.training.networks import resnet, resnet_cifar, with_loss


def learnt(network):
    """How many numbers training changes."""
    return sum(value.size for name, value in training_form(network).training.parameters.items())


@pytest.mark.parametrize(("depth", "count"), [(20, 269_722), (44, 658_586), (110, 1_727_962)])
def test_parameters_for_cifar(depth, count):
    assert learnt(resnet_cifar(depth)) == count


def test_parameters_for_imagenet():
    network = resnet(50)
    assert learnt(network) == 25_557_032
    assert [str(spec) for spec in network.outputs] == ["logits: float32[batch, 1000]"]


@pytest.mark.long
@pytest.mark.parametrize("framework", ["torch", "onnxruntime"])
@pytest.mark.parametrize(
    "network", [resnet_cifar(8, (3, 8, 8), 4, width=4), resnet(50, (3, 32, 32), 4, width=2)], ids=["plain", "bottleneck"]
)
def test_the_same_loss_and_gradients_everywhere(network, framework):
    form = training_form(with_loss(network, "SoftmaxCrossEntropyLoss", output="logits", target="target"))
    draws = np.random.default_rng(0)
    image = draws.standard_normal((16, *network.inputs[0].shape[1:])).astype(np.float32)
    inputs = {"image": image, "target": draws.integers(4, size=16), **form.initial}
    wanted, slopes = db.frameworks["reference"]().prepare(form.training, mode="train").gradients(inputs, "loss")
    adapter = db.frameworks[framework]()
    executor = adapter.prepare(form.training, mode="train")
    found, given = executor.gradients({name: adapter.from_numpy(value) for name, value in inputs.items()}, "loss")
    np.testing.assert_allclose(adapter.to_numpy(found["loss"]), wanted["loss"], rtol=1e-4)
    assert sorted(given) == sorted(slopes)
    for name, slope in slopes.items():
        scale = np.abs(slope).max()
        assert scale > 0, name
        np.testing.assert_allclose(adapter.to_numpy(given[name]) / scale, slope / scale, atol=3e-2, err_msg=name)


@pytest.mark.parametrize(
    "make",
    [lambda: resnet_cifar(45), lambda: resnet_cifar(2), lambda: resnet_cifar(20, (3, 30, 30)), lambda: resnet(34),
     lambda: resnet(50, (3, 16, 16)), lambda: resnet(50, width=0)],
)  # fmt: skip
def test_sizes_that_cannot_be(make):
    with pytest.raises(InvalidArgument):
        make()
