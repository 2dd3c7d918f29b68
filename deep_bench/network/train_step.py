"""A whole training step, forward, backward and update, as one plain ONNX graph.

``Tracer`` has the functions of arrays that write ONNX nodes, so that an update rule becomes a graph; ``StepDraft`` is a
graph that is becoming a training step, with inputs that are handed on from one step to the next.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, fields
from typing import Any, Protocol

import numpy as np
import onnx_ir as ir

from deep_bench import optimizers
from deep_bench.arrays import NUMPY, Path, element_type, grown, is_number, leaves
from deep_bench.errors import InvalidArgument, Unsupported
from deep_bench.framework import names_once
from deep_bench.graph import OPSET, Network, NetworkLike, as_network
from deep_bench.graph.edit import Names
from deep_bench.graph.shapes import Knowledge
from deep_bench.network.gradient import differentiate, gradient_name
from deep_bench.network.gradient.tape import Symbol, Tape


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
    network: NetworkLike,
    loss: str = "loss",
    *,
    optimizer: str | UpdateRule = "sgd",
    wrt: Sequence[str] | None = None,
    **settings: Any,
) -> TrainingStep:
    r"""One step of training as a network of plain ONNX operators, which any runtime can run.

    The optimizer's update is traced: any rule written with `deep_bench.arrays.ArrayFunctions` becomes ONNX nodes, a schedule
    of its learning rate included. For an optimizer that is named, the learning rate is an input, ``learning_rate``, unless
    ``lr`` is among the settings; one that was made has it as an input with ``lr=db.network.fed``. The running mean and
    variance of each BatchNormalization in training mode are part of the state.

    Parameters of less than 32 bits (float16, bfloat16) are updated in float32, and only their new value is rounded: in
    float16, Adam's :math:`\epsilon` and the squares of most gradients would be 0. The optimizer's state of these is float32.
    Forward and backward run in the network's own types, and the parameter is stored in its own: an update of less than half
    a unit in the last place is lost, and so is a gradient below the format's range.

    Args:
        network: A network with a loss (`Network.with_loss`), or its file.
        loss: Name of the loss.
        optimizer: A name of ``db.optimizers``, or an optimizer.
        wrt: Names of the initializers to train; by default the network's parameters. What no output depends on is left out.
        **settings: Of an optimizer that is named: ``momentum=0.8``.

    Raises:
        InvalidArgument: An unknown setting, or one out of its range; settings of an optimizer that has its own; one of a
            framework, which cannot be traced; a parameter that is no initializer, or is named twice; nothing to train; or a
            network that has a value called ``learning_rate`` already; or an update that forgets a parameter or a part of the
            state, or changes a parameter's element type.
        UnknownName: An unknown optimizer.
        UnsupportedOperator: A node between the loss and a parameter has no gradient.
    """
    network, rule = as_network(network), _rule_of(optimizer, settings)
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
            "a single number that is no layer's weight or bias is none; wrt=[…] names other initializers",
        )
    draft = StepDraft(derived)
    _keep_statistics(draft)
    values = {str(v.name): v for node in derived.graph for v in node.outputs}
    slopes = {name: Symbol(draft.tape, values[gradient]) for name, gradient in gradients.items()}
    draft.trace(rule, {name: draft.feed(name) for name in gradients}, slopes)
    dropped = {gradient_name(loss, name) for name in names}
    derived.graph.outputs[:] = [v for v in derived.graph.outputs if v.name not in dropped]
    return TrainingStep(Network(derived.model, name=f"training step of {network.name}"), draft.following, draft.initial)


def traced_update(optimizer: UpdateRule, parameters: Mapping[str, np.ndarray]) -> TrainingStep:
    """An optimizer's update alone, from gradients that are fed.

    Args:
        optimizer: The rule.
        parameters: Name to first value.

    Returns:
        A step whose network has an input ``gradient of …`` for each parameter.

    Example:
        >>> import numpy as np, deep_bench as db
        >>> step = traced_update(db.optimizers["sgd"](lr=0.5), {"w": np.ones(2, np.float32)})
        >>> run = db.frameworks["reference"]().prepare(step.network)
        >>> step.next(run({**step.initial, "gradient of w": np.float32([1, -1])}))
        {'w': array([0.5, 1.5], dtype=float32)}
    """
    draft = update_draft(optimizer, parameters)
    return TrainingStep(draft.network, draft.following, draft.initial)


def update_draft(optimizer: UpdateRule, parameters: Mapping[str, np.ndarray]) -> StepDraft:
    """The same, with the place of each input in the optimizer's state."""
    graph = ir.Graph([], [], nodes=[], opset_imports={"": OPSET}, name="update")
    draft = StepDraft(Network(ir.Model(graph, ir_version=10)))
    held = {name: draft.add(name, np.asarray(array)) for name, array in parameters.items()}
    gradients = {
        name: draft.free(f"gradient of {name}", np.asarray(array).dtype, np.shape(array))
        for name, array in parameters.items()
    }
    draft.trace(optimizer, held, gradients)
    return draft


