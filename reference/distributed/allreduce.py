"""Synchronous data parallelism: all ranks step by the gradient of the whole batch."""

from __future__ import annotations

from dataclasses import dataclass

from deep_bench.reference.distributed.scheme import Scheme, contributions, total


@dataclass(frozen=True)
class AllReduce(Scheme):
    r"""Every rank adds up all ranks' gradients, and takes the step that one process takes on the whole batch.

    With :math:`n_i` samples on rank :math:`i`, of the mean gradient :math:`g_i`:

    .. math::
        G = \sum_i \frac{n_i}{\sum_j n_j} g_i, \qquad x' = \mathrm{inner}(x, G)

    How messages are cut and when they are sent changes no value.

    Source:
        Goyal et al., *Accurate, large minibatch SGD*, 2017, equation 2, and section 3, remark 3 on normalising by the whole
        minibatch, which is the weighting; Chen, Pan, Monga, Bengio and Jozefowicz, *Revisiting distributed synchronous SGD*,
        ICLR workshop 2016, without backup workers.
    """

    def step(self, gradients, samples, state, parameters):
        whole = total(contributions(gradients, samples))
        return self.updated([whole for _ in parameters], state, parameters)
