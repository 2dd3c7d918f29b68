"""Measuring a machine: messages between two ranks of a node, and of two nodes, over each communicator."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np

from deep_bench.distributed.communicators.communicator import Communicator
from deep_bench.distributed.machine.messages import combining_time, measured_points

if TYPE_CHECKING:
    from deep_bench.distributed.machine.model import Link, Machine, Point


class Agrees(Protocol):
    """How rank 0 tells the others what to do; `deep_bench.distributed.collectives.together.Together` is one."""

    def decided(self, *values: int) -> list[int]:
        """The numbers as rank 0 has them."""


def pairs_of(hosts: Sequence[str]) -> list[tuple[int, int]]:
    """Rank 0 with the first other rank of its node, and with the first of another node, as far as there are such.

    Example:
        >>> pairs_of(["a", "a", "b"]), pairs_of(["a", "b"])
        ([(0, 1), (0, 2)], [(0, 1)])
    """
    neighbour = next((rank for rank, host in enumerate(hosts) if rank and host == hosts[0]), None)
    remote = next((rank for rank, host in enumerate(hosts) if host != hosts[0]), None)
    return [(0, rank) for rank in (neighbour, remote) if rank is not None]


def measured_machine(
    systems: Mapping[str, Communicator],
    hosts: Sequence[str],
    together: Agrees,
    advance: Callable[[], None] = lambda: None,
) -> Machine | None:
    """What messages cost over each communicator. All ranks call this together.

    Args:
        systems: Label to communicator.
        hosts: Of each rank; asked for on rank 0 only.
        together: Tells all ranks what rank 0 knows.
        advance: Called when a communicator is done.

    Returns:
        The machine, on rank 0; ``None`` elsewhere.
    """
    leads = next(iter(systems.values())).rank == 0
    pairs = pairs_of(hosts) if leads else []
    peers = [rank for rank in together.decided(*([peer for _, peer in pairs] + [-1, -1])[:2]) if rank >= 0]
    gamma = combining_time(np.dtype(np.float32)) if leads else 0.0
    links = []
    for label, comm in systems.items():
        for peer in peers:
            points = measured_points(comm, (0, peer))
            if leads:
                links.append(_link(label, comm, (0, peer), hosts, points, gamma))
            comm.barrier()
        advance()
    return _machine(hosts, links) if leads else None


def _link(
    label: str, comm: Communicator, pair: tuple[int, int], hosts: Sequence[str], points: list[Point], gamma: float
) -> Link:
    from deep_bench.distributed.machine.fit import fitted
    from deep_bench.distributed.machine.model import Link

    fit = fitted(points, gamma)
    ends = (hosts[pair[0]], hosts[pair[1]])
    return Link(
        system=label,
        facts=dict(comm.describe()),
        between="one node" if ends[0] == ends[1] else "nodes",
        pair=pair,
        hosts=ends,
        segments=fit.segments,
        points=points,
        residual=fit.residual,
        worst=fit.worst,
        notes=fit.notes,
    )


def _machine(hosts: Sequence[str], links: list[Link]) -> Machine:
    from deep_bench import __version__
    from deep_bench.distributed.machine.model import Machine
    from deep_bench.measure.environment import capture

    return Machine(deep_bench=__version__, command=sys.argv, environment=capture(), hosts=list(hosts), links=links)
