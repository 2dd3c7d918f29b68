"""The systems of a profile side by side."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from deep_bench.network.profiling.model import median
from deep_bench.operators.cost import Work

if TYPE_CHECKING:
    from deep_bench.network.profiling.model import NodeFacts, Piece, Profile, SystemProfile

T = TypeVar("T", int, Work)

OWN = "(layouts and copies)"
WHOLE = "(whole, not told apart)"


@dataclass
class Cell:
    """What one system spends on a row, in an observed call.

    Args:
        forward: Nanoseconds on the way forward.
        backward: Nanoseconds on the way back.
        share: Of the observed whole.
        ran_as: What the system ran for it, by its own names.
        state: *told apart*: piece by piece; *fused*: several nodes as one; *absent*: nothing was run, ``reason`` says why.
        reason: Why nothing was run.
    """

    forward: float = 0.0
    backward: float = 0.0
    share: float = 0.0
    ran_as: list[str] = field(default_factory=list)
    state: str = "told apart"
    reason: str = ""

    @property
    def ns(self) -> float:
        """Nanoseconds on both ways."""
        return self.forward + self.backward


@dataclass
class Row:
    """Nodes that some system runs as one, or a single node.

    Args:
        nodes: Names, in the order of the file; none for work that belongs to no node.
        label: What to call it.
        operators: Of the nodes.
        work: Arithmetic of all of them; ``None`` if that of one is unknown.
        bytes: What they read and write, node by node; the same.
        backward: Arithmetic of what is derived for their gradients; the same.
        cells: By system; a system without a piece here has none.
        members: Where there are several nodes: the row of each, for the systems that tell it apart.
    """

    nodes: tuple[str, ...]
    label: str
    operators: tuple[str, ...]
    work: Work | None
    bytes: int | None
    backward: Work | None = None
    cells: dict[str, Cell] = field(default_factory=dict)
    members: dict[str, Row] = field(default_factory=dict)

    @property
    def share(self) -> float:
        """The largest share that it has of any system's whole."""
        return max((cell.share for cell in self.cells.values()), default=0.0)


def rows(profile: Profile) -> list[Row]:
    """The rows of a profile, in the order of the file; work of no node comes last."""
    place = _groups(profile)
    facts = {node.name: node for node in profile.nodes}
    members: dict[str, list[str]] = {}
    for name, first in place.items():
        members.setdefault(first, []).append(name)
    by_name = {first: _row(names, facts) for first, names in members.items()}
    for label in (OWN, WHOLE):
        by_name[label] = Row((), label, (), None, None)
    for system in profile.profiled:
        for piece in system.pieces:
            key = WHOLE if piece.whole else place[piece.nodes[0]] if piece.nodes else OWN
            _add(by_name[key], system, piece)
        for name, reason in system.absent.items():
            row = by_name[place[name]]
            if system.label not in row.cells:
                row.cells[system.label] = Cell(state="absent", reason=reason)
    return [row for row in by_name.values() if row.nodes or row.cells]


def _groups(profile: Profile) -> dict[str, str]:
    """Each node to the first of those that it is in one row with."""
    order = [node.name for node in profile.nodes]
    inner = [n for s in profile.profiled for p in s.pieces if not p.whole for n in p.nodes if n not in order]
    place = {name: name for name in dict.fromkeys([*order, *inner])}
    rank = {name: position for position, name in enumerate(place)}

    def root(name: str) -> str:
        while place[name] != name:
            name = place[name]
        return name

    for piece in (p for s in profile.profiled for p in s.pieces if p.direction == "forward" and not p.whole):
        roots = sorted({root(name) for name in piece.nodes}, key=rank.__getitem__)
        for other_root in roots[1:]:
            place[other_root] = roots[0]
    return {name: root(name) for name in place}


def _row(names: list[str], facts: Mapping[str, NodeFacts]) -> Row:
    nodes = [facts.get(name) for name in names]
    telling = [n for n, node in zip(names, nodes, strict=True) if node is None or node.operator != "Identity"] or names
    label = f"{telling[0]} … {telling[-1]}" if len(telling) > 2 else " + ".join(telling)
    return Row(
        tuple(names),
        label,
        tuple("in a subgraph" if node is None else node.operator for node in nodes),
        _total((None if node is None else node.work for node in nodes), Work()),
        _total((None if node is None else node.bytes for node in nodes), 0),
        _total((None if node is None else node.backward for node in nodes), Work()),
        members={name: _row([name], facts) for name in names} if len(names) > 1 else {},
    )


def _total(parts: Iterable[T | None], zero: T) -> T | None:
    for part in parts:
        if part is None:
            return None
        zero = zero + part
    return zero


def _add(row: Row, system: SystemProfile, piece: Piece) -> None:
    if len(piece.nodes) == 1 and piece.nodes[0] in row.members:
        _add(row.members[piece.nodes[0]], system, piece)
    cell = row.cells.setdefault(system.label, Cell())
    ns = median(piece.ns)
    if piece.direction == "forward":
        cell.forward += ns
    else:
        cell.backward += ns
    cell.share = cell.ns / system.observed
    if piece.direction == "forward" and piece.what not in cell.ran_as:
        cell.ran_as.append(piece.what)
    if len(piece.nodes) > 1 and piece.direction == "forward":
        cell.state = "fused"
    elif cell.state == "absent":
        cell.state = "told apart"
