"""What tells nothing of a system under test: expected values that are empty, or that hold no finite number."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from deep_bench.tensor import is_inexact


def nothing_in(arrays: Iterable[np.ndarray]) -> str:
    """Why arrays that are expected tell nothing of a framework: any would do. Empty if they tell something.

    Example:
        >>> nothing_in([np.zeros((0, 3))]), nothing_in([np.array([np.nan, np.nan])]), nothing_in([np.array([np.nan, 1])])
        ('empty', 'without a finite element', '')
    """
    contents = list(arrays)
    if not contents or any(a.size and not (is_inexact(a.dtype) and not np.isfinite(a).any()) for a in contents):
        return ""
    return "without a finite element" if any(a.size for a in contents) else "empty"


def nothing_to_compare(outputs: Mapping[str, Any]) -> str:
    """Why the expected outputs of a network tell nothing, as a sentence; empty if they tell something.

    Args:
        outputs: Name to array; sequences and empty optionals are passed over.

    Example:
        >>> nothing_to_compare({"y": np.zeros((0, 3))}), nothing_to_compare({"y": np.zeros((0, 3)), "n": np.zeros(())})
        ('the outputs are empty, so there is nothing to compare', '')
    """
    nothing = nothing_in(np.asarray(y) for y in outputs.values() if isinstance(y, np.ndarray | np.generic))
    return f"the outputs are {nothing}, so there is nothing to compare" if nothing else ""
