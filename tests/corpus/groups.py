"""The corpus in groups, each with its label."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from .entry import Entry
from .faults import faults
from .gradients import gradient_faults, gradient_variants
from .mutation.held_out import mutants, rule_mutants
from .real import faultless, planted
from .variants import variants


@dataclass(frozen=True)
class Group:
    """A part of the corpus.

    Args:
        entries: Makes its entries.
        fault: Its label.
        real: Whether its networks are fetched.
    """

    entries: Callable[[], Iterable[Entry]]
    fault: bool
    real: bool = False


def _own(entries: Callable[[], Iterable[Entry]]) -> Callable[[], Iterable[Entry]]:
    return lambda: (e for e in entries() if not e.native)


def _native(entries: Callable[[], Iterable[Entry]]) -> Callable[[], Iterable[Entry]]:
    return lambda: (e for e in entries() if e.native)


GROUPS: Mapping[str, Group] = {
    "faults of kernels, by hand": Group(faults, fault=True),
    "faults of gradients, by hand": Group(gradient_faults, fault=True),
    "faults held out: mutants of the reference": Group(mutants, fault=True),
    "faults held out: mutants of the gradient rules": Group(rule_mutants, fault=True),
    "faults planted in one node of real networks": Group(planted, fault=True, real=True),
    "correct kernels, by hand": Group(_own(variants), fault=False),
    "correct gradients, by hand": Group(_own(gradient_variants), fault=False),
    "frameworks' kernels": Group(_native(variants), fault=False),
    "frameworks' own gradients": Group(_native(gradient_variants), fault=False),
    "real networks without a fault": Group(faultless, fault=False, real=True),
}
"""Label to group."""
