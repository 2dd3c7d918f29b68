"""What is known of a network's values: by inference, or from one run of the reference."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir

from deep_bench.errors import DeepBenchError, InvalidNetwork
from deep_bench.events import Moment, NodeEvent
from deep_bench.graph import Network
from deep_bench.graph.network import tensor_spec
from deep_bench.tensor import TensorSpec

_INFERRED_BYTES = 2**30
"""Networks with more than this in constants are too large for the inference, which serialises them."""

_SMALL = 4096
"""Elements of a value that is kept from a run, in case that it sets an operator up."""


class Values:
    """The description and, where they set an operator up, the contents of a network's values.

    Args:
        network: Its input dimensions must be fixed.
        inputs: Gives what the network is fed; called only if a run is needed.

    Attributes:
        failure: Why the run ended before its end, for messages.
    """

    def __init__(self, network: Network, inputs: Callable[[], Mapping[str, np.ndarray]]) -> None:
        self._network = network
        self._inputs = inputs
        self.failure = ""

    def spec(self, value: ir.Value) -> TensorSpec | None:
        """A value's shape and element type; ``None`` if not even a run shows them."""
        inferred = self._inferred.get(str(value.name))
        if inferred is not None and (not inferred.is_tensor or not inferred.open_dimensions):
            return inferred
        return self._run[0].get(str(value.name))

    def contents(self, value: ir.Value) -> np.ndarray | None:
        """A small value's elements, as a run shows them."""
        return self._run[1].get(str(value.name))

    @cached_property
    def _inferred(self) -> dict[str, TensorSpec]:
        specs = {spec.name: spec for spec in self._network.inputs}
        if sum(a.nbytes for a in self._network.initializers.values()) > _INFERRED_BYTES:
            return specs
        try:
            proto = onnx.shape_inference.infer_shapes(self._network.to_proto(), data_prop=True)
        except (onnx.shape_inference.InferenceError, RuntimeError):
            return specs
        for value in ir.from_proto(proto).graph.all_nodes():
            for output in value.outputs:
                if output.name and output.shape is not None:
                    _add(specs, output)
        return specs

    @cached_property
    def _run(self) -> tuple[dict[str, TensorSpec], dict[str, np.ndarray]]:
        """Descriptions and small contents of the outermost graph's values, by name."""
        from deep_bench import frameworks

        specs, contents = dict[str, TensorSpec](), dict[str, np.ndarray]()
        outputs = {str(node.name): [str(v.name) for v in node.outputs] for node in self._network.nodes}

        def note(name: str, value: Any) -> None:
            if name and isinstance(value, np.ndarray | np.generic):
                array = np.asarray(value)
                specs[name] = TensorSpec(name, array.shape, array.dtype)
                if array.size <= _SMALL:
                    contents[name] = array

        def tell(moment: Moment, event: NodeEvent) -> None:
            if moment is Moment.AFTER_NODE and event.node in outputs:
                for name, value in zip(outputs[event.node], event.outputs or (), strict=False):
                    note(name, value)

        inputs = self._inputs()
        for name, array in inputs.items():
            note(name, array)
        try:
            with np.errstate(all="ignore"):
                frameworks["reference"]().prepare(self._network).walk(inputs, tell)
        except DeepBenchError as error:
            self.failure = f", and the reference cannot run the network: {error.came}"
        except Exception as error:  # sizes and contents that nobody stated may make no sense to the network
            self.failure = f", and the network does not run on these inputs: {error}".partition("\n")[0]
        return specs, contents


def _add(specs: dict[str, TensorSpec], value: ir.Value) -> None:
    try:
        specs[str(value.name)] = tensor_spec(value)
    except InvalidNetwork:  # inference does not know its type
        return
