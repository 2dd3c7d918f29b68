"""Losses of networks: those of `Network.with_loss`, and of logits of a probability."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir

from deep_bench.errors import InvalidArgument
from deep_bench.graph import Network
from deep_bench.graph.loss import LOSSES as _OF_NETWORKS
from deep_bench.network.gradient.symbol import Symbol
from deep_bench.network.transform.draft import Draft

_OPSET = 13

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
    draft = Draft(network, name, _OPSET)
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
