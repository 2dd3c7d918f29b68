"""An operator in a worker process that torch's timers can time too; for operator_measure.py."""

from __future__ import annotations

import numpy as np

from deep_bench.operators import Case, Operator
from deep_bench.operators.studies.settings import FORWARD
from deep_bench.operators.studies.system import OperatorSystem


class Product(Operator[np.ndarray]):
    """The product of two matrices by NumPy, into memory of its own."""

    computes = "MatMul"
    reuses_outputs = True

    def setup(self, case: Case) -> None:
        """Allocate the result."""
        (result,) = case.results
        self.out = np.empty(result.shape, result.dtype)

    def forward(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """The product."""
        return np.matmul(a, b, out=self.out)


class WithPeers(OperatorSystem):
    """The same system with further methods: the median by torch's timers, in nanoseconds."""

    def blocked(self, seconds: float) -> float:
        """By ``blocked_autorange``."""
        from torch.utils.benchmark import Timer

        timer = Timer("f()", globals={"f": self.calls()[FORWARD]})
        return float(timer.blocked_autorange(min_run_time=seconds).median * 1e9)

    def adaptive(self, seconds: float) -> float:
        """By ``adaptive_autorange``."""
        from torch.utils.benchmark import Timer

        timer = Timer("f()", globals={"f": self.calls()[FORWARD]})
        return float(timer.adaptive_autorange(min_run_time=seconds, max_run_time=5 * seconds).median * 1e9)
