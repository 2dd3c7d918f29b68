"""``Build``: a network that is written layer by layer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import prod
from typing import Any

import numpy as np
import onnx_ir as ir

from deep_bench.errors import InvalidArgument
from deep_bench.graph import Network
from deep_bench.graph.knowledge import Knowledge
from deep_bench.graph.upgrade.edit import Names
from deep_bench.network.gradient.symbol import Symbol
from deep_bench.network.gradient.tape import Tape
from deep_bench.tensor import TensorSpec
from deep_bench.training.initial import initialize

_OPSET = 21


class Build:
    """A network that is being written.

    Args:
        name: Of the network.
        *inputs: What it takes.

    Example:
        >>> build = Build("line", TensorSpec("x", ("batch", 3), np.dtype(np.float32)))
        >>> network = build.finish({"y": build.linear("slope", build["x"], 2)})
        >>> [str(spec) for spec in network.outputs], sorted(network.parameters)
        (['y: float32[batch, 2]'], ['slope.bias', 'slope.weight'])
    """

    def __init__(self, name: str, *inputs: TensorSpec) -> None:
        self._inputs = {spec.name: spec for spec in inputs}
        values = [
            ir.Value(
                name=spec.name, type=ir.TensorType(ir.DataType.from_numpy(spec.dtype)), shape=ir.Shape(list(spec.shape))
            )
            for spec in inputs
        ]
        graph = ir.Graph(values, [], nodes=[], opset_imports={"": _OPSET}, name=name)
        self._model = ir.Model(graph, ir_version=10, producer_name="deep_bench")
        empty = Network(self._model)
        self.tape = Tape(graph, Names(empty), Knowledge(empty), name)
        self._symbols = {str(value.name): Symbol(self.tape, value) for value in values}

    def __getitem__(self, name: str) -> Symbol:
        """An input."""
        return self._symbols[name]

    @contextmanager
    def named(self, base: str) -> Iterator[Tape]:
        """New nodes get names that start with ``base``."""
        before, self.tape.base = self.tape.base, base
        try:
            yield self.tape
        finally:
            self.tape.base = before

    def parameter(self, name: str, *shape: int) -> Symbol:
        """A parameter; `finish` draws it."""
        tensor = ir.tensor(np.zeros(shape, np.float32), name=name)
        value = ir.Value(name=name, type=ir.TensorType(tensor.dtype), shape=ir.Shape(shape), const_value=tensor)
        self._model.graph.register_initializer(value)
        self.tape.knowledge.state(value, ir.to_proto(value).type)
        return Symbol(self.tape, value)

    # Layers

    def linear(self, name: str, x: Symbol, out: int, *, bias: bool = True) -> Symbol:
        r""":math:`x W + b` along the last axis: [..., in] to [..., out]."""
        into = width_of(x)
        with self.named(name) as tape:
            y = tape.MatMul(x, self.parameter(f"{name}.weight", into, out))
            return y + self.parameter(f"{name}.bias", out) if bias else y

    def convolution(self, name: str, x: Symbol, out: int, window: Sequence[int], **attributes: Any) -> Symbol:
        """``Conv`` with a bias: [batch, in, …] to [batch, out, …]."""
        into = self.tape.dims_of(x.value)[1]
        assert isinstance(into, int)
        weight, bias = self.parameter(f"{name}.weight", out, into, *window), self.parameter(f"{name}.bias", out)
        with self.named(name) as tape:
            output: Symbol = tape.Conv(x, weight, bias, **attributes)
            return output

    def normalized(self, name: str, x: Symbol) -> Symbol:
        """``LayerNormalization`` along the last axis."""
        size = width_of(x)
        with self.named(name) as tape:
            output: Symbol = tape.LayerNormalization(
                x, self.parameter(f"{name}.scale", size), self.parameter(f"{name}.bias", size), axis=-1
            )
            return output

    def dropped(self, name: str, x: Symbol, ratio: float) -> Symbol:
        """``Dropout``, which only training makes anything of; itself for a ratio of 0."""
        if ratio == 0:
            return x
        with self.named(name) as tape:
            output: Symbol = tape.Dropout(x, tape.constant(ratio, np.float32))
            return output

    def looked_up(self, name: str, table: Symbol, numbers: Symbol) -> Symbol:
        """Rows of a table [count, size] by their numbers [...]: [..., size]."""
        with self.named(name) as tape:
            output: Symbol = tape.Gather(table, numbers, axis=0)
            return output

    def embedded(self, name: str, numbers: Symbol, count: int, size: int) -> Symbol:
        """Rows of a table of its own."""
        return self.looked_up(name, self.parameter(f"{name}.weight", count, size), numbers)

    def activated(self, name: str, x: Symbol, operator: str) -> Symbol:
        """An operator without settings, such as ``Relu``.

        Raises:
            InvalidArgument: Another operator.
        """
        if operator not in ACTIVATIONS:
            raise InvalidArgument(f"activation {operator!r}", f"one of {', '.join(ACTIVATIONS)}")
        with self.named(name) as tape:
            output: Symbol = tape.node(operator, [x])
            return output

    # The end

    def finish(self, outputs: Mapping[str, Symbol], *, seed: int = 0, scheme: str = "he-normal") -> Network:
        """The network, its parameters drawn by `initialize`.

        Args:
            outputs: Name to value.
            seed, scheme: Of `initialize`.
        """
        for name, symbol in outputs.items():
            symbol.value.shape = ir.Shape(list(self.tape.dims_of(symbol.value)))
            symbol.value.type = ir.TensorType(ir.DataType.from_numpy(symbol.dtype))
            symbol.value.name = name  # last: what is known of it is known by its name
            self._model.graph.outputs.append(symbol.value)
        return initialize(Network(self._model), seed, scheme)


ACTIVATIONS = ("Elu", "Gelu", "LeakyRelu", "Relu", "Selu", "Sigmoid", "Softplus", "Tanh")
"""Operators that a layer may end in."""


def width_of(x: Symbol) -> int:
    """The size of the last axis."""
    size = x.tape.dims_of(x.value)[-1]
    assert isinstance(size, int)
    return size


def flat(x: Symbol, axes: Sequence[int]) -> Symbol:
    """[batch, a, b, …] to [batch, a b …]; the sizes are given because inference forgets them."""
    output: Symbol = x.tape.Reshape(x, [0, prod(axes)])
    return output


def floats(name: str, *shape: int | str) -> TensorSpec:
    """A float32 input."""
    return TensorSpec(name, shape, np.dtype(np.float32))


def whole(name: str, *shape: int | str) -> TensorSpec:
    """An int64 input."""
    return TensorSpec(name, shape, np.dtype(np.int64))


def check_sizes(network: str, least: int = 1, **sizes: Any) -> None:
    """Whether sizes are whole numbers of at least ``least``.

    Raises:
        InvalidArgument: One is not.
    """
    for name, size in sizes.items():
        for value in size if isinstance(size, list | tuple) else [size]:
            if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
                raise InvalidArgument(f"{network} with {name}={size!r}", f"whole numbers of at least {least}")


def check_ratio(network: str, dropout: float) -> None:
    """Whether a ratio of dropout is one.

    Raises:
        InvalidArgument: It is not from 0 to below 1.
    """
    if not 0 <= dropout < 1:
        raise InvalidArgument(f"{network} with dropout={dropout!r}", "a number of at least 0 and below 1")
