"""deep_bench times and checks any piece of deep learning against slow references that a person can read.

Importing this package loads no framework; names below are resolved on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from deep_bench.registry import Registry

if TYPE_CHECKING:
    from deep_bench import network as network
    from deep_bench import operators as operators
    from deep_bench.graph import Network as Network
    from deep_bench.graph import load as load
    from deep_bench.network.result import Result as Result
    from deep_bench.network.run import run as run
    from deep_bench.operators.case import Case as Case
    from deep_bench.operators.operator import Operator as Operator
    from deep_bench.tensor import TensorSpec as TensorSpec

__version__ = "0.1.0"

frameworks = Registry(
    "framework",
    "deep_bench.frameworks",
    builtin={
        "onnxruntime": "deep_bench.adapters.onnxruntime:OnnxRuntimeAdapter",
        "reference": "deep_bench.reference.network:ReferenceAdapter",
        "tensorflow": "deep_bench.adapters.tensorflow:TensorFlowAdapter",
        "torch": "deep_bench.adapters.torch:TorchAdapter",
    },
    requires={"onnxruntime": ("onnxruntime",), "tensorflow": ("tensorflow",), "torch": ("torch",)},
    extras={name: f"deep-bench[{name}]" for name in ("onnxruntime", "tensorflow", "torch")},
)

_SUITES = "deep_bench.operators.suites"

suites = Registry(
    "suite",
    "deep_bench.suites",
    builtin={
        "convnet/1d": f"{_SUITES}.convnet:one_dimensional",
        "convnet/3d": f"{_SUITES}.convnet:three_dimensional",
        "convnet/depthwise": f"{_SUITES}.convnet:depthwise",
        "convnet/dilated": f"{_SUITES}.convnet:dilated",
        "convnet/grouped": f"{_SUITES}.convnet:grouped",
        "convnet/mobilenet_v2": f"{_SUITES}.convnet:mobilenet_v2",
        "convnet/resnet50": f"{_SUITES}.convnet:resnet50",
        "convnet/unet": f"{_SUITES}.convnet:unet",
        "deepbench/conv/device": f"{_SUITES}.deepbench:conv_device",
        "deepbench/conv/server": f"{_SUITES}.deepbench:conv_server",
        "deepbench/conv/training": f"{_SUITES}.deepbench:conv_training",
        "deepbench/gemm/device": f"{_SUITES}.deepbench:gemm_device",
        "deepbench/gemm/server": f"{_SUITES}.deepbench:gemm_server",
        "deepbench/gemm/training": f"{_SUITES}.deepbench:gemm_training",
        "deepbench/rnn/device": f"{_SUITES}.deepbench:rnn_device",
        "deepbench/rnn/server": f"{_SUITES}.deepbench:rnn_server",
        "deepbench/rnn/training": f"{_SUITES}.deepbench:rnn_training",
        "deepbench/sparse_gemm/device": f"{_SUITES}.deepbench:sparse_gemm_device",
        "deepbench/sparse_gemm/server": f"{_SUITES}.deepbench:sparse_gemm_server",
        "transformer/attention": f"{_SUITES}.transformer:attention",
        "transformer/cross_entropy": f"{_SUITES}.transformer:cross_entropy",
        "transformer/embedding": f"{_SUITES}.transformer:embedding",
        "transformer/gelu": f"{_SUITES}.transformer:gelu",
        "transformer/layer_norm": f"{_SUITES}.transformer:layer_norm",
        "transformer/linear": f"{_SUITES}.transformer:linear",
        "transformer/rms_norm": f"{_SUITES}.transformer:rms_norm",
        "transformer/rotary": f"{_SUITES}.transformer:rotary",
        "transformer/softmax": f"{_SUITES}.transformer:softmax",
        "transformer/swiglu": f"{_SUITES}.transformer:swiglu",
    },
    made=True,
)

_LAZY = {
    "Case": "deep_bench.operators.case",
    "Network": "deep_bench.graph",
    "Operator": "deep_bench.operators.operator",
    "Result": "deep_bench.network.result",
    "TensorSpec": "deep_bench.tensor",
    "load": "deep_bench.graph",
    "run": "deep_bench.network.run",
}

__all__ = ["Case", "Network", "Operator", "Result", "TensorSpec", "__version__", "frameworks", "load", "run", "suites"]


_LAYERS = ("network", "operators")


def __getattr__(name: str) -> Any:
    if name in _LAYERS:
        return import_module(f"deep_bench.{name}")
    if name in _LAZY:
        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY, *_LAYERS})
