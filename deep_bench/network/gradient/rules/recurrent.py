"""Recurrent layers: the states' gradients step by step, everything else for all steps at once.

Steps along time are one after the other where they are few, else a ``Scan``. Activation functions are named in an
attribute, and have their slopes here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from deep_bench.errors import Unsupported
from deep_bench.network.gradient.rules._subgraphs import Scanned, inside, scan, tensor_type
from deep_bench.network.gradient.tape import Symbol, Tape

__all__ = ["GRU", "LSTM", "RNN"]


def RNN(
    at,
    x,
    w,
    r,
    b=None,
    sequence_lens=None,
    initial_h=None,
    *,
    activation_alpha=None,
    activation_beta=None,
    activations=("Tanh", "Tanh"),
    clip=None,
    direction="forward",
    hidden_size=None,
    layout=0,
):
    """``D = G f'(a)``; ``dX = D W``, ``dW = D^T X``, ``dR = D^T H``, ``dB = sum D``; ``G`` of the step before is ``D R``."""
    functions = activation_functions(activations, activation_alpha, activation_beta, clip, at.backward.rounded_slopes)
    layer = _LayerTensors(at, (x, w, r, b, sequence_lens), (initial_h,), None, direction, layout)
    return layer.gradients([rnn(run) for run in layer.directions(functions, 1)])


def GRU(
    at,
    x,
    w,
    r,
    b=None,
    sequence_lens=None,
    initial_h=None,
    *,
    activation_alpha=None,
    activation_beta=None,
    activations=None,
    clip=None,
    direction="forward",
    hidden_size=None,
    layout=0,
    linear_before_reset=0,
):
    """As of `RNN`, with the ``D`` of three gates: see `gru`."""
    names = activations or ("Sigmoid", "Tanh") * 2
    functions = activation_functions(names, activation_alpha, activation_beta, clip, at.backward.rounded_slopes)
    layer = _LayerTensors(at, (x, w, r, b, sequence_lens), (initial_h,), None, direction, layout)
    by_direction = [gru(run, linear_before_reset=bool(linear_before_reset)) for run in layer.directions(functions, 2)]
    return layer.gradients(by_direction)


def LSTM(
    at,
    x,
    w,
    r,
    b=None,
    sequence_lens=None,
    initial_h=None,
    initial_c=None,
    p=None,
    *,
    activation_alpha=None,
    activation_beta=None,
    activations=None,
    clip=None,
    direction="forward",
    hidden_size=None,
    input_forget=0,
    layout=0,
):
    """As of `RNN`, with the ``D`` of four gates and the gradient of the cell's state: see `lstm`."""
    names = activations or ("Sigmoid", "Tanh", "Tanh") * 2
    functions = activation_functions(names, activation_alpha, activation_beta, clip, at.backward.rounded_slopes)
    layer = _LayerTensors(at, (x, w, r, b, sequence_lens), (initial_h, initial_c), p, direction, layout)
    return layer.gradients([lstm(run, input_forget=bool(input_forget)) for run in layer.directions(functions, 3)])


