"""Faults and correct variants among gradients: by hand, by frameworks' own differentiation, node by node."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from importlib.util import find_spec
from types import SimpleNamespace
from typing import Any

import deep_bench as db

from ..entry import Entry
from ..problems import GRADIENTS
from .derived import derived_faults, derived_variants
from .faults import FAULTS
from .problem import ByHand, Kernel, gradient_problem
from .variants import VARIANTS


def gradient_faults() -> Iterator[Entry]:
    """Wrong backward passes, and derived networks with wrong kernels, with and without a ladder in turn."""
    yield from _by_hand(FAULTS)
    yield from derived_faults()


def gradient_variants() -> Iterator[Entry]:
    """Correct backward passes and derived networks, with and without a ladder in turn; then the frameworks' own."""
    yield from _by_hand(VARIANTS)
    yield from derived_variants()
    for framework in ("torch", "tensorflow"):
        if find_spec(framework) is not None:
            for where in dict.fromkeys(of for of, _ in (*VARIANTS, *FAULTS)):
                yield Entry(
                    f"gradients by {framework} on {where}", f"{GRADIENTS}{where}", _native(framework, where), native=True
                )


def _by_hand(kernels: Mapping[tuple[str, str], Kernel]) -> Iterator[Entry]:
    for number, ((where, name), kernel) in enumerate(kernels.items()):
        yield Entry(f"gradients, {name}, in {where}", f"{GRADIENTS}{where}", _subject(where, kernel, number % 2 == 0))


def _subject(where: str, kernel: Kernel, ladder: bool) -> Callable[[], ByHand]:
    return lambda: ByHand(gradient_problem(where), kernel, ladder=ladder)


def _native(framework: str, where: str) -> Callable[[], Any]:
    def make() -> Any:
        posed, adapter = gradient_problem(where).pullback, db.frameworks[framework]()
        return SimpleNamespace(
            outputs=lambda: posed.gradients(adapter), precisely=lambda: posed.in_float64().gradients(adapter)
        )

    return make
