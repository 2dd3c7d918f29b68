"""The same for gradients that a framework finds by its own differentiation: which node's gradient is wrong?

The oracle of gradients is the network that `differentiate` derives. Each node is replayed backward, alone: the framework
differentiates it on the oracle's inputs, with the oracle's gradients of its outputs. End to end, the gradients of the
network's parameters and inputs are compared, in the framework's own run.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx_ir as ir

from deep_bench.check.endtoend import assess_whole
from deep_bench.check.information import nothing_in
from deep_bench.check.isolate import SUFFIX, isolate, replayable
from deep_bench.check.truth import Effort, Truth, narrowed
from deep_bench.errors import DeepBenchError
from deep_bench.framework import Adapter
from deep_bench.graph import Network, operator_name
from deep_bench.graph.knowledge import Knowledge
from deep_bench.network.divergence import NodePrecision, worst_of
from deep_bench.network.divergence_carried import Carried
from deep_bench.network.divergence_information import empty_inputs, first_nan
from deep_bench.network.gradient import gradient_name
from deep_bench.network.problem import Problem, suitable
from deep_bench.network.pullback import Differentiated, pull_back, truth_of_gradients
from deep_bench.tensor import is_float


def backward_nodes(
    problem: Problem, adapter: Adapter[Any], loss: str, effort: Effort, *, cast: bool
) -> tuple[list[NodePrecision], list[str], bool]:
    """What is said of each node's gradient, from the loss back.

    Args:
        problem: The network with its inputs.
        adapter: A framework that differentiates on its own.
        loss: Name of a value of the network with one element.
        effort: As for `diverge`.
        cast: Whether gradients are brought to the element type of what they are of.

    Returns:
        The nodes; where NaN came from, and what is empty; and whether Ctrl-C ended it: nodes after that are *not replayed*.
    """
    network = problem.network.upgraded()
    inputs = problem.inputs.arrays
    inner = _float_values(network)
    wrt = [name for name in inner if not network.graph.initializers.get(name) or name in network.parameters]
    with suitable(problem.source.name):
        truth = truth_of_gradients(network, loss, wrt, inputs, effort)
    carried = _carried(Differentiated(adapter, network, loss, _leaves(network), inputs, cast), truth)
    replayable_ids = set(map(id, replayable(network, truth.values)))
    nodes = [node for node in reversed(network.nodes) if node.op_type != "Constant"]
    precisions: list[NodePrecision] = []
    try:
        for node in nodes:
            replayed = id(node) in replayable_ids
            precisions.append(
                _node(node, network, adapter, truth, loss, carried, cast) if replayed else _left_out(node, carried)
            )
    except KeyboardInterrupt:
        if not precisions:
            raise
    late = [_left_out(node, carried, "interrupted before it was reached") for node in nodes[len(precisions) :]]
    findings = [*empty_inputs(inputs), *first_nan(truth.network.upgraded(), inputs, truth.values)]
    return [*precisions, *late], findings, bool(late)


def _float_values(network: Network) -> list[str]:
    """The floating-point values of the outermost graph that nodes read or write."""
    values = [*network.graph.inputs, *network.graph.initializers.values(), *(v for n in network.nodes for v in n.outputs)]
    knowledge = Knowledge(network)
    names = []
    for value in values:
        dtype = knowledge.dtype(value) if value.name else None
        if dtype is not None and is_float(dtype):
            names.append(str(value.name))
    return names


def _leaves(network: Network) -> list[str]:
    """The floating-point parameters and inputs."""
    fed = {spec.name for spec in network.inputs} | set(network.parameters)
    return [n for n in _float_values(network) if n in fed]


def _carried(subject: Differentiated, truth: Truth) -> dict[str, Carried]:
    """What is said of the gradient of each parameter and input, in the framework's own run."""
    actual = subject.outputs()
    verdicts = {}
    for name in subject.wrt:
        key = gradient_name(subject.loss, name)
        samples = [{key: s[key]} for s in truth.samples]
        whole = assess_whole(truth, {key: actual[key]}, {key: truth.outputs[key]}, samples)
        verdicts[name] = Carried.of(whole, nothing_in([np.asarray(truth.outputs[key])]))
    return verdicts


def _node(
    node: ir.Node,
    network: Network,
    adapter: Adapter[Any],
    truth: Truth,
    loss: str,
    carried: Mapping[str, Carried],
    cast: bool,
) -> NodePrecision:
    """One node's gradient, alone."""
    name, operator = str(node.name), operator_name(node)
    unknown = ("not replayed", float("nan"), "")
    node_carried = _own(node, carried)
    gradients = {
        str(v.name): narrowed(np.asarray(truth.outputs[key]), truth.formats.get(str(v.name)))
        for v in node.outputs
        if (key := gradient_name(loss, str(v.name))) in truth.outputs
    }
    if not any(np.any(g) for g in gradients.values()):
        return NodePrecision(name, operator, *unknown, "the loss does not depend on it", node_carried)
    try:
        alone = isolate(network, [node], truth.values)
        posed = pull_back(alone.network, alone.inputs, gradients)
        if not posed.wrt:
            return NodePrecision(
                name, operator, *unknown, "it has no floating-point input to differentiate by", node_carried
            )
        node_truth = posed.truth()
    except DeepBenchError as error:
        return NodePrecision(name, operator, *unknown, f"its gradient has no oracle alone: {error.came}", node_carried)
    try:
        whole = posed.judged(node_truth, adapter, cast=cast)
    except Exception as error:  # a framework may fail in any way on a node alone
        reason = f"its gradient does not run alone: {next(iter(str(error).splitlines()), type(error).__name__)[:300]}"
        return NodePrecision(name, operator, *unknown, reason, node_carried)
    nothing = nothing_in(np.asarray(y) for y in node_truth.outputs.values())
    if nothing and whole.word == "right":
        return NodePrecision(
            name, operator, "no information", float("nan"), "", f"what it should give is {nothing}", node_carried
        )
    return NodePrecision(
        name, operator, whole.word, whole.bits, whole.outputs[0].format, whole.reason.replace(SUFFIX, ""), node_carried
    )


def _left_out(
    node: ir.Node,
    carried: Mapping[str, Carried],
    reason: str = "it holds subgraphs, draws random numbers, or has inputs or outputs that are no tensors",
) -> NodePrecision:
    return NodePrecision(str(node.name), operator_name(node), "not replayed", float("nan"), "", reason, _own(node, carried))


def _own(node: ir.Node, carried: Mapping[str, Carried]) -> Carried:
    """What is said of the gradients of the parameters and network inputs that a node reads, the worst of them."""
    verdicts = [carried[str(v.name)] for v in node.inputs if v is not None and v.name in carried]
    return worst_of(verdicts) or Carried("not compared", reason="it reads no parameter, and no input of the network")
