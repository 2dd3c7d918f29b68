"""What a profile holds, as plain data that can be written and read again; figures are derived on reading."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, ValidationError

from deep_bench.errors import InvalidRecord
from deep_bench.measure.storage import replace

if TYPE_CHECKING:
    from deep_bench.network.profiling.rows import Row

SCHEMA = 1


class _Plain(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, ignored_types=(cached_property,))


class Piece(_Plain):
    """One piece of a framework's work; see `deep_bench.framework.NodeTime`."""

    nodes: list[str]
    ns: list[int]
    what: str
    direction: Literal["forward", "backward"] = "forward"
    whole: bool = False


class Memory(_Plain):
    """Bytes of the process: measured in the life of one worker, by its resident set.

    Args:
        before: When it began.
        imported: When the framework was imported.
        prepared: When the network was ready.
        called: After the first call.
        peak: The most within the first call; ``None`` where the system does not tell it for a call.
        device_peak: The most that the device's allocator had handed out in a call, where it tells.
    """

    before: int
    imported: int
    prepared: int
    called: int
    peak: int | None = None
    device_peak: int | None = None


class SystemProfile(_Plain):
    """One framework's part of a profile; times in nanoseconds, one for each call.

    Args:
        label: The system.
        framework: Its name in the registry.
        facts: What the adapter says of itself.
        error: Why there is no profile.
        how: How it was observed.
        pieces: What it spends its time on.
        observed_ns: The whole of each observed call.
        plain_ns: Calls that nobody observed, in turn with those.
        walk_ns: See `deep_bench.framework.NodeProfile`.
        inside_ns: The same.
        absent: Node to the reason why no piece covers it.
        kernels: The device's kernels under each node.
        native_ns: Calls of ``forward`` on the framework's own arrays, in turn with …
        numpy_ns: … calls from and to NumPy arrays, checks included.
        import_ns: To import the framework.
        prepare_ns: To make the network ready.
        first_call_ns: The first call.
        memory: What the process held.
    """

    label: str
    framework: str
    facts: dict[str, str] = {}  # noqa: RUF012 (pydantic copies it)
    error: str | None = None
    how: str = ""
    pieces: list[Piece] = []  # noqa: RUF012
    observed_ns: list[int] = []  # noqa: RUF012
    plain_ns: list[int] = []  # noqa: RUF012
    walk_ns: list[int] | None = None
    inside_ns: list[int] | None = None
    absent: dict[str, str] = {}  # noqa: RUF012
    kernels: dict[str, dict[str, float]] = {}  # noqa: RUF012
    native_ns: list[int] = []  # noqa: RUF012
    numpy_ns: list[int] = []  # noqa: RUF012
    import_ns: int | None = None
    prepare_ns: int | None = None
    first_call_ns: int | None = None
    memory: Memory | None = None

    @cached_property
    def typical(self) -> NDArray[np.intp]:
        """The observed calls that figures of nodes are means over: the middle half by their whole.

        Over one set of calls, nodes add up with what lies between them; and a call that was preempted is in none of them.
        """
        order = np.argsort(self.observed_ns, kind="stable")
        cut = len(order) // 4
        return order[cut : len(order) - cut]

    def mean(self, ns: list[int]) -> float:
        """Nanoseconds of something in a typical observed call."""
        return float(np.array(ns)[self.typical].mean())

    @property
    def observed(self) -> float:
        """Nanoseconds of a typical observed call."""
        return self.mean(self.observed_ns)

    @property
    def in_nodes(self) -> float:
        """Nanoseconds of all pieces in a typical observed call."""
        return sum(self.mean(piece.ns) for piece in self.pieces)

    @property
    def between(self) -> float:
        """Nanoseconds of a typical observed call that are in no piece: dispatch, stamps, Python."""
        return self.observed - self.in_nodes

    @property
    def plain(self) -> float:
        """Nanoseconds of a call that nobody observes: the median."""
        return float(np.median(self.plain_ns))

    @property
    def cost(self) -> float:
        """What being observed costs: the median observed call over the median plain one."""
        return float(np.median(self.observed_ns)) / self.plain

    @property
    def stamps_cost(self) -> float | None:
        """What the stamps alone cost, where observed calls go a way of their own."""
        return None if self.walk_ns is None else float(np.median(self.observed_ns) / np.median(self.walk_ns))


class NodeFacts(_Plain):
    """What a node asks for, whoever runs it; ``None`` where a shape or a formula is missing.

    Args:
        name: The node.
        operator: Its operator.
        flops: Operations on the way forward.
        bytes: What it must at least read and write.
        backward_flops: Operations of the derived network's nodes for its gradients.
    """

    name: str
    operator: str
    flops: int | None
    bytes: int | None
    backward_flops: int | None = None


class Needs(_Plain):
    """The memory that the network needs by its shapes; see `deep_bench.network.profiling.memory.Liveness`."""

    parameters: int
    inputs: int
    peak: int
    at: str
    all_activations: int
    unknown: int


class Profile(_Plain):
    """Where the time of a network goes, in several frameworks.

    Args:
        network: Its name.
        sha256: Of the network as it was given.
        sizes: How its open dimensions were fixed.
        inputs: Where its inputs come from.
        loss: The output that was differentiated, if any.
        repeat: Calls of each kind.
        nodes: Of the outermost graph, in order.
        needs: Memory, computed.
        systems: In the order asked for.
        schema_version: Of this form.
    """

    schema_version: Literal[1] = SCHEMA
    network: str
    sha256: str
    sizes: dict[str, int]
    inputs: str
    loss: str | None
    repeat: int
    nodes: list[NodeFacts]
    needs: Needs
    systems: list[SystemProfile]

    def __getitem__(self, label: str) -> SystemProfile:
        """The part of one system."""
        return next(system for system in self.systems if system.label == label)

    @property
    def ok(self) -> bool:
        """Whether every system could be profiled."""
        return all(system.error is None for system in self.systems)

    @property
    def profiled(self) -> list[SystemProfile]:
        """The systems that could be profiled."""
        return [system for system in self.systems if system.error is None]

    @cached_property
    def rows(self) -> list[Row]:
        """The systems side by side: one row for each node, or for nodes that one of the systems runs as one."""
        from deep_bench.network.profiling.rows import rows

        return rows(self)

    def save(self, path: str | Path) -> Path:
        """Write it as JSON, all raw samples included; a file that is there is replaced in one go."""
        path = Path(path)
        replace(path, lambda temporary: temporary.write_text(self.model_dump_json(indent=1), encoding="utf-8"))
        return path

    @classmethod
    def load(cls, path: str | Path) -> Profile:
        """Read what `save` wrote.

        Raises:
            InvalidRecord: It is no profile.
        """
        try:
            return cls.model_validate_json(Path(path).read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, ValidationError) as error:
            raise InvalidRecord(f"{path} is no profile: {error}", "a file that `deep-bench profile --json` wrote") from error

    def table(self, top: int | None = 20) -> str:
        """The profile as text: the nodes that take the most time, overheads, and memory."""
        from deep_bench.network.profiling.report import as_text

        return as_text(self, top)

    def __str__(self) -> str:
        return self.table()

    def __iter__(self) -> Iterator[SystemProfile]:  # type: ignore[override]  # pydantic would iterate over the fields
        return iter(self.systems)