def _rule_of(optimizer: str | UpdateRule, settings: Mapping[str, Any]) -> UpdateRule:
    """The optimizer that is meant."""
    if not isinstance(optimizer, str):
        if settings:
            came = f"settings {', '.join(settings)} of an optimizer that has its own"
            raise InvalidArgument(came, "settings of one that is named", "dataclasses.replace(optimizer, …)")
        rule = optimizer
    else:
        kind = optimizers[optimizer]
        setting_names = [field.name for field in fields(kind)]
        if unknown := [name for name in settings if name not in setting_names]:
            raise InvalidArgument(
                f"{optimizer} with {unknown[0]!r}", f"some of {', '.join(setting_names) or '(no settings)'}"
            )
        rule = kind(**{**({"lr": fed} if "lr" in setting_names else {}), **settings})
    if (home := getattr(rule, "framework", None)) is not None:
        raise InvalidArgument(
            f"an optimizer of {home}, whose update is native code", "one that is traced", "db.optimizers without a prefix"
        )
    return rule


def _untrained(names: Sequence[str]) -> str:
    return f"no output depends on {', '.join(names)}" if names else "no parameters"


def _value_names(network: Network) -> set[str]:
    """The names of all values, those in subgraphs included."""
    graphs = [network.graph, *network.graph.subgraphs()]
    names = {str(v.name) for graph in graphs for v in (*graph.inputs, *graph.initializers.values())}
    return names | {str(v.name) for node in network.all_nodes() for v in node.outputs}


def _keep_statistics(draft: StepDraft) -> None:
    """The running statistics that a BatchNormalization in training mode updates."""
    for node in tuple(draft.graph):
        mode = node.attributes.get("training_mode")
        if node.op_type != "BatchNormalization" or mode is None or not mode.as_int():
            continue
        for index, value in enumerate(node.inputs[3:5]):
            if value is not None and str(value.name) in draft.graph.initializers and index + 1 < len(node.outputs):
                draft.follow(draft.feed(str(value.name)), Symbol(draft.tape, node.outputs[index + 1]))


_WORKING = np.dtype(np.float32)
"""What narrower parameters are updated in."""


