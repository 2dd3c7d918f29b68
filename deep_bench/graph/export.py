"""Networks from other frameworks' code; the exporters lie in the adapters, and are named here by string only."""

from __future__ import annotations

from typing import Any

from deep_bench.graph.network import Network
from deep_bench.registry import Registry

exporters = Registry(
    "exporter",
    "deep_bench.exporters",
    builtin={
        "keras": "deep_bench.adapters.tensorflow.export:export",
        "torch": "deep_bench.adapters.torch.export:export",
    },
    requires={"keras": ("tensorflow", "tf2onnx"), "torch": ("torch", "onnxscript")},
    extras={"keras": "deep-bench[tensorflow,export]", "torch": "deep-bench[torch,export]"},
)


def exported(framework: str, *arguments: Any, **options: Any) -> Network:
    """A network made by one of the exporters.

    Args:
        framework: The exporter's name.
        arguments, options: What it takes.

    Raises:
        UnknownName: No such exporter.
        FrameworkMissing: A package that it needs is not installed.
    """
    network: Network = exporters[framework](*arguments, **options)
    return network
