"""Many comparisons at once: p-values that keep the rate of false alarms of all of them together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

import numpy as np
from scipy import stats

from deep_bench.errors import UnknownName

Correction: TypeAlias = Literal["holm", "bh", "none"]

CORRECTIONS: dict[str, str] = {
    "holm": "Holm: at most 5 % chance of any false claim",
    "bh": "Benjamini-Hochberg: at most 5 % of all claims are expected to be false",
    "none": "not corrected: each comparison alone has a 5 % chance of a false claim",
}
"""Name of a correction to what it promises."""


def corrected(p: Sequence[float], correction: str) -> list[float]:
    r"""P-values that may be compared with 5 % each.

    Holm: of m sorted p-values, :math:`\tilde p_{(i)} = \max_{j \le i} \min(1, (m - j + 1) p_{(j)})`, which holds whatever
    depends on what.

    Args:
        p: As they are, of the whole family.
        correction: A name in `CORRECTIONS`.

    Raises:
        UnknownName: No such correction.

    Example:
        >>> [round(x, 3) for x in corrected([0.01, 0.04, 0.03], "holm")]
        [0.03, 0.06, 0.06]
        >>> [round(x, 3) for x in corrected([0.01, 0.04, 0.03], "bh")]
        [0.03, 0.04, 0.04]

    Source:
        Holm, *A simple sequentially rejective multiple test procedure*, Scand. J. Statist. 6 (1979); Benjamini and Hochberg,
        *Controlling the false discovery rate*, J. R. Statist. Soc. B 57 (1995).
    """
    if correction not in CORRECTIONS:
        raise UnknownName("correction", correction, CORRECTIONS)
    values = np.asarray(p, float)
    if correction == "none" or not len(values):
        return values.tolist()
    if correction == "bh":
        return np.asarray(stats.false_discovery_control(values, method="bh")).tolist()
    order = np.argsort(values)
    steps = np.maximum.accumulate(values[order] * np.arange(len(values), 0, -1))
    p_values = np.empty_like(values)
    p_values[order] = np.minimum(steps, 1.0)
    return p_values.tolist()