class StepDraft:
    """A graph with its nodes so far, and what its inputs are at first and afterwards.

    Args:
        network: What is there already; its graph is changed.

    Attributes:
        following, initial: As in `deep_bench.network.TrainingStep`.
        state: The input of each leaf of the optimizer's state, once there is one.
    """

    def __init__(self, network: Network) -> None:
        self.network, self.graph = network, network.graph
        self.names = Names(network)
        self.tape = Tape(self.graph, self.names, Knowledge(network), "update")
        self.following: dict[str, str] = {}
        self.initial: dict[str, np.ndarray] = {}
        self.state: dict[Path, str] = {}
        self._free: dict[str, Symbol] = {}

    def feed(self, name: str) -> Symbol:
        """Turn an initializer into an input."""
        value = self.graph.initializers.pop(name)
        assert value.const_value is not None
        self.initial[name] = value.const_value.numpy()
        value.const_value = None
        return self._fed(value)

    def add(self, name: str, array: np.ndarray) -> Symbol:
        """A new input that is handed on."""
        name = self.names.fresh(name)
        self.initial[name] = array
        return self.free(name, array.dtype, array.shape)

    def free(self, name: str, dtype: np.dtype, shape: tuple[int, ...] = ()) -> Symbol:
        """A new input that the caller feeds in every step; the same one for the same name."""
        if name not in self._free:
            kind = ir.TensorType(ir.DataType.from_numpy(np.dtype(dtype)))
            value = ir.Value(name=name, type=kind, shape=ir.Shape(shape))
            self.tape.knowledge.state(value, ir.to_proto(value).type)
            self._free[name] = self._fed(value)
        return self._free[name]

    def _fed(self, value: ir.Value) -> Symbol:
        if value not in self.graph.inputs:
            self.graph.inputs.append(value)
        return Symbol(self.tape, value)

    def follow(self, before: Symbol, after: Symbol) -> None:
        """Return ``after``, which takes the place of ``before`` in the next step."""
        name = str(before.value.name)
        output = self.tape.Identity(after.cast(before)).value
        output.name = self.names.fresh(f"{name}.next")
        output.type, output.shape = before.value.type, before.value.shape
        self.graph.outputs.append(output)
        self.following[name] = output.name

    def trace(self, rule: UpdateRule, parameters: Mapping[str, Symbol], gradients: Mapping[str, Symbol]) -> None:
        """Write an optimizer's update of parameters that are inputs.

        Parameters of less than 32 bits are updated in float32.

        Raises:
            InvalidArgument: The rule forgets a parameter or a part of its state, or gives a parameter another element type.
        """
        xp = Tracer(self.tape, lambda name: self.free(name, _WORKING))
        start = rule.init({name: _wide(self.initial[name]) for name in parameters}, NUMPY)
        held = {path: self.add(_named(path, parameters), leaf) for path, leaf in leaves(start).items()}
        state = grown(held) if held else {}
        points = evaluation_point(rule, parameters, state)
        for name, w in parameters.items():
            if points[name] is not w:
                # let what is there already take another value than the parameter itself
                point = points[name]
                point = point.cast(w)
                written = set(self.tape.written)
                for use in tuple(w.value.uses()):
                    if use.node not in written:
                        use.node.replace_input_with(use.idx, point.value)
                self.graph.sort()
        wide = {name: _widened(w) for name, w in parameters.items()}
        new, after = updated(rule, {n: gradients[n].cast(wide[n]) for n in wide}, _like(start, state), wide, xp)
        check_types(rule, wide, new, xp)
        new_leaves = leaves(after)
        check_state(rule, list(held), new_leaves)
        for path in [path for path, before in held.items() if _counts_for_nothing(before, new_leaves[path])]:
            self._drop(held.pop(path), new_leaves[path])
        for name, w in parameters.items():
            self.follow(w, new[name])
        for path, before in held.items():
            self.follow(before, xp.array(new_leaves[path]))
        self.state = {path: str(before.value.name) for path, before in held.items()}

    def _drop(self, before: Symbol, after: Symbol) -> None:
        """Do without a count."""
        counting = after.value.producer()
        assert counting is not None
        self.graph.remove(counting, safe=True)
        self.graph.inputs.remove(before.value)
        del self.initial[str(before.value.name)]


def _counts_for_nothing(before: Symbol, after: Symbol) -> bool:
    """Whether all that becomes of a number of steps is the next one."""
    users = {use.node for use in before.value.uses()}
    return before.dtype == np.int64 and users == {after.value.producer()} and not after.value.uses()


def _like(start: Mapping[str, Any], state: Mapping[str, Any]) -> dict[str, Any]:
    """The state with the branches that have no leaves."""
    return {k: _like(v, state.get(k, {})) if isinstance(v, Mapping) else state[k] for k, v in start.items()}


def working_type(dtype: np.dtype) -> np.dtype:
    """What parameters of an element type are updated in: float32 at least.

    Example:
        >>> working_type(np.dtype("float16")), working_type(np.dtype("float64"))
        (dtype('float32'), dtype('float64'))
    """
    return max(dtype, _WORKING, key=lambda candidate: candidate.itemsize)


def _wide(array: np.ndarray) -> np.ndarray:
    return array.astype(working_type(array.dtype), copy=False)


def _widened(w: Symbol) -> Symbol:
    return w.cast(working_type(w.dtype))


def _named(path: Path, parameters: Mapping[str, Any]) -> str:
    """The input of a leaf: what belongs to a parameter starts with its name."""
    *before, last = path
    return ".".join([last, *before] if last in parameters else path)


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


