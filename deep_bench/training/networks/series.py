"""Networks that continue a series of measurements."""

from __future__ import annotations

from deep_bench.errors import InvalidArgument
from deep_bench.graph import Network
from deep_bench.network.gradient.symbol import Symbol
from deep_bench.training.networks.build import Build, check_ratio, check_sizes, floats

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
        seed: Of `deep_bench.training.initial.initialize`.

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
    build = Build(cell.lower(), floats("history", "batch", length, features))
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
        seed: Of `deep_bench.training.initial.initialize`.

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
    build = Build("temporal_convolution", floats("history", "batch", length, features))
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


def _causal(build: Build, name: str, x: Symbol, channels: int, window: int, dilation: int, dropout: float) -> Symbol:
    margin = [(window - 1) * dilation, 0]
    y = build.convolution(name, x, channels, [window], dilations=[dilation], pads=margin)
    return build.dropped(name, build.activated(name, y, "Relu"), dropout)
