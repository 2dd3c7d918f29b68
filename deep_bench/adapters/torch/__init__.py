"""PyTorch: a network becomes a ``torch.nn.Module`` with straight-line generated code."""

from deep_bench.adapters.torch.adapter import TorchAdapter

__all__ = ["TorchAdapter"]
