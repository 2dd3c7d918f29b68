"""Intervals and p-values: against a library, against each other, and in simulations."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import stats

from deep_bench.measure import compare as by_turns
from deep_bench.measure.compare import Estimate, corrected, estimate, wander
from deep_bench.measure.statistics import least_p, shift
from deep_bench.measure.timing import Block
from deep_bench.results import Figure
from tests.results.made import blocks, figure, runs


@pytest.fixture
def random() -> np.random.Generator:
    return np.random.default_rng(20260101)


def none(values: np.ndarray) -> np.ndarray:
    return np.zeros(len(values), bool)


@pytest.mark.parametrize(("n", "m"), [(3, 4), (5, 5), (12, 7), (30, 40)])
def test_p_values_are_those_of_mann_and_whitney(random: np.random.Generator, n: int, m: int) -> None:
    ours, theirs = random.normal(0.5, 1, n), random.normal(0, 1, m)
    found = shift(ours, theirs, late=none(ours), late_before=none(theirs))
    for p, side in ((found.below(0.0), "greater"), (found.above(0.0), "less")):
        assert p == pytest.approx(stats.mannwhitneyu(ours, theirs, alternative=side, method="exact").pvalue, rel=1e-9)


def test_many_values_take_the_normal_distribution(random: np.random.Generator) -> None:
    ours, theirs = random.normal(0.3, 1, 60), random.normal(0, 1, 50)
    found = shift(ours, theirs, late=none(ours), late_before=none(theirs))
    exact = stats.mannwhitneyu(ours, theirs, alternative="greater", method="exact").pvalue
    assert found.below(0.0) == pytest.approx(exact, rel=0.02)


def test_too_few_values_have_no_interval() -> None:
    assert least_p(3, 3) > 0.05 >= least_p(4, 4)
    found = estimate(runs(1.0, 1.1, 1.2), runs(2.0, 2.1, 2.2), 0.02, apart=True)
    assert found.interval is found.p is None
    assert "too few" in found.why


def agree(found: Estimate) -> None:
    """The interval leaves "no change" out exactly where p is at most 5 %."""
    assert found.interval is not None
    assert found.p is not None
    low, high = found.interval
    nothing = 1.0 if found.scale == "ratio" else 0.0
    assert (found.p <= 0.05) == (not low <= nothing <= high)


@pytest.mark.parametrize("far", [0.0, 0.01, 0.02, 0.03, 0.05])
def test_p_values_belong_to_the_intervals(random: np.random.Generator, far: float) -> None:
    for _ in range(10):
        agree(estimate(figure(blocks(random)), figure(blocks(random, 1 + far / 4)), 0.02, apart=False))
        few = [runs(*np.exp(random.normal(0, 0.02, 5))), runs(*(np.exp(random.normal(0, 0.02, 6)) * (1 + far)))]
        agree(estimate(*few, 0.02, apart=True))
        score = [runs(*random.normal(0.9 + d, 0.02, 5), name="accuracy", unit="") for d in (0, far)]
        agree(estimate(*score, 0.02, apart=True))


def test_ties_count_against_a_claim() -> None:
    found = estimate(runs(*[1.0] * 5), runs(*[1.0] * 5), 0.02, apart=True)
    assert found.interval == (1.0, 1.0)
    assert found.p == 1.0
    assert found.p_equivalent == pytest.approx(1 / 252)


@pytest.mark.parametrize(("launches", "count"), [(1, 12), (1, 5), (1, 1), (2, 3), (3, 12), (4, 1), (10, 2)])
def test_systems_that_took_turns_have_the_interval_that_show_prints(
    random: np.random.Generator, launches: int, count: int
) -> None:
    def recorded(level: float) -> list[list[Block]]:
        return [
            [Block(0, 1, (g * 1e6).astype(int), np.zeros(len(g), bool)) for g in blocks(random, level, count=count)]
            for _ in range(launches)
        ]

    base, ours = recorded(1.0), recorded(1.03)
    sides = [figure(*([block.calls_ns for block in launch] for launch in one)) for one in (base, ours)]
    found, shown = estimate(*sides, 0.02, apart=False), by_turns.ratio(ours, base)
    assert found.value == pytest.approx(shown.value, rel=1e-12)
    assert found.basis == shown.basis
    assert (found.interval is None) == (shown.interval is None) == bool(found.why) == bool(shown.why)
    if shown.interval is not None:
        assert found.interval == pytest.approx(shown.interval, rel=1e-12)
    else:
        assert re.search("--budget|--launches", found.why)


def test_runs_that_missed_the_target_are_later_than_all_they_outlasted() -> None:
    before = runs(3.0, 4.0, 5.0, 6.0, 7.0)
    after = runs(8.0, 9.0, 10.0, 10.0, 10.0, censored=[False, False, True, True, True])
    found = estimate(before, after, 0.02, apart=True)
    assert found.p == pytest.approx(2 / 252)
    assert found.interval is not None
    assert found.interval[0] > 1
    assert found.interval[1] == np.inf
    assert found.after == np.inf


def test_a_run_that_was_ended_early_tells_nothing_of_later_ones() -> None:
    before = runs(3.0, 4.0, 5.0, 6.0, 7.0)
    after = runs(1.0, 1.0, 1.0, 1.0, 1.0, censored=[True] * 5)
    assert estimate(before, after, 0.02, apart=True).p == 1.0


def test_holm_and_benjamini_hochberg() -> None:
    assert corrected([0.01, 0.02, 0.03], "holm") == pytest.approx([0.03, 0.04, 0.04])
    assert corrected([0.01, 0.02, 0.03], "bh") == pytest.approx([0.03, 0.03, 0.03])
    assert corrected([], "holm") == []
    assert corrected([0.5, 0.6], "holm") == pytest.approx([1.0, 1.0])


def alarms(draw: Callable[[], tuple[Figure, Figure]], *, apart: bool, families: int, size: int = 10) -> float:
    """The share of families of comparisons in which any is told to have changed, after Holm's correction."""
    wrong = 0
    for _ in range(families):
        p = [found.p for _ in range(size) if (found := estimate(*draw(), 0.02, apart=apart)).p is not None]
        wrong += min(corrected(p, "holm")) <= 0.05
    return wrong / families


