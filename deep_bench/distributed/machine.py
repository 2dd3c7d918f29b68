r"""What messages cost on a machine: measured between two ranks, fitted to LogGP, and kept in ``machine.json``.

One rank sends n messages of k bytes, with a delay d after each but the last; when all have come the other one sends one
back. With :math:`T(n, d, k)` for the whole,

.. math:: T(1, 0, k) = 2 (L + 2 o + (k - 1) G), \quad T(n, 0, k) = T(1, 0, k) + (n - 1) (g + (k - 1) G)

The first gives what a message takes, the second the gap. With a delay d that is longer than a message the wire is free
again: then handing a message over takes :math:`o`. Only the first rank's clock is used. All figures are medians.

Within a segment of sizes, :math:`A = L + 2 o`, :math:`g` and :math:`G`, none of them negative, minimise the squared relative
distances of :math:`A + (k - 1) G` from the time of a message and of :math:`g + (k - 1) G` from the gap; :math:`o` is the
median of the overheads. Libraries send short messages at once (*eager*) and agree on long ones first (*rendezvous*), and
copies outgrow caches: so up to four segments are tried, with all borders between sizes, and the number with the least
Bayesian information criterion is kept.

Source:
    Hoefler, Lichei and Rehm, *Low-overhead LogGP parameter assessment for modern interconnection networks*, PMEO-PDS at
    IPDPS 2007, section 3 (parametrised round trips, as in netgauge). There :math:`o` is found from :math:`T(n, d, k)`
    too; stamps around each send see the same, and a rank that is interrupted disturbs them less; Hoefler, Lichei and
    Rehm 2007 (as above), section 3.3 (least squares, change of protocol);
    segments by dynamic programming: Bai and Perron, *Computation and analysis of multiple structural change models*, J.
    Applied Econometrics 18 (2003); Schwarz, *Estimating the dimension of a model*, Annals of Statistics 6 (1978).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from math import inf, log
from pathlib import Path
from time import perf_counter_ns
from typing import Literal, Protocol, TypeAlias, TypeVar

import numpy as np
from pydantic import Field, JsonValue, model_validator
from scipy.optimize import nnls

from deep_bench.distributed.communicators.communicator import Communicator
from deep_bench.distributed.loggp import LogGP
from deep_bench.errors import InvalidArgument, UnknownName
from deep_bench.measure.environment import Environment, provenance
from deep_bench.records.fields import Date, RecordModel
from deep_bench.records.store import read_model, replace

Between: TypeAlias = Literal["one node", "nodes"]


class MessagePoint(RecordModel):
    """What was measured for one size, each a median, in seconds.

    Attributes:
        size: Bytes.
        message: Half of a round trip.
        gap: From one message to the next.
        overhead: How long the sender is busy with one.
        n: How many times each was measured.
    """

    size: int = Field(ge=1)
    message: float = Field(gt=0)
    gap: float = Field(ge=0)
    overhead: float = Field(ge=0)
    n: int = Field(ge=1)


class Segment(RecordModel):
    """Messages of up to so many bytes (``None``: of any), and their parameters."""

    up_to: int | None = None
    parameters: LogGP


class Link(RecordModel):
    """What messages between two ranks cost over one communicator.

    Attributes:
        system: The communicator, as it was named.
        facts: What it says of itself.
        between: Whether both ranks are on one node.
        pair: The two ranks.
        hosts: Where they are.
        segments: Parameters by size, ascending; the last one is for all that is larger.
        points: What they were fitted to.
        residual: Root of the mean squared relative distance of the points from the fit.
        worst: The largest relative distance.
        notes: What a reader should know.

    Example:
        >>> small, large = LogGP(L=1e-6, o=0, g=0, G=0), LogGP(L=5e-6, o=0, g=0, G=0)
        >>> segments = [Segment(up_to=4096, parameters=small), Segment(parameters=large)]
        >>> link = Link(system="mpi", between="one node", pair=(0, 1), hosts=("a", "a"), segments=segments)
        >>> link.message(4096), link.message(4097)
        (1e-06, 5e-06)
    """

    system: str
    facts: dict[str, JsonValue] = Field(default_factory=dict)
    between: Between
    pair: tuple[int, int]
    hosts: tuple[str, str]
    segments: list[Segment] = Field(min_length=1)
    points: list[MessagePoint] = Field(default_factory=list)
    residual: float = 0.0
    worst: float = 0.0
    notes: list[str] = Field(default_factory=list)

    @model_validator(mode="after")
    def _check_segments(self) -> Link:
        ends = [segment.up_to for segment in self.segments]
        inner = [end for end in ends[:-1] if end is not None]
        if ends[-1] is not None or len(inner) < len(ends) - 1 or inner != sorted(set(inner)):
            raise ValueError(f"segments up to {ends}: ascending sizes expected, and null for the last")
        return self

    def at(self, size: float) -> LogGP:
        """The parameters for messages of a size."""
        return next(s.parameters for s in self.segments if s.up_to is None or size <= s.up_to)

    def overhead(self, size: float) -> float:
        """See `deep_bench.distributed.loggp.Costs`."""
        return self.at(size).overhead(size)

    def message(self, size: float) -> float:
        """See `deep_bench.distributed.loggp.Costs`."""
        return self.at(size).message(size)

    def gap(self, size: float) -> float:
        """See `deep_bench.distributed.loggp.Costs`."""
        return self.at(size).gap(size)

    def combining(self, size: float) -> float:
        """See `deep_bench.distributed.loggp.Costs`."""
        return self.at(size).combining(size)


class Machine(RecordModel):
    """What messages cost on a machine, over one or several communicators.

    Attributes:
        created: When it was measured.
        deep_bench: By which version.
        command: By which command.
        environment: Of rank 0.
        hosts: Of each rank that there was.
        links: What was measured.
    """

    schema_version: Literal[1] = 1
    kind: Literal["machine"] = "machine"
    created: Date = Field(default_factory=lambda: datetime.now(UTC))
    deep_bench: str
    command: list[str] = Field(default_factory=list)
    environment: Environment
    hosts: list[str] = Field(min_length=1)
    links: list[Link] = Field(default_factory=list)

    def link(self, system: str, hosts: Sequence[str]) -> Link:
        """What messages cost among ranks on these hosts: between nodes, if there are several.

        Args:
            system: The communicator.
            hosts: Of each rank.

        Raises:
            UnknownName: Nothing was measured over that communicator.
            InvalidArgument: Nothing was measured between nodes, or within one.
        """
        links = [link for link in self.links if link.system == system]
        if not links:
            raise UnknownName("communicator of the machine", system, [link.system for link in self.links])
        between: Between = "one node" if len(set(hosts)) == 1 else "nodes"
        for link in links:
            if link.between == between:
                return link
        measured = ", ".join(link.between for link in links)
        raise InvalidArgument(
            f"ranks on {len(set(hosts))} hosts, and a machine whose messages over {system} were measured on {measured}",
            advice="measure it with ranks on as many nodes",
        )

    def save(self, path: Path) -> Path:
        """Write it, whole or not at all.

        Raises:
            InvalidArgument: It cannot be written there.
        """
        text = self.model_dump_json(indent=1) + "\n"
        try:
            replace(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))
        except OSError as error:
            raise InvalidArgument(f"{path} cannot be written: {error.strerror}", advice="name another file") from error
        return path


def load_machine(path: str | Path) -> Machine:
    """Read what `Machine.save` wrote.

    Raises:
        InvalidRecord: It cannot be read, or is no such file; the message names the field.
    """
    return read_model(Path(path), Machine, "a machine that `deep-bench communicate` wrote, of schema version 1")


T = TypeVar("T")

TRAIN = 10
"""Messages that follow each other."""


SIZES = (1, 8, 64, *(2**i for i in range(8, 19)), 2**20, 2**22)
"""In bytes, close together where libraries change their protocol."""


_REPEATS = 31
_TIME_NS = 40_000_000
"""At least three repeats, and then no more of a size than fit into this."""


def measured_points(comm: Communicator, pair: tuple[int, int], sizes: Sequence[int] = SIZES) -> list[MessagePoint]:
    """Measure messages of each size; the points on the pair's first rank, an empty list elsewhere.

    Args:
        comm: Over which. All its ranks may call it; those that are not of the pair return at once.
        pair: Two ranks.
        sizes: In bytes.
    """
    if comm.rank not in pair:
        return []
    first, peer = pair
    points = []
    for size in sorted(set(sizes)):
        x, back = np.zeros(size, np.int8), np.zeros(size, np.int8)
        if comm.rank == first:
            points.append(_point(comm, peer, x, back))
        else:
            _serve(comm, first, x, back)
    return points


def _point(comm: Communicator, peer: int, x: np.ndarray, back: np.ndarray) -> MessagePoint:
    """The first rank's side for one size: three kinds of round trips, in turn."""
    order = np.zeros(1, np.int64)

    def ordered(messages: int, call: Callable[[], T]) -> T:
        order[0] = messages
        comm.send(order, peer)
        comm.recv(order, peer)
        return call()

    for _ in range(3):
        ordered(1, lambda: _round_trip(comm, peer, x, back, 1))
    begin = perf_counter_ns()
    single: list[int] = []
    train: list[int] = []
    handing: list[int] = []
    while len(single) < 3 or (len(single) < _REPEATS and perf_counter_ns() - begin < _TIME_NS):
        single.append(ordered(1, lambda: _round_trip(comm, peer, x, back, 1)[0]))
        train.append(ordered(TRAIN, lambda: _round_trip(comm, peer, x, back, TRAIN)[0]))
        delay = max(int(np.median(single)), 1000)
        handing += ordered(TRAIN, lambda: _round_trip(comm, peer, x, back, TRAIN, delay)[1])  # noqa: B023
    ordered(0, lambda: 0)
    whole, behind, busy = (float(np.median(times)) for times in (single, train, handing))
    return MessagePoint(
        size=x.size,
        message=max(whole / 2, 1.0) / 1e9,
        gap=max(behind - whole, 0.0) / (TRAIN - 1) / 1e9,
        overhead=busy / 1e9,
        n=len(single),
    )


