"""Public modules under the names that they had before: importing one warns, and version 0.3 no longer has them."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

REMOVED_IN = "0.3"

MOVED = {
    "deep_bench.experiments": {
        "deep_bench.recipes": "READY Cell CellOutcome Experiment NotWritten Outcome experiment_status load_experiment "
        "resume_experiment run_experiment",
    },
    "deep_bench.network.inputs": {
        "deep_bench.graph.drawing": "draw_inputs",
        "deep_bench.network.problem": "Inputs:NetworkInputs prepare_inputs read_inputs",
    },
    "deep_bench.network.sizes": {"deep_bench.graph.drawing": "Sizes choose_sizes"},
    "deep_bench.repeating": {
        "deep_bench.recipes": "Claims Manifest Repetition bundle read_manifest repeat unpack",
    },
    "deep_bench.results.export": {
        "deep_bench.results.formats": "rows sample_rows",
        "deep_bench.results.results": "FORMATS export",
    },
}
"""A module's earlier name: where each of its public names is now, as ``name`` or ``name:new_name``."""


class _Alias(ModuleType):
    """A module that looks its names up where they are now."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._places: dict[str, tuple[str, str]] = {}
        for place, words in MOVED[name].items():
            for word in words.split():
                earlier, _, new = word.partition(":")
                self._places[earlier] = (place, new or earlier)
        self.__all__ = sorted(self._places)

    def __getattr__(self, name: str) -> Any:
        if name not in self.__dict__.get("_places", {}):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        place, new = self._places[name]
        return getattr(import_module(place), new)


class MovedModules(MetaPathFinder, Loader):
    """Finds the modules of `MOVED`, after all finders that know real ones."""

    def find_spec(self, fullname: str, *_: Sequence[str] | ModuleType | None) -> ModuleSpec | None:
        """What Python asks each finder: an alias for a name of `MOVED`, else nothing."""
        return ModuleSpec(fullname, self) if fullname in MOVED else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """The alias; whoever imports it is warned."""
        places = " and ".join(MOVED[spec.name])
        message = f"{spec.name} is {places} now; its earlier name goes with deep_bench {REMOVED_IN}"
        warnings.warn(message, DeprecationWarning, stacklevel=2)
        return _Alias(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """There is no code to run."""


def find_moved_modules() -> None:
    """Have Python find them, once in a process."""
    if not any(isinstance(finder, MovedModules) for finder in sys.meta_path):
        sys.meta_path.append(MovedModules())
