"""Other Python environments: declared, built once, locked, and run in.

An adapter in another environment is named with an ``@``: ``torch@envs/torch29``, see `deep_bench.variant`. Its worker runs
under the interpreter there, and is timed there, in one measurement with all others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from deep_bench.lazy import lazy

if TYPE_CHECKING:
    from deep_bench.environments.building import build as build
    from deep_bench.environments.building import differences as differences
    from deep_bench.environments.building import remove as remove
    from deep_bench.environments.declaration import Declaration as Declaration
    from deep_bench.environments.declaration import Declarations as Declarations
    from deep_bench.environments.find import place_of as place_of
    from deep_bench.environments.finished import Built as Built
    from deep_bench.environments.finished import all_built as all_built
    from deep_bench.environments.finished import built as built
    from deep_bench.environments.lean import Lean as Lean
    from deep_bench.environments.locking import Lock as Lock

_LAZY = {
    "Built": "deep_bench.environments.finished",
    "Declaration": "deep_bench.environments.declaration",
    "Declarations": "deep_bench.environments.declaration",
    "Lean": "deep_bench.environments.lean",
    "Lock": "deep_bench.environments.locking",
    "all_built": "deep_bench.environments.finished",
    "build": "deep_bench.environments.building",
    "built": "deep_bench.environments.finished",
    "differences": "deep_bench.environments.building",
    "place_of": "deep_bench.environments.find",
    "remove": "deep_bench.environments.building",
}

__all__ = [
    "Built",
    "Declaration",
    "Declarations",
    "Lean",
    "Lock",
    "all_built",
    "build",
    "built",
    "differences",
    "place_of",
    "remove",
]

__getattr__, __dir__ = lazy(__name__, _LAZY)