class _LayerTensors:
    """The tensors of a layer, in float32 at least, with time before the batch; and its directions one by one."""

    def __init__(self, at, inputs, initial, p, direction, layout):
        self.at, self.op, self.layout, self.p = at, at.op, layout, p
        self.x, self.w, self.r, self.b, self.lengths = inputs
        self.initial = initial
        self.backwards = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}[direction]
        self.dtype = self.x.dtype if self.x.dtype.itemsize >= 4 else np.dtype(np.float32)

    def directions(self, functions, each):
        """The directions one by one, ``each`` with as many of the activations."""
        x = self._early(self.x, (1, 0, 2))
        mask = self._mask(x)
        x = x if mask is None else self.op.Where(mask, x, 0)
        for number, backwards in enumerate(self.backwards):
            yield self._direction(number, x, mask, backwards, functions[number * each : (number + 1) * each])

    def _direction(self, number, x, mask, backwards, functions):
        def part(tensor, axis=0):
            return self._part(tensor, number, axis)

        y = part(self._early(self.at.y, (1, 2, 0, 3)), 1)
        dy = self.at.gradient_or_none(0)
        dy = None if dy is None else part(self._early(dy, (1, 2, 0, 3)), 1)
        biases = None if self.b is None else part(self._wide(self.b))
        return RecurrentDirection(
            self.op,
            x,
            part(self._wide(self.w)),
            part(self._wide(self.r)),
            None if biases is None else tuple(self.op.Split(biases, outputs=2, axis=0, num_outputs=2)),
            None if self.p is None else part(self._wide(self.p)),
            y,
            [part(self._state(s)) for s in self.initial],
            dy if mask is None or dy is None else self.op.Where(mask, dy, 0),
            [part(self._state(self.at.gradient_or_none(1 + i))) for i in range(len(self.initial))],
            mask,
            backwards,
            functions,
        )

    def _state(self, s):
        """A state of all directions, ``(directions, batch, hidden)``, zeros if it is ``None``."""
        return self._early(self.op.zeros_like(self.at.output(1)) if s is None else s, (1, 0, 2))

    def _mask(self, x):
        """Which elements count."""
        if self.lengths is None:
            return None
        length = x.static_shape[0] if x.static_shape else self.op.Gather(x.shape, self.op.constant(0, np.int64), axis=0)
        times = self.op.Range(self.op.constant(0, np.int64), length, self.op.constant(1, np.int64))
        return times.unsqueeze(1, 2) < self.lengths.cast(np.int64).unsqueeze(0, 2)

    def _wide(self, tensor):
        return tensor.cast(self.dtype)

    def _early(self, tensor, permutation):
        """A tensor as with layout 0."""
        tensor = self._wide(tensor)
        return tensor.transpose(permutation) if self.layout else tensor

    def _late(self, tensor, permutation, like):
        return (tensor.transpose(permutation) if self.layout else tensor).cast(like)

    def _part(self, tensor, number, axis):
        if len(self.backwards) == 1:
            return tensor.squeeze(axis)
        return self.op.Gather(tensor, self.op.constant(number, np.int64), axis=axis)

    def gradients(self, by_direction):
        """The gradients of the node's inputs from those of its directions."""
        x = by_direction[0].x + by_direction[1].x if len(by_direction) == 2 else by_direction[0].x
        stacked = [
            self._stacked([f.w for f in by_direction]),
            self._stacked([f.r for f in by_direction]),
            self._stacked([f.b for f in by_direction]),
        ]
        weights = [g.cast(self.x) for g in stacked]
        states = [self._stacked([f.first[i] for f in by_direction]) for i in range(len(self.initial))]
        first = [self._late(s, (1, 0, 2), self.x) for s in states]
        peepholes = [] if self.p is None else [self._stacked([f.p for f in by_direction]).cast(self.x)]
        return [self._late(x, (1, 0, 2), self.x), *weights, None, *first, *peepholes]

    def _stacked(self, parts):
        return self.op.concat([part.unsqueeze(0) for part in parts])


Function = Callable[..., Symbol]


def _bell(x: Symbol) -> Symbol:
    """The slope of the sigmoid, which ``y (1 - y)`` loses to rounding where ``y`` is nearly 1."""
    small = x.tape.Exp(-x.tape.Abs(x))
    return small / ((small + 1) * (small + 1))


def _rounded_bell(x: Symbol) -> Symbol:
    y = x.tape.Sigmoid(x)
    return y * (1 - y)


def _rounded_arch(x: Symbol) -> Symbol:
    y = x.tape.Tanh(x)
    return 1 - y * y


def _exponential(x: Symbol) -> Symbol:
    """``exp(x)`` where ``x`` is negative, and 1 elsewhere."""
    return x.tape.Exp(x.tape.Min(x, 0))


