"""Every short example runs, from a folder of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
PRINTS = {
    "compare_frameworks.py": "ONNX Runtime is right",
    "own_transformation.py": "22 nodes became 25: right",
    "piece_by_piece.py": "the result is right",
}
TESTED_ELSEWHERE = {
    "gelu_cpp.py",
    "gelu_cuda.py",
    "gelu_numpy.py",
    "gelu_tensorflow.py",
    "gelu_torch.py",
    "gelu_triton.py",
    "gelu_tvm_ffi.py",
    "timeline_keras.py",
    "timeline_numpy.py",
    "timeline_torch.py",
    "train_digits_cnn.py",
}


@pytest.mark.long
def test_every_example_is_tested() -> None:
    assert {f.name for f in EXAMPLES.glob("*.py")} == PRINTS.keys() | TESTED_ELSEWHERE


@pytest.mark.long
@pytest.mark.parametrize("name", PRINTS)
def test_example(name: str, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    command = [sys.executable, EXAMPLES / name]
    run = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert run.returncode == 0, run.stdout + run.stderr
    assert PRINTS[name] in run.stdout
