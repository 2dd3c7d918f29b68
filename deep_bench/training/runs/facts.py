"""What a record says of the network and the data of a run."""

from __future__ import annotations

from typing import Any

from pydantic import JsonValue

from deep_bench.graph import Network
from deep_bench.measure.record import NetworkFacts, Tensor
from deep_bench.tensor import TensorSpec
from deep_bench.training.sets.description import facts


def network_facts(network: Network) -> NetworkFacts:
    """Which network it is, with the parameters that training began with.

    Example:
        >>> import deep_bench as db
        >>> network_facts(db.load("digits-cnn")).parameters
        38666
    """
    return NetworkFacts(
        name=network.name,
        sha256=network.sha256,
        opset=dict(network.opsets),
        inputs=[_tensor(spec) for spec in network.inputs],
        outputs=[_tensor(spec) for spec in network.outputs],
        nodes=sum(1 for _ in network.all_nodes()),
        parameters=sum(array.size for array in network.parameters.values()),
    )


def data_facts(trainer: Any) -> dict[str, dict[str, JsonValue]]:
    """Which data a trainer has, as far as they tell; their contents are not read.

    Args:
        trainer: The `Trainer`.
    """
    by_part: dict[str, dict[str, JsonValue]] = {}
    if (dataset := getattr(trainer.loader, "dataset", None)) is not None:
        by_part["train"] = facts(dataset, contents=False)
    if trainer.evaluation is not None:
        by_part["held out"] = facts(trainer.evaluation.dataset, contents=False)
    sampler: Any = getattr(trainer.loader, "sampler", None)
    if hasattr(sampler, "facts"):
        by_part["sampler"] = sampler.facts()
    return by_part


def _tensor(spec: TensorSpec) -> Tensor:
    return Tensor(name=spec.name, shape=list(spec.shape), dtype="string" if spec.dtype == object else spec.dtype.name)
