"""Networks that predict the next token of a text."""

from __future__ import annotations

from math import sqrt

import numpy as np

from deep_bench.errors import InvalidArgument
from deep_bench.graph import Network
from deep_bench.network.gradient.symbol import Symbol
from deep_bench.training.networks.build import Build, check_ratio, check_sizes, whole, width_of


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
        seed: Of `deep_bench.training.initial.initialize`, weights by LeCun.

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
    build = Build("transformer", whole("input", "batch", length))
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


def _attention(build: Build, name: str, x: Symbol, length: int, heads: int) -> Symbol:
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