def _hard_sigmoid_slope(x: Symbol, alpha: float, beta: float) -> Symbol:
    y = x * alpha + beta
    return ((y > 0) & (y < 1)).cast(x) * alpha


def _softsign_slope(x: Symbol) -> Symbol:
    divisor = x.tape.Abs(x) + 1
    return x.tape.Reciprocal(divisor * divisor)


# The function and its slope, of x and the parameters from activation_alpha and activation_beta; defaults of these.
_FUNCTIONS: dict[str, tuple[Function, Function, dict[str, float]]] = {
    "affine": (
        lambda x, alpha, beta: x * alpha + beta,
        lambda x, alpha, _beta: x.tape.zeros_like(x) + alpha,
        {"alpha": 1.0, "beta": 0.0},
    ),
    "elu": (
        lambda x, alpha: x.tape.Where(x > 0, x, (_exponential(x) - 1) * alpha),
        lambda x, alpha: x.tape.Where(x > 0, 1, _exponential(x) * alpha),
        {"alpha": 1.0},
    ),
    "hardsigmoid": (
        lambda x, alpha, beta: x.tape.Clip(x * alpha + beta, 0, 1),
        _hard_sigmoid_slope,
        {"alpha": 0.2, "beta": 0.5},
    ),
    "leakyrelu": (
        lambda x, alpha: x.tape.Where(x > 0, x, x * alpha),
        lambda x, alpha: x.tape.Where(x > 0, x.tape.constant(1, x.dtype), alpha),
        {"alpha": 0.01},
    ),
    "relu": (lambda x: x.tape.Relu(x), lambda x: (x > 0).cast(x), {}),
    "scaledtanh": (
        lambda x, alpha, beta: x.tape.Tanh(x * beta) * alpha,
        lambda x, alpha, beta: _bell(x * (2 * beta)) * (4 * alpha * beta),
        {"alpha": 1.0, "beta": 1.0},
    ),
    "sigmoid": (lambda x: x.tape.Sigmoid(x), _bell, {}),
    "softplus": (lambda x: x.tape.Softplus(x), lambda x: x.tape.Sigmoid(x), {}),
    "softsign": (lambda x: x / (x.tape.Abs(x) + 1), _softsign_slope, {}),
    "tanh": (lambda x: x.tape.Tanh(x), lambda x: _bell(x + x) * 4, {}),
    "thresholdedrelu": (
        lambda x, alpha: x.tape.Where(x >= alpha, x, 0),
        lambda x, alpha: (x >= alpha).cast(x),
        {"alpha": 1.0},
    ),
}


# The slope from the function's rounded value, of x and the parameters: how frameworks write those that saturate.
_ROUNDED_SLOPES: dict[str, Function] = {
    "scaledtanh": lambda x, alpha, beta: _rounded_arch(x * beta) * (alpha * beta),
    "sigmoid": _rounded_bell,
    "tanh": _rounded_arch,
}


@dataclass(frozen=True)
class Activation:
    """An activation function with its parameters.

    Args:
        function: From ``x`` and the parameters to the value.
        derivative: From ``x`` and the parameters to the slope.
        parameters: Its ``alpha`` and ``beta``, as far as it has them.
        clip: The argument is limited to ``[-clip, clip]``; ``None`` for no limit.
    """

    function: Function
    derivative: Function
    parameters: tuple[float, ...]
    clip: float | None

    def __call__(self, x: Symbol) -> Symbol:
        """The function's value."""
        return self.function(self._clipped(x), *self.parameters)

    def slope(self, x: Symbol) -> Symbol:
        """The function's derivative; 0 beyond the limit."""
        slope = self.derivative(self._clipped(x), *self.parameters)
        return slope if self.clip is None else x.tape.Where(x.tape.Abs(x) <= self.clip, slope, 0)

    def _clipped(self, x: Symbol) -> Symbol:
        return x if self.clip is None else x.tape.Clip(x, -self.clip, self.clip)


