"""PyTorch: a network becomes a ``torch.nn.Module`` with straight-line generated code; a module, an executor."""

from deep_bench.adapters.torch.adapter import TorchAdapter
from deep_bench.adapters.torch.wrap import wrap

__all__ = ["TorchAdapter", "wrap"]
