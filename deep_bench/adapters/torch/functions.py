"""``TorchFunctions``: what an update rule needs, for tensors."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import torch

from deep_bench.adapters.torch.arrays import TYPES, numpy_dtype, sharing_tensor, to_tensor, view_of
from deep_bench.arrays import is_number


class TorchFunctions:
    """The functions of `deep_bench.arrays.ArrayFunctions` for tensors on one device.

    Args:
        device: Where new tensors are made.

    Example:
        >>> xp = TorchFunctions()
        >>> xp.sqrt(xp.array(np.float32([4, 9])))
        tensor([2., 3.])
    """

    def __init__(self, device: torch.device | str = "cpu") -> None:
        self.device = device
        self._on_cpu = torch.device(device).type == "cpu"

    def array(self, x: Any, dtype: np.dtype | type | None = None) -> torch.Tensor:
        if isinstance(x, torch.Tensor):
            return x if dtype is None else x.to(TYPES[np.dtype(dtype)])
        return to_tensor(np.asarray(x, dtype), self.device)

    def cast(self, x: Any, like: Any) -> Any:
        if is_number(x):
            return x
        target = like.dtype if isinstance(like, torch.Tensor) else TYPES[np.dtype(like)]
        return x if x.dtype is target else x.to(target)

    def dtype(self, x: torch.Tensor) -> np.dtype:
        return numpy_dtype(x.dtype)

    def shape(self, x: torch.Tensor) -> tuple[int, ...]:
        return tuple(x.shape)

    def zeros_like(self, x: torch.Tensor) -> torch.Tensor:
        return torch.zeros_like(x, requires_grad=False)

    def sqrt(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sqrt(x)

    def exp(self, x: torch.Tensor) -> torch.Tensor:
        return torch.exp(x)

    def cos(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cos(x)

    def floor(self, x: torch.Tensor) -> torch.Tensor:
        return torch.floor(x)

    def abs(self, x: torch.Tensor) -> torch.Tensor:
        return torch.abs(x)

    def sign(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sign(x)

    def power(self, base: float, exponent: torch.Tensor) -> torch.Tensor:
        return torch.pow(base, exponent.to(torch.float64))

    def maximum(self, x: torch.Tensor, y: Any) -> torch.Tensor:
        return torch.maximum(x, y) if isinstance(y, torch.Tensor) else torch.clamp(x, min=y)

    def minimum(self, x: torch.Tensor, y: Any) -> torch.Tensor:
        return torch.minimum(x, y) if isinstance(y, torch.Tensor) else torch.clamp(x, max=y)

    def where(self, condition: torch.Tensor, x: torch.Tensor, y: Any) -> torch.Tensor:
        return torch.where(condition, x, y)

    def sum(self, x: torch.Tensor, axes: Sequence[int] | None = None, *, keepdims: bool = False) -> torch.Tensor:
        return torch.sum(x, dim=_axes(x, axes), keepdim=keepdims)

    def mean(self, x: torch.Tensor, axes: Sequence[int] | None = None, *, keepdims: bool = False) -> torch.Tensor:
        return torch.mean(x, dim=_axes(x, axes), keepdim=keepdims)

    def matmul(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.matmul(x, y)

    def transpose(self, x: torch.Tensor) -> torch.Tensor:
        return x.T

    def reshape(self, x: torch.Tensor, shape: Sequence[int]) -> torch.Tensor:
        return torch.reshape(x, tuple(shape))

    def untracked(self) -> AbstractContextManager[Any]:
        return torch.no_grad()

    def host(self, x: torch.Tensor) -> np.ndarray:
        return view_of(x)

    def adopt(self, array: np.ndarray) -> torch.Tensor:
        return sharing_tensor(array) if self._on_cpu else to_tensor(array, self.device)

    def write(self, x: torch.Tensor, contents: np.ndarray) -> None:
        x.detach().copy_(sharing_tensor(contents))


def _axes(x: torch.Tensor, axes: Sequence[int] | None) -> list[int]:
    return list(range(x.ndim)) if axes is None else list(axes)
