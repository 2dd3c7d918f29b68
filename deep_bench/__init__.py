"""deep_bench times and checks any piece of deep learning against slow references that a person can read.

Importing this package loads no framework; names below are resolved on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from deep_bench.registry import Registry

if TYPE_CHECKING:
    from deep_bench import network as network
    from deep_bench.graph import Network as Network
    from deep_bench.graph import load as load
    from deep_bench.network.result import Result as Result
    from deep_bench.network.run import run as run
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

_LAZY = {
    "Network": "deep_bench.graph",
    "Result": "deep_bench.network.result",
    "TensorSpec": "deep_bench.tensor",
    "load": "deep_bench.graph",
    "run": "deep_bench.network.run",
}

__all__ = ["Network", "Result", "TensorSpec", "__version__", "frameworks", "load", "run"]


_LAYERS = ("network",)


def __getattr__(name: str) -> Any:
    if name in _LAYERS:
        return import_module(f"deep_bench.{name}")
    if name in _LAZY:
        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY, *_LAYERS})
