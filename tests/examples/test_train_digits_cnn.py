"""The training script runs, and writes again the data set that ships."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import onnx
import pytest

import deep_bench.data

ROOT = Path(__file__).parents[2]


@pytest.mark.long
def test_one_epoch(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("sklearn")
    script = ROOT / "examples" / "train_digits_cnn.py"
    command = [sys.executable, script, "--epochs", "1", "--output", tmp_path]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert "38666 parameters" in run.stdout
    shipped = Path(deep_bench.data.__file__).parent
    assert onnx.load(tmp_path / "digits-cnn.onnx").graph.node == onnx.load(shipped / "digits-cnn.onnx").graph.node
    assert _datasets(tmp_path / "digits.h5") == _datasets(shipped / "digits.h5")


def _datasets(path: Path) -> dict[str, bytes]:
    import h5py

    with h5py.File(path) as file:
        return {name: file[name][:].tobytes() for name in ("images", "labels", "split/train", "split/test")}
