"""The examples of kernels run, and say what they should."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


def run(name: str, folder: Path) -> list[str]:
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
    command = [sys.executable, EXAMPLES / name]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()


@pytest.mark.long
def test_numpy(tmp_path: Path) -> None:
    said = run("gelu_numpy.py", tmp_path)
    assert said[:4] == [
        "Gelu, forward: right",
        "Gelu, backward: right",
        "Approximation, forward: wrong",
        "Approximation, backward: not applicable",
    ]
    assert any("reference" in line for line in said)


@pytest.mark.long
def test_torch(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    assert run("gelu_torch.py", tmp_path) == [
        "torch, forward: right",
        "torch, backward: right",
        "torch:compile=aot_eager, forward: right",
        "torch:compile=aot_eager, backward: right",
        "relu in the network: right",
        "leaky in the network: residual_relu is wrong",
    ]


@pytest.mark.long
def test_tensorflow(tmp_path: Path) -> None:
    pytest.importorskip("tensorflow")
    said = run("gelu_tensorflow.py", tmp_path)
    assert said[:4] == [
        "eager, forward: right",
        "eager, backward: right",
        "graph, forward: right",
        "graph, backward: right",
    ]
    assert len(said) == 6  # how XLA computes it is XLA's


@pytest.mark.long
@pytest.mark.gpu
def test_triton(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("triton")
    if not torch.cuda.is_available():
        pytest.skip("needs a CUDA device")
    assert run("gelu_triton.py", tmp_path) == ["forward: right", "backward: right"]
