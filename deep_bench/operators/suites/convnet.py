"""The convolutions of well-known networks, each distinct one once, with how often it occurs.

They are derived from the tables of their papers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod

from deep_bench.operators.case import Case
from deep_bench.operators.suites.suite import Suite


@dataclass(frozen=True, slots=True)
class Convolution:
    """One convolution.

    Args:
        channels: Of its input.
        filters: Channels of its output.
        size: Length of each axis of its input.
        kernel: Length of each axis of a filter.
        stride, padding, dilation: The same in all directions.
        groups: Parts of the channels that do not mix.
        transposed: It is a transposed one.
    """

    channels: int
    filters: int
    size: tuple[int, ...]
    kernel: tuple[int, ...]
    stride: int = 1
    padding: int = 0
    dilation: int = 1
    groups: int = 1
    transposed: bool = False

    @property
    def made(self) -> tuple[int, ...]:
        """Length of each axis of its output.

        Example:
            >>> Convolution(3, 64, (224, 224), (7, 7), stride=2, padding=3).made
            (112, 112)
        """
        if self.transposed:
            return tuple((s - 1) * self.stride + k - 2 * self.padding for s, k in zip(self.size, self.kernel, strict=True))
        reach = [self.dilation * (k - 1) + 1 for k in self.kernel]
        return tuple((s + 2 * self.padding - r) // self.stride + 1 for s, r in zip(self.size, reach, strict=True))

    @property
    def parameters(self) -> int:
        """How many weights it has, without a bias."""
        return self.channels * self.filters // self.groups * prod(self.kernel)

    @property
    def products(self) -> int:
        """How many multiplications it does for one sample."""
        places = self.size if self.transposed else self.made
        return self.parameters * prod(places)


def _square(channels: int, filters: int, size: int, kernel: int, stride: int = 1, groups: int = 1) -> Convolution:
    """Of an image as wide as high, padded so that its size stays, but for the stride."""
    return Convolution(channels, filters, (size, size), (kernel, kernel), stride, padding=kernel // 2, groups=groups)


_RESNET_STAGES = ((64, 3), (128, 4), (256, 6), (512, 3))
"""Width inside a block, and how many blocks: conv2_x to conv5_x."""


def resnet50_convolutions(image: int = 224) -> Iterator[Convolution]:
    """ResNet-50, with the strides in the 3x3 convolutions ("v1.5"), as most implementations and MLPerf have it.

    Example:
        >>> layers = list(resnet50_convolutions())
        >>> len(layers), sum(c.parameters for c in layers)
        (53, 23454912)

    Source:
        He et al., *Deep Residual Learning for Image Recognition*, CVPR 2016, table 1, where the strides are in the first 1x1
        convolution of conv3_1, conv4_1 and conv5_1.
    """
    yield from _bottlenecks(image, inside=1, groups=1)


def resnext50_convolutions(image: int = 224) -> Iterator[Convolution]:
    """ResNeXt-50 (32x4d): blocks twice as wide inside, in 32 groups.

    Source:
        Xie et al., *Aggregated Residual Transformations for Deep Neural Networks*, CVPR 2017, table 1.
    """
    yield from _bottlenecks(image, inside=2, groups=32)


def _bottlenecks(image: int, *, inside: int, groups: int) -> Iterator[Convolution]:
    first = _square(3, 64, image, 7, 2)
    yield first
    channels, size = 64, (first.made[0] + 1) // 2  # max-pooling, 3x3 by steps of 2
    for stage, (width, blocks) in enumerate(_RESNET_STAGES):
        for block in range(blocks):
            stride = 2 if stage and not block else 1
            middle, out = inside * width, 4 * width
            yield _square(channels, middle, size, 1)
            yield _square(middle, middle, size, 3, stride, groups=groups)
            if not block:
                yield _square(channels, out, size, 1, stride)
            size //= stride
            yield _square(middle, out, size, 1)
            channels = out


_MOBILENET_STAGES = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)
"""Expansion t, channels c, repeats n, stride s."""


def mobilenet_v2_convolutions(image: int = 224) -> Iterator[Convolution]:
    """MobileNetV2 of width 1.

    Example:
        >>> layers = list(mobilenet_v2_convolutions())
        >>> len(layers), sum(c.groups > 1 for c in layers)
        (52, 17)

    Source:
        Sandler et al., *MobileNetV2: Inverted Residuals and Linear Bottlenecks*, CVPR 2018, table 2.
    """
    first = _square(3, 32, image, 3, 2)
    yield first
    channels, size = 32, first.made[0]
    for expansion, filters, repeats, steps in _MOBILENET_STAGES:
        for repeat in range(repeats):
            stride, wide = (steps if not repeat else 1), expansion * channels
            if expansion > 1:
                yield _square(channels, wide, size, 1)
            yield _square(wide, wide, size, 3, stride, groups=wide)
            size //= stride
            yield _square(wide, filters, size, 1)
            channels = filters
    yield _square(channels, 1280, size, 1)


def unet_convolutions(image: int = 572) -> Iterator[Convolution]:
    """U-Net: unpadded convolutions down to 1,024 channels, and up again by transposed ones.

    Example:
        >>> layers = list(unet_convolutions())
        >>> len(layers), layers[-1].made
        (23, (388, 388))

    Source:
        Ronneberger et al., *U-Net: Convolutional Networks for Biomedical Image Segmentation*, MICCAI 2015, figure 1.
    """
    channels, size = 1, image
    for width in (64, 128, 256, 512, 1024):
        for input_channels in (channels, width):
            yield Convolution(input_channels, width, (size, size), (3, 3))
            size -= 2
        channels = width
        size = size // 2 if width < 1024 else size
    for width in (512, 256, 128, 64):
        yield Convolution(2 * width, width, (size, size), (2, 2), stride=2, transposed=True)
        size *= 2
        for input_channels in (2 * width, width):
            yield Convolution(input_channels, width, (size, size), (3, 3))
            size -= 2
    yield Convolution(64, 2, (size, size), (1, 1))


def convnext_tiny_convolutions(image: int = 224) -> Iterator[Convolution]:
    """The depthwise convolutions of ConvNeXt-T, 7x7.

    Source:
        Liu et al., *A ConvNet for the 2020s*, CVPR 2022, table 9.
    """
    for stage, (width, blocks) in enumerate(((96, 3), (192, 3), (384, 9), (768, 3))):
        for _ in range(blocks):
            yield _square(width, width, image // 4 >> stage, 7, groups=width)


def deeplab_v3_convolutions(size: int = 33) -> Iterator[Convolution]:
    """The dilated convolutions of DeepLabv3 at an output stride of 16: the last stage of its ResNet, and the pyramid.

    Source:
        Chen et al., *Rethinking Atrous Convolution for Semantic Image Segmentation*, 2017, section 3: rates 2, 4 and 8
        for a multi-grid of (1, 2, 4); 6, 12 and 18 in the pyramid; 513 x 513 pixels give 33 x 33.
    """
    plain = Convolution(512, 512, (size, size), (3, 3))
    yield from (replace(plain, dilation=rate, padding=rate) for rate in (2, 4, 8))
    pyramid = replace(plain, channels=2048, filters=256)
    yield from (replace(pyramid, dilation=rate, padding=rate) for rate in (6, 12, 18))


def wav2vec2_convolutions(samples: int = 16000) -> Iterator[Convolution]:
    """The feature encoder of wav2vec 2.0: along time only.

    Source:
        Baevski et al., *wav2vec 2.0*, NeurIPS 2020, section 4.2: strides (5,2,2,2,2,2,2), widths (10,3,3,3,3,2,2).
    """
    channels: int = 1
    size: tuple[int, ...] = (samples,)
    for kernel, stride in zip((10, 3, 3, 3, 3, 2, 2), (5, 2, 2, 2, 2, 2, 2), strict=True):
        layer = Convolution(channels, 512, size, (kernel,), stride)
        yield layer
        channels, size = 512, layer.made


def conv_tasnet_convolutions(samples: int = 16000) -> Iterator[Convolution]:
    """Conv-TasNet for two speakers, but its decoder: blocks of 1x1, depthwise and 1x1 convolutions, ever further dilated.

    Example:
        >>> layers = list(conv_tasnet_convolutions())
        >>> len(layers), max(c.dilation for c in layers)
        (98, 128)

    Source:
        Luo and Mesgarani, *Conv-TasNet*, IEEE/ACM TASLP 27(8), 2019, table I, names the sizes; they are the defaults of
        ``torchaudio.models.ConvTasNet``: N = 512, L = 16, B = Sc = 128, H = 512, P = 3, X = 8, R = 3.
    """
    features, narrow, wide, layers, stacks = 512, 128, 512, 8, 3
    encoder = Convolution(1, features, (samples,), (16,), stride=8, padding=8)
    yield encoder
    frames = encoder.made
    yield Convolution(features, narrow, frames, (1,))
    for block in range(layers * stacks):
        rate = 2 ** (block % layers)
        yield Convolution(narrow, wide, frames, (1,))
        yield Convolution(wide, wide, frames, (3,), padding=rate, dilation=rate, groups=wide)
        last = block == layers * stacks - 1  # what it would hand on is not used
        yield from [Convolution(wide, narrow, frames, (1,))] * (1 if last else 2)  # to the next block, and past it
    yield Convolution(narrow, 2 * features, frames, (1,))


def c3d_convolutions(frames: int = 16, image: int = 112) -> Iterator[Convolution]:
    """C3D, over frames, height and width.

    Source:
        Tran et al., *Learning Spatiotemporal Features with 3D Convolutional Networks*, ICCV 2015, figure 3.
    """
    size: Sequence[int] = (frames, image, image)
    channels = 3
    for pooled, widths in (((1, 2, 2), (64,)), ((2, 2, 2), (128,)), ((2, 2, 2), (256, 256)), ((2, 2, 2), (512, 512))):
        for width in widths:
            yield Convolution(channels, width, tuple(size), (3, 3, 3), padding=1)
            channels = width
        size = [s // p for s, p in zip(size, pooled, strict=True)]
    for _ in range(2):
        yield Convolution(512, 512, tuple(size), (3, 3, 3), padding=1)


_RESNET = (
    "He et al., Deep Residual Learning for Image Recognition, CVPR 2016, table 1; "
    "github.com/pytorch/vision: torchvision/models/resnet.py, resnet50"
)
_RESNEXT = (
    "Xie et al., Aggregated Residual Transformations for Deep Neural Networks, CVPR 2017, table 1; "
    "github.com/pytorch/vision: torchvision/models/resnet.py, resnext50_32x4d"
)
_MOBILENET = (
    "Sandler et al., MobileNetV2, CVPR 2018, table 2; "
    "github.com/tensorflow/models: research/slim/nets/mobilenet/mobilenet_v2.py, V2_DEF"
)
_UNET = "Ronneberger et al., U-Net, MICCAI 2015, figure 1 and section 2"
_CONVNEXT = (
    "Liu et al., A ConvNet for the 2020s, CVPR 2022, table 9; "
    "github.com/facebookresearch/ConvNeXt: models/convnext.py, convnext_tiny"
)
_DEEPLAB = (
    "Chen et al., Rethinking Atrous Convolution for Semantic Image Segmentation, 2017, section 3; "
    "github.com/tensorflow/models: research/deeplab"
)
_WAV2VEC = (
    "Baevski et al., wav2vec 2.0, NeurIPS 2020, section 4.2; "
    "github.com/facebookresearch/fairseq: fairseq/models/wav2vec/wav2vec2.py, conv_feature_layers"
)
_CONV_TASNET = (
    "Luo and Mesgarani, Conv-TasNet, IEEE/ACM TASLP 27(8), 2019, table I; "
    "github.com/pytorch/audio: torchaudio/models/conv_tasnet.py, ConvTasNet"
)
_C3D = (
    "Tran et al., Learning Spatiotemporal Features with 3D Convolutional Networks, ICCV 2015, figure 3; "
    "github.com/facebook/C3D"
)


def case_of(layer: Convolution, batch: int = 1, *, count: int = 1, tags: Iterable[str] = (), source: str = "") -> Case:
    """A convolution as a case of ``Conv`` or ``ConvTranspose``, without bias.

    Example:
        >>> case_of(Convolution(3, 64, (224, 224), (7, 7), stride=2, padding=3)).label
        '1x3x224x224 64x3x7x7 s2 p3'
    """
    rank = len(layer.size)
    settings = {
        "strides": (layer.stride, 1),
        "pads": (layer.padding, 0),
        "dilations": (layer.dilation, 1),
    }
    lists = {name: [v] * (2 * rank if name == "pads" else rank) for name, (v, plain) in settings.items() if v != plain}
    group = {"group": layer.groups} if layer.groups > 1 else {}
    ends = (layer.filters, layer.channels // layer.groups)
    weights = (layer.channels, layer.filters // layer.groups) if layer.transposed else ends
    case = Case.of(
        "ConvTranspose" if layer.transposed else "Conv",
        (batch, layer.channels, *layer.size),
        (*weights, *layer.kernel),
        settings={**lists, **group},
    )
    shown = {"s": layer.stride, "p": layer.padding, "d": layer.dilation, "g": layer.groups}
    suffix = "".join(f" {letter}{value}" for letter, value in shown.items() if value != (0 if letter == "p" else 1))
    return replace(case, label=case.label + suffix, count=count, tags=frozenset(tags), source=source)


def _tags(layer: Convolution) -> set[str]:
    words = {"convnet", f"{len(layer.size)}d"}
    if layer.groups > 1:
        words.add("depthwise" if layer.groups == layer.channels == layer.filters else "grouped")
    kinds = {"dilated": layer.dilation > 1, "transposed": layer.transposed, "strided": layer.stride > 1}
    return words | {word for word, holds in kinds.items() if holds} | ({"pointwise"} if set(layer.kernel) == {1} else set())


def distinct(layers: Iterable[Convolution], name: str, source: str, batch: int = 1) -> list[Case]:
    """Each different one of a network's convolutions once, in order, with how often it occurs.

    Args:
        layers: All of them.
        name: The network's, a tag.
        source: Where its architecture is published.
        batch: How many samples.

    Example:
        >>> cases = distinct(resnet50_convolutions(), "resnet50", "")
        >>> len(cases), sum(case.count for case in cases)
        (23, 53)
    """
    counted = Counter(layers)
    return [case_of(c, batch, count=n, tags={*_tags(c), name}, source=source) for c, n in counted.items()]


def resnet50(batch: int = 1) -> Suite:
    """Every distinct convolution of ResNet-50 on images of 224 x 224."""
    note = "the strides of the blocks are in the 3x3 convolutions (v1.5); the paper has them in the 1x1 before"
    cases = distinct(resnet50_convolutions(), "resnet50", _RESNET, batch)
    return Suite("convnet/resnet50", cases, _RESNET, notes=(note,))


def mobilenet_v2(batch: int = 1) -> Suite:
    """Every distinct convolution of MobileNetV2 on images of 224 x 224."""
    cases = distinct(mobilenet_v2_convolutions(), "mobilenet_v2", _MOBILENET, batch)
    return Suite("convnet/mobilenet_v2", cases, _MOBILENET)


def unet(batch: int = 1) -> Suite:
    """Every distinct convolution of U-Net on images of 572 x 572, the transposed ones included."""
    return Suite("convnet/unet", distinct(unet_convolutions(), "unet", _UNET, batch), _UNET)


def depthwise(batch: int = 1) -> Suite:
    """Convolutions that mix no channels: 3x3 of MobileNetV2, 7x7 of ConvNeXt-T."""
    small = [c for c in mobilenet_v2_convolutions() if c.groups > 1]
    cases = distinct(small, "mobilenet_v2", _MOBILENET, batch)
    cases += distinct(convnext_tiny_convolutions(), "convnext_tiny", _CONVNEXT, batch)
    return Suite("convnet/depthwise", cases, f"{_MOBILENET}; {_CONVNEXT}")


def grouped(batch: int = 1) -> Suite:
    """The convolutions in 32 groups of ResNeXt-50."""
    layers = [c for c in resnext50_convolutions() if c.groups > 1]
    return Suite("convnet/grouped", distinct(layers, "resnext50", _RESNEXT, batch), _RESNEXT)


def dilated(batch: int = 1) -> Suite:
    """Convolutions of DeepLabv3 that leave out elements between those they take."""
    return Suite("convnet/dilated", distinct(deeplab_v3_convolutions(), "deeplab_v3", _DEEPLAB, batch), _DEEPLAB)


def one_dimensional(batch: int = 1) -> Suite:
    """Convolutions along time, of a second of sound: wav2vec 2.0 and Conv-TasNet."""
    cases = distinct(wav2vec2_convolutions(), "wav2vec2", _WAV2VEC, batch)
    cases += distinct(conv_tasnet_convolutions(), "conv_tasnet", _CONV_TASNET, batch)
    return Suite("convnet/1d", cases, f"{_WAV2VEC}; {_CONV_TASNET}")


def three_dimensional(batch: int = 1) -> Suite:
    """Convolutions over frames, height and width: C3D on 16 frames of 112 x 112."""
    return Suite("convnet/3d", distinct(c3d_convolutions(), "c3d", _C3D, batch), _C3D)
