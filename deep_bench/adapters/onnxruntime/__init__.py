"""ONNX Runtime: runs the network's file as it is, from opset 7 on; a session that is there already, as an executor."""

from deep_bench.adapters.onnxruntime.adapter import OnnxRuntimeAdapter, wrap

__all__ = ["OnnxRuntimeAdapter", "wrap"]
