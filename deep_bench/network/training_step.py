"""A whole training step, forward, backward and update, as one plain ONNX graph."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from numbers import Real
from types import MappingProxyType
from typing import Any

import numpy as np
import onnx_ir as ir

from deep_bench.errors import InvalidArgument
from deep_bench.graph import Network, NetworkLike, as_network
from deep_bench.graph.knowledge import Knowledge
from deep_bench.graph.upgrade.edit import Names
from deep_bench.network.gradient import differentiate, gradient_name
from deep_bench.network.gradient.symbol import Symbol
from deep_bench.network.gradient.tape import Tape
from deep_bench.request import names_once

RATE = "learning_rate"
"""Name of the input that is the learning rate, a float32 scalar."""

STEPS = "steps"
"""Name of the input that counts the steps before this one, where an optimizer needs their number."""

_WORKING = np.dtype(np.float32)
"""What narrower parameters are updated in."""


@dataclass(frozen=True, eq=False)
class TrainingStep:
    """A network that computes one training step, and what to feed it first.

    Args:
        network: Its inputs are those of the network to train, the parameters, the optimizer's state, and the learning rate,
            a float32 scalar called ``learning_rate``. Its outputs are those of the network to train, the new parameters and
            the new state.
        following: Input to the output that is its value in the next step.
        initial: The first value of each of these inputs.

    Example:
        >>> import numpy as np, deep_bench as db
        >>> network = db.load("digits-cnn").with_loss("SoftmaxCrossEntropyLoss", output="logits", target="label")
        >>> step = db.network.training_step(network, optimizer="adam")
        >>> run = db.frameworks["onnxruntime"]().prepare(step.network)
        >>> batch = {"image": np.random.default_rng(0).random((32, 1, 8, 8), np.float32), "label": np.arange(32) % 10}
        >>> state, losses = step.initial, []
        >>> for _ in range(5):
        ...     outputs = run({**batch, **state, "learning_rate": np.float32(0.001)})
        ...     state, losses = step.next(outputs), [*losses, float(outputs["loss"])]
        >>> losses[-1] < losses[0]
        True
    """

    network: Network
    following: Mapping[str, str]
    initial: Mapping[str, np.ndarray]

    def next(self, outputs: Mapping[str, Any]) -> dict[str, Any]:
        """What to feed in the next step, from the outputs of this one."""
        return {name: outputs[output] for name, output in self.following.items()}


def training_step(
    network: NetworkLike, loss: str = "loss", *, optimizer: str = "sgd", wrt: Sequence[str] | None = None, **settings: float
) -> TrainingStep:
    r"""One step of training as a network of plain ONNX operators, which any runtime can run.

    ============ ======================================================================== ==================================
    optimizer    update of a parameter :math:`w` with gradient :math:`g` at rate :math:`r` settings
    ============ ======================================================================== ==================================
    ``sgd``      :math:`w - r g`
    ``momentum`` :math:`v' = \mu v + g`, :math:`w - r v'`                                 ``momentum`` 0.9
    ``adam``     :math:`m' = \beta_1 m + (1 - \beta_1) g`,                                ``beta1`` 0.9, ``beta2`` 0.999,
                 :math:`s' = \beta_2 s + (1 - \beta_2) g^2`,                              ``epsilon`` 1e-8
                 :math:`w - r \frac{m'}{1 - \beta_1^t} / (\sqrt{\frac{s'}{1 - \beta_2^t}} + \epsilon)`
    ============ ======================================================================== ==================================

    ``momentum`` is from 0 to 1, ``beta1`` and ``beta2`` are at least 0 and below 1, ``epsilon`` is not negative.

    The learning rate is an input, ``learning_rate``, so that a schedule may change it. The running mean and variance of each
    BatchNormalization in training mode are part of the state.

    Parameters of less than 32 bits (float16, bfloat16) are updated in float32, and only their new value is rounded: in
    float16, Adam's :math:`\epsilon` and the squares of most gradients would be 0. The optimizer's state of these is float32.
    Forward and backward run in the network's own types, and the parameter is stored in its own: an update of less than half
    a unit in the last place is lost, and so is a gradient below the format's range.

    Args:
        network: A network with a loss (`Network.with_loss`), or its file.
        loss: Name of the loss.
        optimizer: ``"sgd"``, ``"momentum"`` or ``"adam"``.
        wrt: Names of the initializers to train; by default the network's parameters. What no output depends on is left out.
        **settings: See the table.

    Raises:
        InvalidArgument: An unknown optimizer or setting, or a setting out of its range; a parameter that is no initializer,
            or is named twice; nothing to train; or a network that has a value called ``learning_rate`` already.
        UnsupportedOperator: A node between the loss and a parameter has no gradient.

    Source:
        Robbins and Monro, 1951; Sutskever et al., 2013, as PyTorch writes it; Kingma and Ba, 2015, algorithm 1.
    """
    network, rule = as_network(network), _rule(optimizer)
    chosen = _chosen(optimizer, rule, settings)
    names = names_once(network.parameters if wrt is None else wrt)
    if missing := [n for n in names if n not in network.initializers]:
        raise InvalidArgument(
            f"{network.name} has no initializer {missing[0]!r}", f"some of {', '.join(network.parameters)}"
        )
    if RATE in _value_names(network):
        raise InvalidArgument(
            f"{network.name} has a value {RATE!r}, which is what the step's input for the learning rate is called",
            "a network without a value of this name",
            "rename it in the network",
        )
    derived = differentiate(network, loss, names).copy()
    gradients = {name: gradient_name(loss, name) for name in names if name in derived.graph.initializers}
    if not gradients:
        raise InvalidArgument(
            f"{network.name} has nothing to train: {_untrained(names)}",
            "floating-point initializers that an output depends on",
            "parameters have more than one element; wrt=[…] names other initializers",
        )
    state = _State(derived)
    _keep_statistics(state)
    for name in gradients:
        state.feed(name)
    _update(state, rule, chosen, gradients)
    dropped = {gradient_name(loss, name) for name in names}
    derived.graph.outputs[:] = [v for v in derived.graph.outputs if v.name not in dropped]
    return TrainingStep(Network(derived.model, name=f"training step of {network.name}"), state.following, state.initial)


def _untrained(names: Sequence[str]) -> str:
    return f"no output depends on {', '.join(names)}" if names else "no parameters"


def _chosen(optimizer: str, rule: _Rule, settings: Mapping[str, Any]) -> dict[str, float]:
    """All settings of an optimizer, each within its range."""
    for name, value in settings.items():
        if name not in rule.settings:
            raise InvalidArgument(f"{optimizer} with {name!r}", f"some of {', '.join(rule.settings) or '(no settings)'}")
        expected, fits = _RANGES[name]
        if isinstance(value, bool) or not isinstance(value, Real) or not fits(value):
            raise InvalidArgument(f"{optimizer} with {name}={value!r}", expected)
    return {**rule.settings, **{name: float(value) for name, value in settings.items()}}


_BETA: tuple[str, Callable[[Any], bool]] = ("a number of at least 0 and below 1", lambda value: 0 <= value < 1)
_RANGES: Mapping[str, tuple[str, Callable[[Any], bool]]] = MappingProxyType(
    {
        "beta1": _BETA,
        "beta2": _BETA,
        "epsilon": ("a finite number of at least 0", lambda value: 0 <= value < inf),
        "momentum": ("a number from 0 to 1", lambda value: 0 <= value <= 1),
    }
)


def _value_names(network: Network) -> set[str]:
    """The names of all values, those in subgraphs included."""
    graphs = [network.graph, *network.graph.subgraphs()]
    given = {str(v.name) for graph in graphs for v in (*graph.inputs, *graph.initializers.values())}
    return given | {str(v.name) for node in network.all_nodes() for v in node.outputs}


class _State:
    """The inputs that a step hands on to the next one."""

    def __init__(self, network: Network) -> None:
        self.network, self.graph = network, network.graph
        self.names = Names(network)
        self.tape = Tape(self.graph, self.names, Knowledge(network), "update")
        self.following: dict[str, str] = {}
        self.initial: dict[str, np.ndarray] = {}

    def feed(self, name: str) -> Symbol:
        """Turn an initializer into an input."""
        value = self.graph.initializers.pop(name)
        assert value.const_value is not None
        self.initial[name] = value.const_value.numpy()
        value.const_value = None
        return self._fed(value)

    def add(self, name: str, array: np.ndarray) -> Symbol:
        """A new input."""
        name = self.names.fresh(name)
        dtype = ir.DataType.from_numpy(array.dtype)
        value = ir.Value(name=name, type=ir.TensorType(dtype), shape=ir.Shape(array.shape))
        self.initial[name] = array
        self.tape.knowledge.state(value, ir.to_proto(value).type)
        return self._fed(value)

    def _fed(self, value: ir.Value) -> Symbol:
        if value not in self.graph.inputs:
            self.graph.inputs.append(value)
        return Symbol(self.tape, value)

    def follow(self, before: Symbol, after: Symbol) -> None:
        """Return ``after``, which takes the place of ``before`` in the next step."""
        name = str(before.value.name)
        output = self.tape.Identity(after).value
        output.name = self.names.fresh(f"{name}.next")
        output.type, output.shape = before.value.type, before.value.shape
        self.graph.outputs.append(output)
        self.following[name] = output.name


def _keep_statistics(state: _State) -> None:
    """The running statistics that a BatchNormalization in training mode updates."""
    for node in tuple(state.graph):
        mode = node.attributes.get("training_mode")
        if node.op_type != "BatchNormalization" or mode is None or not mode.as_int():
            continue
        for index, value in enumerate(node.inputs[3:5]):
            if value is not None and str(value.name) in state.graph.initializers and index + 1 < len(node.outputs):
                state.follow(state.feed(str(value.name)), Symbol(state.tape, node.outputs[index + 1]))


@dataclass(frozen=True)
class _Rule:
    """An optimizer: the state of each parameter, and its update.

    Args:
        state: Names of what is kept for each parameter, zeros at first.
        settings: Name to default.
        update: From the parameter, its gradient, the rate, the number of this step (from 1), the settings and the state
            to the new parameter and the new state.
        counts: Whether it takes the number of the step.
    """

    state: tuple[str, ...]
    settings: Mapping[str, float]
    update: Callable[..., tuple[Symbol, ...]]
    counts: bool = False


def _rule(optimizer: str) -> _Rule:
    if optimizer not in OPTIMIZERS:
        raise InvalidArgument(f"optimizer {optimizer!r}", f"one of {', '.join(OPTIMIZERS)}")
    return OPTIMIZERS[optimizer]


def _update(state: _State, rule: _Rule, settings: Mapping[str, float], gradients: Mapping[str, str]) -> None:
    values = {str(v.name): v for v in (*state.graph.inputs, *(v for node in state.graph for v in node.outputs))}
    rate = Symbol(state.tape, ir.Value(name=RATE, type=ir.TensorType(ir.DataType.FLOAT), shape=ir.Shape([])))
    state.tape.knowledge.state(rate.value, ir.to_proto(rate.value).type)
    state.graph.inputs.append(rate.value)
    count: Symbol | None = None
    if rule.counts:
        before = state.add(STEPS, np.zeros((), np.int64))
        count = before + 1
        state.follow(before, count)
    for name, gradient in gradients.items():
        w, g = Symbol(state.tape, values[name]), Symbol(state.tape, values[gradient])
        working = max(w.dtype, _WORKING, key=lambda dtype: dtype.itemsize)
        zeros = np.zeros_like(state.initial[name], dtype=working)
        kept = [state.add(f"{name}.{label}", zeros) for label in rule.state]
        results = rule.update(w.cast(working), g.cast(working), rate.cast(working), count, settings, *kept)
        for old, new in zip([w, *kept], results, strict=True):
            state.follow(old, new.cast(old))


def _sgd(w: Symbol, g: Symbol, rate: Symbol, _: Symbol | None, __: Mapping[str, float]) -> tuple[Symbol, ...]:
    return (w - rate * g,)


def _momentum(
    w: Symbol, g: Symbol, rate: Symbol, _: Symbol | None, settings: Mapping[str, float], v: Symbol
) -> tuple[Symbol, ...]:
    v = settings["momentum"] * v + g
    return w - rate * v, v


def _adam(
    w: Symbol, g: Symbol, rate: Symbol, count: Symbol, settings: Mapping[str, float], m: Symbol, s: Symbol
) -> tuple[Symbol, ...]:
    beta1, beta2 = settings["beta1"], settings["beta2"]
    m = beta1 * m + (1 - beta1) * g
    s = beta2 * s + (1 - beta2) * (g * g)
    # In double precision: 1 - 0.999^t loses half of float32's digits in the first steps.
    steps = count.cast(np.float64)
    first, second = ((1 - w.tape.constant(beta, np.float64) ** steps) for beta in (beta1, beta2))
    scaled = rate.cast(np.float64) / first
    root = w.tape.Sqrt(second)
    return w - scaled.cast(w) * m / (w.tape.Sqrt(s) / root.cast(w) + settings["epsilon"]), m, s


OPTIMIZERS: Mapping[str, _Rule] = MappingProxyType(
    {
        "adam": _Rule(("mean", "square"), {"beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8}, _adam, counts=True),
        "momentum": _Rule(("momentum",), {"momentum": 0.9}, _momentum),
        "sgd": _Rule((), {}, _sgd),
    }
)
"""The optimizers of `training_step`."""
