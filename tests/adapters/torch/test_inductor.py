"""``torch.compile`` with the compiler that generates C++."""

from __future__ import annotations

import shutil
import warnings

import numpy as np
import pytest

from deep_bench.testing.adapter import X, Y, small_network

torch = pytest.importorskip("torch")

from deep_bench.adapters.torch import TorchAdapter  # noqa: E402 (after the skip)


@pytest.mark.long
@pytest.mark.skipif(shutil.which("g++") is None, reason="inductor needs g++, which is not installed here")
def test_inductor() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # torch's own compiler uses deprecated parts of Python
        executor = TorchAdapter(compile="inductor").prepare(small_network())
        np.testing.assert_allclose(executor({"x": X})["y"], Y, rtol=1e-5)
