"""``wrap``: a hand-written Keras model as an executor."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from deep_bench.adapters.tensorflow.adapter import to_array, to_tensor
from deep_bench.adapters.tensorflow.tracing import Traced, describe_tensor, signature, trace
from deep_bench.adapters.wrapping import (
    accepts,
    check_mode,
    each_once,
    named_results,
    own_or_given,
    positional_names,
    result_names,
)
from deep_bench.errors import InvalidArgument, InvalidInput, UnknownName, Unsupported
from deep_bench.framework import Device, Executor, Forms, Mode, check_native, checked_request
from deep_bench.network.gradient.derived import not_training
from deep_bench.tensor import STRING, TensorSpec

Example = Sequence[Any] | Mapping[str, Any] | np.ndarray


def wrap(
    model: Any,
    inputs: Sequence[TensorSpec] | Sequence[str] | Example | None = None,
    outputs: Sequence[str] | None = None,
    *,
    mode: Mode = "inference",
    eager: bool = False,
) -> WrappedModel:
    """Make a Keras model an executor, so that it can be timed, compared and differentiated like a prepared network.

    The model is used as it is, with TensorFlow's settings as they are, and wrapping changes neither.

    Args:
        model: A Keras model on the TensorFlow backend.
        inputs: Names for its inputs, in order; by default its own. For a subclassed model, which has none: specs, whose
            shapes may have open dimensions, or an example, by name or in order. Those are passed by keyword where ``call``
            has parameters of their names, else in order.
        outputs: Names of what it returns, in order; by default its own, or ``output``, or ``output_0``, ``output_1``, …
        mode: ``"inference"`` or ``"train"``: the model is called with ``training`` set accordingly, so that dropout draws
            and batch normalization uses the batch's statistics.
        eager: Call the model as it is, in place of one graph made by ``tf.function``, as ``model.predict`` makes. It is
            tried on zeros, to learn what it returns, and its weights, statistics and random states are put back.

    Raises:
        InvalidArgument: Not such a model, names in another number than it has inputs or outputs, or one name for two.
        Unsupported: The model runs on another backend than TensorFlow, or returns something else than tensors.

    Example:
        >>> model = keras.Sequential([keras.Input((3,), name="x"), keras.layers.Dense(2, name="y")])
        >>> wrap(model, outputs=["y"])({"x": np.ones((5, 3), np.float32)})["y"].shape
        (5, 2)
    """
    check_mode(mode)
    if not isinstance(model, keras.Model):
        raise InvalidArgument(f"a {type(model).__name__} to wrap", "a keras.Model", "keras.Sequential([layer]) makes one")
    if keras.backend.backend() != "tensorflow":
        raise Unsupported(
            f"Keras runs on {keras.backend.backend()} here",
            "its TensorFlow backend",
            "a model on PyTorch is an nn.Module: deep_bench.adapters.torch.wrap(model, …)",
        )
    specs, call = _model_function(model, inputs, training=mode == "train")
    each_once([spec.name for spec in specs], "input", model.name)
    output_names = each_once(outputs, "output", model.name) if outputs is not None else _own_outputs(model)
    return WrappedModel(model, specs, call, output_names, mode=mode, eager=eager)


class WrappedModel(Executor[Any]):
    """A Keras model as an executor; see `wrap`.

    Args:
        model: The model.
        inputs: What it takes.
        call: The model as a function of its inputs in order.
        outputs: Names of what it returns; ``None`` names them by their number.
        mode: Whether it can be differentiated.
        eager: Whether there is no graph.
    """

    def __init__(
        self,
        model: Any,
        inputs: Sequence[TensorSpec],
        call: Callable[..., Any],
        outputs: Sequence[str] | None,
        *,
        mode: Mode,
        eager: bool,
    ) -> None:
        self.model, self.mode = model, mode
        self.device = _ModelTensors()
        self.inputs = tuple(inputs)
        self.forms = Forms()
        self._call, self._stated = call, outputs
        self.output_names: tuple[str, ...] = ()
        self._signatures = [signature(spec) for spec in self.inputs]
        self._traced = None if eager else self._trace(self._outputs)  # this also finds the outputs' names
        if eager:
            # call the model once, to learn what it returns; its weights, statistics and random states are as before
            zeros = [tf.zeros([1 if d is None else d for d in s.shape], s.dtype) for s in self._signatures]
            if not self.model.built:
                self._call(*zeros, training=False)  # this makes the variables, and changes none
            saved = [(variable, variable.numpy()) for variable in self.model.variables]
            try:
                self._outputs(zeros)
            finally:
                for variable, contents in saved:
                    variable.assign(contents)
        self.parameters = self._weights = ModelParameters(model.trainable_variables)
        self._derived: dict[tuple[str, tuple[str, ...]], Traced] = {}

    def forward(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Run the model; tensors never change, so its outputs stay valid."""
        return self.bind(inputs)()

    def bind(self, inputs: Mapping[str, Any]) -> Callable[[], dict[str, Any]]:
        """A call without arguments that runs the model on these inputs."""
        arguments, names = self._arguments(inputs), self.output_names
        if self._traced is None:
            return lambda: named_results(self._call(*arguments), names, tf.is_tensor, self.model.name)
        call = self._traced.bind(arguments)
        return lambda: dict(zip(names, call(), strict=True))

    def gradients(
        self,
        inputs: Mapping[str, Any],
        loss: str,
        *,
        wrt: Sequence[str] | None = None,
        on_ready: Callable[[str, Any], None] | None = None,
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Run the model and TensorFlow's backward pass, as one graph that is kept; ``on_ready`` is called at its end."""
        if self.mode != "train":
            raise not_training(self.model.name)
        names = checked_request(self.model.name, self.output_names, list(self.parameters), self.inputs, loss, wrt)
        check_native(self.inputs, inputs, describe_tensor)
        arguments = self._arguments(inputs)
        if self._traced is None:
            results = self._differentiated(arguments, loss, names)
        else:
            if (loss, names) not in self._derived:
                self._derived[loss, names] = self._trace(lambda v: self._differentiated(v, loss, names))
            results = list(self._derived[loss, names].bind(arguments)())
        outputs = dict(zip(self.output_names, results, strict=False))
        gradients = dict(zip(names, results[len(self.output_names) :], strict=True))
        if on_ready is not None:
            for name, gradient in gradients.items():
                on_ready(name, gradient)
        return outputs, gradients

    def _trace(self, function: Callable[[list[Any]], list[Any]]) -> Traced:
        try:
            return trace(function, self._signatures, jit=False)
        except tf.errors.OperatorNotAllowedInGraphError as error:
            raise Unsupported(
                f"{self.model.name} looks at a tensor's values in Python, which no graph can: {str(error).splitlines()[0]}",
                "tf.cond or keras.ops.cond in place of such a branch",
                "wrap(model, …, eager=True) calls the model as it is",
            ) from error

    def _outputs(self, values: Sequence[Any]) -> list[Any]:
        """The model's outputs in order; the first call names them."""
        result = self._call(*values)
        self.output_names = self.output_names or result_names(result, self._stated, self.model.name)
        return list(named_results(result, self.output_names, tf.is_tensor, self.model.name).values())

    def _differentiated(self, values: Sequence[Any], loss: str, names: Sequence[str]) -> list[Any]:
        """The outputs, then the gradients."""
        fed = {spec.name: value for spec, value in zip(self.inputs, values, strict=True)}
        sources = [self._weights.variable(n) if n in self._weights else fed[n] for n in names]
        with tf.GradientTape() as tape:
            tape.watch([fed[n] for n in names if n in fed])
            outputs = self._outputs(values)
            target = outputs[self.output_names.index(loss)]
        if target.shape.num_elements() != 1 or not target.dtype.is_floating:
            raise InvalidArgument(
                f"the output {loss!r} is {target.dtype.name}{target.shape}",
                "a loss: one floating-point number",
                "let the model return its loss too",
            )
        gradients = tape.gradient(target, sources, unconnected_gradients=tf.UnconnectedGradients.ZERO)
        return [*outputs, *map(tf.convert_to_tensor, gradients)]

    def _arguments(self, inputs: Mapping[str, Any]) -> list[Any]:
        if inputs.keys() != {spec.name for spec in self.inputs}:
            raise InvalidInput(f"inputs named {sorted(inputs)}", f"exactly {sorted(spec.name for spec in self.inputs)}")
        return [inputs[spec.name] for spec in self.inputs]


class _ModelTensors(Device[Any]):
    """Tensors where TensorFlow puts them; unlike an adapter's, it leaves TensorFlow's settings alone."""

    def from_numpy(self, array: np.ndarray) -> Any:
        return to_tensor(np.asarray(array))

    def to_numpy(self, array: Any) -> np.ndarray:
        return to_array(array)

    def synchronize(self) -> None:
        if tf.config.list_logical_devices("GPU"):
            tf.test.experimental.sync_devices()


class ModelParameters(MutableMapping[str, Any]):
    """The trained weights of a model by their paths (``dense/kernel``), which Keras keeps in its own layout.

    Args:
        variables: The weights.
    """

    def __init__(self, variables: Sequence[Any]) -> None:
        self._variables: dict[str, Any] = {}
        for number, variable in enumerate(variables):
            name = variable.path if variable.path not in self._variables else f"{variable.path}:{number}"
            self._variables[name] = variable

    def variable(self, name: str) -> Any:
        """TensorFlow's variable that holds a weight."""
        return self._found(name).value

    def __getitem__(self, name: str) -> Any:
        return tf.convert_to_tensor(self.variable(name))

    def __setitem__(self, name: str, tensor: Any) -> None:
        """Copy a tensor into a weight.

        Raises:
            UnknownName: There is no such weight.
            InvalidArgument: It has another shape or element type.
        """
        old, tensor = self._found(name), tf.convert_to_tensor(tensor)
        if tuple(tensor.shape) != tuple(old.shape) or tensor.dtype.name != old.dtype:
            raise InvalidArgument(
                f"parameter {name!r} was given {tensor.dtype.name}{list(tensor.shape)}", f"{old.dtype}{list(old.shape)}"
            )
        old.assign(tensor)

    def __delitem__(self, name: str) -> None:
        raise Unsupported(f"parameter {name!r} cannot be deleted", advice="assign another value to it")

    def __iter__(self) -> Iterator[str]:
        return iter(self._variables)

    def __len__(self) -> int:
        return len(self._variables)

    def _found(self, name: str) -> Any:
        if name not in self._variables:
            raise UnknownName("parameter", name, self._variables)
        return self._variables[name]


def _model_function(model: Any, inputs: Any, *, training: bool) -> tuple[tuple[TensorSpec, ...], Callable[..., Any]]:
    """The specs of a model's inputs, and the model as a function of these in order."""
    model_inputs = getattr(model, "inputs", None)
    if model_inputs:
        specs = _own_specs(model_inputs, inputs, model.name)
        place = structure_of(model)

        def call(*values: Any, training: bool = training) -> Any:
            return model(keras.tree.pack_sequence_as(place, list(values)), training=training)

        return specs, call
    if inputs is None:
        raise InvalidArgument(
            f"the model {model.name!r}, which does not state its inputs", "specs, or an example", "give inputs={name: array}"
        )
    specs = _given_specs(model, inputs)
    names = [spec.name for spec in specs]
    by_name = accepts(model.call, names)

    def call_as_written(*values: Any, training: bool = training) -> Any:
        if by_name:
            return model(**dict(zip(names, values, strict=True)), training=training)
        return model(*values, training=training)

    return specs, call_as_written


def structure_of(model: Any) -> Any:
    """How the inputs of a model that states them are arranged; a sequential one has a single input."""
    return model.input if hasattr(model, "input") else model.inputs[0]


def _own_specs(model_inputs: Sequence[Any], requested: Any, whose: str) -> tuple[TensorSpec, ...]:
    names = own_or_given([tensor.name for tensor in model_inputs], requested, whose)
    return tuple(
        TensorSpec(name, tuple(_dimension(name, i, d) for i, d in enumerate(t.shape)), np.dtype(_numpy(t.dtype)))
        for name, t in zip(names, model_inputs, strict=True)
    )


def _dimension(name: str, axis: int, size: int | None) -> int | str:
    """Keras calls the first open dimension the batch, and all inputs share it."""
    return size if size is not None else "batch" if axis == 0 else f"{name}.{axis}"


def _numpy(dtype: str) -> Any:
    return STRING if dtype == "string" else tf.as_dtype(dtype).as_numpy_dtype


def _given_specs(model: Any, inputs: Any) -> tuple[TensorSpec, ...]:
    if isinstance(inputs, list | tuple) and inputs and all(isinstance(spec, TensorSpec) for spec in inputs):
        return tuple(inputs)
    if isinstance(inputs, np.ndarray) or tf.is_tensor(inputs):
        inputs = (inputs,)
    if not isinstance(inputs, Mapping):
        inputs = dict(zip(positional_names(model.call, len(inputs)), inputs, strict=True))
    arrays = {name: np.asarray(value) for name, value in inputs.items()}
    return tuple(TensorSpec(name, array.shape, array.dtype) for name, array in arrays.items())


def _own_outputs(model: Any) -> Sequence[str] | None:
    """The names that a model gives its outputs: a dictionary's keys, or the last layers' names."""
    if not getattr(model, "inputs", None):
        return None
    structure = getattr(model, "output", None)
    if isinstance(structure, Mapping):
        return [str(key) for key in structure]
    if names := getattr(model, "output_names", None):
        return list(names)
    return [model.layers[-1].name]
