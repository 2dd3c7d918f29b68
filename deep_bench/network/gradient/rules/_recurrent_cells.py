"""The gradients of one direction of a recurrent layer.

The forward operator returns the outputs of all steps, so that each step's gates are computed again for all steps at once:
two matrix products. The gradients of the states go back step by step, with one product each. Those of the weights, of the
biases and of the input are again products over all steps at once.

In the formulas ``G`` is the gradient of a step's output ``h``, and ``D`` that of what the activations are applied to.
"""

from __future__ import annotations

from dataclasses import dataclass

from deep_bench.network.gradient.rules._recurrent_activations import Activation
from deep_bench.network.gradient.rules._recurrent_sweep import sweep
from deep_bench.network.gradient.rules._subgraphs import inside
from deep_bench.network.gradient.symbol import Symbol
from deep_bench.network.gradient.tape import Tape


@dataclass
class Direction:
    """One direction of a layer.

    Args:
        op: Where it is written.
        x: ``(time, batch, inputs)``; zeros beyond a sequence's length.
        w: ``(gates * hidden, inputs)``.
        r: ``(gates * hidden, hidden)``.
        b: The biases beside ``w`` and beside ``r``, ``(gates * hidden,)``; ``None`` for zeros.
        p: The weights of the peepholes, ``(3 * hidden,)``; ``None`` for zeros.
        y: The outputs, ``(time, batch, hidden)``.
        first: The states before the first step, ``(batch, hidden)`` each.
        dy: The gradient of ``y``, zeros beyond a sequence's length; ``None`` if it is zero.
        last: The gradients of the states after the last step.
        inside: Which elements count, ``(time, batch, 1)``; ``None`` for all.
        backwards: Whether the last element comes first.
        functions: The activations.
    """

    op: Tape
    x: Symbol
    w: Symbol
    r: Symbol
    b: tuple[Symbol, Symbol] | None
    p: Symbol | None
    y: Symbol
    first: list[Symbol]
    dy: Symbol | None
    last: list[Symbol]
    inside: Symbol | None
    backwards: bool
    functions: list[Activation]

    def kept(self, x: Symbol, otherwise: Symbol | float) -> Symbol:
        """``x``, or something else beyond a sequence's length."""
        return x if self.inside is None else self.op.Where(self.inside, x, otherwise)

    def before(self, states: Symbol, first: Symbol) -> Symbol:
        """From the states after each step to those before."""
        first = first.unsqueeze(0)
        if self.backwards:
            return self.op.Concat(states, first, axis=0).slice(0, 1, 2**62)
        return self.op.Concat(first, states, axis=0).slice(0, 0, -1)

    @property
    def h(self) -> Symbol:
        """The outputs before each step."""
        return self.before(self.kept(self.y, self.first[0].unsqueeze(0)) if self.backwards else self.y, self.first[0])

    @property
    def passed(self) -> Symbol | None:
        """1 beyond a sequence's length, where states stay as they are, else 0; ``None`` if there is no such step."""
        return None if self.inside is None else (~self.inside).cast(self.x)

    def project(self, x: Symbol, weights: Symbol, *biases: Symbol) -> Symbol:
        projection = x @ weights.transpose([1, 0])
        for bias in biases:
            projection = projection + bias
        return projection


@dataclass
class Found:
    """The gradients of one direction: see `Direction`."""

    x: Symbol
    w: Symbol
    r: Symbol
    b: Symbol
    first: list[Symbol]
    p: Symbol | None = None


def _of_products(op: Tape, a: Symbol, b: Symbol) -> Symbol:
    """``a^T b`` over all steps and sequences."""
    return op.Gemm(op.Flatten(a, axis=2), op.Flatten(b, axis=2), transA=1)


def _sum(x: Symbol) -> Symbol:
    return x.sum([0, 1])


def _found(run: Direction, d: Symbol, recurrent: Symbol, dr: Symbol, first: list[Symbol]) -> Found:
    """From the gradients ``D`` of the input's and of the state's products; ``dr`` is that of ``R``."""
    b = run.op.Concat(_sum(d), _sum(recurrent), axis=0)
    return Found(d @ run.w, _of_products(run.op, d, run.x), dr, b, first)


def _added(a: Symbol, b: Symbol | None) -> Symbol:
    return a if b is None else a + b


def rnn(run: Direction) -> Found:
    """``D = G f'``, and ``G`` of the step before ``D R``."""
    op, h, (f,) = run.op, run.h, run.functions
    x = run.project(run.x, run.w, *(run.b or ())) + run.project(h, run.r)
    slope = run.kept(f.slope(x), 0)

    def step(op, states, elements):
        slope, dy, passed = elements
        g = _added(states[0], dy)
        d = g * slope
        before = d @ inside(op, run.r)
        return [before if passed is None else before + g * passed], [d]

    first, (d,) = sweep(op, step, run.last, [slope, run.dy, run.passed], backwards=not run.backwards)
    return _found(run, d, d, _of_products(op, d, h), first)
