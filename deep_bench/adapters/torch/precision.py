"""Running a network in another floating-point precision than it was written for."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import torch

from deep_bench.adapters.lowering import Plan, Site, Slot
from deep_bench.tensor import is_float

PRECISIONS = {"float64": np.dtype("float64"), "float16": np.dtype("float16"), "bfloat16": np.dtype(ml_dtypes.bfloat16)}

_CODES = ("to", "dtype", "output_dtype", "softmax_precision", "precision", "stash_type")


@dataclass(frozen=True, slots=True)
class Precision:
    """What replaces the network's own floating-point types of at least 16 bits.

    Args:
        dtype: The working type; ``None`` leaves the network as it is.
    """

    dtype: np.dtype | None = None

    def of(self, dtype: np.dtype | None) -> np.dtype | None:
        """The type in which values declared as ``dtype`` are computed."""
        working = self.dtype is not None and dtype is not None and is_float(dtype) and dtype.itemsize >= 2
        return self.dtype if working else dtype

    def array(self, array: np.ndarray) -> np.ndarray:
        """The constant in the working type."""
        target = self.of(array.dtype)
        with np.errstate(over="ignore"):  # the finite minimum of float32 is minus infinity in float16
            return array if target is None or target == array.dtype else array.astype(target)

    def slot(self, slot: Slot | None) -> Slot | None:
        """The value as the code for the site shall see it; its constant stays as exact as it was."""
        return slot if slot is None or self.dtype is None else replace(slot, dtype=self.of(slot.dtype))

    def attribute(self, name: str, value: Any) -> Any:
        """An attribute in the working type: tensors, and the codes of element types."""
        if self.dtype is None:
            return value
        if isinstance(value, Plan):
            return replace(value, constants={n: self.array(a) for n, a in value.constants.items()})
        if isinstance(value, np.ndarray):
            return self.array(value)
        if name in _CODES and isinstance(value, int) and value:
            dtype = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(value))
            target = self.of(dtype)
            return value if target is None or target == dtype else int(onnx.helper.np_dtype_to_tensor_dtype(target))
        return value

    def site(self, site: Site, read: set[str], target: torch.device | None = None) -> TorchSite:
        """The site in the working type; constants that are built into code are noted in ``read``."""
        return TorchSite(
            name=site.name,
            operator=site.operator,
            opset=site.opset,
            attributes={n: self.attribute(n, v) for n, v in site.attributes.items()},
            inputs=tuple(self.slot(s) for s in site.inputs),
            outputs=tuple(self.slot(s) for s in site.outputs),
            read=read,
            target=target,
        )


@dataclass(frozen=True, slots=True)
class TorchSite(Site):
    """A site with what only this adapter knows.

    Args:
        read: Collects the names of constants that are built into code: assigning those later would change nothing.
        target: The device, if it is not the CPU.
    """

    read: set[str] = field(default_factory=set)
    target: torch.device | None = None

    def constant(self, index: int) -> np.ndarray | None:
        """See `Site.constant`."""
        slot = self.input(index)
        if slot is None or slot.constant is None:
            return None
        self.read.add(slot.name)
        return slot.constant
