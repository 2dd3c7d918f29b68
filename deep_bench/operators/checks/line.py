"""A kernel, or what it claims to compute, as a vector of functions of one variable: an input moves along a direction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import ml_dtypes
import numpy as np

from deep_bench.check.estimate import pooled
from deep_bench.check.truth import Truth
from deep_bench.graph import Network
from deep_bench.operators.checks.differences import Line
from deep_bench.operators.checks.failure import KernelFailure
from deep_bench.operators.checks.prepared import Prepared
from deep_bench.operators.operator import Operator
from deep_bench.tensor import is_float, unit_roundoff

_MOST_OUTPUTS = 50_000
"""With more elements than this, so many of them are drawn: the others get no gradient."""


class Mover:
    """A kernel whose inputs can be moved, and whose floating-point outputs lie one after the other in one vector.

    Instead of the kernel's, these may be the outputs of its reference, computed in float64; ``backward`` is the kernel's.

    Args:
        operator: The kernel.
        network: The case's.
        truth: What is known of the answer to ``inputs``, perhaps in another precision.
        inputs: Name to array; for the kernel's outputs rounded so that moved by a step they are still exact.
        oracle: Whether the outputs are those of the reference.
        only: The output that is looked at, if not all are; the gradients of the others are ``None``.

    Raises:
        KernelFailure: An output of another shape or element type than the network says.
    """

    def __init__(
        self,
        operator: Operator[Any],
        network: Network,
        truth: Truth,
        inputs: Mapping[str, np.ndarray],
        *,
        oracle: bool = False,
        only: str | None = None,
    ) -> None:
        self.prepared = Prepared(operator, network)
        self.oracle = oracle
        self.inputs = dict(inputs) if oracle else {name: on_grid(array) for name, array in inputs.items()}
        floats = [n for n, y in truth.outputs.items() if is_float(truth.formats.get(n, np.asarray(y).dtype))]
        self.names = [n for n in floats if only in (None, n)]
        self.shapes = {name: np.shape(truth.outputs[name]) for name in self.names}
        self.forms = {spec.name: spec.dtype for spec in network.outputs}
        self._truth = truth
        self._whole = sum(int(np.prod(shape)) for shape in self.shapes.values())
        self._chosen = None
        if self._whole > _MOST_OUTPUTS:
            self._chosen = np.sort(np.random.default_rng(self._whole).choice(self._whole, _MOST_OUTPUTS, replace=False))
        self.here = self.outputs(self.inputs)

    @property
    def size(self) -> int:
        """How many elements of its outputs are looked at."""
        return self._whole if self._chosen is None else len(self._chosen)

    def outputs(self, inputs: Mapping[str, np.ndarray]) -> np.ndarray:
        """The floating-point outputs in one vector of float64: all elements, or many of them drawn once."""
        if self.oracle:
            exact = self._truth.reference.evaluate(inputs, arithmetic=self._truth.arithmetic())
            return self._taken([np.asarray(exact[n], np.float64) for n in self.names])
        outputs = self.prepared.answer(inputs)
        for name, shape in self.shapes.items():
            if outputs[name].shape != shape or outputs[name].dtype != self.forms[name]:
                came = f"{outputs[name].dtype}{list(outputs[name].shape)}"
                expected = f"{self.forms[name]}{list(shape)}"
                raise KernelFailure(f"{self.prepared.operator.name}.forward returned {name} as {came}", expected)
        return self._taken([outputs[n].astype(np.float64) for n in self.names])

    def _taken(self, arrays: Sequence[np.ndarray]) -> np.ndarray:
        vector = np.concatenate([a.ravel() for a in arrays] or [np.empty(0)])
        return vector if self._chosen is None else vector[self._chosen]

    def line(self, name: str, direction: np.ndarray) -> Line:
        """The outputs while one input moves."""

        def at(step: float) -> np.ndarray:
            array = self.inputs[name]
            moved = array.astype(np.float64) + step * direction
            return self.outputs({**self.inputs, name: moved if self.oracle else moved.astype(array.dtype)})

        return at

    def scale(self, name: str) -> float:
        """The size of an input's elements, as a power of 2."""
        finite = np.abs(self.inputs[name].astype(np.float64))
        finite = finite[np.isfinite(finite)]
        size = float(np.sqrt(np.mean(np.square(finite)))) if finite.size else 0.0
        return float(2.0 ** np.round(np.log2(size))) if size > 0 else 1.0

    @cached_property
    def expected_noise(self) -> np.ndarray:
        """The root mean square of what rounding adds to each output, by the estimate."""
        if self.oracle:
            return unit_roundoff(np.dtype(np.float64)) * (np.abs(self.here) + np.finfo(np.float64).tiny)
        noises = []
        for name in self.names:
            samples = [np.asarray(sample[name]) for sample in self._truth.samples]
            estimate = pooled(np.asarray(self._truth.outputs[name]), samples, self._truth.formats[name]).spread
            finer = float(ml_dtypes.finfo(self.forms[name]).eps) / float(ml_dtypes.finfo(self._truth.formats[name]).eps)
            noises.append(estimate * finer)
        return self._taken(noises)

    def backward(self, grads: np.ndarray) -> dict[str, np.ndarray]:
        """What ``backward`` gives for each input that was fed, in float64; zeros for ``None``.

        Args:
            grads: The gradients of the outputs in one vector; exact in their element types.
        """
        native = self.prepared.native(self._split(grads))
        native_inputs = self.prepared.native(self.inputs)
        got = self.prepared.pull_back(native_inputs, [native.get(name) for name in self.prepared.executor.results])
        order = [None if a is None else a.spec.name for a in self.prepared.executor.case.arguments]
        gradients: dict[str, np.ndarray] = {}
        for name, gradient in zip(order, got, strict=True):
            if name in self.inputs and is_float(self.inputs[name].dtype):
                read = None if gradient is None else np.asarray(self.prepared.device.to_numpy(gradient))
                gradients[name] = self._checked(name, read)
        return gradients

    def _checked(self, name: str, gradient: np.ndarray | None) -> np.ndarray:
        array = self.inputs[name]
        if gradient is None:
            return np.zeros(array.shape)
        if gradient.shape != array.shape:
            came = f"the gradient of {name} with shape {list(gradient.shape)}"
            raise KernelFailure(f"{self.prepared.operator.name}.backward returned {came}", f"shape {list(array.shape)}")
        return gradient.astype(np.float64)

    def _split(self, grads: np.ndarray) -> dict[str, np.ndarray]:
        if self._chosen is not None:
            scattered = np.zeros(self._whole)
            scattered[self._chosen] = grads
            grads = scattered
        by_name, start = {}, 0
        for name, shape in self.shapes.items():
            size = int(np.prod(shape))
            by_name[name] = grads[start : start + size].reshape(shape).astype(self.forms[name])
            start += size
        return by_name

    def place(self, index: int) -> str:
        """Where in the outputs an element of the vector is."""
        index = index if self._chosen is None else int(self._chosen[index])
        for name, shape in self.shapes.items():
            size = int(np.prod(shape))
            if index < size:
                return f"{name}{[int(i) for i in np.unravel_index(index, shape)]}"
            index -= size
        raise IndexError(index)


def on_grid(array: np.ndarray) -> np.ndarray:
    """Numbers rounded to multiples of the spacing at twice the largest of them: sums with powers of 2 are exact then.

    Example:
        >>> on_grid(np.array([1.0, 0.1], np.float32))[1] * 2**23 % 1
        np.float32(0.0)
    """
    if not is_float(array.dtype) or not array.size:
        return array
    wide = array.astype(np.float64)
    top = float(np.max(np.abs(np.where(np.isfinite(wide), wide, 0.0))))
    if not top:
        return array
    spacing = 2.0 ** (np.floor(np.log2(top)) + 1) * float(ml_dtypes.finfo(array.dtype).eps)
    return (np.round(wide / spacing) * spacing).astype(array.dtype)
