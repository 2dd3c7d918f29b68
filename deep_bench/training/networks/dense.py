"""Fully connected networks."""

from __future__ import annotations

from collections.abc import Sequence

from deep_bench.graph import Network
from deep_bench.training.networks.build import Build, check_ratio, check_sizes, flat, floats


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
        seed: Of `deep_bench.training.initial.initialize`, weights by He.

    Raises:
        InvalidArgument: A size below 1, an unknown activation, or a ratio that is none.

    Example:
        >>> network = mlp(hidden=(32,))
        >>> {name: array.shape for name, array in network.parameters.items()}["layer1.weight"]
        (64, 32)
    """
    check_sizes("mlp", sample=sample, hidden=hidden, classes=classes)
    check_ratio("mlp", dropout)
    build = Build("mlp", floats(data, "batch", *sample))
    x = build[data] if len(sample) == 1 else flat(build[data], sample)
    for number, width in enumerate(hidden, 1):
        x = build.activated(f"layer{number}", build.linear(f"layer{number}", x, width), activation)
        x = build.dropped(f"layer{number}", x, dropout)
    return build.finish({output: build.linear("head", x, classes)}, seed=seed)
