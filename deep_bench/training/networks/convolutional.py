"""Convolutional networks for small images."""

from __future__ import annotations

from collections.abc import Sequence

from deep_bench.errors import InvalidArgument
from deep_bench.graph import Network, load
from deep_bench.network.gradient.symbol import Symbol
from deep_bench.training.initial import initialize
from deep_bench.training.networks.build import Build, check_sizes, flat, floats


def lenet(
    sample: Sequence[int] = (1, 28, 28),
    classes: int = 10,
    *,
    channels: Sequence[int] = (6, 16),
    hidden: Sequence[int] = (120, 84),
    window: int = 5,
    seed: int = 0,
) -> Network:
    """LeNet-5 with ReLU and maxima: two convolutions, each with pooling, then linear layers.

    Args:
        sample: Channels, height and width of an image.
        classes: Number of classes.
        channels: Of each convolution; the first keeps height and width, the second takes no margin.
        hidden: Width of each hidden linear layer.
        window: Height and width of the kernels; odd.
        seed: Of `deep_bench.training.initial.initialize`.

    Returns:
        From ``image``, float32 ``[batch, *sample]``, to ``logits``, float32 [batch, classes].

    Raises:
        InvalidArgument: A size below 1, or an image that is too small.

    Example:
        >>> [str(spec) for spec in lenet().outputs], lenet().parameters["linear1.weight"].shape
        (['logits: float32[batch, 10]'], (400, 120))

    Source:
        LeCun, Bottou, Bengio and Haffner, *Gradient-based learning applied to document recognition*, Proceedings of the
        IEEE, 1998, figure 2.
    """
    check_sizes("lenet", sample=sample, classes=classes, channels=channels, hidden=hidden, window=window)
    sizes = [(size // 2 - window + 1) // 2 for size in sample[1:]]
    if len(sample) != 3 or len(channels) != 2 or window % 2 == 0 or min(sizes) < 1:
        raise InvalidArgument(
            f"lenet with sample={tuple(sample)}, channels={tuple(channels)}, window={window}",
            f"an image [channels, height, width] of at least {2 * window + 2} on a side, two channels, an odd window",
        )
    build = Build("lenet", floats("image", "batch", *sample))
    margin = [window // 2] * 4
    x = _pooled(build, "conv1", build.convolution("conv1", build["image"], channels[0], [window] * 2, pads=margin))
    x = _pooled(build, "conv2", build.convolution("conv2", x, channels[1], [window] * 2))
    x = flat(x, [channels[1], *sizes])
    for number, width in enumerate(hidden, 1):
        x = build.activated(f"linear{number}", build.linear(f"linear{number}", x, width), "Relu")
    return build.finish({"logits": build.linear("head", x, classes)}, seed=seed)


def _pooled(build: Build, name: str, x: Symbol) -> Symbol:
    with build.named(name) as tape:
        output: Symbol = tape.MaxPool(tape.Relu(x), kernel_shape=[2, 2], strides=[2, 2])
        return output


def digits_cnn(*, seed: int = 0) -> Network:
    """The network that ships trained on the digits (``deep_bench.load("digits-cnn")``), with fresh parameters.

    Args:
        seed: Of `deep_bench.training.initial.initialize`.

    Example:
        >>> digits_cnn().name, len(digits_cnn().parameters)
        ('digits-cnn', 19)
    """
    return initialize(load("digits-cnn"), seed)