def _round_trip(
    comm: Communicator, peer: int, x: np.ndarray, back: np.ndarray, messages: int, delay: int = 0
) -> tuple[int, list[int]]:
    """So many messages there and one back, in nanoseconds; and how long it took to hand each over."""
    begun, handing = [], []
    begin = perf_counter_ns()
    for _ in range(messages):
        before = perf_counter_ns()
        begun.append(comm.isend(x, peer))
        handing.append(perf_counter_ns() - before)
        if delay:
            _spin(delay)
    for request in begun:
        request.wait()
    comm.recv(back, peer)
    return perf_counter_ns() - begin, handing


def _spin(duration: int) -> None:
    """Be busy for so many nanoseconds."""
    begin = perf_counter_ns()
    while perf_counter_ns() - begin < duration:
        pass


def _serve(comm: Communicator, first: int, x: np.ndarray, back: np.ndarray) -> None:
    """The other rank's side for one size: told how many messages come, it says that it is ready, takes them, and answers."""
    order = np.zeros(1, np.int64)
    while True:
        comm.recv(order, first)
        messages = int(order[0])
        begun = [comm.irecv(back, first) for _ in range(messages)]
        comm.send(order, first)
        if not messages:
            return
        for request in begun:
            request.wait()
        comm.send(x, first)


