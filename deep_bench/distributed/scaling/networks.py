"""Networks that a simulator knows, as platforms of SimGrid."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import ceil

from deep_bench.distributed.machine.loggp import LogGP

_PORTS = 16
_DRAGONFLY = (4, 4, 4)
"""Chassis of a group, routers of a chassis, nodes of a router."""


@dataclass(frozen=True)
class Network:
    """A network for so many ranks, each on a node of its own.

    Args:
        topology: SimGrid's name.
        parameters: SimGrid's parameters.
        nodes: How many there are; the first ones are used, in order.
        links: Between two nodes that are next to each other.
        words: In words.
    """

    topology: str
    parameters: str
    nodes: int
    links: int
    words: str

    def platform(self, machine: LogGP) -> str:
        """The platform file: each link has the machine's bandwidth; two nodes next to each other have its latency.

        Args:
            machine: Its L and G are taken.
        """
        bandwidth = 1 / machine.G if machine.G else 1e15
        return (
            "<?xml version='1.0'?>\n"
            '<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">\n'
            '<platform version="4.1">\n'
            f' <cluster id="ranks" prefix="n" suffix="" radical="0-{self.nodes - 1}" speed="1Gf" bw="{bandwidth:.6g}Bps" '
            f'lat="{machine.L / self.links:.6g}s" topology="{self.topology}" topo_parameters="{self.parameters}"/>\n'
            "</platform>\n"
        )


def fat_tree(ranks: int) -> Network:
    """Two levels of switches with 16 nodes at each lower one, and as many links up as down; one level where that is enough.

    Example:
        >>> fat_tree(64).parameters
        '2;16,4;1,16;1,1'
    """
    if ranks <= _PORTS:
        return Network("FAT_TREE", f"1;{ranks};1;1", ranks, 2, f"a switch with {ranks} nodes")
    below = ceil(ranks / _PORTS)
    words = f"a fat tree: {below} switches with {_PORTS} nodes each, and {_PORTS} above them"
    return Network("FAT_TREE", f"2;{_PORTS},{below};1,{_PORTS};1,1", _PORTS * below, 2, words)


def torus(ranks: int) -> Network:
    """Three dimensions, as equal as can be."""
    a = max(round(ranks ** (1 / 3)), 1)
    b = max(round((ranks / a) ** 0.5), 1)
    sizes = sorted((a, b, ceil(ranks / (a * b))))
    total = sizes[0] * sizes[1] * sizes[2]
    return Network("TORUS", ",".join(map(str, sizes)), total, 1, f"a torus of {' x '.join(map(str, sizes))} nodes")


def dragonfly(ranks: int) -> Network:
    """Groups of 4 chassis with 4 routers with 4 nodes each."""
    chassis, routers, nodes = _DRAGONFLY
    each = chassis * routers * nodes
    count = max(ceil(ranks / each), 2)
    parameters = f"{count},1;{chassis},1;{routers},1;{nodes}"
    words = f"a dragonfly: {count} groups of {chassis} chassis with {routers} routers with {nodes} nodes each"
    return Network("DRAGONFLY", parameters, count * each, 2, words)


NETWORKS: Mapping[str, Callable[[int], Network]] = {"dragonfly": dragonfly, "fat-tree": fat_tree, "torus": torus}
"""Name to the network for so many ranks."""
