"""The templates of native kernels run, and are right."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from deep_bench.errors import Unsupported
from deep_bench.operators.native_code.build import require_cuda

EXAMPLES = Path(__file__).parents[2] / "examples"


def run(name: str, folder: Path) -> str:
    environment = {**os.environ, "DEEP_BENCH_CACHE": str(folder)}
    command = [sys.executable, EXAMPLES / name]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def differences(said: str) -> list[float]:
    return [float(number) for number in re.findall(r"at most ([\d.e+-]+)", said)]


@pytest.fixture(autouse=True)
def _compiler() -> None:
    if shutil.which("g++") is None:
        pytest.skip("needs g++")


def test_the_plain_template(tmp_path: Path) -> None:
    said = run("gelu_cpp.py", tmp_path)
    assert len(differences(said)) == 2
    assert max(differences(said)) < 1e-6
    assert max(float(number) for number in re.findall(r"gradient by ([\d.e+-]+)", said)) < 1e-3
    assert "outside of its tensors it touches nothing" in said


@pytest.mark.long
def test_the_template_for_several_frameworks(tmp_path: Path) -> None:
    pytest.importorskip("tvm_ffi")
    pytest.importorskip("torch")
    said = run("gelu_tvm_ffi.py", tmp_path)
    assert [line.partition(":")[0] for line in said.splitlines()] == ["numpy", "torch"]
    assert max(differences(said)) < 1e-6


@pytest.mark.gpu
def test_the_cuda_template(tmp_path: Path) -> None:
    try:
        require_cuda()
    except Unsupported as error:
        pytest.skip(error.came)
    if shutil.which("nvcc") is None:
        pytest.skip("needs nvcc")
    pytest.importorskip("torch")
    assert max(differences(run("gelu_cuda.py", tmp_path))) < 1e-6
