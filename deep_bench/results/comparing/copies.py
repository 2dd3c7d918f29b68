"""Which results are one measurement, whatever their files are called: a copy of a record is no further launch."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256

import numpy as np

from deep_bench.results.comparing.starts import differs_by_start
from deep_bench.results.result import Result

_TELLING = 6
"""So many different times do not come a second time by chance."""


def identity(result: Result) -> str:
    """What two results share only if one is a copy of the other: the digest of their samples.

    The moment of the run is in it where there are too few times to tell, since scores, sizes and failures repeat.

    Example:
        >>> from datetime import datetime
        >>> from pathlib import Path
        >>> from deep_bench.results import Figure
        >>> def run(file, *times):
        ...     time = Figure("forward", "s", "lower", ((np.array(times),),))
        ...     return Result("network", Path(file), datetime.now(), {}, {"forward": time})
        >>> identity(run("a.json", *range(9))) == identity(run("b.json", *range(9)))
        True
        >>> identity(run("a.json", 1, 2)) == identity(run("b.json", 1, 2))
        False
    """
    digest, times = sha256(), 0
    for name, figure in sorted(result.figures.items()):
        groups = [group for launch in figure.launches for group in launch]
        samples = np.concatenate([np.empty(0), *groups])
        digest.update(f"{name}\0{[len(group) for group in groups]}\0".encode() + samples.tobytes())
        if differs_by_start(figure.unit):
            times = max(times, len(np.unique(samples)))
    if times < _TELLING:
        digest.update(str(result.created).encode())
    return digest.hexdigest()


def once(results: Sequence[Result]) -> dict[str, Result]:
    """The first result of each measurement, by its identity."""
    by_identity: dict[str, Result] = {}
    for result in results:
        by_identity.setdefault(identity(result), result)
    return by_identity
