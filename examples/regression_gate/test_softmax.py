"""Tests that also measure: right, and no slower than the baseline.

pytest test_softmax.py --deep-bench-records=before      # keep records of today's code
pytest test_softmax.py --deep-bench-baseline=before     # … and compare tomorrow's with them, on the same machine

That compares one start with one, and fails beyond 10 %. For less let by_turns.sh take ten of each, and compare these.
"""

import numpy as np
from softmax import softmax

SCORES = np.random.default_rng(0).normal(size=(256, 1024)).astype(np.float32)


def test_softmax_is_right_and_no_slower(deep_bench_gate):
    precise = softmax(SCORES.astype(np.float64))

    def right(found):
        np.testing.assert_allclose(found, precise, rtol=1e-5)

    deep_bench_gate(lambda: softmax(SCORES), check=right, budget=0.5)
