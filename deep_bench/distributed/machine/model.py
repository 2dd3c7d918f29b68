"""The file that keeps what messages cost on a machine: ``machine.json``."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, TypeAlias

from pydantic import Field, JsonValue, model_validator

from deep_bench.distributed.machine.loggp import LogGP
from deep_bench.errors import InvalidArgument, UnknownName
from deep_bench.measure.amounts import Date
from deep_bench.measure.environment import Environment
from deep_bench.measure.record import Model
from deep_bench.measure.storage import read_model, replace

Between: TypeAlias = Literal["one node", "nodes"]


class Point(Model):
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


class Segment(Model):
    """Messages of up to so many bytes (``None``: of any), and their parameters."""

    up_to: int | None = None
    parameters: LogGP


class Link(Model):
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
    points: list[Point] = Field(default_factory=list)
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
        """See `deep_bench.distributed.machine.loggp.Costs`."""
        return self.at(size).overhead(size)

    def message(self, size: float) -> float:
        """See `deep_bench.distributed.machine.loggp.Costs`."""
        return self.at(size).message(size)

    def gap(self, size: float) -> float:
        """See `deep_bench.distributed.machine.loggp.Costs`."""
        return self.at(size).gap(size)

    def combining(self, size: float) -> float:
        """See `deep_bench.distributed.machine.loggp.Costs`."""
        return self.at(size).combining(size)


class Machine(Model):
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
