r"""LogGP: what a message costs.

A message of :math:`k` bytes keeps its sender busy for :math:`o`, is on the wire for :math:`L + (k - 1) G`, and keeps its
receiver busy for :math:`o`. The next message can leave :math:`g + (k - 1) G` after it at the earliest.

Source:
    Culler et al., *LogP: towards a realistic model of parallel computation*, PPoPP 1993; Alexandrov, Ionescu, Schauser and
    Scheiman, *LogGP: incorporating long messages into the LogP model*, SPAA 1995. Combining costs :math:`\gamma` a byte, as
    in Thakur, Rabenseifner and Gropp, *Optimization of collective communication operations in MPICH*, IJHPCA 19 (2005).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from pydantic import Field

from deep_bench.measure.record import Model


class Costs(Protocol):
    """What the formulas ask of a machine; all in seconds, for messages of so many bytes."""

    def overhead(self, size: float) -> float:
        """How long a processor is busy with one end of a message: :math:`o`."""

    def message(self, size: float) -> float:
        """From the begin of sending to the end of receiving: :math:`L + 2 o + (k - 1) G`."""

    def gap(self, size: float) -> float:
        """From one send to the next, as far as the wire is concerned: :math:`g + (k - 1) G`."""

    def combining(self, size: float) -> float:
        r"""Adding up so many bytes: :math:`\gamma k`."""


class LogGP(Model):
    """The parameters of one machine, for messages of one kind.

    Attributes:
        L: Latency of the wire, in seconds.
        o: Time that a processor is busy with one end of a message, in seconds.
        g: Least time between two messages, in seconds.
        G: Time for each further byte, in seconds a byte.
        gamma: Time to combine a byte with another, in seconds a byte.

    Example:
        >>> machine = LogGP(L=5e-6, o=1e-6, g=2e-6, G=1e-9)
        >>> f"{machine.message(1001):.2e} {machine.gap(1001):.2e}"
        '8.00e-06 3.00e-06'
    """

    L: float = Field(ge=0, allow_inf_nan=False)
    o: float = Field(ge=0, allow_inf_nan=False)
    g: float = Field(ge=0, allow_inf_nan=False)
    G: float = Field(ge=0, allow_inf_nan=False)
    gamma: float = Field(default=0.0, ge=0, allow_inf_nan=False)

    def overhead(self, size: float) -> float:  # noqa: ARG002 (the same for all sizes)
        """See `Costs`."""
        return self.o

    def message(self, size: float) -> float:
        """See `Costs`."""
        return self.L + 2 * self.o + max(size - 1, 0) * self.G

    def gap(self, size: float) -> float:
        """See `Costs`."""
        return self.g + max(size - 1, 0) * self.G

    def combining(self, size: float) -> float:
        """See `Costs`."""
        return self.gamma * size


def send_gap(m: Costs, size: float) -> float:
    """From one send to the next on one processor: the wire's gap, or the processor's overhead where that is longer."""
    return max(m.overhead(size), m.gap(size))


def rounds(m: Costs, *, added: Sequence[float] = (), copied: Sequence[float] = ()) -> float:
    """Rounds in each of which everyone sends one message and receives one.

    A round lasts a message, or the gap after it where that is longer; after the last one nothing follows.

    Args:
        m: The machine.
        added: Bytes of a message in each of the first rounds, where what comes is added to what is there.
        copied: Bytes in each of the rounds after these, where it is kept as it is.

    Example:
        >>> rounds(LogGP(L=1, o=1, g=5, G=0), copied=[8, 8, 8])
        13.0
    """
    lasting = [(size, m.message(size) + m.combining(size)) for size in added]
    lasting += [(size, m.message(size)) for size in copied]
    waits = [max(time, m.gap(size)) for size, time in lasting]
    return float(sum(waits[:-1]) + sum(time for _, time in lasting[-1:]))
