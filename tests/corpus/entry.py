"""One labelled system of the corpus."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Entry:
    """One labelled system.

    Args:
        name: Unique.
        problem: The name of the problem it is judged on.
        subject: Makes it.
        held_out: Whether it was never looked at when thresholds were chosen.
        native: Whether it is a framework's own kernel.
        norm_wise: Operators that it declares to be accurate relative to the largest elements only.
    """

    name: str
    problem: str
    subject: Callable[[], Any]
    held_out: bool = False
    native: bool = False
    norm_wise: Collection[str] = ()
