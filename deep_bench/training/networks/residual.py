"""Residual networks: those of the paper for CIFAR, and those for ImageNet."""

from __future__ import annotations

from collections.abc import Sequence

from deep_bench.errors import InvalidArgument
from deep_bench.graph import Network
from deep_bench.network.gradient.symbol import Symbol
from deep_bench.training.networks.build import Build, check_sizes, flat, floats

_STAGES = {50: (3, 4, 6, 3), 101: (3, 4, 23, 3), 152: (3, 8, 36, 3)}
"""Depth to the number of blocks in each stage."""

_EPSILON = 1e-5


def resnet_cifar(
    depth: int = 44, sample: Sequence[int] = (3, 32, 32), classes: int = 10, *, width: int = 16, seed: int = 0
) -> Network:
    """A residual network for small images: a convolution, three stages of blocks of two convolutions, and a mean.

    Shortcuts take no parameters: where a stage halves the image and doubles the channels, they take every second pixel, and
    zeros for the channels that there were not (the paper's option A).

    Args:
        depth: Number of layers with weights, 6 n + 2 for n blocks in a stage: 20, 32, 44, 56, 110.
        sample: Channels, height and width of an image.
        classes: Number of classes.
        width: Channels of the first stage.
        seed: Of `deep_bench.training.initial.initialize`.

    Returns:
        From ``image``, float32 ``[batch, *sample]``, to ``logits``, float32 [batch, classes].

    Raises:
        InvalidArgument: Another depth, a size below 1, or an image that cannot be halved twice.

    Example:
        >>> [str(spec) for spec in resnet_cifar(20).outputs]
        ['logits: float32[batch, 10]']

    Source:
        He, Zhang, Ren and Sun, *Deep residual learning for image recognition*, CVPR 2016, section 4.2.
    """
    check_sizes("resnet_cifar", depth=depth, sample=sample, classes=classes, width=width)
    if depth < 8 or depth % 6 != 2 or len(sample) != 3 or sample[1] % 4 or sample[2] % 4:
        raise InvalidArgument(
            f"resnet_cifar with depth={depth}, sample={tuple(sample)}",
            "a depth of 8, 14, 20 … and an image [channels, height, width] whose sides are multiples of 4",
        )
    build = Build(f"resnet{depth}-cifar", floats("image", "batch", *sample))
    x = _normalized(build, "stem", build["image"], width, 3)
    for stage in range(3):
        for number in range((depth - 2) // 6):
            stride = 2 if stage > 0 and number == 0 else 1
            x = _plain_block(build, f"stage{stage + 1}.block{number + 1}", x, width * 2**stage, stride)
    return _classified(build, x, width * 4, classes, seed)


def resnet(
    depth: int = 50, sample: Sequence[int] = (3, 224, 224), classes: int = 1000, *, width: int = 64, seed: int = 0
) -> Network:
    """A residual network for large images: four stages of bottlenecks, each of three convolutions.

    As is usual, the convolution of 3 x 3 of a stage's first block halves the image, where the paper's first of 1 x 1 does.

    Args:
        depth: Number of layers with weights: 50, 101 or 152.
        sample: Channels, height and width of an image.
        classes: Number of classes.
        width: Channels of the first convolution.
        seed: Of `deep_bench.training.initial.initialize`.

    Returns:
        From ``image``, float32 ``[batch, *sample]``, to ``logits``, float32 [batch, classes].

    Raises:
        InvalidArgument: Another depth, a size below 1, or an image smaller than 32 x 32.

    Example:
        >>> network = resnet(50, (3, 64, 64), 10, width=2)
        >>> [str(spec) for spec in network.outputs], sum(node.op_type == "Conv" for node in network.nodes)
        (['logits: float32[batch, 10]'], 53)

    Source:
        He, Zhang, Ren and Sun, *Deep residual learning for image recognition*, CVPR 2016, table 1; Goyal et al., *Accurate,
        large minibatch SGD*, arXiv:1706.02677, section 5.1, for where an image is halved.
    """
    check_sizes("resnet", sample=sample, classes=classes, width=width)
    if depth not in _STAGES or len(sample) != 3 or min(sample[1:]) < 32:
        raise InvalidArgument(
            f"resnet with depth={depth}, sample={tuple(sample)}",
            f"a depth of {', '.join(map(str, _STAGES))}, and an image [channels, height, width] of at least 32 x 32",
        )
    build = Build(f"resnet{depth}", floats("image", "batch", *sample))
    x = _normalized(build, "stem", build["image"], width, 7, stride=2)
    with build.named("stem.pool") as tape:
        x = tape.MaxPool(x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    for stage, blocks in enumerate(_STAGES[depth]):
        for number in range(blocks):
            stride = 2 if stage > 0 and number == 0 else 1
            x = _bottleneck(build, f"stage{stage + 1}.block{number + 1}", x, width * 2**stage, stride)
    return _classified(build, x, width * 32, classes, seed)


def _plain_block(build: Build, name: str, x: Symbol, out: int, stride: int) -> Symbol:
    y = _normalized(build, f"{name}.first", x, out, 3, stride=stride)
    y = _normalized(build, f"{name}.second", y, out, 3, last=True)
    into = _channels(x)
    with build.named(f"{name}.shortcut") as tape:
        if stride == 2:
            x = tape.Slice(x, [0, 0], [2**31 - 1] * 2, [2, 3], [2, 2])
        if out != into:
            x = tape.Pad(x, [0, 0, 0, 0, 0, out - into, 0, 0])
        output: Symbol = tape.Relu(x + y)
    return output


def _bottleneck(build: Build, name: str, x: Symbol, width: int, stride: int) -> Symbol:
    y = _normalized(build, f"{name}.first", x, width, 1)
    y = _normalized(build, f"{name}.second", y, width, 3, stride=stride)
    y = _normalized(build, f"{name}.third", y, 4 * width, 1, last=True)
    if _channels(x) != 4 * width:
        x = _normalized(build, f"{name}.shortcut", x, 4 * width, 1, stride=stride, last=True)
    return build.activated(name, x + y, "Relu")


def _normalized(build: Build, name: str, x: Symbol, out: int, window: int, *, stride: int = 1, last: bool = False) -> Symbol:
    """A convolution without a bias and a batch normalization, and a ReLU unless it is the last before a sum."""
    weight = build.parameter(f"{name}.weight", out, _channels(x), window, window)
    scale, bias, mean, variance = (build.parameter(f"{name}.{part}", out) for part in ("scale", "bias", "mean", "variance"))
    with build.named(name) as tape:
        y = tape.Conv(x, weight, pads=[window // 2] * 4, strides=[stride, stride])
        y = tape.BatchNormalization(y, scale, bias, mean, variance, epsilon=_EPSILON)
        output: Symbol = y if last else tape.Relu(y)
    return output


def _classified(build: Build, x: Symbol, channels: int, classes: int, seed: int) -> Network:
    with build.named("pool") as tape:
        x = tape.GlobalAveragePool(x)
    return build.finish({"logits": build.linear("head", flat(x, [channels]), classes)}, seed=seed)


def _channels(x: Symbol) -> int:
    channels = x.tape.dims_of(x.value)[1]
    assert isinstance(channels, int)
    return channels
