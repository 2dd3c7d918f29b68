"""Which values stay on the CPU when a network runs on another device.

Shapes are born on the CPU, computed with there and used there: a reshape that asked the device for its target would wait for
all work given to it before.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from deep_bench.adapters.lowering import Plan, Slot, Step
from deep_bench.adapters.torch.arrays import is_foreign

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
