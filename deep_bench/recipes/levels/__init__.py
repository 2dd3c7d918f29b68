"""The levels of a recipe, each a class: its fields, and what follows from them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from deep_bench.recipes.levels.communication import CommunicationFields
from deep_bench.recipes.levels.level import LevelFields
from deep_bench.recipes.levels.network import NetworkFields
from deep_bench.recipes.levels.operators import CaseFields, OperatorsFields
from deep_bench.recipes.levels.scaling import ScalingFields
from deep_bench.recipes.levels.training import TrainingFields

__all__ = ["LEVELS", "CaseFields"]

_CLASSES: tuple[type[LevelFields], ...] = (
    OperatorsFields, NetworkFields, TrainingFields, CommunicationFields, ScalingFields,
)  # fmt: skip

LEVELS: Mapping[str, type[LevelFields]] = MappingProxyType({fields.level: fields for fields in _CLASSES})
"""Level to its fields."""