class UpdateRule(Protocol):
    """What is asked of an optimizer; see `deep_bench.training.Optimizer`."""

    def init(self, parameters: Mapping[str, Any], xp: Any) -> Any:
        """The state before the first step."""

    def prepare(self, parameters: Mapping[str, Any], state: Any) -> dict[str, Any]:
        """Where gradients are evaluated."""

    def update(
        self, gradients: Mapping[str, Any], state: Any, parameters: Mapping[str, Any], xp: Any, *, evaluate: Any = None
    ) -> tuple[dict[str, Any], Any]:
        """The parameters and the state after a step."""


def evaluation_point(rule: UpdateRule, parameters: Mapping[str, Any], state: Any) -> Mapping[str, Any]:
    """Where an optimizer wants the gradients of the next step.

    Raises:
        InvalidArgument: It does not say so of each parameter.
    """
    points = rule.prepare(dict(parameters), state)
    _check_names(rule, "prepare", points, parameters)
    return points


def updated(
    rule: UpdateRule,
    gradients: Mapping[str, Any],
    state: Any,
    parameters: Mapping[str, Any],
    xp: Any,
    *,
    evaluate: Any = None,
    **further: Any,
) -> tuple[dict[str, Any], Any]:
    """What an optimizer makes of parameters.

    Args:
        rule: The optimizer.
        gradients, state, parameters, xp, evaluate: As in `deep_bench.training.Optimizer.update`.
        **further: What it takes besides.

    Raises:
        InvalidArgument: It returned no pair, forgot a parameter, or made up one.

    Example:
        >>> import numpy as np, deep_bench as db
        >>> from deep_bench.arrays import NUMPY
        >>> sgd, w = db.optimizers["sgd"](lr=0.5), {"w": np.ones(2)}
        >>> updated(sgd, {"w": np.array([1.0, -1.0])}, sgd.init(w, NUMPY), w, NUMPY)[0]
        {'w': array([0.5, 1.5])}
    """
    result = rule.update(gradients, state, dict(parameters), xp, evaluate=evaluate, **further)
    if not isinstance(result, tuple) or len(result) != 2 or not isinstance(result[1], Mapping):
        came = f"update of {type(rule).__name__} returned {_kinds(result)}"
        raise InvalidArgument(came, "a pair of dicts: the new parameters by name, and the new state")
    _check_names(rule, "update", result[0], parameters)
    return result


def check_types(rule: UpdateRule, parameters: Mapping[str, Any], new: Mapping[str, Any], xp: Any) -> None:
    """Whether an optimizer left each parameter its element type.

    Raises:
        InvalidArgument: It did not.
    """
    for name, before in parameters.items():
        came, expected = xp.dtype(new[name]), xp.dtype(before)
        if came != expected:
            raise InvalidArgument(
                f"update of {type(rule).__name__} returned {name!r} as {came}",
                f"{expected}, which it was",
                "bring numbers of another type to the parameter's: xp.cast(x, parameter)",
            )


def check_state(rule: UpdateRule, paths: Collection[tuple[str, ...]], after: Collection[tuple[str, ...]]) -> None:
    """Whether an optimizer's state still has all of its leaves.

    Raises:
        InvalidArgument: One is gone.
    """
    if missing := [path for path in paths if path not in after]:
        raise InvalidArgument(
            f"update of {type(rule).__name__} returned a state without {'/'.join(missing[0])}",
            f"all that it had: {', '.join('/'.join(path) for path in paths)}",
        )


def _kinds(result: Any) -> str:
    if isinstance(result, tuple):
        return f"({', '.join(type(element).__name__ for element in result)})"
    return f"a {type(result).__name__}"


def _check_names(rule: UpdateRule, method: str, result: Any, parameters: Mapping[str, Any]) -> None:
    if not isinstance(result, Mapping):
        came = f"{method} of {type(rule).__name__} returned a {type(result).__name__} for the parameters"
        raise InvalidArgument(came, "a dict: name to array")
    if result.keys() != parameters.keys():
        raise InvalidArgument(
            f"{method} of {type(rule).__name__} returned the parameters {sorted(result)}", f"all of {sorted(parameters)}"
        )
