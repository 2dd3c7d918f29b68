"""What differs from one start of a process to the next, and which figures it changes."""

from __future__ import annotations

BETWEEN_STARTS = 0.10
"""By how much two starts of one program may differ in a time or a rate: between single launches no less is called a change.

A start settles what then stays for as long as the process lives: where memory lies and how it is aligned, on which core it
runs, which kernel a library took. So no sample of the process shows it. In 480 comparisons of the same code, single launches
taken apart, ratios went from 0.89 to 1.11 (docs/compare.md); several launches replace this number by what is measured.

Source:
    Mytkowicz, Diwan, Hauswirth and Sweeney, *Producing wrong data without doing anything obviously wrong!*, ASPLOS 2009: the
    order of linking and the size of the environment alone turn a gain into a loss. Kalibera and Jones, *Rigorous
    benchmarking in reasonable time*, ISMM 2013: what varies from start to start is known only from several starts.
"""

ONCE = ("setup", "first call", "peak memory")
"""Figures of which a start has one value: a single launch cannot test them, which is no fault of it."""

_TIMES = ("s", "ms", "us", "µs", "ns", "min", "h")
_ENERGY = ("J", "kJ", "Wh", "kWh", "W")


def is_speed(unit: str) -> bool:
    """Whether a figure is a time, or an amount in a second."""
    return unit in _TIMES or unit.endswith("/s")


def differs_by_start(unit: str) -> bool:
    """Whether a figure of such a unit differs from start to start: a time, a rate, an energy; no score, no size.

    Example:
        >>> [differs_by_start(unit) for unit in ("s", "samples/s", "J", "", "%", "bits", "B")]
        [True, True, True, False, False, False, False]
    """
    return is_speed(unit) or unit in _ENERGY
