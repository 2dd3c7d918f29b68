"""Networks with a loss whose gradient with respect to their outputs is whatever is wanted."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir

from deep_bench import frameworks
from deep_bench.check.judge import EndToEnd, assess_whole, settle_whole
from deep_bench.check.oracle import Effort, Truth, establish
from deep_bench.check.subject import in_float64
from deep_bench.framework import Adapter
from deep_bench.graph import Network
from deep_bench.network.gradient import differentiate, gradient_name
from deep_bench.network.suspect import as_float, failing
from deep_bench.tensor import is_float

LOSS = "weighted sum"
"""The name of the loss."""

_WEIGHT = "gradient of "


@dataclass(frozen=True, slots=True, eq=False)
class Pullback:
    r"""A network with the loss :math:`\sum_k \langle y_k, g_k \rangle` of its outputs :math:`y_k`.

    Args:
        network: The network with the loss as a further output, and the :math:`g_k` as further inputs.
        inputs: Name to array of all of them.
        wrt: Names of the floating-point inputs and parameters.
    """

    network: Network
    inputs: Mapping[str, np.ndarray]
    wrt: Sequence[str]

    def truth(self, effort: Effort = "quick") -> Truth:
        """What is known of the gradients, which are the outputs of the network that `differentiate` derives."""
        return truth_of_gradients(self.network, LOSS, self.wrt, self.inputs, effort)

    def judged(self, truth: Truth, adapter: Adapter[Any], *, cast: bool = False) -> EndToEnd:
        """What is said of a framework's gradients; where they are off, float64 may show that it is rounding."""
        subject = self.subject(adapter, cast=cast)
        return judge_gradients(truth, subject)

    def subject(self, adapter: Adapter[Any], *, cast: bool = False) -> GradientSubject:
        """A framework that differentiates the network on its own."""
        return GradientSubject(adapter, self.network, LOSS, self.wrt, self.inputs, cast)


_RECURRENT = frozenset({"RNN", "GRU", "LSTM"})


def truth_of_gradients(
    network: Network, loss: str, wrt: Sequence[str], inputs: Mapping[str, np.ndarray], effort: Effort = "quick"
) -> Truth:
    """What is known of gradients that a framework finds by its own differentiation.

    Inside recurrent layers frameworks take the slopes of saturating functions from rounded values, which loses bits of the
    gradient where these are nearly 1. The oracle loses none, and the evaluations with rounding errors do as frameworks do.

    Args:
        network: With the loss among its values.
        loss: Name of the loss.
        wrt: What to differentiate with respect to.
        inputs: Name to array.
        effort: As for `deep_bench.check.establish`.
    """
    names = [gradient_name(loss, name) for name in wrt]

    def established(**form: bool) -> Truth:
        return establish(differentiate(network.without_kernels(), loss, wrt, **form).with_outputs(names), inputs, effort)

    exact = established()
    if not any(node.op_type in _RECURRENT for node in network.all_nodes()):
        return exact
    return dataclasses.replace(established(rounded_slopes=True), outputs=exact.outputs)


def pull_back(network: Network, inputs: Mapping[str, np.ndarray], gradients: Mapping[str, np.ndarray]) -> Pullback:
    """A network with a loss that has these gradients with respect to its outputs.

    Args:
        network: No open dimensions.
        inputs: What it is fed.
        gradients: Name of a floating-point output to the gradient of the loss with respect to it; at least one.
    """
    changed = network.copy()
    graph = changed.graph
    feeds = dict(inputs)
    terms: list[ir.Value] = []
    for value in [v for v in graph.outputs if v.name in gradients]:
        weight = ir.Value(name=f"{_WEIGHT}{value.name}", type=value.type, shape=ir.Shape(gradients[str(value.name)].shape))
        graph.inputs.append(weight)
        feeds[str(weight.name)] = gradients[str(value.name)]
        product = _append(graph, "Mul", [value, weight])
        terms.append(_append(graph, "ReduceSum", [product], [ir.AttrInt64("keepdims", 0)]))
    total = terms[0]
    for term in terms[1:]:
        total = _append(graph, "Add", [total, term])
    declared = next(v.type for v in graph.outputs if v.name in gradients)
    total.name, total.type, total.shape = LOSS, declared, ir.Shape([])
    graph.outputs.append(total)
    posed = Network(changed.model, name=network.name)
    wrt = [s.name for s in posed.inputs if is_float(s.dtype) and not s.name.startswith(_WEIGHT)]
    return Pullback(posed, feeds, [*wrt, *posed.parameters])