def activation_functions(
    names: Sequence[str],
    alphas: Sequence[float] | None,
    betas: Sequence[float] | None,
    clip: float | None,
    rounded_slopes: bool,
) -> list[Activation]:
    """The functions behind ``names``; each takes its parameters from the front of ``alphas`` and ``betas`` while they last.

    With ``rounded_slopes`` slopes are taken from the rounded values, as `Backward` says.

    Raises:
        Unsupported: The standard knows no such function.

    Source:
        ONNX LSTM, opset 22.
    """
    values = {"alpha": list(alphas or ()), "beta": list(betas or ())}
    activations = []
    for name in names:
        if name.lower() not in _FUNCTIONS:
            raise Unsupported(f"the activation {name!r} is not one of {', '.join(_FUNCTIONS)}")
        function, derivative, parameters = _FUNCTIONS[name.lower()]
        if rounded_slopes:
            derivative = _ROUNDED_SLOPES.get(name.lower(), derivative)
        chosen = tuple(values[p].pop(0) if values[p] else default for p, default in parameters.items())
        activations.append(Activation(function, derivative, chosen, clip))
    return activations


UNROLLED = 16
"""Up to how many steps are written one after the other."""


Step = Callable[..., tuple[Sequence[Symbol], Sequence[Symbol]]]


def sweep(
    op: Tape,
    step: Step,
    states: Sequence[Symbol],
    sequences: Sequence[Symbol | None],
    *,
    backwards: bool,
    n_outputs: int = 1,
) -> tuple[list[Symbol], list[Symbol]]:
    """Apply a step to one element of each sequence after the other.

    Args:
        op: Where it is written.
        step: ``step(op, states, elements)``: the next states and the elements of the outputs. It may write only what treats
            the axes before the last one alike.
        states: The first states, ``(batch, features)``.
        sequences: ``(time, batch, features)``, each; where one is ``None``, so are its elements.
        backwards: Whether from the last element to the first.
        n_outputs: How many outputs the step has.

    Returns:
        The last states, and the outputs ``(time, batch, features)``.
    """
    supplied = [s for s in sequences if s is not None]
    for x, rank in [*((s, 2) for s in states), *((s, 3) for s in supplied)]:
        if op.known_dims(x.value) is None:
            op.knowledge.state(x.value, tensor_type(x.dtype, rank))
    length = next((dims[0] for s in supplied if isinstance((dims := s.dims)[0], int)), None)
    if isinstance(length, int) and 0 < length <= UNROLLED:
        parts = [[None] * length if s is None else _split_steps(op, s, length) for s in sequences]
        states = [s.unsqueeze(0) for s in states]
        collected = []
        for t in reversed(range(length)) if backwards else range(length):
            states, outputs = step(op, states, [p[t] for p in parts])
            collected.append(outputs)
        if backwards:
            collected.reverse()
        return [s.squeeze(0) for s in states], [op.concat(list(parts)) for parts in zip(*collected, strict=True)]

    def write(tape: Tape, *inputs: Symbol) -> list[Symbol]:
        elements = iter(inputs[len(states) :])
        new, outputs = step(tape, inputs[: len(states)], [None if s is None else next(elements) for s in sequences])
        return [*new, *outputs]

    element = tensor_type(states[0].dtype, 2)
    scanned = [Scanned(s, 0, backwards) for s in supplied]
    return scan(op, write, states, scanned, [(0, backwards)] * n_outputs, [element] * n_outputs)


def _split_steps(op: Tape, x: Symbol, length: int) -> list[Symbol]:
    return [x] if length == 1 else list(op.Split(x, outputs=length, axis=0, num_outputs=length))


@dataclass
class RecurrentDirection:
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
class DirectionGradients:
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


