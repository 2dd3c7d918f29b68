"""What messages between two ranks cost: one and back, and a window of many."""

from __future__ import annotations

from deep_bench.distributed.machine.loggp import Costs, send_gap
from deep_bench.distributed.machine.symmetric import posted_exchange

WINDOW = 64
"""Messages that are under way at once."""

ANSWER = 4
"""Bytes of the answer to a window."""


def latency(n: int, m: Costs) -> float:
    r"""Half of a round trip: :math:`M(n)`."""
    return m.message(n)


def window(n: int, m: Costs) -> float:
    r"""A window of :math:`w` messages one way, and an answer: :math:`(w - 1) s(n) + M(n) + M(4)`."""
    return (WINDOW - 1) * send_gap(m, n) + m.message(n) + m.message(ANSWER)


def window_both_ways(n: int, m: Costs) -> float:
    r"""A window both ways, and an answer one way: `posted_exchange` of :math:`w` messages :math:`+ M(4)`.

    The answer leaves when the window has come, and the wire is free again after one's own.
    """
    free = (WINDOW - 1) * send_gap(m, n) + m.gap(n)
    return max(posted_exchange(WINDOW, n, m), free) + m.message(ANSWER)
