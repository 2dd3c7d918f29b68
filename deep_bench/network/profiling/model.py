"""What a profile holds, as plain data that can be written and read again; figures are derived on reading."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from deep_bench.measure.amounts import LONGEST_NS, Count, NotNegative, Time
from deep_bench.measure.storage import read_model, replace
from deep_bench.operators.cost import Work

if TYPE_CHECKING:
    from deep_bench.network.profiling.rows import Row


def median(ns: Sequence[int]) -> float:
    """The median, or 0 of nothing."""
    return float(np.median(ns)) if len(ns) else 0.0


Call = Annotated[int, Field(ge=1, le=LONGEST_NS)]
"""The time of a whole call, in nanoseconds."""


class _Plain(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, ignored_types=(cached_property,))


class Piece(_Plain):
    """One piece of a framework's work; see `deep_bench.node_profile.NodeTime`."""

    nodes: list[str]
    ns: list[Time]
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
        allocator_peak: The most that the framework's own allocator had handed out, where it tells.
    """

    before: Count
    imported: Count
    prepared: Count
    called: Count
    peak: Count | None = None
    allocator_peak: Count | None = None


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
        walk_ns: See `deep_bench.node_profile.NodeProfile`.
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
    facts: dict[str, str] = {}
    error: str | None = None
    how: str = ""
    pieces: list[Piece] = []
    observed_ns: list[Call] = []
    plain_ns: list[Call] = []
    walk_ns: list[Time] | None = None
    inside_ns: list[Time] | None = None
    absent: dict[str, str] = {}
    kernels: dict[str, dict[str, NotNegative]] = {}
    native_ns: list[Call] = []
    numpy_ns: list[Call] = []
    import_ns: Time | None = None
    prepare_ns: Time | None = None
    first_call_ns: Time | None = None
    memory: Memory | None = None

    @property
    def in_nodes(self) -> float:
        """Nanoseconds of all pieces, each its median over the observed calls."""
        return sum(map(median, (piece.ns for piece in self.pieces)))

    @property
    def between(self) -> float:
        """Nanoseconds of an observed call that are in no piece, median: dispatch, stamps, Python."""
        return median(self.outside_ns)

    @property
    def outside_ns(self) -> list[int]:
        """What of each observed call is in no piece."""
        inside = np.sum([piece.ns for piece in self.pieces], axis=0) if self.pieces else 0
        durations: list[int] = (np.array(self.observed_ns) - inside).tolist()
        return durations

    @property
    def observed(self) -> float:
        """Nanoseconds that the medians of an observed call's parts add up to: what shares are of.

        A call that was preempted, in whatever part of it, moves neither this nor any share.
        """
        return self.in_nodes + self.between

    @property
    def around(self) -> float | None:
        """Nanoseconds of an observed call outside what the runtime says of itself: Python; median."""
        return None if self.inside_ns is None else float(np.median(np.subtract(self.observed_ns, self.inside_ns)))

    @property
    def plain(self) -> float:
        """Nanoseconds of a call that nobody observes: the median."""
        return median(self.plain_ns)

    @property
    def cost(self) -> float:
        """What being observed costs: the median observed call over the median plain one."""
        return median(self.observed_ns) / self.plain

    @property
    def stamps_cost(self) -> float | None:
        """What the stamps alone cost, where observed calls go a way of their own."""
        return None if self.walk_ns is None else median(self.observed_ns) / median(self.walk_ns)


class NodeFacts(_Plain):
    """What a node asks for, whoever runs it; ``None`` where a shape or a rule is missing.

    Args:
        name: The node.
        operator: Its operator.
        work: Arithmetic on the way forward.
        bytes: What it must at least read and write.
        backward: Arithmetic of the derived network's nodes for its gradients.
    """

    name: str
    operator: str
    work: Work | None
    bytes: Count | None
    backward: Work | None = None


class Needs(_Plain):
    """The memory that the network needs by its shapes; see `deep_bench.network.profiling.memory.Liveness`."""

    parameters: Count
    inputs: Count
    peak: Count
    at: str
    all_activations: Count
    unknown: Count


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
        in_process: Whether all of them lived in one process.
        interrupted: Whether Ctrl-C ended it: systems that were not reached say so as their error.
        schema_version: Of this form.
    """

    schema_version: Literal[1] = 1
    network: str
    sha256: str
    sizes: dict[str, Count]
    inputs: str
    loss: str | None
    repeat: Count
    nodes: list[NodeFacts]
    needs: Needs
    systems: list[SystemProfile]
    in_process: bool = False
    interrupted: bool = False

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
        return read_model(Path(path), cls, "a profile that `deep-bench profile --json` wrote")

    def table(self, top: int | None = 20) -> str:
        """The profile as text: the nodes that take the most time, overheads, and memory."""
        from deep_bench.network.profiling.report import as_text

        return as_text(self, top)

    def __str__(self) -> str:
        return self.table()
