"""The package onnx-ad as an adapter, so that its gradients can be checked like ours.

    deep-bench conformance --gradients --on onnx_ad_peer:OnnxAd        # in this folder, after pip install onnx-ad

The derivative networks it makes are run on the reference, so that only its rules are judged. It wants axes, sizes and the
like as constants, and some operators in newer versions: so every input that is not differentiated becomes a constant, and
networks are brought to opset 21, as for ours.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from typing import Any

import numpy as np
import onnx
import onnx_ad

import deep_bench as db
from deep_bench.errors import Unsupported
from deep_bench.framework import Adapter, Executor, Forms, Mode

_OPSET = 21
_SEEDS = "nadj"
"""The trailing axis that onnx-ad gives every gradient: one for each direction that is asked for at once."""


class OnnxAd(Adapter[np.ndarray]):
    """onnx-ad's reverse mode on the reference."""

    name = "onnx-ad"

    def prepare(
        self, network: db.Network, *, mode: Mode = "inference", outputs: Sequence[str] | None = None
    ) -> OnnxAdExecutor:
        """Nothing yet: what to differentiate is known when gradients are asked for."""
        del mode
        return OnnxAdExecutor(network if outputs is None else network.with_outputs(outputs), self)

    def describe(self) -> Mapping[str, str]:
        """Its version."""
        return {"version": version("onnx-ad"), "device": "cpu", "threads": "1", "precision": "as the network"}

    def from_numpy(self, array: np.ndarray) -> np.ndarray:
        """The array itself."""
        return array

    def to_numpy(self, array: np.ndarray) -> np.ndarray:
        """The array itself."""
        return array

    def synchronize(self) -> None:
        """Nothing to wait for."""


class OnnxAdExecutor(Executor[np.ndarray]):
    """A network and its adjoint.

    Args:
        network: The network.
        device: The host.
    """

    def __init__(self, network: db.Network, device: OnnxAd) -> None:
        self._reference = db.frameworks["reference"]()
        self._network, self._plain = network, self._reference.prepare(network)
        self.device, self.inputs, self.output_names = device, network.inputs, self._plain.output_names
        self.parameters, self.forms = {}, Forms()

    def forward(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Run the network on the reference."""
        return self._plain.forward(inputs)

    def bind(self, inputs: Mapping[str, np.ndarray]) -> Callable[[], dict[str, np.ndarray]]:
        """A call without arguments."""
        return self._plain.bind(inputs)

    def gradients(
        self,
        inputs: Mapping[str, np.ndarray],
        loss: str,
        *,
        wrt: Sequence[str] | None = None,
        on_ready: Callable[[str, np.ndarray], None] | None = None,
    ) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
        """Run the adjoint with a seed of 1 for the loss."""
        del on_ready
        names = list(wrt or ())
        try:
            proto = _with_constants(self._network, inputs, names)
            adjoint = onnx_ad.reverse(proto, inputs=names, outputs=[loss], layout="onnx", dim=_SEEDS)
        except (onnx_ad.UnsupportedOperator, ValueError) as refusal:  # what it raises on purpose
            raise Unsupported(str(refusal)) from refusal
        prefix = f"{adjoint.graph.output[-1].name.removesuffix(names[-1])}"
        executor = self._reference.prepare(db.Network.from_proto(adjoint))
        (seed,) = [spec for spec in executor.inputs if spec.name not in inputs]
        fed = {spec.name: inputs[spec.name] for spec in executor.inputs if spec is not seed}
        found: dict[str, Any] = executor({**fed, seed.name: np.ones(1, seed.dtype)})
        return found, {name: found[prefix + name][..., 0] for name in names}


def _with_constants(network: db.Network, inputs: Mapping[str, Any], free: Sequence[str]) -> onnx.ModelProto:
    """The network in opset 21 or newer, with all inputs but some turned into constants."""
    proto = network.upgraded(max(_OPSET, network.opset)).to_proto()
    kept = [v for v in proto.graph.input if v.name in free or not isinstance(inputs.get(v.name), np.ndarray | np.generic)]
    for value in proto.graph.input:
        if value not in kept:
            proto.graph.initializer.append(onnx.numpy_helper.from_array(np.asarray(inputs[value.name]), value.name))
    del proto.graph.input[:]
    proto.graph.input.extend(kept)
    return proto
