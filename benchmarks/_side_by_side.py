"""Time several systems in one interleaved run and print ratios with their intervals; shared by the benchmarks here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import nan
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from tqdm import tqdm

from deep_bench.measure.compare import ratio
from deep_bench.measure.session import Plan, measure
from deep_bench.measure.statistics import launch_interval, summarize
from deep_bench.measure.timing import Block
from deep_bench.workers.fleet import Contender

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Bar:
    """A ratio that should hold: time of ``label`` over that of ``base``, at most ``most`` (or plus ``allowance_ns``).

    It is not asked for where ``base`` takes less than ``from_ns``.
    """

    label: str
    base: str
    most: float
    allowance_ns: float = 0.0
    from_ns: float = 0.0


@dataclass(frozen=True)
class Outcome:
    """What became of a bar: *holds*, *does not hold*, *not asked* or *nothing to compare*.

    Args:
        bar: The bar.
        word: One of these.
        value: The ratio of the medians.
        low: The lower end of its interval; the ratio itself where there is none.
        high: The upper end, which decides.
    """

    bar: Bar
    word: str
    value: float = nan
    low: float = nan
    high: float = nan

    @property
    def fine(self) -> bool:
        """Whether nothing speaks against it."""
        return self.word in ("holds", "not asked")


@dataclass
class Comparison:
    """What a benchmark compares.

    Args:
        title: Heading of its table.
        systems: Label to import path of the factory, which lies in this folder.
        bars: The ratios to show.
        arguments: Keyword arguments of every factory.
    """

    title: str
    systems: Mapping[str, str]
    bars: Sequence[Bar]
    arguments: Mapping[str, Any] = field(default_factory=dict)


class TimedCall:
    """A system under test that is a single call, made by ``make`` when it is prepared."""

    threaded = False

    def __init__(self, make: Any, synchronize: Any = None) -> None:
        self._make = make
        self._synchronize = synchronize

    def prepare(self) -> dict[str, Any]:
        self._call = self._make()
        return {}

    def calls(self) -> dict[str, Any]:
        return {"native": self._call}

    def synchronize(self) -> None:
        if self._synchronize is not None:
            self._synchronize()


def run(comparison: Comparison, *, budget: float, ci_width: float = 0.005, min_calls: int = 10) -> bool:
    """Measure, print the table, and say whether all bars hold."""
    return all(outcome.fine for outcome in outcomes(comparison, budget=budget, ci_width=ci_width, min_calls=min_calls))


def told(found: Sequence[tuple[str, Outcome]]) -> int:
    """Print what became of each bar, by the name of what was compared; the exit status: 0 if all are fine."""
    for name, outcome in found:
        interval = f"{outcome.value:.3f} ({outcome.low:.3f} to {outcome.high:.3f})"
        print(f"{outcome.word}: {name}, {outcome.bar.label}: {interval}, at most {outcome.bar.most:g} of {outcome.bar.base}")
    return 0 if all(outcome.fine for _, outcome in found) else 1


def outcomes(
    comparison: Comparison, *, budget: float, ci_width: float = 0.005, min_calls: int = 10, launches: int = 1
) -> list[Outcome]:
    """Measure, print the table, and say of each bar whether it holds.

    With several launches, each in fresh processes, intervals are over launches: they hold what differs between these.
    """
    contenders = [
        Contender(label, factory, dict(comparison.arguments), environment={"OMP_NUM_THREADS": "1"}, path=(HERE,))
        for label, factory in comparison.systems.items()
    ]
    plan = Plan(ci_width=ci_width, budget_s=budget, min_calls=min_calls, launches=launches)
    with tqdm(total=budget, unit="s", desc=comparison.title, disable=None, leave=False) as bar:
        found = measure(contenders, plan, watch=lambda p: bar.update(p.elapsed_s - bar.n))
    for label, error in found.failures.items():
        print(f"{label} failed: {error}")
    table = Table("system", "median", "95 % interval", "ratio", "95 % interval", "bar", "", title=comparison.title)
    held = [o for label in comparison.systems for o in _rows(table, found, label, comparison.bars)]
    Console(width=120).print(table)
    return held


def _rows(table: Table, found: Any, label: str, bars: Sequence[Bar]) -> list[Outcome]:
    bars = [bar for bar in bars if bar.label == label]
    blocks = found.blocks(label, "native")
    if not blocks:
        table.add_row(label, "failed")
        return [Outcome(bar, "nothing to compare") for bar in bars]
    middle, shown = _middle(blocks)
    start = [label, f"{middle / 1e3:.3f} us", shown]
    if not bars:
        table.add_row(*start)
    held = []
    for bar in bars:
        if not found.blocks(bar.base, "native"):
            table.add_row(*start, "", "", f"{bar.base} failed", "nothing to compare")
            # A base may fail; what is compared with it may not.
            held.append(Outcome(bar, "not asked"))
            continue
        outcome, limits, most = _outcome(bar, blocks, found.blocks(bar.base, "native"))
        table.add_row(*start, f"{outcome.value:.3f}", limits, f"at most {most:.3f} of {bar.base}", outcome.word)
        held.append(outcome)
        start = ["", "", ""]
    return held


def _middle(launches: Sequence[Sequence[Block]]) -> tuple[float, str]:
    """The median, of the launches' medians where there are several, and its interval in words."""
    summaries = [summarize(blocks) for blocks in launches]
    if len(summaries) == 1:
        middle, interval = summaries[0].median, summaries[0].interval
    else:
        medians = [s.median for s in summaries]
        middle, interval = float(np.median(medians)), launch_interval(medians)
    return middle, f"{interval.low / 1e3:.3f} to {interval.high / 1e3:.3f}" if interval else "too few samples"


def _outcome(bar: Bar, blocks: Any, base: Any) -> tuple[Outcome, str, float]:
    compared = ratio(blocks, base)
    most = bar.most + bar.allowance_ns / compared.base
    if compared.interval is None:
        # Too few blocks for an interval: then even our slowest sample must be fast enough beside the base's fastest.
        low, high = compared.value, _slowest(blocks) / _fastest(base)
        limits = f"at most {high:.3f}: slowest over fastest"
    else:
        low, high = compared.interval
        limits = f"{low:.3f} to {high:.3f}"
    word = "not asked" if compared.base < bar.from_ns else "holds" if high <= most else "does not hold"
    return Outcome(bar, word, compared.value, low, high), limits, most


def _slowest(launches: Sequence[Sequence[Block]]) -> float:
    return max(float(block.calls_ns.max()) for blocks in launches for block in blocks)


def _fastest(launches: Sequence[Sequence[Block]]) -> float:
    return min(float(block.calls_ns.min()) for blocks in launches for block in blocks)
