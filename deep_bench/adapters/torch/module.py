"""A plan compiled to a ``torch.nn.Module`` whose ``forward`` is generated, straight-line Python.

Some values stay on the CPU when a network runs on another device. Steps of the code can be wrapped in something else for a
while.
"""

from __future__ import annotations

import keyword
import linecache
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from torch import nn

from deep_bench.adapters.lowering import Plan, Slot, Step
from deep_bench.adapters.torch.arrays import TYPES, is_foreign, to_tensor

_BORN_ON_CPU = frozenset({"Shape", "Size", "SequenceLength", "OptionalHasElement"})

_WINDOWS = ("BlackmanWindow", "HammingWindow", "HannWindow")

_SETTINGS = {
    "AffineGrid": {1},
    "CenterCropPad": {1},
    "Col2Im": {1, 2},
    "ConstantOfShape": {0},
    "CumProd": {1},
    "CumSum": {1},
    "DFT": {1, 2},
    "Dropout": {1, 2},
    "Expand": {1},
    "If": {0},
    "Loop": {0, 1},
    "MaxUnpool": {2},
    "MelWeightMatrix": {0, 1, 2, 3, 4},
    **{name: {0} for name in _WINDOWS},
    "OneHot": {1},
    "Pad": {1, 2, 3},
    "Reshape": {1},
    "Resize": {1, 2, 3},
    "STFT": {1, 3},
    "SequenceAt": {1},
    "SequenceErase": {1},
    "SequenceInsert": {2},
    "Slice": {1, 2, 3, 4},
    "Split": {1},
    "SplitToSequence": {1},
    "Squeeze": {1},
    "Tile": {1},
    "TopK": {1},
    "Trilu": {1},
    "Unsqueeze": {1},
}
"""Operator to the inputs that its code reads as Python numbers, so that they may be on any device."""


CREATES = frozenset({"ConstantOfShape", "MelWeightMatrix", "RandomNormal", *_WINDOWS, "RandomUniform", *_BORN_ON_CPU})
"""Operators whose code makes its result on the CPU, or where its settings are."""


def is_setting(step: Step, index: int) -> bool:
    """Whether an input may be on any device."""
    return reads_number(step.site.operator, index)


def reads_number(operator: str, index: int) -> bool:
    """Whether an operator's code reads an input as Python numbers."""
    return index in _SETTINGS.get(operator, ()) or (operator.startswith("Reduce") and index == 1)


@dataclass(frozen=True)
class Placement:
    """Where the values of a plan are.

    Args:
        hosted: Names of the computed values that are on the CPU.
        on_cpu: Names of the constants that are needed there.
        on_device: Names of the constants that are needed on the device.
    """

    hosted: frozenset[str] = frozenset()
    on_cpu: frozenset[str] = frozenset()
    on_device: frozenset[str] = field(default_factory=frozenset)


def place(plan: Plan, hosted_inputs: Iterable[str] = ()) -> Placement:
    """Follow shapes through a plan.

    A step runs on the CPU if it measures something, or if all that it computes from is there or constant and its result has
    at most one axis.
    """
    hosted = set(hosted_inputs)
    for step in plan.steps:
        if runs_on_cpu(step, hosted, plan.constants):
            hosted.update(slot.name for slot in step.site.outputs if slot is not None)
    on_cpu: set[str] = set()
    on_device = {name for name in plan.outputs if name in plan.constants}
    for step in plan.steps:
        host = runs_on_cpu(step, hosted, plan.constants)
        for index, slot in enumerate(step.site.inputs):
            if slot is not None and slot.name in plan.constants:
                (on_cpu if host or is_setting(step, index) else on_device).add(slot.name)
        on_device.update(name for name in step.captures if name in plan.constants)
    return Placement(frozenset(hosted), frozenset(on_cpu), frozenset(on_device))


def runs_on_cpu(step: Step, hosted: Collection[str], constants: Collection[str]) -> bool:
    """Whether a step is computed on the CPU, given which values are there."""
    if step.site.operator in _BORN_ON_CPU:
        return True
    if step.captures or step.site.operator in ("If", "Loop", "Scan"):
        return False
    names = [slot.name for slot in step.site.inputs if slot is not None and slot.name not in constants]
    small = all(slot is None or _is_small(slot) for slot in step.site.outputs)
    return bool(names) and small and all(name in hosted for name in names)


def _is_small(slot: Slot) -> bool:
    return not is_foreign(slot.dtype) and slot.rank is not None and slot.rank <= 1


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
        names = _Identifiers()
        self.keys = {name: names(name, "c_") for name in plan.constants}
        for name, array in plan.constants.items():
            self._hold(name, array if convert is None else convert(array), trains)
        scope: dict[str, Any] = {}
        for index, step in enumerate(plan.steps):
            scope[f"f{index}"] = self._function(index, step)
        self.code = _ForwardSource(plan, self, named).text()
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


class _Identifiers:
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


class _ForwardSource:
    """The text of ``forward``: one statement per step, values deleted after their last use."""

    def __init__(self, plan: Plan, module: PlanModule, named: bool) -> None:
        self.plan, self.module, self.named = plan, module, named
        self.names = _Identifiers({"self", "parameters", "buffers", "host", "device"})
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
            for name in [slot.name for slot in step.site.inputs if slot is not None] + list(step.captures):
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


Function = Callable[..., Any]


@contextmanager
def wrapped_steps(module: PlanModule, wrap: Callable[[Step, Function], Function]) -> Iterator[None]:
    """Meanwhile the module's code calls what ``wrap`` made of each step of the outermost graph.

    The code itself stays as it is, and so does what it costs before and after.

    Args:
        module: The network.
        wrap: Takes a step and its function; returns what to call instead.
    """
    forward: Any = module.forward
    scope: dict[str, Any] = forward.__globals__  # where the generated code finds its steps, as f0, f1, …
    originals = {f"f{index}": scope[f"f{index}"] for index in range(len(module.plan.steps))}
    for index, step in enumerate(module.plan.steps):
        scope[f"f{index}"] = wrap(step, originals[f"f{index}"])
    try:
        yield
    finally:
        scope.update(originals)
