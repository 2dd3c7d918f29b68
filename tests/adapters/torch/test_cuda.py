"""The adapter on a CUDA device."""

from __future__ import annotations

import numpy as np
import pytest

from deep_bench.testing import ADAPTER_CHECKS
from deep_bench.testing.adapter import X, Y, small_network

torch = pytest.importorskip("torch")

from deep_bench.adapters.torch import TorchAdapter  # noqa: E402 (after the skip)

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device here"),
]


@pytest.mark.parametrize("check", ADAPTER_CHECKS)
def test_conformance(check: str) -> None:
    ADAPTER_CHECKS[check](TorchAdapter(device="cuda"))


def test_events_time_a_call() -> None:
    adapter = TorchAdapter(device="cuda")
    executor = adapter.prepare(small_network())
    assert executor.timer is not None
    assert executor.timer(executor.bind({"x": adapter.from_numpy(X)})) > 0
    np.testing.assert_allclose(executor({"x": X})["y"], Y, rtol=1e-6)
    assert "cuda" in adapter.describe()["device"]