def at_most(trials: int) -> float:
    """The highest share that 5 % are likely to show in so many trials: the 99.9 % quantile."""
    return float(stats.binom.ppf(0.999, trials, 0.05)) / trials


def sized(*launches: Any) -> Figure:
    """A figure that no start of a process changes, so that nothing hides what is asked of blocks."""
    return figure(*launches, unit="B")


def by_launches(random: np.random.Generator, slower: float = 1.0, count: int = 10) -> tuple[Figure, Figure]:
    """Medians of launches whose level differs from launch to launch."""
    return (
        figure(*(blocks(random, np.exp(random.normal(0, 0.02)), count=2) for _ in range(count))),
        figure(*(blocks(random, slower * np.exp(random.normal(0, 0.02)), count=2) for _ in range(count))),
    )


def taking_turns(random: np.random.Generator, slower: float = 1.0) -> tuple[Figure, Figure]:
    """Two systems block by block, on a machine that wanders by several per cent."""
    levels = np.exp(np.cumsum(random.normal(0, 0.02, 24)))
    both = blocks(random, count=24)
    one, other = levels[0::2, None] * both[0::2], slower * levels[1::2, None] * both[1::2]
    return figure(tuple(one)), figure(tuple(other))


def test_equal_systems_are_seldom_told_apart(random: np.random.Generator) -> None:
    steady = alarms(lambda: (figure(blocks(random)), figure(blocks(random))), apart=False, families=24, size=5)
    launched = alarms(lambda: by_launches(random), apart=True, families=60)
    assert steady <= at_most(24)
    assert launched <= at_most(60)


def test_drift_fools_neither_what_took_turns_nor_what_was_taken_apart(random: np.random.Generator) -> None:
    turns = alarms(lambda: taking_turns(random), apart=False, families=15, size=4)
    apart = alarms(
        lambda: (sized(blocks(random, walk=0.004)), sized(blocks(random, walk=0.004))), apart=True, families=15, size=4
    )
    assert max(turns, apart) <= at_most(15)