def combining_time(dtype: np.dtype, size: int = 2**20, repeats: int = 21) -> float:
    """Seconds to add a byte to another, in arrays of such elements: NumPy's time, on this rank."""
    elements = max(size // dtype.itemsize, 1)
    x, y = np.ones(elements, dtype), np.ones(elements, dtype)
    times = []
    for _ in range(repeats):
        begin = perf_counter_ns()
        np.add(x, y, out=y)
        times.append(perf_counter_ns() - begin)
    return float(np.median(times)) / 1e9 / x.nbytes


MOST_SEGMENTS = 4
LEAST_POINTS = 3
"""In a segment."""


_BUSY = "a rank is busy with one for at least as long as half of it takes, so that nothing is left for the wire"

_FLOOR = 1e-6
"""Of the mean squared relative distance: nothing is measured more exactly than to a thousandth."""


@dataclass(frozen=True)
class Fit:
    """What was found.

    Args:
        segments: Parameters by size.
        residual: Root of the mean squared relative distance.
        worst: The largest relative distance.
        notes: What a reader should know.
    """

    segments: list[Segment]
    residual: float
    worst: float
    notes: list[str]


def fitted_parameters(points: Sequence[MessagePoint], gamma: float = 0.0) -> Fit:
    """The parameters that suit the points best.

    Args:
        points: At least three.
        gamma: The time to combine a byte, in seconds.

    Raises:
        InvalidArgument: Fewer than three points.

    Example:
        >>> points = [MessagePoint(size=k, message=3e-6 + (k - 1) * 1e-9, gap=1e-6 + (k - 1) * 1e-9, overhead=5e-7, n=9)
        ...           for k in (1, 64, 1024, 8192, 65536)]
        >>> found = fitted_parameters(points).segments[0].parameters
        >>> [f"{value:.1e}" for value in (found.L, found.o, found.g, found.G)]
        ['2.0e-06', '5.0e-07', '1.0e-06', '1.0e-09']
    """
    if len(points) < LEAST_POINTS:
        raise InvalidArgument(f"{len(points)} measured sizes", f"at least {LEAST_POINTS}")
    ordered = sorted(points, key=lambda point: point.size)
    borders = _borders(ordered)
    segments: list[Segment] = []
    busy: list[str] = []
    distances: list[float] = []
    for begin, end in pairwise(borders):
        part = ordered[begin:end]
        (a, g, per_byte), off = _line(part)
        distances += off
        o = float(np.median([point.overhead for point in part]))
        if 2 * o > a:
            busy.append(f"of {part[0].size} to {part[-1].size} bytes")
            o = a / 2
        up_to = part[-1].size if end < len(ordered) else None
        parameters = LogGP(L=max(a - 2 * o, 0.0), o=o, g=g, G=per_byte, gamma=gamma)
        segments.append(Segment(up_to=up_to, parameters=parameters))
    squares = np.square(distances)
    notes = [f"L is 0, and o half of a message, for messages {', '.join(busy)}: {_BUSY}"] if busy else []
    return Fit(segments, float(np.sqrt(squares.mean())), float(np.abs(distances).max()), notes)


def _line(points: Sequence[MessagePoint]) -> tuple[tuple[float, float, float], list[float]]:
    """A, g and G of some points, and the relative distances that are left."""
    rows, distances = [], []
    for point in points:
        further = point.size - 1
        rows.append(np.array([1.0, 0.0, further]) / point.message)
        if point.gap > 0:
            rows.append(np.array([0.0, 1.0, further]) / point.gap)
    matrix = np.array(rows)
    scale = np.linalg.norm(matrix, axis=0)
    scale[scale == 0] = 1.0
    solution, _ = nnls(matrix / scale, np.ones(len(rows)))
    distances = (matrix @ (solution / scale) - 1.0).tolist()
    a, g, per_byte = (solution / scale).tolist()
    return (a, g, per_byte), distances


def _borders(points: Sequence[MessagePoint]) -> list[int]:
    """Where segments begin and end, by dynamic programming over the sum of squares."""
    n = len(points)
    cost = np.full((n + 1, n + 1), inf)
    for begin in range(n):
        for end in range(begin + LEAST_POINTS, n + 1):
            cost[begin, end] = float(np.square(_line(points[begin:end])[1]).sum())
    best: dict[int, list[tuple[float, list[int]]]] = {1: [(cost[0, end], [0, end]) for end in range(n + 1)]}
    for count in range(2, MOST_SEGMENTS + 1):
        best[count] = [
            min(
                ((before[0] + cost[middle, end], [*before[1], end]) for middle, before in enumerate(best[count - 1][:end])),
                default=(inf, []),
            )
            for end in range(n + 1)
        ]
    chosen = [by_end[n] for by_end in best.values() if by_end[n][0] < inf]
    return min(chosen, key=lambda candidate: _criterion(candidate[0], 2 * n, len(candidate[1]) - 1))[1]


def _criterion(squares: float, observations: int, segments: int) -> float:
    """Schwarz's criterion: three parameters and a border for each segment."""
    return observations * log(max(squares / observations, _FLOOR)) + 4 * segments * log(observations)


class RankOrders(Protocol):
    """How rank 0 tells the others what to do; `deep_bench.distributed.collectives.timing.RankAgreement` is one."""

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
    together: RankOrders,
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
    label: str, comm: Communicator, pair: tuple[int, int], hosts: Sequence[str], points: list[MessagePoint], gamma: float
) -> Link:

    fit = fitted_parameters(points, gamma)
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
    return Machine(**provenance(), hosts=list(hosts), links=links)
