"""Networks to train, as functions of their sizes; by name in ``db.networks``. `with_loss` adds a loss to any."""

from __future__ import annotations

from deep_bench.training.networks.convolutional import digits_cnn, lenet
from deep_bench.training.networks.dense import mlp
from deep_bench.training.networks.language import transformer
from deep_bench.training.networks.losses import LOSSES, with_loss
from deep_bench.training.networks.recommendation import ncf
from deep_bench.training.networks.residual import resnet, resnet_cifar
from deep_bench.training.networks.series import recurrent, temporal_convolution

__all__ = [
    "LOSSES",
    "digits_cnn",
    "lenet",
    "mlp",
    "ncf",
    "recurrent",
    "resnet",
    "resnet_cifar",
    "temporal_convolution",
    "transformer",
    "with_loss",
]
