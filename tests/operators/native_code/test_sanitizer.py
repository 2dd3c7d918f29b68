"""Native functions under AddressSanitizer, and what is done for CUDA's sanitizer."""

from __future__ import annotations

import pickle
import shutil
import subprocess
from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np
import pytest

import deep_bench as db
from deep_bench.errors import InvalidArgument, Unsupported, WorkerError
from deep_bench.operators.native_code import build
from deep_bench.operators.native_code.library import BuildFailed, KernelFailed, MemoryViolation
from deep_bench.operators.native_code.sanitizer import main

SOURCE = """
extern "C" int twice(const float *x, float *y, long n, int mode) {
  for (long i = 0; i < n; ++i) y[i] = 2 * x[i];
  if (mode == 1) y[n] = 1;
  if (mode == 2) y[0] = x[-1];
  if (mode == 3) *(volatile int *)16 = 1;
  return mode == 4;
}
extern "C" void back(const float *dy, float *dx, long n) { for (long i = 0; i <= n; ++i) dx[i] = 2 * dy[i]; }
"""
X = np.arange(6, dtype=np.float32)


def twice(source: Any = SOURCE, **options: Any) -> Any:
    return db.operators.native(
        source,
        **{
            "function": "twice",
            "computes": lambda x, mode=0: x + x,
            "signature": "int (const float *x, float *y, int64_t n = x.size, int mode)",
            "backward": "back",
            "backward_signature": "const float *dy, float *dx, int64_t n = x.size",
            "sanitize": True,
            **options,
        },
    )


@pytest.fixture
def asan() -> None:
    if build.runtime_library(build.find_compiler("C++"), "libasan.so") is None:
        pytest.skip("needs libasan")


@pytest.mark.usefixtures("asan")
def test_the_sanitizers_own_words_are_shown_and_the_operator_lives_on(tmp_path: Path) -> None:
    source = tmp_path / "twice.cpp"
    source.write_text(SOURCE)
    operator = twice(source)
    np.testing.assert_array_equal(operator.forward(X), 2 * X)
    with pytest.raises(MemoryViolation) as caught:
        operator.forward(X, mode=1)
    report = caught.value.report
    assert "ERROR: AddressSanitizer: heap-buffer-overflow" in report
    assert "WRITE of size 4" in report
    assert f"{source}:4" in report
    assert "twice touches memory that is not its own" in str(caught.value)
    np.testing.assert_array_equal(operator.forward(X), 2 * X)
    with pytest.raises(KernelFailed, match="twice failed: it returned 1"):
        operator.forward(X, mode=4)


@pytest.mark.long
@pytest.mark.usefixtures("asan")
def test_reads_before_the_start_wild_pointers_and_gradients() -> None:
    operator = twice()
    operator.setup(db.Case.of(operator.computes, (6,), mode=0))
    with pytest.raises(MemoryViolation, match="READ of size 4"):
        operator.forward(X, mode=2)
    with pytest.raises(MemoryViolation, match="AddressSanitizer: SEGV on unknown address"):
        operator.forward(X, mode=3)
    with pytest.raises(MemoryViolation, match=r"in back "):
        operator.backward([X], [X], [X])


@pytest.mark.usefixtures("asan")
def test_an_operator_can_be_had_with_a_sanitizer() -> None:
    plain = twice(sanitize=False)
    with pytest.raises(MemoryViolation):
        plain.sanitized().forward(X, mode=1)


def test_compile_errors_are_the_compilers() -> None:
    with pytest.raises(BuildFailed, match="error: expected"):
        twice("int twice( {").forward(X)


def test_what_cannot_be_sanitized_is_refused(tmp_path: Path) -> None:
    (tmp_path / "twice.cpp").write_text(SOURCE)
    library = tmp_path / "lib.so"
    subprocess.run(["g++", "-shared", "-fPIC", tmp_path / "twice.cpp", "-o", library], check=True)
    with pytest.raises(InvalidArgument, match="which is built already"):
        twice(library)
    with pytest.raises(InvalidArgument, match="sanitize=True with device='torch'"):
        twice(device="torch")


FAKE = """#!/bin/sh
# --tool memcheck --error-exitcode 86 --log-file FILE program...
log=$6; shift 6
echo "========= COMPUTE-SANITIZER" > "$log"
if [ -n "$FAKE_FINDS" ]; then echo "========= Invalid __global__ write of size 4 bytes" >> "$log"; exit 86; fi
exec "$@"
"""


@pytest.fixture
def as_if_cuda(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The CPU stands in for the GPU, so that all but CUDA itself is tried."""
    (tmp_path / "nvcc").write_text(
        '#!/bin/sh\nset -- $(echo "$@" | sed "s/-arch=native//;s/-lineinfo//;s/-Xcompiler=//")\nexec g++ -x c++ "$@"\n'
    )
    (tmp_path / "compute-sanitizer").write_text(FAKE)
    for program in ("nvcc", "compute-sanitizer"):
        (tmp_path / program).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{Path(shutil.which('g++') or '').parent}:/usr/bin:/bin")
    monkeypatch.setattr(build, "require_cuda", lambda: None)
    return tmp_path


def test_cuda_without_its_sanitizer(as_if_cuda: Path) -> None:
    (as_if_cuda / "compute-sanitizer").unlink()
    if shutil.which("compute-sanitizer") is not None:
        pytest.skip("there is a compute-sanitizer")
    with pytest.raises(Unsupported, match="compute-sanitizer is not on this machine"):
        twice(device="cuda").forward(X)


def test_what_cudas_sanitizer_finds_is_shown(as_if_cuda: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_FINDS", "1")
    with pytest.raises(MemoryViolation, match="Invalid __global__ write of size 4 bytes"):
        twice(device="cuda").forward(X)


@pytest.mark.long
def test_a_failure_under_cudas_sanitizer_is_shown(as_if_cuda: Path) -> None:
    with pytest.raises(WorkerError, match=r"twice failed under .*compute-sanitizer, which ended with 1"):
        twice(device="cuda").forward(X)  # the other process sees that there is no device


def test_one_request_in_a_process_of_its_own(tmp_path: Path) -> None:
    recipe = twice(sanitize=False).recipe
    request, reply = tmp_path / "request", tmp_path / "reply"
    request.write_bytes(cloudpickle.dumps((cloudpickle.dumps(recipe), "forward", ((X,), {"mode": 0}))))
    main(str(request), str(reply))
    np.testing.assert_array_equal(pickle.loads(reply.read_bytes()), 2 * X)
