"""ONNX Runtime: runs the network's file as it is, from opset 7 on."""

from deep_bench.adapters.onnxruntime.adapter import OnnxRuntimeAdapter

__all__ = ["OnnxRuntimeAdapter"]
