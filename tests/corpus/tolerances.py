"""What usual tolerances say: the columns beside the checker's.

Source:
    ``numpy.allclose`` and ``torch.testing.assert_close``: their documentation. KernelBench: first ``torch.allclose`` with
    1e-2, absolute and relative (``src/eval.py``), since then ``get_tolerance_for_precision`` (``src/kernelbench/eval.py``):
    1e-4 for float32, 1e-2 for float16 and bfloat16. tritonbench: ``BenchmarkOperator.accuracy``
    (``tritonbench/utils/triton_op.py``) calls ``torch.testing.assert_close`` with the options ``--rtol`` and ``--atol``,
    which are ``None`` unless given (``tritonbench/utils/parser.py``): what PyTorch has for the element type.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import ml_dtypes
import numpy as np

_ASSERT_CLOSE: Mapping[Any, tuple[float, float]] = {
    np.dtype(np.float64): (1e-7, 1e-7),
    np.dtype(np.float32): (1.3e-6, 1e-5),
    np.dtype(np.float16): (1e-3, 1e-5),
    np.dtype(ml_dtypes.bfloat16): (1.6e-2, 1e-5),
}
_KERNEL_BENCH: Mapping[Any, float] = {np.dtype(np.float16): 1e-2, np.dtype(ml_dtypes.bfloat16): 1e-2}

Tolerance = Callable[[np.dtype], tuple[float, float]]
"""From an element type to the relative and the absolute tolerance."""

TOLERANCES: Mapping[str, Tolerance] = {
    "`numpy.allclose`": lambda form: (1e-5, 1e-8),
    "`torch.testing.assert_close`, tritonbench": lambda form: _ASSERT_CLOSE.get(form, (0.0, 0.0)),
    "KernelBench, 1e-4": lambda form: (_KERNEL_BENCH.get(form, 1e-4),) * 2,
    "KernelBench at first, 1e-2": lambda form: (1e-2, 1e-2),
}
"""Name to tolerances."""


def close(actual: np.ndarray, expected: Any, form: np.dtype, tolerance: Tolerance) -> bool:
    """Whether an output is as close to the oracle's, in the same shape, as a tolerance asks for.

    Args:
        actual: What the system under test returned.
        expected: The oracle's.
        form: The element type of the network's output.
        tolerance: One of `TOLERANCES`.
    """
    expected = np.asarray(expected)
    if actual.shape != expected.shape:
        return False
    rtol, atol = tolerance(form)
    with np.errstate(all="ignore"):
        wide = np.asarray(expected.astype(form), np.float64)
        return bool(np.allclose(actual.astype(np.float64), wide, rtol=rtol, atol=atol, equal_nan=True))