def _direction_gradients(
    run: RecurrentDirection, d: Symbol, recurrent: Symbol, dr: Symbol, first: list[Symbol]
) -> DirectionGradients:
    """From the gradients ``D`` of the input's and of the state's products; ``dr`` is that of ``R``."""
    b = run.op.Concat(_sum(d), _sum(recurrent), axis=0)
    return DirectionGradients(d @ run.w, _of_products(run.op, d, run.x), dr, b, first)


def _added(a: Symbol, b: Symbol | None) -> Symbol:
    return a if b is None else a + b


def rnn(run: RecurrentDirection) -> DirectionGradients:
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
    return _direction_gradients(run, d, d, _of_products(op, d, h), first)


def _split(x: Symbol, count: int, axis: int = -1) -> list[Symbol]:
    return list(x.tape.Split(x, outputs=count, axis=axis, num_outputs=count))


def gru(run: RecurrentDirection, *, linear_before_reset: bool) -> DirectionGradients:
    """``Dz = G (h - c) f'``, ``Dc = G (1 - z) g'``; that of the reset gate goes through the state's product.

    ``G`` of the step before is ``G z``, and what goes through the products.
    """
    h, (f, g) = run.h, run.functions
    wb, rb = run.b or (None, None)
    xz, xr, xc = _split(run.project(run.x, run.w, *([] if wb is None else [wb])), 3)
    rz, rr, rc = _split(run.r, 3, 0)
    bz, br, bc = [None] * 3 if rb is None else _split(rb, 3)
    az, ar = (_added(x + run.project(h, r), b) for x, r, b in ((xz, rz, bz), (xr, rr, br)))
    z, reset = f(az), f(ar)
    product = _added(run.project(h if linear_before_reset else reset * h, rc), bc)
    ac = xc + (reset * product if linear_before_reset else product)
    c = g(ac)
    to_z, to_c = (h - c) * f.slope(az), (1 - z) * g.slope(ac)
    to_reset = f.slope(ar) * (product if linear_before_reset else h)
    z = run.kept(z, 1)
    if linear_before_reset:
        return _linear_first(run, h, z, (to_z, to_c * to_reset, to_c), reset)
    return _reset_first(run, h, z, (to_z, to_reset, to_c), reset)


def _linear_first(run, h, z, factors, reset):
    """All of ``D`` is ``G`` times what is known before: the state's product takes one matrix product."""
    op = run.op
    by_input = run.kept(op.Concat(*factors, axis=-1), 0)
    by_state = run.kept(op.Concat(*factors[:2], factors[2] * reset, axis=-1), 0)

    def step(op, states, elements):
        factor, z, dy = elements
        g = _added(states[0], dy)
        d = op.Concat(g, g, g, axis=-1) * factor
        return [g * z + d @ inside(op, run.r)], [g]

    first, (g,) = sweep(op, step, run.last, [by_state, z, run.dy], backwards=not run.backwards)
    repeated = op.Concat(g, g, g, axis=-1)
    recurrent = repeated * by_state
    return _direction_gradients(run, repeated * by_input, recurrent, _of_products(op, recurrent, h), first)


def _reset_first(run, h, z, factors, reset):
    """``Dr = (Dc Rh) h f'``."""
    op = run.op
    to_z, to_reset, to_c = (run.kept(x, 0) for x in factors)
    rz, rr, rc = _split(run.r, 3, 0)
    gates = op.Concat(rz, rr, axis=0)

    def step(op, states, elements):
        to_z, to_reset, to_c, z, reset, dy = elements
        g = _added(states[0], dy)
        dc = g * to_c
        through = dc @ inside(op, rc)
        two = op.Concat(g * to_z, through * to_reset, axis=-1)
        return [g * z + through * reset + two @ inside(op, gates)], [two, dc]

    sequences = [to_z, to_reset, to_c, z, reset, run.dy]
    first, (two, dc) = sweep(op, step, run.last, sequences, backwards=not run.backwards, n_outputs=2)
    d = op.Concat(two, dc, axis=-1)
    dr = op.Concat(_of_products(op, two, h), _of_products(op, dc, reset * h), axis=0)
    return _direction_gradients(run, d, d, dr, first)


