"""What messages cost in a prediction: of a machine that was measured, or as it was stated."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from deep_bench.distributed.machine.loggp import LogGP
from deep_bench.distributed.machine.messages import combining_time
from deep_bench.distributed.machine.model import Link, Segment, load_machine
from deep_bench.errors import InvalidArgument, UnknownName
from deep_bench.measure.units import duration, significant


def of_file(path: Path, over: str | None = None) -> tuple[Link, str]:
    """What messages between nodes cost, or within one where nothing else was measured; and the same in words.

    Args:
        path: What `deep-bench communicate` wrote.
        over: The communicator; the first one by default.

    Raises:
        InvalidArgument: Nothing was measured.
        UnknownName: Nothing over that communicator.
        InvalidRecord: It is no such file.
    """
    machine = load_machine(path)
    if not machine.links:
        raise InvalidArgument(f"{path}, without any measured messages", "a machine that deep-bench communicate measured")
    names = list(dict.fromkeys(link.system for link in machine.links))
    if over is not None and over not in names:
        raise UnknownName(f"communicator of {path}", over, names)
    links = [link for link in machine.links if link.system == (over or names[0])]
    link = next((candidate for candidate in links if candidate.between == "nodes"), links[0])
    where = "between nodes" if link.between == "nodes" else "within one node, not over a network"
    return link, f"{path}: messages over {link.system}, measured {where}: {told(link)}"


def stated(latency: float, bandwidth: float) -> tuple[Link, str]:
    r"""A machine with :math:`L` and :math:`1 / G` as they are stated, and nothing else but adding up, measured here.

    Args:
        latency: Seconds.
        bandwidth: Bytes a second.

    Example:
        >>> f"{stated(1e-6, 1e10)[0].message(10_001):.2e}"
        '2.00e-06'
    """
    gamma = combining_time(np.dtype(np.float32))
    parameters = LogGP(L=latency, o=0.0, g=0.0, G=1 / bandwidth, gamma=gamma)
    link = Link(
        system="stated", between="nodes", pair=(0, 1), hosts=("one", "another"), segments=[Segment(parameters=parameters)]
    )
    return link, f"as stated, not measured: {told(link)}"


def told(link: Link) -> str:
    """The parameters in words."""
    parts = []
    for segment in link.segments:
        p = segment.parameters
        sizes = "" if len(link.segments) == 1 else "larger: " if segment.up_to is None else f"up to {segment.up_to} B: "
        rate = f", 1/G {significant(1e-9 / p.G)} GB/s" if p.G else ""
        adding = f", adding {significant(1e-9 / p.gamma)} GB/s" if p.gamma else ""
        parts.append(f"{sizes}L {duration(p.L)}, o {duration(p.o)}, g {duration(p.g)}{rate}{adding}")
    return "; ".join(parts)
