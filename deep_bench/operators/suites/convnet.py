"""The convolutions of well-known networks, each distinct one once, with how often it occurs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

from deep_bench.operators.case import Case
from deep_bench.operators.suites import architectures
from deep_bench.operators.suites.architectures import Convolution
from deep_bench.operators.suites.suite import Suite

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
        >>> cases = distinct(architectures.resnet50(), "resnet50", "")
        >>> len(cases), sum(case.count for case in cases)
        (23, 53)
    """
    counted = Counter(layers)
    return [case_of(c, batch, count=n, tags={*_tags(c), name}, source=source) for c, n in counted.items()]


def resnet50(batch: int = 1) -> Suite:
    """Every distinct convolution of ResNet-50 on images of 224 x 224."""
    note = "the strides of the blocks are in the 3x3 convolutions (v1.5); the paper has them in the 1x1 before"
    cases = distinct(architectures.resnet50(), "resnet50", _RESNET, batch)
    return Suite("convnet/resnet50", cases, _RESNET, notes=(note,))


def mobilenet_v2(batch: int = 1) -> Suite:
    """Every distinct convolution of MobileNetV2 on images of 224 x 224."""
    cases = distinct(architectures.mobilenet_v2(), "mobilenet_v2", _MOBILENET, batch)
    return Suite("convnet/mobilenet_v2", cases, _MOBILENET)


def unet(batch: int = 1) -> Suite:
    """Every distinct convolution of U-Net on images of 572 x 572, the transposed ones included."""
    return Suite("convnet/unet", distinct(architectures.unet(), "unet", _UNET, batch), _UNET)


def depthwise(batch: int = 1) -> Suite:
    """Convolutions that mix no channels: 3x3 of MobileNetV2, 7x7 of ConvNeXt-T."""
    small = [c for c in architectures.mobilenet_v2() if c.groups > 1]
    cases = distinct(small, "mobilenet_v2", _MOBILENET, batch)
    cases += distinct(architectures.convnext_tiny(), "convnext_tiny", _CONVNEXT, batch)
    return Suite("convnet/depthwise", cases, f"{_MOBILENET}; {_CONVNEXT}")


def grouped(batch: int = 1) -> Suite:
    """The convolutions in 32 groups of ResNeXt-50."""
    layers = [c for c in architectures.resnext50() if c.groups > 1]
    return Suite("convnet/grouped", distinct(layers, "resnext50", _RESNEXT, batch), _RESNEXT)


def dilated(batch: int = 1) -> Suite:
    """Convolutions of DeepLabv3 that leave out elements between those they take."""
    return Suite("convnet/dilated", distinct(architectures.deeplab_v3(), "deeplab_v3", _DEEPLAB, batch), _DEEPLAB)


def one_dimensional(batch: int = 1) -> Suite:
    """Convolutions along time, of a second of sound: wav2vec 2.0 and Conv-TasNet."""
    cases = distinct(architectures.wav2vec2(), "wav2vec2", _WAV2VEC, batch)
    cases += distinct(architectures.conv_tasnet(), "conv_tasnet", _CONV_TASNET, batch)
    return Suite("convnet/1d", cases, f"{_WAV2VEC}; {_CONV_TASNET}")


def three_dimensional(batch: int = 1) -> Suite:
    """Convolutions over frames, height and width: C3D on 16 frames of 112 x 112."""
    return Suite("convnet/3d", distinct(architectures.c3d(), "c3d", _C3D, batch), _C3D)
