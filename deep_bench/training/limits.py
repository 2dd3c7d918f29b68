"""Which whole numbers a network can be fed: those of classes in a loss, and of rows in a table that it looks up in."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from deep_bench.errors import InvalidInput
from deep_bench.graph import Network, attributes, operator_name
from deep_bench.graph.knowledge import Knowledge

_LOSSES = ("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss")
_PASSED = ("Cast", "Flatten", "Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze")
"""Operators that give every number on as it is."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What the numbers of an input may be. Outside of them some frameworks fail, and others go on with anything.

    Args:
        name: The input's.
        low: The least,
        high: and the largest.
        what: What they number.
        ignored: A number that is allowed besides.
    """

    name: str
    low: int
    high: int
    what: str
    ignored: int | None = None

    def check(self, array: np.ndarray, numbers: Sequence[int] | np.ndarray | None = None) -> None:
        """Compare an array with them.

        Args:
            array: Samples along its first axis; one that does not hold whole numbers is none of this check's matter.
            numbers: Those of the samples in their set.

        Raises:
            InvalidInput: One is outside; the message names the sample.

        Example:
            >>> Limits("label", 0, 9, "classes of the loss 'loss'").check(np.array([3, 10]), numbers=[70, 71])
            Traceback (most recent call last):
                ...
            deep_bench.errors.InvalidInput: sample 71: 10 in 'label'
            Expected: 0 to 9, classes of the loss 'loss'
            What to do: correct the data, or state an ignore_index of the loss
        """
        if array.dtype.kind not in "iu" or not array.size or (array.min() >= self.low and array.max() <= self.high):
            return
        outside = (array < self.low) | (array > self.high)
        if self.ignored is not None:
            outside &= array != self.ignored
        if not outside.any():
            return
        first = tuple(np.argwhere(outside)[0])
        row = int(first[0]) if first else 0
        which = f"sample {row} of its batch" if numbers is None else f"sample {numbers[row]}"
        besides = "" if self.ignored is None else f", or {self.ignored} to be ignored"
        advice = "correct the data" + (", or state an ignore_index of the loss" if self.low == 0 and not besides else "")
        raise InvalidInput(
            f"{which}: {array[first]} in {self.name!r}", f"{self.low} to {self.high}, {self.what}{besides}", advice
        )


def limits_of(network: Network) -> tuple[Limits, ...]:
    """The limits of a network's inputs, as far as they are known before a run.

    They are those of labels of ``SoftmaxCrossEntropyLoss`` and ``NegativeLogLikelihoodLoss``, and of the indices of
    ``Gather``, which ONNX lets count from the end as well.

    Args:
        network: The network, with its loss.

    Example:
        >>> import deep_bench as db
        >>> network = db.load("digits-cnn").with_loss("SoftmaxCrossEntropyLoss", output="logits", target="label")
        >>> limits_of(network)
        (Limits(name='label', low=0, high=9, what="classes of the loss 'loss'", ignored=None),)
    """
    inputs = {spec.name for spec in network.inputs}
    uses = [(node, name) for node in network.nodes if (name := _numbered_by(node)) in inputs]
    if not uses:
        return ()
    knowledge = Knowledge(network)
    all_limits = [limits for node, name in uses for limits in _limits(node, str(name), knowledge)]
    return tuple({(limit.name, limit.low, limit.high, limit.ignored): limit for limit in reversed(all_limits)}.values())[
        ::-1
    ]


def _numbered_by(node: ir.Node) -> str | None:
    """Name of the value that the numbers come from."""
    if operator_name(node) not in (*_LOSSES, "Gather"):
        return None
    value = node.inputs[1]
    while value is not None and (maker := value.producer()) is not None and operator_name(maker) in _PASSED:
        value = maker.inputs[0]
    return None if value is None else str(value.name)


def _limits(node: ir.Node, name: str, knowledge: Knowledge) -> Iterator[Limits]:
    of, settings = node.inputs[0], attributes(node)
    dims = None if of is None else knowledge.dims(of)
    looks_up = operator_name(node) == "Gather"
    axis = settings.get("axis", 0) if looks_up else 1
    if dims is None or not -len(dims) <= axis < len(dims):
        return
    size = dims[axis]
    if not isinstance(size, int):
        return
    if looks_up:
        assert of is not None
        yield Limits(name, -size, size - 1, f"rows of {of.name!r}, from the end if negative")
    else:
        yield Limits(name, 0, size - 1, f"classes of the loss {node.outputs[0].name!r}", settings.get("ignore_index"))
