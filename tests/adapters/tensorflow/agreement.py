"""What several test files need to compare TensorFlow with the reference."""

from __future__ import annotations

import numpy as np

from deep_bench.reference.operators import find


def i64(*values):
    return np.array(values, np.int64)


def noise(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def same(got, want, **options):
    assert got.dtype == want.dtype
    np.testing.assert_allclose(got, want, **{"rtol": 2e-5, "atol": 1e-6, **options})


def agrees(run, operator, inputs, *, outputs=1, fixed=1, **attributes):
    """TensorFlow gives what the reference gives."""
    got = run(operator, inputs, outputs=outputs, fixed=fixed, **attributes)
    want = find("", operator)(*inputs, **attributes)
    for g, w in zip(got if outputs > 1 else [got], want if isinstance(want, tuple) else [want], strict=False):
        same(g, np.asarray(w))