def test_drift_from_block_to_block_is_no_change_of_what_was_measured_apart(random: np.random.Generator) -> None:
    apart = alarms(
        lambda: (sized(blocks(random, walk=0.02, count=60)), sized(blocks(random, walk=0.02, count=60))),
        apart=True, families=30, size=4,
    )  # fmt: skip
    assert apart <= at_most(30)


def of_two_starts(
    random: np.random.Generator, slower: float = 1.0, alike: bool = True
) -> Callable[[], tuple[Figure, Figure]]:
    """Figures of two processes, each of whose starts moves its times by 3 %: all of them alike, or each by itself."""
    start = np.exp(random.normal(0, 0.03, 2))

    def draw() -> tuple[Figure, Figure]:
        own = start if alike else np.exp(random.normal(0, 0.03, 2))
        return figure(blocks(random, own[0])), figure(blocks(random, slower * own[1]))

    return draw


def called(random: np.random.Generator, families: int, size: int = 4, **more: Any) -> float:
    """The share of families of comparisons of two starts in which any change is called."""
    return float(
        np.mean([alarms(of_two_starts(random, **more), apart=True, families=1, size=size) for _ in range(families)])
    )


def test_what_differs_from_start_to_start_is_no_change(random: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    assert called(random, 60) <= 0.05
    assert called(random, 40, alike=False) <= at_most(40)
    assert called(random, 20, slower=1.3, size=1) >= 0.95
    monkeypatch.setattr("deep_bench.measure.compare.BETWEEN_STARTS", 0.0)
    assert called(random, 20) > 0.3


def test_no_difference_takes_a_margin_beyond_what_starts_do(random: np.random.Generator) -> None:
    for margin, claimed in ((0.02, False), (0.1, False), (0.13, True)):
        found = estimate(figure(blocks(random)), figure(blocks(random)), margin, apart=True)
        assert found.p_equivalent is not None
        assert (found.p_equivalent <= 0.05) == claimed
    real = estimate(figure(blocks(random)), figure(blocks(random, 1.05)), 0.13, apart=True)
    assert real.p_equivalent is not None
    assert real.p_equivalent > 0.05


def test_what_wanders_is_told_from_what_only_spreads(random: np.random.Generator) -> None:
    spread = [wander(random.normal(1, 0.01, 10)) for _ in range(200)]
    walked = [wander(1 + np.cumsum(random.normal(0, 0.01, 10))) for _ in range(200)]
    assert np.median(spread) < 0.01 < 0.02 < np.median(walked)


def test_five_per_cent_are_found(random: np.random.Generator) -> None:
    for _ in range(10):
        for kind, apart in ((figure, False), (sized, True)):
            found = estimate(kind(blocks(random)), kind(blocks(random, 1.05)), 0.02, apart=apart)
            assert found.p is not None
            assert found.p < 0.01
    launched = [estimate(*by_launches(random, 1.05), 0.02, apart=True).p for _ in range(20)]
    assert np.mean(np.array(launched, float) <= 0.05) >= 0.8


def test_no_difference_is_not_claimed_at_the_margin(random: np.random.Generator) -> None:
    claims = [
        (estimate(figure(blocks(random)), figure(blocks(random, 1.02)), 0.02, apart=False).p_equivalent or 0) <= 0.05
        for _ in range(40)
    ]
    assert np.mean(claims) <= at_most(40)


@pytest.mark.parametrize("apart", [True, False])
@pytest.mark.parametrize("count", [1, 2, 5])
def test_many_samples_of_few_blocks_have_no_interval(random: np.random.Generator, count: int, apart: bool) -> None:
    sides = [figure([*random.normal(level, 0.01, (count, 500))]) for level in (1.0, 1.5)]
    found = estimate(*sides, 0.02, apart=apart)
    assert found.interval is found.p is None
    assert found.why.startswith(f"{count} and {count} blocks, where an interval takes 6 of each")
