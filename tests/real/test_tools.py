"""Where time and error come from, and transformations, on the networks that people use."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import deep_bench as db
from deep_bench.network import transform

from .conftest import parameters
from .table import Real, sizes

pytestmark = pytest.mark.real
SMALL = pytest.mark.parametrize("real", parameters({"silero_vad_16k_sequence"}))
TWO = pytest.mark.parametrize("real", parameters({"silero_vad_16k_sequence", "swift_f0"}))


def _fixed(real: Real, path: Path) -> tuple[db.Network, dict[str, np.ndarray]]:
    network, inputs = db.load(path), dict(real.inputs())
    return network.with_sizes(sizes(network, inputs)), inputs


def _installed(*names: str) -> list[str]:
    return [name for name in names if not db.frameworks.missing(name)]


@pytest.mark.long
@SMALL
def test_every_node_of_every_framework_is_explained_by_rounding(real: Real, path: Path) -> None:
    network, inputs = db.load(path), dict(real.inputs())
    for framework in _installed("onnxruntime", "torch"):
        found = db.network.diverge(network, framework, inputs, sizes=sizes(network, inputs), progress=False)
        assert found.first is None, (framework, found.first)
        assert any(node.word == "right" for node in found.nodes)


@pytest.mark.long
@TWO
def test_time_is_told_node_by_node(real: Real, path: Path) -> None:
    network, inputs = _fixed(real, path)
    found = db.network.profile(
        network, _installed("onnxruntime", "torch"), inputs, repeat=2, in_process=True, progress=False
    )
    for system in found.systems:
        if system.framework == "onnxruntime" and "First input tensor must have rank 3" in (system.error or ""):
            continue  # it refuses the branch of silero_vad that does not fit fixed sizes
        assert not system.error, system.error
        assert 0 < system.in_nodes < float("inf")


@pytest.mark.long
@TWO
@pytest.mark.parametrize("name", ["fold", "fuse_batchnorm", "precision"])
def test_a_transformed_network_computes_the_same(real: Real, path: Path, name: str) -> None:
    network, inputs = _fixed(real, path)
    if name == "precision":
        changed = transform.precision(network, "bfloat16")
    else:
        changed = {"fold": transform.fold, "fuse_batchnorm": transform.fuse_batchnorm}[name](network)
    found = transform.check(network, changed, inputs)
    allowed = {"right", "no information", *(["reduced precision"] if name == "precision" else [])}
    assert found.word in allowed, found.reason
