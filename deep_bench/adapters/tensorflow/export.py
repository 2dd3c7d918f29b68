"""``export``: a Keras model as a network."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np
import onnx
import onnx_ir as ir
import tensorflow as tf

from deep_bench.adapters.export import check_export, with_constants
from deep_bench.adapters.tensorflow.tracing import signature
from deep_bench.adapters.tensorflow.wrap import WrappedModel, structure_of, wrap
from deep_bench.errors import InvalidArgument, InvalidInput, Unsupported
from deep_bench.graph import Network
from deep_bench.network.problem import make_problem


def export(
    model: Any,
    example: Any = None,
    *,
    inputs: Sequence[str] | None = None,
    outputs: Sequence[str] | None = None,
    opset: int | None = None,
    name: str | None = None,
    check: bool = True,
) -> Network:
    """Export a Keras model; see `deep_bench.graph.Network.from_keras`."""
    if not getattr(model, "inputs", None):
        raise InvalidArgument(
            f"the model {getattr(model, 'name', type(model).__name__)!r}, which does not state its inputs",
            "a functional or sequential model",
            "build it on its inputs: keras.Model(inputs, model(inputs)) with inputs = keras.Input(shape)",
        )
    executor = wrap(model, inputs, outputs)
    network = _renamed(_converted(model, executor, opset), executor, name or model.name)
    network = with_constants(network, _constants(network, model, executor, opset))
    if check:
        problem = make_problem(network, inputs=example)
        try:
            results = executor(problem.inputs.arrays)
        except tf.errors.OpError as error:
            lines = [line for line in str(error).splitlines() if line and "node" not in line and "File" not in line]
            subject = "drawn inputs" if example is None else "the example"
            raise InvalidInput(
                f"{network.name} cannot run on {subject}: {''.join(lines[-1:])}",
                "inputs of values and sizes that suit the model",
                "give some: from_keras(model, {name: array})",
            ) from error
        check_export(problem.network, problem.inputs.arrays, results, network.name)
    return network


def _converted(model: Any, executor: WrappedModel, opset: int | None) -> onnx.ModelProto:
    """What Keras' own exporter makes of the model."""
    zeros = [
        tf.zeros([d if isinstance(d, int) else 1 for d in spec.shape], signature(spec).dtype) for spec in executor.inputs
    ]
    model(keras.tree.pack_sequence_as(structure_of(model), zeros), training=False)  # it exports no model that never ran
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "model.onnx"
        try:
            with warnings.catch_warnings():  # tf2onnx and Keras' patch of it are written for older releases of NumPy
                warnings.simplefilter("ignore", FutureWarning)
                warnings.simplefilter("ignore", DeprecationWarning)
                model.export(str(file), format="onnx", verbose=False, opset_version=opset)
        except Exception as error:  # Keras, TensorFlow and tf2onnx raise what they please
            raise Unsupported(
                f"Keras {keras.__version__} cannot export {model.name}: {type(error).__name__}: {error}",
                "layers that tf2onnx knows",
            ) from error
        return onnx.load(file)


def _constants(network: Network, model: Any, executor: WrappedModel, opset: int | None) -> list[str]:
    """The network's parameters that no trainable weight went into: they are the same when it is exported with others.

    tf2onnx packs, transposes and scales weights, so that neither names nor values tell where they came from.
    """
    if not network.parameters:
        return []
    rng = np.random.default_rng(0)
    saved = [(variable, variable.numpy()) for variable in model.trainable_variables]
    try:
        for variable, contents in saved:
            variable.assign(rng.uniform(0.5, 1.5, contents.shape).astype(contents.dtype))
        variant = Network.from_proto(_converted(model, executor, opset))
    finally:
        for variable, contents in saved:
            variable.assign(contents)
    unchanged = {_contents(array) for array in variant.parameters.values()}
    return [name for name, array in network.parameters.items() if _contents(array) in unchanged]


def _contents(array: np.ndarray) -> tuple[np.dtype, tuple[int, ...], bytes]:
    return array.dtype, array.shape, array.tobytes()


def _renamed(proto: onnx.ModelProto, executor: WrappedModel, name: str) -> Network:
    """The network with the names of the model's inputs and outputs, and its open dimensions."""
    network = Network.from_proto(proto, name=name)
    changed = network.copy()
    fed, returned = list(changed.graph.inputs), list(changed.graph.outputs)
    names = executor.output_names
    if isinstance(getattr(executor.model, "output", None), Mapping):
        names = tuple(sorted(names))  # TensorFlow flattens a dictionary by its keys
    if len(fed) != len(executor.inputs) or len(returned) != len(names):
        raise Unsupported(
            f"the exporter made {len(fed)} inputs and {len(returned)} outputs of {name}",
            f"{len(executor.inputs)} and {len(names)}",
            "a model whose inputs are all used, and whose outputs all differ",
        )
    used_names = {value.name for node in changed.graph.all_nodes() for value in node.outputs}
    for value, target in [*zip(fed, [s.name for s in executor.inputs], strict=True), *zip(returned, names, strict=True)]:
        if target in used_names and value.name != target:
            raise InvalidArgument(
                f"the name {target!r}, which a value within {name} has", "another: inputs=[…], outputs=[…]"
            )
        value.name = target
    for value, spec in zip(fed, executor.inputs, strict=True):
        value.shape = ir.Shape(spec.shape)
    for value in returned:
        if value.shape is not None:  # tf2onnx makes up a name for each open dimension
            value.shape = ir.Shape([d if isinstance(d, int) else None for d in value.shape])
    return Network(changed.model, name=name)