def lstm(run: RecurrentDirection, *, input_forget: bool) -> DirectionGradients:
    """``Do = G s(c) f'``; ``C``, the gradient of the cell's state, grows by ``G o s'(c) + Do Po``; and all other ``D`` are
    ``C`` times a factor that is known before.

    ``C`` of the step before is ``C u + Di Pi + Du Pu``, and ``G`` is ``D R``.
    """
    op, h, (f, g, squash) = run.op, run.h, run.functions
    pi, po, pu = (None,) * 3 if run.p is None else _split(run.p, 3)
    ai, ao, au, ac = _split(run.project(run.x, run.w, *(run.b or ())) + run.project(h, run.r), 4)
    candidate = g(ac)
    c = _cell_states(run, ai, au, candidate, (pi, pu), input_forget)
    earlier = run.before(c, run.first[1])
    ai, au, ao = (_peeped(a, p, s) for a, p, s in ((ai, pi, earlier), (au, pu, earlier), (ao, po, c)))
    i, o, squashed = f(ai), f(ao), squash(c)
    u = 1 - i if input_forget else f(au)
    to_i = (candidate - earlier if input_forget else candidate) * f.slope(ai)
    to_u = op.zeros_like(earlier) if input_forget else earlier * f.slope(au)
    to_o, to_c = squashed * f.slope(ao), i * g.slope(ac)
    grows = _peeped(o * squash.slope(c), po, to_o)
    remains = _peeped(_peeped(u, pi, to_i), pu, to_u)
    factor, grows, remains = (
        run.kept(x, beyond) for x, beyond in ((op.Concat(to_i, to_o, to_u, to_c, axis=-1), 0), (grows, 0), (remains, 1))
    )

    def step(op, states, elements):
        factor, grows, remains, dy, passed = elements
        h = _added(states[0], dy)
        c = states[1] + h * grows
        d = op.Concat(c, h, c, c, axis=-1) * factor
        before = d @ inside(op, run.r)
        return [before if passed is None else before + h * passed, c * remains], [d]

    sequences = [factor, grows, remains, run.dy, run.passed]
    first, (d,) = sweep(op, step, run.last, sequences, backwards=not run.backwards)
    gradients = _direction_gradients(run, d, d, _of_products(op, d, h), first)
    di, do, du, _ = _split(d, 4)
    gradients.p = op.Concat(_sum(di * earlier), _sum(do * c), _sum(du * earlier), axis=0)
    return gradients


def _peeped(a: Symbol, weights: Symbol | None, state: Symbol) -> Symbol:
    return a if weights is None else a + weights * state


def _cell_states(run, ai, au, candidate, peepholes, input_forget):
    """The states of the cell after each step: what the operator returns only for the last one."""
    f = run.functions[0]
    if peepholes[0] is None:
        i = f(ai)
        remains, new = run.kept(1 - i if input_forget else f(au), 1), run.kept(i * candidate, 0)

        def step(op, states, elements):
            c = states[0] * elements[0] + elements[1]
            return [c], [c]

        return sweep(run.op, step, run.first[1:], [remains, new], backwards=run.backwards)[1][0]

    def peeping(op, states, elements):
        ai, au, candidate, beyond = elements
        (c,), (pi, pu) = states, (inside(op, p) for p in peepholes)
        i = f(_peeped(ai, pi, c))
        u = 1 - i if input_forget else f(_peeped(au, pu, c))
        new = c * u + i * candidate
        new = new if beyond is None else op.Where(beyond > 0, c, new)
        return [new], [new]

    return sweep(run.op, peeping, run.first[1:], [ai, au, candidate, run.passed], backwards=run.backwards)[1][0]
