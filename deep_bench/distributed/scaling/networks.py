"""Networks that a simulator knows, as platforms of SimGrid."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import ceil

from deep_bench.distributed.machine.loggp import LogGP

_PORTS = 16
_CHASSIS, _NODES = 4, 4


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
    """Three dimensions, as equal as can be; two of them have two nodes or more, which SimGrid asks for.

    Example:
        >>> torus(2).parameters, torus(64).parameters, torus(1024).parameters
        ('1,2,2', '4,4,4', '10,10,11')
    """
    a = max(round(ranks ** (1 / 3)), 1)
    b = max(round((ranks / a) ** 0.5), 2)
    sizes = sorted((a, b, max(ceil(ranks / (a * b)), 2)))
    total = sizes[0] * sizes[1] * sizes[2]
    return Network("TORUS", ",".join(map(str, sizes)), total, 1, f"a torus of {' x '.join(map(str, sizes))} nodes")


def dragonfly(ranks: int) -> Network:
    """Groups of 4 chassis with 4, 8, 16 … routers with 4 nodes each; out of a group go as many links as it has nodes.

    Example:
        >>> dragonfly(256).parameters, dragonfly(1025).parameters
        ('4,22;4,1;4,1;4', '5,64;4,1;16,1;4')
    """
    routers = 4
    while _CHASSIS * routers**2 * _NODES < ranks:  # as SimGrid routes, each router of a chassis leads to one group
        routers *= 2
    each = _CHASSIS * routers * _NODES
    count = max(ceil(ranks / each), 2)
    links = ceil(each / (count - 1))
    parameters = f"{count},{links};{_CHASSIS},1;{routers},1;{_NODES}"
    words = (
        f"a dragonfly: {count} groups of {_CHASSIS} chassis with {routers} routers with {_NODES} nodes each, "
        f"{links} links between two groups"
    )
    return Network("DRAGONFLY", parameters, count * each, 2, words)


NETWORKS: Mapping[str, Callable[[int], Network]] = {"dragonfly": dragonfly, "fat-tree": fat_tree, "torus": torus}
"""Name to the network for so many ranks."""
