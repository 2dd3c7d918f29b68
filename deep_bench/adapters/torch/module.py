"""A plan compiled to a ``torch.nn.Module`` whose ``forward`` is generated, straight-line Python."""

from __future__ import annotations

import keyword
import linecache
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from torch import nn

from deep_bench.adapters.lowering import Plan, Step
from deep_bench.adapters.torch.arrays import TYPES, to_tensor
from deep_bench.adapters.torch.placement import CREATES, Placement, is_setting, place, runs_on_cpu

INDENT = "    "


@runtime_checkable
class Capturing(Protocol):
    """A child of a step's module that runs a subgraph."""

    def capture(self, captures: Sequence[str]) -> None:
        """Learn in which order the step is given what its subgraphs capture."""


class PlanModule(nn.Module):
    """A lowered graph as a module.

    Network parameters are ``nn.Parameter``, other constants are buffers, and operators that hold tensors of their own are
    child modules, so that ``to``, ``state_dict`` and ``torch.compile`` see everything.

    Args:
        plan: The graph.
        trains: Whether gradients with respect to the parameters will be asked for.
        convert: Applied to each constant tensor (a change of precision).
        named: Whether ``forward`` returns a dictionary by output name, instead of a tuple.
        target: A device other than the CPU that it is meant for: shapes then stay on the CPU, and are moved where needed.
        hosted_inputs: Names of the inputs that come on the CPU nevertheless.

    Attributes:
        code: The source of ``forward``, to be read.
        keys: ONNX name of each constant to its name as an attribute of this module.
    """

    def __init__(
        self,
        plan: Plan,
        *,
        trains: bool = False,
        convert: Callable[[np.ndarray], np.ndarray] | None = None,
        named: bool = False,
        target: torch.device | None = None,
        hosted_inputs: Sequence[str] = (),
    ) -> None:
        super().__init__()
        self.plan = plan
        self.target = target
        self.placement = place(plan, hosted_inputs) if target is not None else Placement()
        self.host: dict[str, torch.Tensor] = {}
        names = _Names()
        self.keys = {name: names(name, "c_") for name in plan.constants}
        for name, array in plan.constants.items():
            self._hold(name, array if convert is None else convert(array), trains)
        scope: dict[str, Any] = {}
        for index, step in enumerate(plan.steps):
            scope[f"f{index}"] = self._function(index, step)
        self.code = _Source(plan, self, named).text()
        file = f"<deep_bench torch module {id(self):x}>"
        linecache.cache[file] = (len(self.code), None, self.code.splitlines(keepends=True), file)
        exec(compile(self.code, file, "exec"), scope)
        self.forward = scope["forward"].__get__(self)  # bound once: no lookup on the class in each call

    def _hold(self, name: str, array: np.ndarray, trains: bool) -> None:
        key = self.keys[name]
        if array.dtype not in TYPES:
            setattr(self, key, array)  # strings and float4, which only the reference computes with
        elif name in self.plan.parameters:
            tensor = to_tensor(array)
            self.register_parameter(key, nn.Parameter(tensor, requires_grad=trains and tensor.is_floating_point()))
        else:
            self.register_buffer(key, to_tensor(array))
        if name in self.placement.on_cpu and array.dtype in TYPES:
            self.host[key] = to_tensor(array)

    def _function(self, index: int, step: Step) -> Callable[..., Any]:
        function = step.function
        if isinstance(function, nn.Module):
            self.add_module(f"step{index}", function)
            for child in function.children():
                if isinstance(child, Capturing):
                    child.capture(step.captures)
            return function.forward
        return function

    @property
    def steps(self) -> int:
        """The number of steps, subgraphs included."""
        return sum(len(m.plan.steps) for m in self.modules() if isinstance(m, PlanModule))

    def where(self, name: str, on_cpu: bool = False) -> str:
        """The expression that reads a constant inside ``forward``."""
        key = self.keys[name]
        if on_cpu and key in self.host:
            return f"host[{key!r}]"
        if key in self._parameters:
            return f"parameters[{key!r}]"
        if key in self._buffers:
            return f"buffers[{key!r}]"
        return f"self.{key}"


class _Names:
    """Python identifiers for ONNX names, each its own."""

    def __init__(self, used_names: Iterable[str] = ()) -> None:
        self._taken = set(used_names)

    def __call__(self, name: str, prefix: str = "") -> str:
        plain = prefix + re.sub(r"\W", "_", name)
        if not plain.isidentifier() or keyword.iskeyword(plain):
            plain = f"_{plain}"
        candidate, number = plain, 1
        while candidate in self._taken:
            candidate, number = f"{plain}_{number}", number + 1
        self._taken.add(candidate)
        return candidate


