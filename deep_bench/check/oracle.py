"""How the reference executor evaluates a network as the oracle does, or with the rounding errors of its working formats."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Protocol

import ml_dtypes
import numpy as np
import onnx_ir as ir

from deep_bench.check.allowances import allowance
from deep_bench.check.arithmetic import as_plain, disturb
from deep_bench.check.discrete import quantizes, rounds_to, working_format
from deep_bench.check.rounding import Accumulation, Recall, Rounding
from deep_bench.check.settings import SETTING_INPUTS
from deep_bench.check.thresholds import NORM_WISE
from deep_bench.graph import operator_name
from deep_bench.tensor import is_float, is_inexact, unit_roundoff

_CASTS = frozenset({"Cast", "CastLike"})
_STASHING = frozenset({"GroupNormalization", "LayerNormalization", "RMSNormalization"})


class Step(Protocol):
    """What is asked of one step of the reference executor."""

    node: ir.Node
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    bodies: Mapping[str, Any]


class WideArithmetic:
    """Evaluates every node in float64, with the casts and the ranges of the formats that the network works in.

    With a generator it also makes the rounding errors of these formats: one evaluation is then one sample of what a correct
    implementation may return.

    Args:
        formats: Name of each value to its element type in the network.
        settings: Names of the values that keep their element type.
        rng: Where rounding errors are drawn from; ``None`` for the oracle.
        accumulation: How sums are assumed to be added.
        scale: How much larger than expected rounding errors are made.
        imposed: Name of a value to what it is taken to be, whatever the arithmetic says.
        recall: Shared by evaluations of the same network on the same inputs, to save time.
        norm_wise: Operators whose errors are as large as those of their largest results.
    """

    def __init__(
        self,
        formats: Mapping[str, np.dtype],
        settings: Collection[str] = (),
        *,
        rng: np.random.Generator | None = None,
        accumulation: Accumulation = "blocked",
        scale: float = 1.0,
        imposed: Mapping[str, np.ndarray] | None = None,
        recall: Recall | None = None,
        norm_wise: Collection[str] = (),
    ) -> None:
        self.formats, self.settings, self.rng = formats, settings, rng
        self.accumulation, self.scale, self.imposed = accumulation, scale, dict(imposed or {})
        self.recall, self.norm_wise = recall, norm_wise
        self._executed: Counter[str] = Counter()

    def __call__(self, step: Step, function: Callable[..., Any], inputs: Sequence[Any]) -> Any:
        """The outputs of one step."""
        with np.errstate(all="ignore"):
            result = self._evaluate(step, function, inputs)
        outputs = result if isinstance(result, tuple) else (result,)
        return tuple(self.imposed.get(n, y) for n, y in zip(step.outputs, outputs, strict=False))

    def _evaluate(self, step: Step, function: Callable[..., Any], inputs: Sequence[Any]) -> Any:
        if step.bodies:
            return function(*inputs)
        operator = operator_name(step.node)
        if operator == "BitCast" or any(name in self.settings for name in step.outputs if name):
            return function(*map(self._narrowed, step.inputs, inputs))
        target = self.formats.get(step.outputs[0])
        if operator in _CASTS and target is not None and is_inexact(target):
            return self._cast(inputs[0], step, target)
        rounding = Rounding(self._format(step), self.rng, self.accumulation, self.scale, self.recall)
        if self.recall is not None:
            name = str(step.node.name)
            self.recall.start(name, self._executed[name])
            self._executed[name] += 1
        setting = SETTING_INPUTS.get(operator, frozenset())
        arguments = [x if i in setting else _widened(x, rounding) for i, x in enumerate(inputs)]
        result = function(*arguments)
        outputs = result if isinstance(result, tuple) else (result,)
        return tuple(self._finished(y, n, step.node, inputs, rounding) for n, y in zip(step.outputs, outputs, strict=False))

    def _format(self, step: Step) -> np.dtype:
        """The working format of a step: its first floating-point output's, else input's; or another one that it states."""
        if quantizes(step.node) and (declared := working_format(step.node, self.formats)) is not None:
            return declared
        candidates = (self.formats.get(name) for name in (*step.outputs, *step.inputs) if name)
        form = next((d for d in candidates if d is not None and is_inexact(d)), np.dtype(np.float64))
        inner = _stash(step.node)
        return form if inner is None or unit_roundoff(inner) <= unit_roundoff(form) else inner

    def _narrowed(self, name: str, x: Any) -> Any:
        form = self.formats.get(name)
        return x.astype(form) if form is not None and isinstance(x, np.ndarray) and x.dtype != form else x

    def _cast(self, x: Any, step: Step, target: np.dtype) -> np.ndarray:
        source = self.formats.get(step.inputs[0], x.dtype)
        if x.dtype == object:
            x = x.astype(np.float64)
        if is_float(source) and unit_roundoff(target) <= unit_roundoff(source):
            return x.astype(np.float64, copy=False)
        if self.rng is not None and is_float(source):
            wide = x.astype(np.float64, copy=False)
            return in_range(Rounding(target, self.rng, scale=self.scale).of_result(wide), target)
        return x.astype(target).astype(np.complex128 if np.iscomplexobj(x) else np.float64)

    def _finished(self, y: Any, name: str, node: ir.Node, inputs: Sequence[Any], rounding: Rounding) -> Any:
        y = _plain_values(y)
        if not isinstance(y, np.ndarray) or not is_float(y.dtype) or not y.size:
            return y
        if rounding.rng is not None:
            extra = allowance(node, inputs, y)
            if operator_name(node) in self.norm_wise:
                extra = extra + NORM_WISE * np.max(np.abs(y), initial=0.0, where=np.isfinite(y))
            if np.any(extra):
                y = rounding.disturbed(y, rounding.u * extra)
        form = self.formats.get(name, rounding.format)
        return y.astype(form).astype(np.float64) if rounds_to(node, form) else in_range(y, form)


def _stash(node: ir.Node) -> np.dtype | None:
    """What a normalization computes its mean and variance in, whatever the type of its input: by default float32."""
    if operator_name(node) not in _STASHING:
        return None
    declared = node.attributes.get("stash_type")
    return np.dtype(ir.DataType(declared.as_int() if declared is not None else ir.DataType.FLOAT).numpy())


def in_range(y: np.ndarray, form: np.dtype) -> np.ndarray:
    """``y`` with infinity where the format overflows; formats without infinity are left alone."""
    info = ml_dtypes.finfo(form)
    if info.bits < 16 or info.bits > 32:
        return y
    largest = float(info.max)
    limit = largest * (1 + float(info.eps) / 4)
    if np.max(np.abs(y), initial=0.0) <= limit:  # also False where y has NaNs
        return y
    return np.where(np.abs(y) > limit, np.copysign(np.inf, y), y)


def _widened(x: Any, rounding: Rounding) -> Any:
    if isinstance(x, list):
        return [_widened(y, rounding) for y in x]
    if isinstance(x, np.ndarray | np.generic) and is_inexact(x.dtype):
        return disturb(np.asarray(x), rounding)
    return x


def _plain_values(y: Any) -> Any:
    if isinstance(y, list):
        return [_plain_values(v) for v in y]
    if isinstance(y, np.ndarray | np.generic):
        y = np.asarray(as_plain(y))
        return y.astype(np.float64, copy=False) if is_float(y.dtype) else y
    return y
