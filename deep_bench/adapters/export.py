"""What all exports to ONNX share: which constants are no parameters, and the check of what the network computes."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np
import onnx_ir as ir

from deep_bench.check.oracle import establish
from deep_bench.check.special import nothing_to_compare
from deep_bench.errors import DeepBenchError, InvalidNetwork, Unsupported
from deep_bench.graph import Network
from deep_bench.graph.edit import Names
from deep_bench.network.differences import assess_outputs

_ADVICE = "check=False takes the network as it is"


def with_constants(network: Network, names: Collection[str]) -> Network:
    """The network with ``Constant`` nodes in the place of some initializers: what nothing trains is no parameter.

    Args:
        network: What was exported.
        names: Of initializers.
    """
    if not names:
        return network
    changed = network.copy()
    fresh, first = Names(changed), next(iter(changed.graph), None)
    for name in names:
        value = changed.graph.initializers.pop(name)
        assert value.const_value is not None
        attributes = {"value": ir.AttrTensor("value", value.const_value)}
        node = ir.Node("", "Constant", [], attributes, num_outputs=1, name=fresh.fresh(f"{name}.constant"))
        constant = node.outputs[0]
        constant.name, constant.type, constant.shape = name, value.type, value.shape
        value.replace_all_uses_with(constant, replace_graph_outputs=True)
        changed.graph.append(node) if first is None else changed.graph.insert_before(first, node)
    return Network(changed.model, name=network.name)


def check_export(network: Network, inputs: Mapping[str, np.ndarray], outputs: Mapping[str, np.ndarray], whose: str) -> None:
    """Compare the original's outputs with the network's on the reference: a converter that returns success may be wrong.

    Args:
        network: What was exported.
        inputs: Name to array.
        outputs: What the original gives for them.
        whose: The original's name.

    Raises:
        InvalidNetwork: They differ by more than rounding explains.
        Unsupported: The reference cannot run the network, it draws random numbers, or the example tells nothing: what it
            gives is empty or without a finite element.
    """
    try:
        with np.errstate(all="ignore"):
            truth = establish(network, inputs, "quick")
    except DeepBenchError as error:
        raise Unsupported(f"the export of {whose} cannot be checked: {error}", advice=_ADVICE) from error
    if truth.random:
        raise Unsupported(f"the export of {whose} draws random numbers, so that it cannot be checked", advice=_ADVICE)
    if nothing := nothing_to_compare(truth.outputs):
        raise Unsupported(f"the export of {whose} cannot be checked: {nothing}", "an example that says something", _ADVICE)
    verdict = assess_outputs(truth, outputs)
    if verdict.word != "right":
        raise InvalidNetwork(
            f"the network that {whose} was exported to computes something else: {verdict.reason}",
            "differences that rounding explains",
            f"report it to the exporter; {_ADVICE}",
        )
