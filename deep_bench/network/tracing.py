"""``Tracer``: the functions of arrays that write ONNX nodes, so that an update rule becomes a graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from deep_bench.arrays import element_type, is_number
from deep_bench.errors import Unsupported
from deep_bench.network.gradient.symbol import Symbol
from deep_bench.network.gradient.tape import Tape

RATE = "learning_rate"
"""Name of the input that is the learning rate, a float32 scalar."""


class Tracer:
    """The functions of `deep_bench.arrays.ArrayFunctions` for values of a graph that is being written.

    Args:
        tape: Where nodes are written.
        feed: Makes an input of the graph, by its name; for `fed`.
    """

    def __init__(self, tape: Tape, feed: Callable[[str], Symbol]) -> None:
        self.tape, self.feed = tape, feed

    def array(self, x: Any, dtype: np.dtype | type | None = None) -> Symbol:
        if isinstance(x, Symbol):
            return x if dtype is None else x.cast(np.dtype(dtype))
        array = np.asarray(x, dtype)
        return self.tape.constant(array, array.dtype)

    def cast(self, x: Any, like: Any) -> Any:
        return x if is_number(x) else x.cast(element_type(like, self.dtype))

    def dtype(self, x: Symbol) -> np.dtype:
        return x.dtype

    def shape(self, x: Symbol) -> tuple[int, ...]:
        if x.static_shape is None:
            raise Unsupported(f"the shape {list(x.dims)} of {x.value.name!r} is open", "a parameter of a known shape")
        return x.static_shape

    def zeros_like(self, x: Symbol) -> Symbol:
        return self.tape.constant(np.zeros(self.shape(x)), x.dtype)

    def sqrt(self, x: Symbol) -> Symbol:
        return self._one("Sqrt", x)

    def exp(self, x: Symbol) -> Symbol:
        return self._one("Exp", x)

    def cos(self, x: Symbol) -> Symbol:
        return self._one("Cos", x)

    def floor(self, x: Symbol) -> Symbol:
        return self._one("Floor", x)

    def abs(self, x: Symbol) -> Symbol:
        return self._one("Abs", x)

    def sign(self, x: Symbol) -> Symbol:
        return self._one("Sign", x)

    def power(self, base: float, exponent: Symbol) -> Symbol:
        return self.tape.constant(base, np.float64) ** exponent.cast(np.float64)

    def maximum(self, x: Symbol, y: Any) -> Symbol:
        return self._one("Max", x, y)

    def minimum(self, x: Symbol, y: Any) -> Symbol:
        return self._one("Min", x, y)

    def where(self, condition: Symbol, x: Symbol, y: Any) -> Symbol:
        return self._one("Where", condition, x, y)

    def sum(self, x: Symbol, axes: Sequence[int] | None = None, *, keepdims: bool = False) -> Symbol:
        return x.sum(axes, keepdims=keepdims)

    def mean(self, x: Symbol, axes: Sequence[int] | None = None, *, keepdims: bool = False) -> Symbol:
        return x.mean(axes, keepdims=keepdims)

    def matmul(self, x: Symbol, y: Symbol) -> Symbol:
        return x @ y

    def transpose(self, x: Symbol) -> Symbol:
        return x.transpose([1, 0])

    def reshape(self, x: Symbol, shape: Sequence[int]) -> Symbol:
        return x.reshape(shape)

    def untracked(self) -> AbstractContextManager[Any]:
        return nullcontext()

    def host(self, x: Symbol) -> np.ndarray:
        raise _no_contents(f"what {x.value.name!r} holds")

    def adopt(self, array: np.ndarray) -> Symbol:
        raise _no_contents(f"memory for {array.dtype}{list(array.shape)}")

    def write(self, x: Symbol, contents: np.ndarray) -> None:
        raise _no_contents(f"{x.value.name!r} to be overwritten with {contents.dtype}{list(contents.shape)}")

    def _one(self, op_type: str, *inputs: Any) -> Symbol:
        written: Symbol = self.tape.node(op_type, inputs)
        return written


def _no_contents(subject: str) -> Unsupported:
    return Unsupported(
        f"{subject}, while the rule is traced into a graph",
        "a rule without it",
        "train with an executor and this optimizer apart, instead of with a traced step",
    )


def fed(steps: Any, xp: Any) -> Any:
    """The schedule of an optimizer whose rate is an input, ``learning_rate``, of the graph that it is traced into.

    Example:
        >>> import deep_bench as db
        >>> network = db.load("digits-cnn").with_loss("SoftmaxCrossEntropyLoss", output="logits", target="label")
        >>> step = db.network.training_step(network, optimizer=db.optimizers["adamw"](lr=db.network.fed, weight_decay=0.1))
        >>> step.network.inputs[-1].name
        'learning_rate'

    Raises:
        Unsupported: There is no graph.
    """
    del steps
    if not isinstance(xp, Tracer):
        raise Unsupported(
            "lr=fed outside of a traced graph", "a number or a schedule", "fed is for db.network.training_step"
        )
    return xp.feed(RATE)
