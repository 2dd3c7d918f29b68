"""The adapter's options, and how its refusals read."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import onnx
import pytest

from deep_bench.errors import InvalidArgument, Unsupported
from deep_bench.testing.adapter import X, Y, small_network

torch = pytest.importorskip("torch")

from deep_bench.adapters.torch import TorchAdapter  # noqa: E402 (after the skip)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"device": "tpu"}, "cuda"),
        ({"device": "cpu:0"}, "cpu"),
        ({"device": "cuda:x"}, "cuda"),
        ({"compile": "magic"}, "inductor"),
        ({"dtype": "int8"}, "bfloat16"),
        ({"threads": 0}, "from 1"),
        ({"threads": -2}, "from 1"),
    ],
)
def test_wrong_options_name_the_right_ones(options, expected) -> None:
    with pytest.raises(InvalidArgument) as caught:
        TorchAdapter(**options)
    assert expected in caught.value.expected


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a CUDA device")
def test_cuda_without_a_device_is_refused_with_advice() -> None:
    with pytest.raises(Unsupported) as caught:
        TorchAdapter(device="cuda")
    assert "device=cpu" in caught.value.advice


def test_unknown_mode() -> None:
    with pytest.raises(InvalidArgument):
        TorchAdapter().prepare(small_network(), mode="learn")


def test_describe_says_what_is_in_effect() -> None:
    facts = TorchAdapter(dtype="bfloat16", compile="eager").describe()
    assert facts["version"] == torch.__version__
    assert "bfloat16" in facts["precision"]
    assert "no TF32" in facts["precision"]
    assert facts["compile"] == "eager"
    assert not torch.backends.cuda.matmul.allow_tf32
    assert torch.get_float32_matmul_precision() == "highest"


def test_threads_hold_in_their_own_process() -> None:
    script = (
        "from deep_bench.adapters.torch import TorchAdapter\nimport torch\n"
        "print(TorchAdapter(threads=1).describe()['threads'], torch.get_num_threads())\n"
        "print(TorchAdapter(threads=2).describe()['threads'], torch.get_num_threads())"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=os.environ, check=True)
    assert done.stdout.split() == ["1", "1", "2", "2"]


@pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16"])
def test_other_precisions_convert_parameters_inputs_and_outputs(dtype: str) -> None:
    adapter = TorchAdapter(dtype=dtype)
    executor = adapter.prepare(small_network())
    kind = getattr(torch, dtype)
    assert {p.dtype for p in executor.parameters.values()} == {kind}
    found = executor.bind({"x": adapter.from_numpy(X)})()["y"]
    assert found.dtype == kind
    np.testing.assert_allclose(found.double().numpy(), Y, rtol=1e-2)


def test_a_higher_precision_is_more_precise(one_node) -> None:
    x, w = np.random.default_rng(0).standard_normal((2, 64, 64)).astype(np.float32)
    network, fed = one_node("MatMul", [x, w], {}, fixed=[1])
    exact = x.astype(np.float64) @ w.astype(np.float64)
    error = {
        d: np.abs(TorchAdapter(dtype=d).prepare(network)(fed)["y0"].astype(np.float64) - exact).max()
        for d in ("float64", None, "float16")
    }
    assert error["float64"] < 1e-12 < error[None] < 1e-4 < error["float16"]


def test_casts_and_limits_follow_the_precision(run_node) -> None:
    x = np.array([1e-3, 70000], np.float32)
    (wide,) = run_node(
        "Cast",
        x.astype(np.float64),
        to=onnx.TensorProto.FLOAT,
        outputs=[onnx.TensorProto.FLOAT],
        options={"dtype": "float64"},
    )
    assert wide.dtype == np.float64
    lowest = np.float32(np.finfo(np.float32).min)
    (clipped,) = run_node("Clip", x[:1], lowest, fixed=[1], options={"dtype": "float16"})
    assert clipped.dtype == np.float16
    assert np.isfinite(clipped).all()


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_compiled_variants_compute_the_same(backend: str) -> None:
    adapter = TorchAdapter(compile=backend)
    executor = adapter.prepare(small_network())
    np.testing.assert_allclose(executor({"x": X})["y"], Y, rtol=1e-6)
    call = executor.bind({"x": adapter.from_numpy(X)})
    np.testing.assert_allclose(call()["y"].numpy(), Y, rtol=1e-6)