class _Source:
    """The text of ``forward``: one statement per step, values deleted after their last use."""

    def __init__(self, plan: Plan, module: PlanModule, named: bool) -> None:
        self.plan, self.module, self.named = plan, module, named
        self.names = _Names({"self", "parameters", "buffers", "host", "device"})
        self.local = {slot.name: self.names(slot.name, "v_") for slot in plan.inputs}
        self.local |= {name: self.names(name, "v_") for name in plan.captures if name not in self.local}

    def text(self) -> str:
        arguments = ", ".join(["self", *dict.fromkeys(self.local.values())])
        lines = [f"def forward({arguments}):"]
        if self.module._parameters:
            lines.append("parameters = self._parameters")
        if self.module._buffers:
            lines.append("buffers = self._buffers")
        if self.module.host:
            lines.append("host = self.host")
        if self.module.target is not None:
            lines.append("device = self.target")
        last = self._last_uses()
        for index, step in enumerate(self.plan.steps):
            lines.append(self._statement(index, step))
            dead = [self.local[n] for n in last.get(index, ()) if n in self.local]
            dead += [self.local[s.name] for s in step.site.outputs if s is not None and s.name not in self._used]
            if dead:
                lines.append(f"del {', '.join(dict.fromkeys(dead))}")
        lines.append(self._result())
        return f"\n{INDENT}".join(lines) + "\n"

    def _last_uses(self) -> Mapping[int, list[str]]:
        """Index of a step to the values that nothing uses after it."""
        last_steps: dict[str, int] = {}
        for index, step in enumerate(self.plan.steps):
            for name in _uses(step):
                last_steps[name] = index
        self._used = {*last_steps, *self.plan.outputs}
        by_step: dict[int, list[str]] = {}
        for name, index in last_steps.items():
            if name not in self.plan.outputs:
                by_step.setdefault(index, []).append(name)
        return by_step

    def _statement(self, index: int, step: Step) -> str:
        host = self._on_cpu(step)
        arguments = [
            "None" if slot is None else self.value(slot.name, anywhere=host or is_setting(step, i))
            for i, slot in enumerate(step.site.inputs)
        ]
        arguments += [self.value(name) for name in step.captures]
        targets = []
        for slot in step.site.outputs:
            targets.append("_" if slot is None else self.local.setdefault(slot.name, self.names(slot.name, "v_")))
        target = ", ".join(targets)
        if step.site.operator == "Identity":
            return f"{target} = {arguments[0]}"
        call = f"f{index}({', '.join(arguments)})"
        if self.module.target is not None and not host and step.site.operator in CREATES:
            call += ".to(device)"
        return f"{target} = {call}  # {_comment(step)}"

    def _on_cpu(self, step: Step) -> bool:
        if self.module.target is None:
            return True
        return runs_on_cpu(step, self.module.placement.hosted, self.plan.constants)

    def _result(self) -> str:
        values = [self.value(name) for name in self.plan.outputs]
        if self.named:
            pairs = zip(self.plan.outputs, values, strict=True)
            return "return {" + ", ".join(f"{name!r}: {value}" for name, value in pairs) + "}"
        return f"return ({', '.join(values)}{',' if len(values) == 1 else ''})"

    def value(self, name: str, anywhere: bool = False) -> str:
        """The expression for a value: where it is needed, or where it is if that does not matter."""
        if name not in self.local:
            return self.module.where(name, on_cpu=anywhere)
        move = not anywhere and name in self.module.placement.hosted
        return f"{self.local[name]}.to(device)" if move else self.local[name]


def _uses(step: Step) -> list[str]:
    return [slot.name for slot in step.site.inputs if slot is not None] + list(step.captures)


def _comment(step: Step) -> str:
    return "".join(c if c.isprintable() else " " for c in f"{step.site.operator} {step.site.name}")


class Holding(nn.Module):
    """A function together with tensors that were prepared for it; they follow the module from device to device.

    Args:
        function: Called with the step's inputs followed by the tensors.
        tensors: What it needs.
    """

    def __init__(self, function: Callable[..., Any], *tensors: torch.Tensor) -> None:
        super().__init__()
        self.function = function
        for index, tensor in enumerate(tensors):
            self.register_buffer(f"tensor{index}", tensor)

    def forward(self, *inputs: Any) -> Any:
        return self.function(*inputs, *self._buffers.values())
