"""Control flow: Python's own, around modules compiled from the subgraphs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import nn

from deep_bench.adapters.lowering import NotNative, Plan, Site
from deep_bench.adapters.torch.arrays import is_foreign, torch_dtype
from deep_bench.adapters.torch.module import PlanModule
from deep_bench.adapters.torch.operators._site import Tensor, stacked
from deep_bench.adapters.torch.precision import TorchSite
from deep_bench.errors import Unsupported

__all__ = ["If", "Loop", "Scan", "SequenceMap"]


class BodyModule(nn.Module):
    """A subgraph, which picks what it captures from all that its node's subgraphs capture."""

    def __init__(self, plan: Plan, target: torch.device | None, hosted: Sequence[str] = ()) -> None:
        super().__init__()
        self.module = PlanModule(plan, target=target, hosted_inputs=hosted)
        self._where: list[int] = []

    def capture(self, captures: Sequence[str]) -> None:
        """Learn in which order the node is given what its subgraphs capture."""
        self._where = [captures.index(name) for name in self.module.plan.captures]

    def forward(self, inputs: Sequence[Any], captured: Sequence[Any]) -> tuple[Any, ...]:
        """Run the subgraph."""
        return self.module.forward(*inputs, *(captured[i] for i in self._where))


def target_of(site: Site) -> torch.device | None:
    """The device that the site's code is for, unless that is the CPU."""
    return site.target if isinstance(site, TorchSite) else None


def plan_of(site: Site, name: str) -> Plan:
    """The graph that an attribute holds.

    Raises:
        NotNative: It holds none.
    """
    graph = site.attribute(name)
    if not isinstance(graph, Plan):
        raise NotNative(f"{name} is no graph that torch can run")
    return graph


class If(nn.Module):
    """One of two subgraphs."""

    def __init__(self, site: Site) -> None:
        super().__init__()
        self.then = BodyModule(plan_of(site, "then_branch"), target_of(site))
        self.otherwise = BodyModule(plan_of(site, "else_branch"), target_of(site))
        self._single = len(site.outputs) == 1

    def forward(self, condition: Tensor, *captured: Any) -> Any:
        branch = self.then if condition.item() else self.otherwise
        results = branch.forward((), captured)
        return results[0] if self._single else results


class Loop(nn.Module):
    """A subgraph repeated while a condition holds, at most a number of times."""

    def __init__(self, site: Site) -> None:
        super().__init__()
        body = plan_of(site, "body")
        self.body = BodyModule(body, target_of(site), [slot.name for slot in body.inputs[:2]])
        self._states = len(site.inputs) - 2
        self._given = len(site.inputs)
        self._outputs = len(site.outputs)
        self._empty = [_empty(site, i) for i in range(len(site.outputs))]

    def forward(self, *arguments: Any) -> Any:
        limit, condition, *states = arguments[: self._given]
        captured = arguments[self._given :]
        most = None if limit is None else int(limit.item())
        going = condition is None or bool(condition.item())
        scanned: list[tuple[Any, ...]] = []
        index = 0
        while going and (most is None or index < most):
            again, *outputs = self.body.forward((torch.tensor(index), torch.tensor(True), *states), captured)
            going = condition is None or bool(
                again.item()
            )  # what the body says counts only if the node is given a condition
            states, index = outputs[: self._states], index + 1
            scanned.append(tuple(outputs[self._states :]))
        columns = list(zip(*scanned, strict=True)) if scanned else []
        stacked = [_stack(c) for c in columns] if scanned else [f() for f in self._empty[self._states :]]
        results = (*states, *stacked)
        return results[0] if self._outputs == 1 else results


def _stack(values: Sequence[Any], axis: int = 0) -> Any:
    """Values of one shape along a new axis."""
    return stacked(values, axis) if isinstance(values[0], Tensor) else np.stack(values, axis)


def _empty(site: Site, index: int) -> Callable[[], Any]:
    """A function that makes the result of no iterations."""
    slot, device = site.outputs[index], target_of(site)

    def make() -> Any:
        if slot is None:
            return None
        if slot.dtype is None or slot.shape is None:
            raise Unsupported(
                f"node {site.name!r} ({site.operator}) ran no iteration: the type of {slot.name!r} is not known"
            )
        shape = [d or 0 for d in slot.shape]
        if is_foreign(slot.dtype):
            return np.empty(shape, slot.dtype)
        return torch.empty(shape, dtype=torch_dtype(slot.dtype), device=device)

    return make


class Scan(nn.Module):
    """A subgraph over the slices of its inputs, with state from one slice to the next."""

    def __init__(self, site: Site) -> None:
        super().__init__()
        body = plan_of(site, "body")
        self.body = BodyModule(body, target_of(site))
        self._given = len(site.inputs)
        scans = site.attribute("num_scan_inputs")
        self._states = self._given - scans
        results = len(body.outputs) - self._states
        self._axes = site.attribute("scan_input_axes", (0,) * scans)
        self._reversed = site.attribute("scan_input_directions", (0,) * scans)
        self._out_axes = site.attribute("scan_output_axes", (0,) * results)
        self._out_reversed = site.attribute("scan_output_directions", (0,) * results)
        self._outputs = len(site.outputs)
        self._empty = [_empty(site, i) for i in range(len(site.outputs))]

    def forward(self, *arguments: Any) -> Any:
        states, scans = list(arguments[: self._states]), arguments[self._states : self._given]
        captured = arguments[self._given :]
        slices = [
            (s[::-1] if back else s)
            for s, back in zip(
                (x.unbind(axis) for x, axis in zip(scans, self._axes, strict=True)), self._reversed, strict=True
            )
        ]
        scanned: list[tuple[Any, ...]] = []
        for row in zip(*slices, strict=True):
            results = self.body.forward((*states, *row), captured)
            states = list(results[: self._states])
            scanned.append(results[self._states :])
        columns = list(zip(*scanned, strict=True))
        stacked = (
            [
                _stack(column[::-1] if back else column, axis)
                for column, axis, back in zip(columns, self._out_axes, self._out_reversed, strict=True)
            ]
            if scanned
            else [f() for f in self._empty[self._states :]]
        )
        results = (*states, *stacked)
        return results[0] if self._outputs == 1 else results


class SequenceMap(nn.Module):
    """A subgraph over the members of sequences; tensors are passed to it every time."""

    def __init__(self, site: Site) -> None:
        super().__init__()
        self.body = BodyModule(plan_of(site, "body"), target_of(site))
        self._given = len(site.inputs)
        self._outputs = len(site.outputs)

    def forward(self, *arguments: Any) -> Any:
        (first, *remaining), captured = arguments[: self._given], arguments[self._given :]
        rows = [
            self.body.forward((x, *(o[i] if isinstance(o, list) else o for o in remaining)), captured)
            for i, x in enumerate(first)
        ]
        results = tuple([row[k] for row in rows] for k in range(self._outputs))
        return results[0] if self._outputs == 1 else results
