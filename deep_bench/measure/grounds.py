"""Whether there are grounds for an interval, over what it is taken, and why there is none: decided here for all reports."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from deep_bench.measure.ranks import least_p
from deep_bench.measure.statistics import CONFIDENCE, Basis, Times, launch_interval, median_interval

FEWEST_BLOCKS = 6


def grounds(base: Sequence[Sequence[Times]], launches: Sequence[Sequence[Times]]) -> tuple[Basis, str]:
    """Over what the interval of a ratio is taken, and why there is none: all that compares times decides it here.

    Samples of one go are no blocks, however many there are: what lasts longer than the go is in none of them.

    Args:
        base: For each launch of the system that another is compared with its blocks, each with its samples.
        launches: Those of the other.

    Returns:
        ``"launches"`` where both have several, else ``"blocks"``; and the reason, empty where there is an interval.

    Example:
        >>> few, many = [[np.ones(10)] * 3], [[np.ones(10)] * 12]
        >>> grounds(few, many)
        ('blocks', '3 and 12 blocks, where an interval takes 6 of each: measure for longer (--budget)')
        >>> grounds([[np.ones(5)]] * 4, [[np.ones(5)]] * 4)
        ('launches', '')
    """
    sides = [[[group for group in launch if len(group)] for launch in side] for side in (base, launches)]
    counts = [sum(map(bool, side)) for side in sides]
    if min(counts) > 1:
        enough = least_p(counts[0], counts[1]) <= 1 - CONFIDENCE
        few = f"{counts[0]} and {counts[1]} launches are too few: from 4 and 4 on there is an interval (--launches)"
        return "launches", "" if enough else few
    blocks = [[len(group) for launch in side for group in launch] for side in sides]
    samples = [sum(side) for side in blocks]
    if min(samples) < 2:
        return "blocks", "a single value shows no spread: measure it several times"
    if min(map(len, blocks)) >= FEWEST_BLOCKS:
        return "blocks", ""
    few = f"{len(blocks[0])} and {len(blocks[1])} blocks, where an interval takes {FEWEST_BLOCKS} of each"
    return "blocks", f"{few}: measure for longer (--budget)"


def without_interval(launches: Sequence[Sequence[Times]]) -> str:
    """Why the median over some launches has no interval, and what to do; empty where it has one.

    Args:
        launches: For each launch its blocks, each with its samples.

    Example:
        >>> without_interval([[np.arange(5.0)]])
        '5 samples, where an interval takes 6: measure for longer (--budget)'
        >>> without_interval([[np.arange(20.0)]])
        '1 block of samples that are alike, where an interval takes 6 blocks: measure for longer (--budget)'
        >>> without_interval([[np.arange(5.0)]] * 3)
        '3 launches or runs, where an interval takes 6: make more of them (--launches, --runs)'
        >>> without_interval([[np.array([4.0, 1.0, 5.0, 2.0, 6.0, 3.0])]])
        ''
    """
    filled = [[group for group in groups if len(group)] for groups in launches if sum(map(len, groups))]
    if len(filled) > 1:
        interval = launch_interval([float(np.median(np.concatenate(groups))) for groups in filled])
        few = f"{len(filled)} launches or runs, where an interval takes 6: make more of them (--launches, --runs)"
        return "" if interval is not None else few
    if not filled:
        return "nothing was measured"
    if median_interval(filled[0]) is not None:
        return ""
    count, blocks = sum(map(len, filled[0])), len(filled[0])
    if count == 1:
        return "a single value, which shows no spread"
    few = f"{blocks} block{'s' * (blocks != 1)} of samples that are alike, where an interval takes 6 blocks"
    return f"{few if count >= 6 else f'{count} samples, where an interval takes 6'}: measure for longer (--budget)"