def _append(graph: ir.Graph, operator: str, inputs: list[ir.Value], attributes: Sequence[ir.Attr] = ()) -> ir.Value:
    node = ir.Node("", operator, inputs, attributes, num_outputs=1)
    graph.append(node)
    value: ir.Value = node.outputs[0]
    return value


def judge_gradients(truth: Truth, subject: GradientSubject) -> EndToEnd:
    """What is said of a framework's gradients; where they are off, float64 may show that it is rounding.

    Args:
        truth: From `truth_of_gradients`, of the same loss and parameters.
        subject: The framework.
    """
    whole = assess_whole(truth, subject.outputs(), truth.outputs, truth.samples)
    if whole.clear:
        return whole
    return settle_whole(truth, subject, whole, besides="", precise_oracle=subject.oracle_in_float64)


@dataclass(frozen=True, slots=True, eq=False)
class GradientSubject:
    """A `deep_bench.check.Subject` whose outputs are gradients by the framework's own differentiation.

    Args:
        adapter: The framework.
        network: With the loss among its outputs.
        loss: Its name.
        wrt: What to differentiate with respect to.
        inputs: Name to array.
        cast: Whether gradients are brought to the element type of what they are of.
    """

    adapter: Adapter[Any]
    network: Network
    loss: str
    wrt: Sequence[str]
    inputs: Mapping[str, np.ndarray]
    cast: bool = False
    upgrades: bool = True

    def outputs(self) -> dict[str, np.ndarray]:
        """The gradients, computed anew, under the names that `differentiate` gives them.

        Raises:
            WorkerError: The framework cannot run or differentiate the network on these inputs.
        """
        with failing(self.adapter.name):
            return self._gradients(self.network, self.inputs)

    def run(self, network: Network, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:  # noqa: ARG002 (a Subject)
        """The gradients of the network itself: what is asked for is the one that was derived from it."""
        return self._gradients(self.network, inputs)

    def run_precisely(
        self,
        network: Network,  # noqa: ARG002 (a Subject)
        inputs: Mapping[str, np.ndarray],
    ) -> dict[str, np.ndarray]:
        """The gradients in float64."""
        return self._gradients(*in_float64(self.network, inputs))

    def oracle_in_float64(self) -> dict[str, Any]:
        """The gradients that are derived from the network in float64, all of whose constants are exact to that."""
        network, inputs = in_float64(self.network.without_kernels(), self.inputs)
        names = [gradient_name(self.loss, name) for name in self.wrt]
        derived = differentiate(network, self.loss, self.wrt).with_outputs(names)
        gradients: dict[str, Any] = frameworks["reference"]().prepare(derived)(inputs)
        return gradients

    def _gradients(self, network: Network, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        adapter = self.adapter
        executor = adapter.prepare(network, mode="train")
        native = {name: adapter.from_numpy(array) for name, array in inputs.items()}
        with np.errstate(all="ignore"):
            _, gradients = executor.gradients(native, self.loss, wrt=list(self.wrt))
        adapter.synchronize()
        arrays = {name: np.array(adapter.to_numpy(array)) for name, array in gradients.items()}
        if self.cast:
            of = {**inputs, **network.initializers}
            arrays = {name: as_float(array, of[name].dtype) for name, array in arrays.items()}
        return {gradient_name(self.loss, name): array for name, array in arrays.items()}
