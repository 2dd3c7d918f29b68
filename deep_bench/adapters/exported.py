"""What all exports to ONNX share: the check that the network computes what the original does."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from deep_bench.check.truth import establish
from deep_bench.errors import DeepBenchError, InvalidNetwork, Unsupported
from deep_bench.graph import Network
from deep_bench.network.differences import assess_outputs

_ADVICE = "check=False takes the network as it is"


def check_export(network: Network, inputs: Mapping[str, np.ndarray], outputs: Mapping[str, np.ndarray], whose: str) -> None:
    """Compare the original's outputs with the network's on the reference: a converter that returns success may be wrong.

    Args:
        network: What was exported.
        inputs: Name to array.
        outputs: What the original gives for them.
        whose: The original's name.

    Raises:
        InvalidNetwork: They differ by more than rounding explains.
        Unsupported: The reference cannot run the network, or it draws random numbers.
    """
    try:
        with np.errstate(all="ignore"):
            truth = establish(network, inputs, "quick")
    except DeepBenchError as error:
        raise Unsupported(f"the export of {whose} cannot be checked: {error}", advice=_ADVICE) from error
    if truth.random:
        raise Unsupported(f"the export of {whose} draws random numbers, so that it cannot be checked", advice=_ADVICE)
    found = assess_outputs(truth, outputs)
    if found.word != "right":
        raise InvalidNetwork(
            f"the network that {whose} was exported to computes something else: {found.reason}",
            "differences that rounding explains",
            f"report it to the exporter; {_ADVICE}",
        )
