"""Networks to train, as functions of their sizes; by name in ``db.networks``. `with_loss` adds a loss to any."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import prod, sqrt
from typing import Any

import numpy as np
import onnx_ir as ir

from deep_bench.errors import InvalidArgument
from deep_bench.graph import Network, load
from deep_bench.graph.edit import Names
from deep_bench.graph.network import LOSSES as _OF_NETWORKS
from deep_bench.graph.shapes import Knowledge
from deep_bench.network.gradient.tape import Symbol, Tape
from deep_bench.network.transform.draft import Draft
from deep_bench.tensor import TensorSpec
from deep_bench.training.initial import initialize

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

_OPSET = 21


class NetworkBuilder:
    """A network that is being written.

    Args:
        name: Of the network.
        *inputs: What it takes.

    Example:
        >>> build = NetworkBuilder("line", TensorSpec("x", ("batch", 3), np.dtype(np.float32)))
        >>> network = build.finish({"y": build.linear("slope", build["x"], 2)})
        >>> [str(spec) for spec in network.outputs], sorted(network.parameters)
        (['y: float32[batch, 2]'], ['slope.bias', 'slope.weight'])
    """

    def __init__(self, name: str, *inputs: TensorSpec) -> None:
        self._inputs = {spec.name: spec for spec in inputs}
        values = [
            ir.Value(
                name=spec.name, type=ir.TensorType(ir.DataType.from_numpy(spec.dtype)), shape=ir.Shape(list(spec.shape))
            )
            for spec in inputs
        ]
        graph = ir.Graph(values, [], nodes=[], opset_imports={"": _OPSET}, name=name)
        self._model = ir.Model(graph, ir_version=10, producer_name="deep_bench")
        empty = Network(self._model)
        self.tape = Tape(graph, Names(empty), Knowledge(empty), name)
        self._symbols = {str(value.name): Symbol(self.tape, value) for value in values}

    def __getitem__(self, name: str) -> Symbol:
        """An input."""
        return self._symbols[name]

    @contextmanager
    def named(self, base: str) -> Iterator[Tape]:
        """New nodes get names that start with ``base``."""
        before, self.tape.base = self.tape.base, base
        try:
            yield self.tape
        finally:
            self.tape.base = before

    def parameter(self, name: str, *shape: int) -> Symbol:
        """A parameter; `finish` draws it."""
        tensor = ir.tensor(np.zeros(shape, np.float32), name=name)
        value = ir.Value(name=name, type=ir.TensorType(tensor.dtype), shape=ir.Shape(shape), const_value=tensor)
        self._model.graph.register_initializer(value)
        self.tape.knowledge.state(value, ir.to_proto(value).type)
        return Symbol(self.tape, value)

    # Layers

    def linear(self, name: str, x: Symbol, out: int, *, bias: bool = True) -> Symbol:
        r""":math:`x W + b` along the last axis: [..., in] to [..., out]."""
        into = width_of(x)
        with self.named(name) as tape:
            y = tape.MatMul(x, self.parameter(f"{name}.weight", into, out))
            return y + self.parameter(f"{name}.bias", out) if bias else y

    def convolution(self, name: str, x: Symbol, out: int, window: Sequence[int], **attributes: Any) -> Symbol:
        """``Conv`` with a bias: [batch, in, …] to [batch, out, …]."""
        into = self.tape.dims_of(x.value)[1]
        assert isinstance(into, int)
        weight, bias = self.parameter(f"{name}.weight", out, into, *window), self.parameter(f"{name}.bias", out)
        with self.named(name) as tape:
            output: Symbol = tape.Conv(x, weight, bias, **attributes)
            return output

    def normalized(self, name: str, x: Symbol) -> Symbol:
        """``LayerNormalization`` along the last axis."""
        size = width_of(x)
        with self.named(name) as tape:
            output: Symbol = tape.LayerNormalization(
                x, self.parameter(f"{name}.scale", size), self.parameter(f"{name}.bias", size), axis=-1
            )
            return output

    def dropped(self, name: str, x: Symbol, ratio: float) -> Symbol:
        """``Dropout``, which only training makes anything of; itself for a ratio of 0."""
        if ratio == 0:
            return x
        with self.named(name) as tape:
            output: Symbol = tape.Dropout(x, tape.constant(ratio, np.float32))
            return output

    def looked_up(self, name: str, table: Symbol, numbers: Symbol) -> Symbol:
        """Rows of a table [count, size] by their numbers [...]: [..., size]."""
        with self.named(name) as tape:
            output: Symbol = tape.Gather(table, numbers, axis=0)
            return output

    def embedded(self, name: str, numbers: Symbol, count: int, size: int) -> Symbol:
        """Rows of a table of its own."""
        return self.looked_up(name, self.parameter(f"{name}.weight", count, size), numbers)

    def activated(self, name: str, x: Symbol, operator: str) -> Symbol:
        """An operator without settings, such as ``Relu``.

        Raises:
            InvalidArgument: Another operator.
        """
        if operator not in ACTIVATIONS:
            raise InvalidArgument(f"activation {operator!r}", f"one of {', '.join(ACTIVATIONS)}")
        with self.named(name) as tape:
            output: Symbol = tape.node(operator, [x])
            return output

    # The end

    def finish(self, outputs: Mapping[str, Symbol], *, seed: int = 0, scheme: str = "he-normal") -> Network:
        """The network, its parameters drawn by `initialize`.

        Args:
            outputs: Name to value.
            seed, scheme: Of `initialize`.
        """
        for name, symbol in outputs.items():
            symbol.value.shape = ir.Shape(list(self.tape.dims_of(symbol.value)))
            symbol.value.type = ir.TensorType(ir.DataType.from_numpy(symbol.dtype))
            symbol.value.name = name  # last: what is known of it is known by its name
            self._model.graph.outputs.append(symbol.value)
        return initialize(Network(self._model), seed, scheme)


ACTIVATIONS = ("Elu", "Gelu", "LeakyRelu", "Relu", "Selu", "Sigmoid", "Softplus", "Tanh")
"""Operators that a layer may end in."""


def width_of(x: Symbol) -> int:
    """The size of the last axis."""
    size = x.tape.dims_of(x.value)[-1]
    assert isinstance(size, int)
    return size


def flat(x: Symbol, axes: Sequence[int]) -> Symbol:
    """[batch, a, b, …] to [batch, a b …]; the sizes are given because inference forgets them."""
    output: Symbol = x.tape.Reshape(x, [0, prod(axes)])
    return output


def floats(name: str, *shape: int | str) -> TensorSpec:
    """A float32 input."""
    return TensorSpec(name, shape, np.dtype(np.float32))


def whole(name: str, *shape: int | str) -> TensorSpec:
    """An int64 input."""
    return TensorSpec(name, shape, np.dtype(np.int64))


def check_sizes(network: str, least: int = 1, **sizes: Any) -> None:
    """Whether sizes are whole numbers of at least ``least``.

    Raises:
        InvalidArgument: One is not.
    """
    for name, size in sizes.items():
        for value in size if isinstance(size, list | tuple) else [size]:
            if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
                raise InvalidArgument(f"{network} with {name}={size!r}", f"whole numbers of at least {least}")


def check_ratio(network: str, dropout: float) -> None:
    """Whether a ratio of dropout is one.

    Raises:
        InvalidArgument: It is not from 0 to below 1.
    """
    if not 0 <= dropout < 1:
        raise InvalidArgument(f"{network} with dropout={dropout!r}", "a number of at least 0 and below 1")


_LOSS_OPSET = 13

LOSSES = (*_OF_NETWORKS, "BinaryCrossEntropy")
"""What `with_loss` knows."""


def with_loss(
    network: Network, kind: str, *, output: str, target: str | None = None, name: str = "loss", **attributes: Any
) -> Network:
    r"""A network with a loss of one of its values as a further output.

    ``BinaryCrossEntropy`` is the mean over all elements of

    .. math::
        t \log(1 + e^{-y}) + (1 - t) \log(1 + e^y)

    which is :math:`-t \log p - (1 - t) \log(1 - p)` at :math:`p = 1 / (1 + e^{-y})`, without an overflow or a difference of
    near numbers for any logit :math:`y`.

    Args:
        network: The network.
        kind: One of `LOSSES`; all others are those of `Network.with_loss`.
        output: Name of the value that it is the loss of.
        target: Name of a new input, what the output should be; for ``BinaryCrossEntropy`` from 0 to 1, of its shape.
        name: Name of the loss, a scalar.
        **attributes: Of the loss.

    Raises:
        InvalidArgument: A loss, value or attribute that does not exist, or a name that is taken.

    Example:
        >>> from deep_bench.training.networks import ncf
        >>> network = with_loss(ncf(), "BinaryCrossEntropy", output="logit", target="liked")
        >>> [str(spec) for spec in network.inputs], str(network.outputs[-1])
        (['user: int64[batch]', 'item: int64[batch]', 'liked: float32[batch]'], 'loss: float32[]')
    """
    if kind != "BinaryCrossEntropy":
        return network.with_loss(kind, output=output, target=target, name=name, **attributes)
    if attributes:
        raise InvalidArgument(f"{kind} has no attribute {next(iter(attributes))!r}", "no attributes")
    if not target:
        raise InvalidArgument(f"{kind} with target {target!r}", "the name of a new input, such as target='label'")
    draft = Draft(network, name, _LOSS_OPSET)
    for new in (target, name):
        if new in draft.values:
            raise InvalidArgument(f"{network.name} has a value {new!r} already", "a new name")
    tape, value = draft.tape(), draft.value(output)
    y = Symbol(tape, value)
    dims = draft.dims(value)
    target_value = ir.Value(name=target, type=ir.TensorType(ir.DataType.from_numpy(y.dtype)), shape=ir.Shape(list(dims)))
    draft.graph.inputs.append(target_value)
    draft.knowledge.state(target_value, ir.to_proto(target_value).type)
    t = Symbol(tape, target_value)
    unit = tape.constant(1, np.dtype(y.dtype))
    loss = (t * tape.Softplus(-y) + (unit - t) * tape.Softplus(y)).mean().value
    loss.type, loss.shape, loss.name = ir.TensorType(ir.DataType.from_numpy(y.dtype)), ir.Shape([]), name
    draft.graph.outputs.append(loss)
    return draft.finish()


def mlp(
    sample: Sequence[int] = (1, 8, 8),
    hidden: Sequence[int] = (128, 64),
    classes: int = 10,
    *,
    data: str = "image",
    output: str = "logits",
    activation: str = "Relu",
    dropout: float = 0.0,
    seed: int = 0,
) -> Network:
    """A multilayer perceptron: linear layers, an activation after each but the last.

    Args:
        sample: Shape of one sample, which is flattened.
        hidden: Width of each hidden layer.
        classes: Width of the last.
        data: Name of the input, float32 ``[batch, *sample]``.
        output: Name of the output, float32 [batch, classes].
        activation: An ONNX operator.
        dropout: Share that is dropped after each activation in training.
        seed: Of `deep_bench.training.initial`, weights by He.

    Raises:
        InvalidArgument: A size below 1, an unknown activation, or a ratio that is none.

    Example:
        >>> network = mlp(hidden=(32,))
        >>> {name: array.shape for name, array in network.parameters.items()}["layer1.weight"]
        (64, 32)
    """
    check_sizes("mlp", sample=sample, hidden=hidden, classes=classes)
    check_ratio("mlp", dropout)
    build = NetworkBuilder("mlp", floats(data, "batch", *sample))
    x = build[data] if len(sample) == 1 else flat(build[data], sample)
    for number, width in enumerate(hidden, 1):
        x = build.activated(f"layer{number}", build.linear(f"layer{number}", x, width), activation)
        x = build.dropped(f"layer{number}", x, dropout)
    return build.finish({output: build.linear("head", x, classes)}, seed=seed)


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
        seed: Of `deep_bench.training.initial`.

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
    build = NetworkBuilder("lenet", floats("image", "batch", *sample))
    margin = [window // 2] * 4
    x = _pooled(build, "conv1", build.convolution("conv1", build["image"], channels[0], [window] * 2, pads=margin))
    x = _pooled(build, "conv2", build.convolution("conv2", x, channels[1], [window] * 2))
    x = flat(x, [channels[1], *sizes])
    for number, width in enumerate(hidden, 1):
        x = build.activated(f"linear{number}", build.linear(f"linear{number}", x, width), "Relu")
    return build.finish({"logits": build.linear("head", x, classes)}, seed=seed)


def _pooled(build: NetworkBuilder, name: str, x: Symbol) -> Symbol:
    with build.named(name) as tape:
        output: Symbol = tape.MaxPool(tape.Relu(x), kernel_shape=[2, 2], strides=[2, 2])
        return output


def digits_cnn(*, seed: int = 0) -> Network:
    """The network that ships trained on the digits (``deep_bench.load("digits-cnn")``), with fresh parameters.

    Args:
        seed: Of `deep_bench.training.initial`.

    Example:
        >>> digits_cnn().name, len(digits_cnn().parameters)
        ('digits-cnn', 19)
    """
    return initialize(load("digits-cnn"), seed)


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
        seed: Of `deep_bench.training.initial`.

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
    build = NetworkBuilder(f"resnet{depth}-cifar", floats("image", "batch", *sample))
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
        seed: Of `deep_bench.training.initial`.

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
    build = NetworkBuilder(f"resnet{depth}", floats("image", "batch", *sample))
    x = _normalized(build, "stem", build["image"], width, 7, stride=2)
    with build.named("stem.pool") as tape:
        x = tape.MaxPool(x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    for stage, blocks in enumerate(_STAGES[depth]):
        for number in range(blocks):
            stride = 2 if stage > 0 and number == 0 else 1
            x = _bottleneck(build, f"stage{stage + 1}.block{number + 1}", x, width * 2**stage, stride)
    return _classified(build, x, width * 32, classes, seed)


def _plain_block(build: NetworkBuilder, name: str, x: Symbol, out: int, stride: int) -> Symbol:
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


def _bottleneck(build: NetworkBuilder, name: str, x: Symbol, width: int, stride: int) -> Symbol:
    y = _normalized(build, f"{name}.first", x, width, 1)
    y = _normalized(build, f"{name}.second", y, width, 3, stride=stride)
    y = _normalized(build, f"{name}.third", y, 4 * width, 1, last=True)
    if _channels(x) != 4 * width:
        x = _normalized(build, f"{name}.shortcut", x, 4 * width, 1, stride=stride, last=True)
    return build.activated(name, x + y, "Relu")


def _normalized(
    build: NetworkBuilder, name: str, x: Symbol, out: int, window: int, *, stride: int = 1, last: bool = False
) -> Symbol:
    """A convolution without a bias and a batch normalization, and a ReLU unless it is the last before a sum."""
    weight = build.parameter(f"{name}.weight", out, _channels(x), window, window)
    scale, bias, mean, variance = (build.parameter(f"{name}.{part}", out) for part in ("scale", "bias", "mean", "variance"))
    with build.named(name) as tape:
        y = tape.Conv(x, weight, pads=[window // 2] * 4, strides=[stride, stride])
        y = tape.BatchNormalization(y, scale, bias, mean, variance, epsilon=_EPSILON)
        output: Symbol = y if last else tape.Relu(y)
    return output


def _classified(build: NetworkBuilder, x: Symbol, channels: int, classes: int, seed: int) -> Network:
    with build.named("pool") as tape:
        x = tape.GlobalAveragePool(x)
    return build.finish({"logits": build.linear("head", flat(x, [channels]), classes)}, seed=seed)


def _channels(x: Symbol) -> int:
    channels = x.tape.dims_of(x.value)[1]
    assert isinstance(channels, int)
    return channels


_GATES = {"GRU": 3, "LSTM": 4, "RNN": 1}


def recurrent(
    length: int = 104,
    horizon: int = 26,
    *,
    features: int = 1,
    cell: str = "LSTM",
    hidden: int = 32,
    seed: int = 0,
) -> Network:
    """A recurrent layer reads the series; a linear layer says from its last state how it goes on.

    Args:
        length: Number of times in a sample.
        horizon: Number of times to predict.
        features: Number of measurements at each time.
        cell: ``"LSTM"``, ``"GRU"`` or ``"RNN"``.
        hidden: Size of the state.
        seed: Of `deep_bench.training.initial`.

    Returns:
        From ``history``, float32 [batch, length, features], to ``forecast``, float32 [batch, horizon].

    Raises:
        InvalidArgument: A size below 1, or another cell.

    Example:
        >>> network = recurrent(cell="GRU", hidden=8)
        >>> str(network.outputs[0]), network.parameters["recurrent.R"].shape
        ('forecast: float32[batch, 26]', (1, 24, 8))

    Source:
        Hochreiter and Schmidhuber, *Long short-term memory*, Neural Computation, 1997; Cho et al., *Learning phrase
        representations using RNN encoder-decoder*, EMNLP 2014 (GRU).
    """
    check_sizes("recurrent", length=length, horizon=horizon, features=features, hidden=hidden)
    if cell not in _GATES:
        raise InvalidArgument(f"recurrent with cell={cell!r}", f"one of {', '.join(_GATES)}")
    build = NetworkBuilder(cell.lower(), floats("history", "batch", length, features))
    gates = _GATES[cell] * hidden
    w, r = build.parameter("recurrent.W", 1, gates, features), build.parameter("recurrent.R", 1, gates, hidden)
    b = build.parameter("recurrent.B", 1, 2 * gates)
    with build.named("recurrent") as tape:
        _, last = tape.node(cell, [build["history"].transpose([1, 0, 2]), w, r, b], outputs=2, hidden_size=hidden)
        last = last.squeeze(0)
    return build.finish({"forecast": build.linear("head", last, horizon)}, seed=seed, scheme="lecun-normal")


def temporal_convolution(
    length: int = 104,
    horizon: int = 26,
    *,
    features: int = 1,
    channels: int = 16,
    blocks: int = 4,
    window: int = 3,
    dropout: float = 0.0,
    seed: int = 0,
) -> Network:
    r"""A temporal convolutional network: blocks of two causal convolutions, dilated :math:`2^k` times in block :math:`k`.

    Args:
        length: Number of times in a sample.
        horizon: Number of times to predict.
        features: Number of measurements at each time.
        channels: Of each convolution.
        blocks: Number of blocks; the last time sees :math:`1 + 2 (\text{window} - 1)(2^\text{blocks} - 1)` times.
        window: Length of the kernels.
        dropout: Share that is dropped after each convolution in training.
        seed: Of `deep_bench.training.initial`.

    Returns:
        From ``history``, float32 [batch, length, features], to ``forecast``, float32 [batch, horizon].

    Raises:
        InvalidArgument: A size below 1, or a ratio that is none.

    Example:
        >>> str(temporal_convolution(length=50, horizon=5).outputs[0])
        'forecast: float32[batch, 5]'

    Source:
        Bai, Kolter and Koltun, *An empirical evaluation of generic convolutional and recurrent networks for sequence
        modeling*, 2018, section 3; without its weight normalization.
    """
    check_sizes("temporal_convolution", length=length, horizon=horizon, features=features, channels=channels)
    check_sizes("temporal_convolution", blocks=blocks, window=window)
    check_ratio("temporal_convolution", dropout)
    build = NetworkBuilder("temporal_convolution", floats("history", "batch", length, features))
    x = build["history"].transpose([0, 2, 1])
    for number in range(blocks):
        name, y = f"block{number + 1}", x
        for part in ("first", "second"):
            y = _causal(build, f"{name}.{part}", y, channels, window, 2**number, dropout)
        if number == 0 and features != channels:
            x = build.convolution(f"{name}.shortcut", x, channels, [1])
        x = build.activated(name, x + y, "Relu")
    last = x.slice(2, length - 1, length).squeeze(2)
    return build.finish({"forecast": build.linear("head", last, horizon)}, seed=seed)


def _causal(
    build: NetworkBuilder, name: str, x: Symbol, channels: int, window: int, dilation: int, dropout: float
) -> Symbol:
    margin = [(window - 1) * dilation, 0]
    y = build.convolution(name, x, channels, [window], dilations=[dilation], pads=margin)
    return build.dropped(name, build.activated(name, y, "Relu"), dropout)


def transformer(
    vocabulary: int = 256,
    length: int = 64,
    *,
    layers: int = 2,
    width: int = 64,
    heads: int = 4,
    hidden: int | None = None,
    dropout: float = 0.0,
    tied: bool = False,
    seed: int = 0,
) -> Network:
    r"""A transformer that sees only what is before; each layer adds attention, and a network with GELU, to its input.

    .. math::
        y = x + \mathrm{Attention}(\mathrm{LayerNorm}(x)), \qquad z = y + \mathrm{MLP}(\mathrm{LayerNorm}(y))

    with a normalization before the output layer, and learned positions.

    Args:
        vocabulary: Number of different tokens.
        length: Number of tokens in a sample.
        layers: Number of layers.
        width: Size of the vector of a token.
        heads: Number of heads of the attention; they share ``width``.
        hidden: Width inside the two-layer networks; four times ``width`` by default.
        dropout: Share that is dropped in training after the embedding, attention and two-layer network.
        tied: Whether the output layer is the embedding, transposed.
        seed: Of `deep_bench.training.initial`, weights by LeCun.

    Returns:
        From ``input``, int64 [batch, length], to ``logits``, float32 [batch, vocabulary, length]: classes second, as ONNX's
        losses take them.

    Raises:
        InvalidArgument: A size below 1, heads that do not divide the width, or a ratio that is none.

    Example:
        >>> network = transformer(vocabulary=50, length=16).with_loss(
        ...     "SoftmaxCrossEntropyLoss", output="logits", target="target"
        ... )
        >>> [str(spec) for spec in network.inputs]
        ['input: int64[batch, 16]', 'target: int64[batch, 16]']

    Source:
        Vaswani et al., *Attention is all you need*, NeurIPS 2017; Radford et al., *Language models are unsupervised
        multitask learners*, 2019, section 2.3 (normalization first).
    """
    hidden = 4 * width if hidden is None else hidden
    check_sizes("transformer", vocabulary=vocabulary, length=length, layers=layers, width=width, heads=heads, hidden=hidden)
    check_ratio("transformer", dropout)
    if width % heads:
        raise InvalidArgument(f"transformer with width={width}, heads={heads}", "a width that the heads divide")
    build = NetworkBuilder("transformer", whole("input", "batch", length))
    table = build.parameter("embedding.weight", vocabulary, width)
    x = build.looked_up("embedding", table, build["input"])
    x = build.dropped("embedding", x + build.parameter("positions.weight", length, width), dropout)
    for number in range(1, layers + 1):
        name = f"layer{number}"
        inner = _attention(build, f"{name}.attention", build.normalized(f"{name}.norm1", x), length, heads)
        x = x + build.dropped(f"{name}.attention", inner, dropout)
        inner = build.linear(f"{name}.mlp.in", build.normalized(f"{name}.norm2", x), hidden)
        inner = build.linear(f"{name}.mlp.out", build.activated(f"{name}.mlp", inner, "Gelu"), width)
        x = x + build.dropped(f"{name}.mlp", inner, dropout)
    x = build.normalized("norm", x)
    scores = x @ table.transpose([1, 0]) if tied else build.linear("head", x, vocabulary, bias=False)
    return build.finish({"logits": scores.transpose([0, 2, 1])}, seed=seed, scheme="lecun-normal")


def _attention(build: NetworkBuilder, name: str, x: Symbol, length: int, heads: int) -> Symbol:
    r""":math:`\mathrm{softmax}(Q K^T / \sqrt{d}) V` in each head, each place seeing itself and those before."""
    size = width_of(x) // heads
    together = build.linear(f"{name}.qkv", x, 3 * size * heads)
    with build.named(name) as tape:
        apart = tape.Reshape(together, [0, 0, 3, heads, size]).transpose([2, 0, 3, 1, 4])
        q, k, v = (apart.slice(0, part, part + 1).squeeze(0) for part in range(3))
        scores = (q * (1 / sqrt(size))) @ k.transpose([0, 1, 3, 2])
        mask = tape.constant(np.tril(np.ones((length, length))), bool)
        weights = tape.Softmax(tape.Where(mask, scores, -np.inf), axis=-1)
        joined = tape.Reshape((weights @ v).transpose([0, 2, 1, 3]), [0, 0, heads * size])
    return build.linear(f"{name}.out", joined, heads * size)


def ncf(
    users: int = 943,
    items: int = 1682,
    *,
    factors: int = 8,
    hidden: Sequence[int] = (32, 16, 8),
    seed: int = 0,
) -> Network:
    r"""Neural collaborative filtering (NeuMF): a product of two embeddings beside a network of two others.

    .. math::
        \mathrm{logit} = h^T [\, p_u \odot q_i, \; \mathrm{MLP}([p'_u, q'_i]) \,]

    Args:
        users: Number of users.
        items: Number of items.
        factors: Size of the embeddings that are multiplied.
        hidden: Width of each layer of the network; its embeddings are half as wide as the first layer.
        seed: Of `deep_bench.training.initial`.

    Returns:
        From ``user`` and ``item``, int64 [batch], to ``logit``, float32 [batch]. Its loss is ``BinaryCrossEntropy``
        (`deep_bench.training.networks.with_loss`).

    Raises:
        InvalidArgument: A size below 1.

    Example:
        >>> [str(spec) for spec in ncf().inputs], [str(spec) for spec in ncf().outputs]
        (['user: int64[batch]', 'item: int64[batch]'], ['logit: float32[batch]'])

    Source:
        He, Liao, Zhang, Nie, Hu and Chua, *Neural collaborative filtering*, WWW 2017, section 3.4.
    """
    check_sizes("ncf", users=users, items=items, factors=factors, hidden=hidden)
    build = NetworkBuilder("ncf", whole("user", "batch"), whole("item", "batch"))
    user, item = build["user"], build["item"]
    product = build.embedded("gmf.user", user, users, factors) * build.embedded("gmf.item", item, items, factors)
    half = max(hidden[0] // 2, 1) if hidden else factors
    x = build.tape.concat(
        [build.embedded("mlp.user", user, users, half), build.embedded("mlp.item", item, items, half)], axis=1
    )
    for number, width in enumerate(hidden, 1):
        x = build.activated(f"mlp.layer{number}", build.linear(f"mlp.layer{number}", x, width), "Relu")
    logit = build.linear("head", build.tape.concat([product, x], axis=1), 1, bias=False)
    return build.finish({"logit": logit.squeeze(1)}, seed=seed)
