"""Faults of frameworks as data: what is wrong, which standard cases show it, and which nodes of a network may meet it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import onnx_ir as ir
from onnx_ir.passes.common import ShapeInferencePass

from deep_bench.graph import Network, operator_name

Severity = Literal["wrong values", "less accurate", "fails", "crashes"]
"""``less accurate``: more than rounding in the working precision explains; ``fails``: an error at the call, though the
network was accepted, or a refusal of what is optional; ``crashes``: the process ends."""


def anywhere(_: ir.Node) -> bool:
    """Whether a node may meet a fault that every node of its operators may meet."""
    return True


def nowhere(_: ir.Node) -> bool:
    """Whether a node may meet a fault that the adapter states among its facts, since every node may."""
    return False


@dataclass(frozen=True)
class KnownFault:
    """A fault of a framework, with a script that shows it without deep_bench.

    Args:
        name: In lower case with underscores; the script is named for it.
        operators: The ONNX operators that it touches, as `operator_name` writes them.
        severity: How bad it is.
        reason: What the standard says and what the framework does, in whole sentences.
        cases: The standard's cases that come out wrong or fail for it.
        avoided: Whether the adapter works around it, so that no network meets it.
        applies: Whether a node of these operators may meet it, decided by its attributes, constants and known shapes.
            What is not known may be so: a node is named in vain sooner than missed.

    Example:
        >>> fault = KnownFault("relu_is_late", ("Relu",), "wrong values", "Relu gives the previous call's result.")
        >>> fault.script("torch")
        'docs/reproducers/torch_relu_is_late.py'
    """

    name: str
    operators: tuple[str, ...]
    severity: Severity
    reason: str
    cases: tuple[str, ...] = ()
    avoided: bool = False
    applies: Callable[[ir.Node], bool] = anywhere

    def touches(self, node: ir.Node) -> bool:
        """Whether a node may meet the fault when the adapter runs it."""
        return not self.avoided and operator_name(node) in self.operators and self.applies(node)

    def script(self, framework: str) -> str:
        """The script that shows the fault, from the root of the repository; it exits with 1 while the fault is there."""
        return f"docs/reproducers/{framework}_{self.name}.py"


_NAMED = 5
_PAGE = "docs/framework-findings.md"


@dataclass(frozen=True)
class Exposure:
    """A known fault that some nodes of a network may meet.

    Args:
        name: The fault's name.
        severity: How bad it is.
        reason: What the standard says and what the framework does.
        nodes: The names of the nodes.
    """

    name: str
    severity: str
    reason: str
    nodes: tuple[str, ...]

    def __str__(self) -> str:
        remainder = f" and {len(self.nodes) - _NAMED} more" if len(self.nodes) > _NAMED else ""
        named = ", ".join(self.nodes[:_NAMED])
        return f"{named}{remainder} may meet the known fault {self.name} ({self.severity}): {self.reason}"


def remarks(met: Sequence[Exposure]) -> list[str]:
    """What to say of the known faults that a network may meet: a sentence for each, and one for all that cost accuracy only.

    Example:
        >>> lost = [Exposure("coarse_exp", "less accurate", "It has three digits.", ("a", "b"))]
        >>> remarks(lost)
        ['less accurate by known faults: coarse_exp at 2 nodes (docs/framework-findings.md)']
    """
    worse = [str(exposure) for exposure in met if exposure.severity != "less accurate"]
    lost = [f"{e.name} at {_count(e.nodes)}" for e in met if e.severity == "less accurate"]
    return [*worse, f"less accurate by known faults: {', '.join(lost)} ({_PAGE})"] if lost else worse


def _count(nodes: Sequence[str]) -> str:
    return f"{len(nodes)} node{'s' if len(nodes) != 1 else ''}"


def exposures(network: Network, faults: Sequence[KnownFault]) -> list[Exposure]:
    """The known faults that nodes of a network may meet, subgraphs included.

    Args:
        network: With as many dimensions fixed as are known.
        faults: An adapter's `known_faults`.

    Example:
        >>> import deep_bench as db
        >>> late = KnownFault("relu_is_late", ("Relu",), "wrong values", "Relu gives the previous call's result.")
        >>> [(e.name, len(e.nodes)) for e in exposures(db.load("digits-cnn"), [late])]
        [('relu_is_late', 6)]
    """
    possible = {operator for fault in faults if not fault.avoided for operator in fault.operators}
    if not any(operator_name(node) in possible for node in network.all_nodes()):
        return []
    shaped_network = network.copy()
    # A failed inference leaves the shapes unknown, and what is not known may be so.
    ShapeInferencePass(check_type=False, strict_mode=False)(shaped_network.model)
    nodes = list(shaped_network.all_nodes())
    met = [(fault, tuple(str(n.name) for n in nodes if fault.touches(n))) for fault in faults]
    return [Exposure(fault.name, fault.severity, fault.reason, names) for fault, names in met if names]
