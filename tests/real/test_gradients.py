"""The gradients of the networks that people use: each framework's own agree with those that deep_bench derives."""

from __future__ import annotations

from pathlib import Path

import pytest

import deep_bench as db
from deep_bench.errors import UnsupportedOperator

from .conftest import parameters
from .gradients import scored
from .table import Real

pytestmark = [pytest.mark.real, pytest.mark.parametrize("real", parameters({"silero_vad_16k_op15"}))]

_SLOW = ("dnsmos_sig", "dnsmos_bak_ovr", "dnsmos_sig_bak_ovr", "pdnsmos_sig_bak_ovr")
"""Their convolutions of whole spectrograms take the reference minutes; `dnsmos_p808` is of the same kind."""


@pytest.mark.long
@pytest.mark.parametrize("double", [False, pytest.param(True, marks=pytest.mark.full)], ids=["float32", "float64"])
def test_every_framework_agrees(real: Real, path: Path, double: bool) -> None:
    if real.name in _SLOW:
        pytest.skip(f"{real.name}: the reference takes minutes, and a smaller network of the same kind is here")
    posed = scored(db.load(path), real.inputs(), double=double)
    # A float64 result has no higher precision to settle it, and four evaluations may all round a saturated gate alike.
    truth = posed.truth("full" if double else "quick")
    compared = []
    for framework in (name for name in db.frameworks if not db.frameworks.missing(name)):
        try:
            whole = posed.by(framework, truth)
        except UnsupportedOperator:  # ONNX Runtime has no convolution in float64, nor an LSTM in a branch without shapes
            continue
        assert whole.clear, f"{framework}: {whole.reason}"
        compared.append(framework)
    assert set(compared) >= {name for name in db.frameworks if not db.frameworks.missing(name)} - {"onnxruntime"}
