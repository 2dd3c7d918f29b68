"""What libraries print while nodes run is heard, told apart and kept from the screen."""

from __future__ import annotations

import ctypes
import os

import numpy as np
import pytest

import deep_bench as db
from deep_bench.adapters.verbose import functions, overheard
from deep_bench.errors import Unsupported

CONVOLUTION = (
    "onednn_verbose,v1,primitive,exec,cpu,convolution,brg_conv_fwd:avx512_core,forward_training,"
    "src:f32::blocked:acdb::f0 wei:f32::blocked:cdba::f0 bia:f32:a:blocked:a::f0 dst:f32::blocked:acdb::f0,"
    "attr-scratchpad:user attr-post-ops:eltwise_relu,alg:convolution_direct,mb1_ic16oc32_ih32oh32kh3sh1dh0ph1,3.28"
)
WINOGRAD = (
    "dnnl_verbose,exec,cpu,convolution,wino_4x3:avx512_core,forward_inference,src_f32,,alg:convolution_winograd,mb1,0.1"
)


def say(text: str) -> None:
    """Print as a library does: through the standard output of C."""
    ctypes.CDLL(None).puts(text.encode())


def test_lines_of_onednn_name_implementation_and_algorithm() -> None:
    lines = [
        "onednn_verbose,v1,info,oneDNN v3.12.0 (commit 80afa7)",
        "onednn_verbose,v1,primitive,info,template:operation,engine,primitive,implementation,prop_kind",
        CONVOLUTION,
        WINOGRAD,
        "onednn_verbose,v1,primitive,exec,cpu,gemm_api,,undef,src_f32::blocked:ab:f0,,,256x256:256x256,25.1",
        "anything else, exec, even this",
    ]
    assert list(functions(lines)) == [
        "oneDNN convolution brg_conv_fwd:avx512_core convolution_direct post-ops:eltwise_relu",
        "oneDNN convolution wino_4x3:avx512_core convolution_winograd",
        "oneDNN gemm_api",
    ]


def test_what_is_said_is_told_once_and_not_printed(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ONEDNN_VERBOSE", "1")
    say("before")
    with overheard() as since:
        say(CONVOLUTION)
        say("MKL_VERBOSE SGEMM(N,N,64,64,64) 2us")
        say("MKL_VERBOSE SGEMM(N,N,64,64,64) 3us")
        first = since()
        assert since() == ()
        say("MKL_VERBOSE DGEMM(N,N,8,8,8) 2us")
        second = since()
    say("behind")
    ctypes.CDLL(None).fflush(None)
    assert first == ("oneDNN convolution brg_conv_fwd:avx512_core convolution_direct post-ops:eltwise_relu", "oneMKL SGEMM")
    assert second == ("oneMKL DGEMM",)
    assert capfd.readouterr().out.split() == ["before", "behind"]


def test_standard_output_comes_back_after_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MKL_VERBOSE", "1")
    before = os.fstat(1).st_ino, len(os.listdir("/proc/self/fd"))
    with pytest.raises(ZeroDivisionError), overheard():
        raise ZeroDivisionError
    assert (os.fstat(1).st_ino, len(os.listdir("/proc/self/fd"))) == before


def test_a_process_that_was_not_asked_to_print_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    if db.frameworks.missing("torch"):
        pytest.skip("torch is not installed")
    for name in ("ONEDNN_VERBOSE", "DNNL_VERBOSE", "MKL_VERBOSE"):
        monkeypatch.delenv(name, raising=False)
    adapter = db.frameworks["torch"]()
    executor = adapter.prepare(db.load("digits-cnn"))
    with pytest.raises(Unsupported, match="chosen_algorithms, which starts one"):
        executor.algorithms({"image": adapter.from_numpy(np.zeros((1, 1, 8, 8), np.float32))})
