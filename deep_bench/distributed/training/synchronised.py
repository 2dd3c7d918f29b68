"""Batch normalization over the samples of all ranks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import onnx_ir as ir

from deep_bench.distributed.communicators.communicator import Communicator
from deep_bench.errors import InvalidArgument
from deep_bench.graph import operator_name
from deep_bench.operators.operator import Operator
from deep_bench.training.form import TrainingForm


class SynchronisedNormalization(Operator[np.ndarray]):
    r"""Batch normalization in training mode, with the mean and variance of all ranks' samples. For each channel

    .. math::
        \mu = k + \frac1N \sum d, \quad \sigma^2 = \frac1N \sum d^2 - (\mu - k)^2, \quad
        \hat x = \frac{x - \mu}{\sqrt{\sigma^2 + \epsilon}}, \quad y = \gamma \hat x + \beta,

    where :math:`d = x - k` is the distance from the running mean before the step, which all ranks have in common, and sums
    go over the :math:`N` elements of all ranks, in float64. Near the mean, no digits are lost in the difference. One sum
    over ranks has all of it: numbers of elements, :math:`\sum d` and :math:`\sum d^2`.

    Rank :math:`r` has a share :math:`w_r` of the samples, and its loss is the mean over these, so that the loss of all is
    :math:`L = \sum_r w_r L_r`. With :math:`g = \partial L_r / \partial y` on each rank,

    .. math::
        \frac{\partial L_r}{\partial x} = \frac{\gamma}{\sqrt{\sigma^2 + \epsilon}} \Big( g - \frac{1}{w_r N}
        \Big(\sum_s w_s \sum g + \hat x \sum_s w_s \sum g \hat x\Big) \Big)

    is what gives, weighted by :math:`w_r` and summed, the gradients of :math:`L`; those of :math:`\gamma` and :math:`\beta`
    are this rank's own, to be summed as all others are. One sum over ranks has :math:`\sum g` and :math:`\sum g d` beside
    what the forward pass summed, so that nothing is kept from there.

    All ranks call it in the same order, as those that run the same network one node at a time do.

    Args:
        comm: The ranks.

    Attributes:
        samples: How many samples this rank has in the step; ``None``: all ranks have equally many.

    Example:
        >>> import deep_bench as db
        >>> from deep_bench.distributed.communicators.local import run_local
        >>> one, zero, how = np.ones(1), np.zeros(1), {"epsilon": 0.0, "momentum": 0.0, "training_mode": 1}
        >>> def on_rank(comm):
        ...     x = np.array([[1.0], [3.0]]) + 4 * comm.rank
        ...     return [y.ravel().tolist() for y in SynchronisedNormalization(comm).forward(x, one, zero, zero, one, **how)]
        >>> run_local(2, on_rank)[0][1:]
        [[4.0], [5.0]]

    Source:
        Ioffe and Szegedy, *Batch normalization*, ICML 2015, algorithm 1 and the equations of section 3; statistics over
        devices, with gradients: Zhang et al., *Context encoding for semantic segmentation*, CVPR 2018, section 3.1. Sums
        about a value near the mean: Chan, Golub and LeVeque, *Algorithms for computing the sample variance*, The American
        Statistician 37(3), 1983.
    """

    computes = "BatchNormalization"

    def __init__(self, comm: Communicator) -> None:
        self._comm = comm
        self.samples: int | None = None

    def apart(self) -> None:
        """Have ranks of its own, so that its messages never meet others'; all ranks call it together."""
        group = self._comm.split(0, self._comm.rank)
        assert group is not None
        self._comm = group

    def forward(
        self,
        x: np.ndarray,
        scale: np.ndarray,
        bias: np.ndarray,
        mean: np.ndarray,
        variance: np.ndarray,
        *,
        epsilon: float,
        momentum: float,
        training_mode: int,
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """See ONNX BatchNormalization (15) in training mode; all ranks together.

        Args:
            x: Of shape (samples, channels, …), this rank's.
            scale: Of shape (channels,).
            bias: Of shape (channels,).
            mean: Before the step, of shape (channels,); the same on all ranks.
            variance: Before the step, of shape (channels,).
            epsilon: Added to the variance.
            momentum: What of the running statistics stays.
            training_mode: 1.

        Returns:
            y, and the running mean and variance after the step, which are the same on all ranks.

        Raises:
            InvalidArgument: In another mode.
        """
        if not training_mode:
            raise InvalidArgument("batch normalization by running statistics", "training_mode=1: others need no ranks")
        distance = _distance(x, mean)
        count, total, squares = self._summed(_moments(distance))
        of_all = _Moments.of(count[0], total, squares, epsilon)
        y = (distance - _wide(of_all.offset)) * _wide(of_all.slope * scale) + _wide(bias)
        following = [(mean, mean + of_all.offset), (variance, of_all.variance)]
        after = [(old * momentum + new * (1 - momentum)).astype(old.dtype) for old, new in following]
        return y.reshape(x.shape).astype(x.dtype), *after

    def backward(
        self,
        grads: Sequence[np.ndarray | None],
        inputs: Sequence[np.ndarray | None],
        outputs: Sequence[np.ndarray],
        **attributes: Any,
    ) -> tuple[np.ndarray | None, ...]:
        """The gradients of this rank's loss, as above; those of the running statistics are none."""
        del outputs
        epsilon: float = attributes["epsilon"]
        x, scale, bias, mean, _ = inputs
        if grads[0] is None:
            return (None,) * len(inputs)
        assert x is not None and scale is not None and bias is not None and mean is not None  # noqa: PT018
        distance, weight = _distance(x, mean), self.samples or 1
        g = grads[0].reshape(distance.shape).astype(np.float64)
        local_sum, along = _sum(g), _sum(g, distance)
        samples = np.full_like(local_sum, weight)
        sums = self._summed([*_moments(distance), samples, weight * local_sum, weight * along])
        count, total, squares, samples, summed, summed_along = sums
        of_all = _Moments.of(count[0], total, squares, epsilon)
        level = summed / (weight * count)
        tilt = of_all.slope**2 * (summed_along - of_all.offset * summed) / (weight * count)
        centred = distance - _wide(of_all.offset)
        dx = (g - _wide(level) - centred * _wide(tilt)) * _wide(of_all.slope * scale)
        dscale = of_all.slope * (along - of_all.offset * local_sum)
        return dx.reshape(x.shape).astype(x.dtype), dscale.astype(scale.dtype), local_sum.astype(bias.dtype), None, None

    def _summed(self, rows: Sequence[np.ndarray]) -> np.ndarray:
        return self._comm.allreduce(np.stack(rows))


@dataclass(frozen=True)
class _Moments:
    """Of each channel: how far its mean is from the value that distances were taken from; its variance; what scales it."""

    offset: np.ndarray
    variance: np.ndarray
    slope: np.ndarray

    @classmethod
    def of(cls, count: float, total: np.ndarray, squares: np.ndarray, epsilon: float) -> _Moments:
        offset = total / count
        variance = np.maximum(squares / count - offset**2, 0)
        return cls(offset, variance, 1 / np.sqrt(variance + epsilon))


def _distance(x: np.ndarray, mean: np.ndarray) -> np.ndarray:
    """From the running mean, of shape (samples, channels, elements)."""
    return x.reshape(len(x), len(mean), -1).astype(np.float64) - _wide(mean)


def _wide(channels: np.ndarray) -> np.ndarray:
    return channels.astype(np.float64)[:, None]


def _sum(*factors: np.ndarray) -> np.ndarray:
    """Of each channel the sum of products, of shape (channels,)."""
    return np.einsum(",".join(["ncl"] * len(factors)) + "->c", *factors)


def _moments(distance: np.ndarray) -> list[np.ndarray]:
    channels = distance.shape[1]
    count = distance.size / channels
    return [np.full(channels, count), _sum(distance), _sum(distance, distance)]


def synchronised(form: TrainingForm, comm: Communicator) -> TrainingForm:
    """The form whose batch normalizations take mean and variance over all ranks' samples in a step.

    Args:
        form: The network's.
        comm: The ranks.

    Returns:
        The same form where there is nothing to synchronise: with one rank, or without batch normalizations.

    Example:
        >>> import deep_bench as db
        >>> from deep_bench.distributed.communicators.local import run_local
        >>> form = db.training.training_form(db.load("digits-cnn"))
        >>> run_local(2, lambda comm: len(synchronised(form, comm).training.kernels))
        [5, 5]
    """
    if comm.size == 1 or not any(_is_batch(node) for node in form.training.all_nodes()):
        return form
    return replace(form, training=form.training.replace(_is_batch, SynchronisedNormalization(comm)))


def _is_batch(node: ir.Node) -> bool:
    return operator_name(node) == "BatchNormalization"
