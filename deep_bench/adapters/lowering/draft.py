"""A network that has been analysed, but has no native code yet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import onnx_ir as ir

from deep_bench.adapters.lowering.facts import Fact


@dataclass(slots=True)
class DraftStep:
    """A node that must run.

    Args:
        node: The node as the network has it.
        attributes: Its attributes as plain values, without its graphs.
        inputs: What is known of its inputs; ``None`` for an omitted one.
        outputs: What is known of its outputs.
        bodies: Its graphs, by attribute.
        captured: What graphs of its that are not among ``bodies`` take from around them.
        differentiated: Whether its graphs must be native throughout, since derivatives are taken of them.
    """

    node: ir.Node
    attributes: Mapping[str, Any]
    inputs: list[Fact | None]
    outputs: list[Fact]
    bodies: Mapping[str, Draft] = field(default_factory=dict)
    captured: list[Fact] = field(default_factory=list)
    differentiated: bool = False

    @property
    def uses(self) -> list[Fact]:
        """Everything that must exist before it runs."""
        return [f for f in self.inputs if f is not None] + self.captures

    @property
    def captures(self) -> list[Fact]:
        """What its graphs take from around them."""
        by_name = {f.name: f for body in self.bodies.values() for f in body.captures} | {f.name: f for f in self.captured}
        return list(by_name.values())


@dataclass(slots=True)
class Draft:
    """A graph: the nodes that must run, in order.

    Args:
        scope: Its number.
        inputs: Its inputs.
        steps: Its nodes.
        outputs: Its outputs, in order.
    """

    scope: int
    inputs: list[Fact]
    steps: list[DraftStep]
    outputs: list[Fact]

    @property
    def uses(self) -> list[Fact]:
        """Every value that a step or an output uses."""
        by_name = {f.name: f for step in self.steps for f in step.uses} | {f.name: f for f in self.outputs}
        return list(by_name.values())

    @property
    def captures(self) -> list[Fact]:
        """What it takes from the graphs around it."""
        return [f for f in self.uses if f.scope != self.scope]

    def prune(self) -> None:
        """Drop the steps whose results nobody uses."""
        needed = {f.name for f in self.outputs}
        live_steps = []
        for step in reversed(self.steps):
            if any(f.name in needed for f in step.outputs):
                live_steps.append(step)
                needed |= {f.name for f in step.uses}
        self.steps = live_steps[::-1]
