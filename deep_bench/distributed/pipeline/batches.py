"""A batch in micro-batches: which inputs are cut, what each counts for, and how results are put together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
import onnx_ir as ir

from deep_bench.errors import InvalidArgument, InvalidInput, Unsupported
from deep_bench.graph import Network
from deep_bench.graph.knowledge import Knowledge

Reduction = Literal["mean", "sum"]

_LOSSES = ("SoftmaxCrossEntropyLoss", "NegativeLogLikelihoodLoss")
_REDUCTIONS: Mapping[str, Reduction] = {"ReduceMean": "mean", "ReduceSum": "sum"}


class Batches:
    """How a network's batches are cut.

    Args:
        network: Whose.
        micro_batches: How many pieces.
        loss: Name of the output that is the loss, if there is one.
        reduction: What it is of its samples' losses; by default what its node says.

    Attributes:
        cut: Names of the inputs whose first axis is the batch.

    Raises:
        InvalidArgument: Fewer than one micro-batch; no input with an open first axis; no such loss; or a loss that is no
            scalar, or of which nobody knows how it follows from those of parts of the batch.
        Unsupported: Inputs that are no tensors, or outputs that cannot be put together.
    """

    def __init__(self, network: Network, micro_batches: int, loss: str | None, reduction: Reduction | None) -> None:
        if isinstance(micro_batches, bool) or not isinstance(micro_batches, int) or micro_batches < 1:
            raise InvalidArgument(f"micro_batches={micro_batches!r}", "a whole number of at least 1")
        self.count, self.loss = micro_batches, loss
        for spec in network.inputs:
            if not spec.is_tensor:
                raise Unsupported(f"the input {spec} of {network.name} in micro-batches", "inputs that are tensors")
        later = {d for spec in network.inputs for d in spec.shape[1:] if isinstance(d, str)}
        firsts = {spec.name: spec.shape[0] for spec in network.inputs if spec.shape}
        self.cut = tuple(name for name, d in firsts.items() if isinstance(d, str) and d not in later)
        self.open = frozenset(str(firsts[name]) for name in self.cut)
        if not self.cut:
            raise InvalidArgument(
                f"{network.name}, none of whose inputs has an open first axis: {', '.join(map(str, network.inputs))}",
                "an open batch size, since micro-batches are smaller than the batch",
                "load the network without fixing its sizes",
            )
        outputs = {spec.name: spec for spec in network.outputs}
        if loss is not None and loss not in outputs:
            raise InvalidArgument(
                f"{network.name} has no output {loss!r}",
                f"one of {', '.join(outputs)}",
                "network.with_loss(…), or loss=None",
            )
        for name, spec in outputs.items():
            if name != loss and (not spec.shape or isinstance(spec.shape[0], int)):
                raise Unsupported(
                    f"the output {spec} of {network.name} is not of each sample, and follows from no part of the batch",
                    "outputs whose first axis is the batch, and the loss",
                    "leave it out: network.with_outputs([…])",
                )
        if loss is not None and outputs[loss].shape not in ((), (1,)):
            raise InvalidArgument(f"the loss {outputs[loss]} of {network.name}", "a scalar")
        self.reduction = None if loss is None else _checked(network, loss, reduction)

    def sizes(self, shapes: Mapping[str, Sequence[int]]) -> list[int]:
        """How many samples each micro-batch has; they differ by at most one, the larger ones first.

        Args:
            shapes: Of inputs, one that is cut among them at least.

        Raises:
            InvalidInput: None of those that are cut, or of different sizes; or fewer samples than micro-batches.
        """
        batch_sizes = {name: shapes[name][0] for name in self.cut if name in shapes}
        if not batch_sizes:
            raise InvalidInput(f"inputs {', '.join(shapes) or '(none)'}", f"one of {', '.join(self.cut)}, to know the batch")
        samples = next(iter(batch_sizes.values()))
        if len(set(batch_sizes.values())) > 1:
            raise InvalidInput(f"batches of {', '.join(f'{n} in {name!r}' for name, n in batch_sizes.items())}", "one size")
        if samples < self.count:
            raise InvalidInput(
                f"a batch of {samples} samples in {self.count} micro-batches",
                "at least one sample in each",
                "fewer micro-batches, or a sampler that leaves no shorter batch at the end",
            )
        return [samples // self.count + (k < samples % self.count) for k in range(self.count)]

    def weights(self, sizes: Sequence[int]) -> list[float]:
        """What the loss of each micro-batch counts for in that of the batch."""
        return [1.0 if self.reduction == "sum" else size / sum(sizes) for size in sizes]

    def joined(self, name: str, parts: Sequence[np.ndarray], weights: Sequence[float]) -> np.ndarray:
        """An output of the batch, from those of all micro-batches."""
        if name != self.loss:
            return np.concatenate(parts)
        total = sum(weight * part.astype(np.float64) for weight, part in zip(weights, parts, strict=True))
        return np.asarray(total).astype(parts[0].dtype)


def _checked(network: Network, loss: str, declared: Reduction | None) -> Reduction:
    if declared is not None:
        if declared not in ("mean", "sum"):
            raise InvalidArgument(f"reduction={declared!r}", "'mean' or 'sum'")
        return declared
    node = next(v for v in network.graph.outputs if v.name == loss).producer()
    reduction = None if node is None else _reduction_of(node, Knowledge(network))
    if reduction is None:
        operator = "an input" if node is None else node.op_type
        raise InvalidArgument(
            f"the loss {loss!r} of {network.name}, which {operator} gives",
            f"a mean or a sum over the samples: {', '.join((*_LOSSES, *_REDUCTIONS))}",
            "say which it is: reduction='mean' or reduction='sum'",
        )
    return reduction


def _reduction_of(node: ir.Node, knowledge: Knowledge) -> Reduction | None:
    if node.op_type in _REDUCTIONS:
        dims = None if node.inputs[0] is None else knowledge.dims(node.inputs[0])
        of_samples = dims is not None and len(dims) > 0 and not isinstance(dims[0], int)
        return _REDUCTIONS[node.op_type] if of_samples else None
    if node.op_type not in _LOSSES:
        return None
    declared: Any = node.attributes.get("reduction")
    reduction: Reduction = "mean" if declared is None else declared.as_string()
    weighted = "weights per class" if len(node.inputs) > 2 and node.inputs[2] is not None else ""
    ignoring = "ignore_index" if "ignore_index" in node.attributes else ""
    if reduction == "mean" and (weighted or ignoring):
        raise Unsupported(
            f"node {node.name!r} ({node.op_type}) takes the mean with {weighted or ignoring}",
            "a mean in which all samples count alike: those that count differ from one micro-batch to the next",
            'reduction="sum"',
        )
    return reduction
