"""A whole training step, forward, backward and update, as one plain ONNX graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import onnx_ir as ir

from deep_bench import optimizers
from deep_bench.errors import InvalidArgument
from deep_bench.graph import OPSET, Network, NetworkLike, as_network
from deep_bench.network.gradient import differentiate, gradient_name
from deep_bench.network.gradient.symbol import Symbol
from deep_bench.network.step_draft import StepDraft
from deep_bench.network.tracing import RATE, fed
from deep_bench.network.update_rule import UpdateRule
from deep_bench.request import names_once


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
    network, rule = as_network(network), _made(optimizer, settings)
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


def _made(optimizer: str | UpdateRule, settings: Mapping[str, Any]) -> UpdateRule:
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
