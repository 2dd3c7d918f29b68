"""The score of several runs as MLPerf computes it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import fsum, inf

_FEWEST = 3


@dataclass(frozen=True)
class MlperfScore:
    """The score.

    Args:
        seconds: The mean time to the target without the fastest and the slowest run; ``None`` if the result is not valid.
        reason: Which runs count, or why it is not valid.
    """

    seconds: float | None
    reason: str


def mlperf_score(times: Sequence[float | None]) -> MlperfScore:
    """The mean time of all runs but the fastest and the slowest. One that missed the target counts as the slowest.

    MLPerf itself asks for 5 runs in vision and 10 elsewhere, on its own benchmarks; this is its arithmetic only.

    Args:
        times: Seconds to the target of each run, ``None`` for one that did not reach it.

    Example:
        >>> mlperf_score([10.0, 14.0, None, 12.0, 11.0])
        MlperfScore(seconds=12.333333333333334, reason='mean of 3 of 5 runs; the one that missed the target is the slowest')
        >>> mlperf_score([10.0, None, None]).reason
        'not valid: 2 of 3 runs missed the target, and one may'

    Source:
        Mattson et al., *MLPerf training benchmark*, MLSys 2020, section 3.2.2; MLCommons, *MLPerf training rules*.
    """
    n, missed = len(times), sum(time is None for time in times)
    if n < _FEWEST:
        return MlperfScore(None, f"not valid: {n} runs, and it takes {_FEWEST}")
    if missed > 1:
        return MlperfScore(None, f"not valid: {missed} of {n} runs missed the target, and one may")
    inner_times = sorted(inf if time is None else time for time in times)[1:-1]
    slowest = "; the one that missed the target is the slowest" if missed else "; without the fastest and the slowest"
    return MlperfScore(fsum(inner_times) / len(inner_times), f"mean of {len(inner_times)} of {n} runs{slowest}")
