"""Reductions, running sums, pools and the search for extremes."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from ..problem import Problem, normal, positive, single


def _ties() -> np.ndarray:
    return np.round(normal(16, 32) * 2) / np.float32(2)


_ROWS = {"axes": np.array([1])}
_POOL = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}

PROBLEMS: Mapping[str, Callable[[], Problem]] = {
    "ReduceMean": single("ReduceMean", {"x": normal(16, 33, 65, shift=0.5)}, {"axes": np.array([1, 2])}),
    "ReduceSum": single("ReduceSum", {"x": normal(32, 1024)}, _ROWS),
    "ReduceSum positive": single("ReduceSum", {"x": positive(8, 6000)}, _ROWS),
    "ReduceSumSquare": single("ReduceSumSquare", {"x": normal(24, 200)}, _ROWS),
    "ReduceL1": single("ReduceL1", {"x": normal(24, 200)}, _ROWS),
    "ReduceL2": single("ReduceL2", {"x": normal(64, 96)}, _ROWS),
    "ReduceProd": single("ReduceProd", {"x": positive(24, 30)}, _ROWS),
    "ReduceMax": single("ReduceMax", {"x": normal(24, 200)}, _ROWS),
    "ReduceLogSum": single("ReduceLogSum", {"x": positive(24, 200)}, _ROWS),
    "ReduceLogSumExp": single("ReduceLogSumExp", {"x": normal(64, 96, scale=3)}, _ROWS),
    "CumSum": single("CumSum", {"x": normal(32, 64)}, {"axis": np.array(1)}),
    "GlobalAveragePool": single("GlobalAveragePool", {"x": normal(2, 16, 56, 56, shift=1)}),
    "MaxPool": single("MaxPool", {"x": normal(2, 4, 13, 13)}, **_POOL),
    "AveragePool": single("AveragePool", {"x": normal(2, 4, 13, 13)}, **_POOL),
    "ArgMax": single("ArgMax", {"x": _ties()}, axis=1),
    "TopK": single("TopK", {"x": normal(16, 32)}, {"k": np.array([5])}, outputs=2),
}
