"""Networks with a loss whose gradient with respect to their outputs is whatever is wanted."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
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
from deep_bench.network.adapter_process import failing
from deep_bench.network.gradient import differentiate, gradient_name
from deep_bench.tensor import as_float, is_float

LOSS = "weighted sum"
"""The name of the loss."""

_WEIGHT = "gradient of "


@dataclass(frozen=True, slots=True, eq=False)
class Pullback:
    r"""A network with a loss that is differentiated.

    `pull_back` makes one of the loss :math:`\sum_k \langle y_k, g_k \rangle` of a network's outputs :math:`y_k`, with the
    :math:`g_k` as further inputs.

    Args:
        network: The network, with the loss among its values.
        inputs: Name to array.
        wrt: What to differentiate with respect to: names of inputs and parameters.
        loss: The name of the loss.
    """

    network: Network
    inputs: Mapping[str, np.ndarray]
    wrt: Sequence[str]
    loss: str = LOSS

    def truth(self, effort: Effort = "quick") -> Truth:
        """What is known of the gradients, which are the outputs of the network that `differentiate` derives.

        Inside recurrent layers frameworks take the slopes of saturating functions from rounded values, which loses bits of
        the gradient where these are nearly 1. The oracle loses none, and the evaluations with rounding errors do as
        frameworks do.
        """
        names = [gradient_name(self.loss, name) for name in self.wrt]

        def established(**form: bool) -> Truth:
            derived = differentiate(self.network.without_kernels(), self.loss, self.wrt, **form)
            return establish(derived.with_outputs(names), self.inputs, effort)

        exact = established()
        if not any(node.op_type in _RECURRENT for node in self.network.all_nodes()):
            return exact
        return dataclasses.replace(established(rounded_slopes=True), outputs=exact.outputs)

    def gradients(self, adapter: Adapter[Any], *, cast: bool = False) -> dict[str, np.ndarray]:
        """The gradients by a framework's own differentiation, computed anew, under the names that `differentiate` gives.

        Args:
            adapter: The framework.
            cast: Whether they are brought to the element type of what they are of.

        Raises:
            WorkerError: The framework cannot run or differentiate the network on these inputs.
        """
        with failing(adapter.name):
            executor = adapter.prepare(self.network, mode="train")
            native = {name: adapter.from_numpy(array) for name, array in self.inputs.items()}
            with np.errstate(all="ignore"):
                _, gradients = executor.gradients(native, self.loss, wrt=list(self.wrt))
            adapter.synchronize()
            arrays = {name: np.array(adapter.to_numpy(array)) for name, array in gradients.items()}
        if cast:
            values = {**self.inputs, **self.network.initializers}
            arrays = {name: as_float(array, values[name].dtype) for name, array in arrays.items()}
        return {gradient_name(self.loss, name): array for name, array in arrays.items()}

    def judged(self, truth: Truth, adapter: Adapter[Any], *, cast: bool = False) -> EndToEnd:
        """What is said of a framework's gradients; where they are off, float64 may show that it is rounding."""
        return self.assessed(
            truth,
            lambda: self.gradients(adapter, cast=cast),
            lambda: self.in_float64().gradients(adapter, cast=cast),
        )

    def assessed(
        self,
        truth: Truth,
        gradients: Callable[[], Mapping[str, np.ndarray]],
        precisely: Callable[[], Mapping[str, np.ndarray]],
    ) -> EndToEnd:
        """What is said of anyone's gradients.

        Args:
            truth: From `truth`.
            gradients: Gives them, computed anew.
            precisely: Gives them in float64.
        """
        whole = assess_whole(truth, gradients(), truth.outputs, truth.samples)
        return whole if whole.clear else self.settled(truth, whole, gradients, precisely)

    def settled(
        self,
        truth: Truth,
        whole: EndToEnd,
        gradients: Callable[[], Mapping[str, np.ndarray]],
        precisely: Callable[[], Mapping[str, np.ndarray]],
    ) -> EndToEnd:
        """What is said of gradients that are off, as in `assessed`, by what float64 shows."""
        return settle_whole(truth, whole, gradients, precisely, precise_oracle=self.oracle_in_float64)

    def in_float64(self) -> Pullback:
        """The same in float64."""
        network, inputs = in_float64(self.network, self.inputs)
        return dataclasses.replace(self, network=network, inputs=inputs)

    def oracle_in_float64(self) -> dict[str, Any]:
        """The gradients that are derived from the network in float64, all of whose constants are exact to that."""
        network, inputs = in_float64(self.network.without_kernels(), self.inputs)
        names = [gradient_name(self.loss, name) for name in self.wrt]
        derived = differentiate(network, self.loss, self.wrt).with_outputs(names)
        gradients: dict[str, Any] = frameworks["reference"]().prepare(derived)(inputs)
        return gradients


_RECURRENT = frozenset({"RNN", "GRU", "LSTM"})


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
