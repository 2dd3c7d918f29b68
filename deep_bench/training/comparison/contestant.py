"""``Contestant``: an optimizer with the device whose arrays it updates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from deep_bench import frameworks, optimizers
from deep_bench.errors import InvalidArgument
from deep_bench.framework import Device
from deep_bench.network.update_rule import check_types, prepared, updated
from deep_bench.training.comparison.oracle import Gradients
from deep_bench.training.optimizer import Evaluate, Optimizer, check_home


@dataclass(frozen=True)
class Contestant:
    """An optimizer and where it runs.

    Args:
        label: How reports call it.
        rule: The optimizer.
        device: Of the arrays that it updates.
    """

    label: str
    rule: Optimizer[Any, Any]
    device: Device[Any]

    def trajectory(
        self, parameters: Mapping[str, np.ndarray], gradients: Gradients, steps: int, evaluate: Evaluate | None = None
    ) -> list[dict[str, np.ndarray]]:
        """The parameters after each step, as NumPy arrays of their own type; what is not finite is judged, and no error."""
        with np.errstate(all="ignore"):
            return self._trajectory(parameters, gradients, steps, evaluate)

    def _trajectory(
        self, parameters: Mapping[str, np.ndarray], gradients: Gradients, steps: int, evaluate: Evaluate | None
    ) -> list[dict[str, np.ndarray]]:
        device, xp = self.device, self.device.xp
        held = {name: device.from_numpy(np.array(x)) for name, x in parameters.items()}
        dtypes = {name: x.dtype for name, x in parameters.items()}
        state, trajectory = self.rule.init(held, xp), list[dict[str, np.ndarray]]()

        def native(arrays: Mapping[str, Any]) -> dict[str, Any]:
            return {name: device.from_numpy(np.array(arrays[name], dtypes[name])) for name in parameters}

        def elsewhere(point: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
            assert evaluate is not None
            loss, slopes = evaluate({name: device.to_numpy(x) for name, x in point.items()})
            return device.from_numpy(np.asarray(loss)), native(slopes)

        for step in range(steps):
            point = {name: np.array(device.to_numpy(x)) for name, x in prepared(self.rule, held, state).items()}
            slopes = native(gradients(step, point))
            before, at = held, None if evaluate is None else elsewhere
            held, state = updated(self.rule, slopes, state, before, xp, evaluate=at)
            check_types(self.rule, before, held, xp)
            device.synchronize()
            trajectory.append({name: np.array(device.to_numpy(x)) for name, x in held.items()})
        return trajectory


def contestants(given: tuple[Any, ...]) -> list[Contestant]:
    """What `compare_optimizers` was given, with labels that differ."""
    if len(given) == 1 and isinstance(given[0], Mapping):
        pairs = list(given[0].items())
    else:
        pairs = [(None, entry) for entry in given]
    entries: list[Contestant] = []
    for label, entry in pairs:
        rule, device = _parted(entry)
        name = base = label or _label(entry, rule)
        used_names, number = {c.label for c in entries}, 2
        while name in used_names:
            name, number = f"{base} {number}", number + 1
        entries.append(Contestant(name, rule, device))
    if len(entries) < 2:
        raise InvalidArgument(f"{len(entries)} optimizers", "two at least: the first is what the others are judged by")
    return entries


def _parted(entry: Any) -> tuple[Optimizer[Any, Any], Device[Any]]:
    rule, device = entry if isinstance(entry, tuple) and len(entry) == 2 else (entry, None)
    if isinstance(rule, str):
        rule = optimizers[rule]()
    if not isinstance(rule, Optimizer):
        raise InvalidArgument(f"{rule!r} to compare", "an optimizer, a name of db.optimizers, or (optimizer, framework)")
    if device is None:
        device = rule.framework or "reference"
    framework = frameworks[device]() if isinstance(device, str) else device
    check_home(rule, framework)
    return rule, framework


def _label(entry: Any, rule: Optimizer[Any, Any]) -> str:
    if isinstance(entry, str):
        return entry
    name = getattr(rule, "kind", type(rule).__name__).lower()
    home = rule.framework or (entry[1] if isinstance(entry, tuple) and isinstance(entry[1], str) else None)
    return f"{home}.{name}" if home else name
