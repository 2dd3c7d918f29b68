"""Frameworks whose dependencies conflict with deep_bench's: one file of theirs runs beside NumPy, all else happens here."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deep_bench.errors import InvalidArgument
from deep_bench.graph import Network

SYSTEM = "deep_bench.environments.lean_system:LeanSystem"


@dataclass(frozen=True)
class Lean:
    """A framework that runs in an environment without deep_bench.

    Args:
        name: In `deep_bench.variant.lean_frameworks`.
        program: The file with its adapter, which needs the framework, NumPy and the standard library of that environment
            only; see `deep_bench.environments.lean_system` for what it must offer.
        attribute: The adapter's class in it.
        rewrite: What makes of a network one that the framework reads; raises `UnsupportedOperator` where it cannot.
        options: The names of its options.
        install: What `pip install` is told to make its environment.
    """

    name: str
    program: Path
    attribute: str
    rewrite: Callable[[Network], bytes]
    options: tuple[str, ...] = ()
    install: str = ""

    def arguments(self, options: Mapping[str, str]) -> dict[str, Any]:
        """What the system in the worker is made from, but for network and inputs.

        Raises:
            InvalidArgument: An option that it does not have.
        """
        for name in options:
            if name not in self.options:
                near = difflib.get_close_matches(name, self.options, n=1)
                raise InvalidArgument(
                    f"{self.name} has no option {name!r}",
                    f"one of {', '.join(self.options) or '(it has none)'}",
                    f"did you mean {near[0]!r}?" if near else "",
                )
        return {
            "program": str(self.program),
            "attribute": self.attribute,
            "options": dict(options),
            "install": self.install,
        }
