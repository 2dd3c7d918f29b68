"""Which graph of ranks a setting names."""

from __future__ import annotations

from deep_bench.distributed.topology import Topology, topology
from deep_bench.errors import InvalidArgument


def graph_of(setting: str | Topology, size: int) -> Topology:
    """The topology that is named, or given, for so many ranks.

    Raises:
        UnknownName: No topology has this name.
        InvalidArgument: One of another number of ranks, or something else.
    """
    if isinstance(setting, str):
        return topology(setting, size)
    if not isinstance(setting, Topology) or setting.size != size:
        raise InvalidArgument(f"topology={setting!r} for {size} ranks", f"a name, or a Topology of {size} ranks")
    return setting
