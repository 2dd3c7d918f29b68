"""Hand-written Keras models as executors, and as networks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")
keras = pytest.importorskip("keras")

import deep_bench as db  # noqa: E402 (after the check that TensorFlow is there)
from deep_bench.adapters.tensorflow import wrap  # noqa: E402
from deep_bench.errors import InvalidArgument, InvalidInput, UnknownName, Unsupported  # noqa: E402
from deep_bench.tensor import TensorSpec  # noqa: E402

X = np.random.default_rng(0).standard_normal((5, 3)).astype(np.float32)


class Squares(keras.Model):
    """A subclassed model, with a loss."""

    def __init__(self) -> None:
        super().__init__()
        self.dense = keras.layers.Dense(2)

    def call(self, x: Any) -> dict[str, Any]:
        y = self.dense(x)
        return {"y": y, "loss": tf.reduce_mean(tf.square(y))}


@pytest.fixture(scope="module")
def squares() -> Any:
    model = Squares()
    model(X)
    return model


@pytest.fixture(scope="module")
def two() -> Any:
    a, b = keras.Input((3,), name="a"), keras.Input((3,), name="b")
    return keras.Model({"b": b, "a": a}, {"v": keras.layers.Dense(2)(a), "u": keras.layers.Subtract()([a, b])})


@pytest.mark.parametrize("eager", [False, True])
def test_it_gives_what_the_model_gives(squares: Any, eager: bool) -> None:
    executor = wrap(squares, [TensorSpec("x", ("batch", 3), np.dtype(np.float32))], eager=eager)
    assert sorted(executor.output_names) == ["loss", "y"]
    assert np.allclose(executor({"x": X})["y"], squares(X)["y"].numpy(), rtol=1e-6)
    assert executor({"x": X[:2]})["y"].shape == (2, 2)
    bound = executor.bind({"x": tf.constant(X)})
    assert np.array_equal(bound()["y"].numpy(), bound()["y"].numpy())


@pytest.mark.parametrize("mode", ["inference", "train"])
@pytest.mark.parametrize("built", [True, False])
@pytest.mark.parametrize("eager", [True, False])
def test_wrapping_and_comparing_leave_a_model_as_it_was(eager: bool, built: bool, mode: Any) -> None:
    class Regular(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.norm, self.drop = keras.layers.BatchNormalization(momentum=0.5), keras.layers.Dropout(0.5, seed=3)
            self.dense = keras.layers.Dense(2, trainable=False)

        def call(self, x: Any, training: bool = False) -> Any:
            return self.dense(self.drop(self.norm(x + 1, training=training), training=training))

    tf.config.experimental.enable_tensor_float_32_execution(True)
    model = Regular()
    if built:
        model(X)
        before = [variable.numpy() for variable in model.variables]
        executor = wrap(model, {"x": X}, eager=eager, mode=mode)
    else:
        executor = wrap(model, {"x": X}, eager=eager, mode=mode)
        before = [np.ones(3), np.zeros(3), np.zeros(3), np.ones(3)]  # of the normalization, as it is made
    assert all(np.array_equal(a, v.numpy()) for a, v in zip(before, model.variables, strict=False))
    if mode == "inference":
        before = [variable.numpy() for variable in model.variables]
        assert np.array_equal(executor({"x": X})["output"], executor({"x": X})["output"])
        db.network.compare({"a": model, "b": model}, {"x": X}, budget=0)
        assert all(np.array_equal(a, v.numpy()) for a, v in zip(before, model.variables, strict=True))
    assert not model.dense.trainable
    assert tf.config.experimental.tensor_float_32_execution_enabled()


def test_a_branch_in_python_needs_eager_calls() -> None:
    class Branching(keras.Model):
        def call(self, x: Any) -> Any:
            return x + 1 if tf.reduce_sum(x) > 0 else x - 1

    with pytest.raises(Unsupported, match="eager=True"):
        wrap(Branching(), {"x": X}, ["y"])
    executor = wrap(Branching(), {"x": X}, mode="train", eager=True)
    assert executor.output_names == ("output",)
    assert np.array_equal(executor({"x": np.ones_like(X)})["output"], np.full_like(X, 2))
    with pytest.raises(InvalidArgument, match="a loss"):
        executor.gradients({"x": tf.constant(X)}, "output", wrt=["x"])


def test_a_functional_model_has_names_of_its_own(two: Any) -> None:
    executor = wrap(two)
    found = executor({"a": X, "b": 2 * X})
    assert [str(spec) for spec in executor.inputs] == ["a: float32[batch, 3]", "b: float32[batch, 3]"]
    assert np.allclose(found["u"], -X)
    assert found["v"].shape == (5, 2)
    renamed = wrap(two, ["left", "right"])({"right": 2 * X, "left": X})
    assert np.allclose(renamed["u"], -X)


def test_dropout_draws_in_training_only() -> None:
    model = keras.Sequential([keras.Input((3,), name="x"), keras.layers.Dropout(0.5, name="y")])
    assert np.array_equal(wrap(model)({"x": X})["y"], X)
    assert (wrap(model, mode="train")({"x": X})["y"] == 0).any()


def test_parameters_are_the_trained_weights(squares: Any) -> None:
    executor = wrap(squares, {"x": X})
    names = sorted(executor.parameters)
    assert [name.rpartition("/")[2] for name in names] == ["bias", "kernel"]
    bias = names[0]
    before = executor({"x": X})["y"]
    executor.parameters[bias] = tf.constant([1.0, -1.0])
    assert executor.parameters[bias].numpy().tolist() == [1, -1]
    assert np.allclose(executor({"x": X})["y"] - before, [1, -1], rtol=1e-5)
    executor.parameters[bias] = tf.zeros(2)
    with pytest.raises(InvalidArgument, match=r"float32\[3\]"):
        executor.parameters[bias] = tf.zeros(3)
    with pytest.raises(UnknownName, match="nobody"):
        executor.parameters["nobody"]


def test_gradients_are_tensorflows(squares: Any) -> None:
    executor = wrap(squares, {"x": X}, mode="train")
    fed = {"x": tf.constant(X)}
    told: list[str] = []
    kernel = next(name for name in executor.parameters if name.endswith("kernel"))
    outputs, found = executor.gradients(fed, "loss", wrt=[kernel, "x"], on_ready=lambda name, _: told.append(name))
    with tf.GradientTape() as tape:
        tape.watch(fed["x"])
        loss = squares(fed["x"])["loss"]
    expected = tape.gradient(loss, [squares.dense.kernel.value, fed["x"]])
    assert all(np.allclose(a, b, rtol=1e-5) for a, b in zip(found.values(), expected, strict=True))
    assert outputs["loss"].numpy() == pytest.approx(loss.numpy())
    assert told == [kernel, "x"]
    assert sorted(executor.gradients(fed, "loss")[1]) == sorted(executor.parameters)
    with pytest.raises(InvalidArgument, match="'y' is float32"):
        executor.gradients(fed, "y")
    with pytest.raises(InvalidArgument, match="no output 'nobody'"):
        executor.gradients(fed, "nobody")
    with pytest.raises(Unsupported, match="inference"):
        wrap(squares, {"x": X}).gradients(fed, "loss")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: wrap(lambda x: x), "to wrap"),
        (lambda: wrap(Squares()), "does not state its inputs"),
        (lambda: wrap(Squares(), {"x": X}, ["a", "b", "c"]), "returned 2 values, and 3 names"),
        (lambda: wrap(Squares(), {"x": X}, ["y", "y"]), "2 outputs of .* called 'y'"),
        (lambda: wrap(keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)]), ["a", "b"]), "2 inputs"),
    ],
)
def test_what_cannot_be_wrapped_is_refused(make: Any, message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        make()


def test_an_exported_model_has_its_names_and_values(two: Any) -> None:
    pytest.importorskip("tf2onnx")
    network = db.Network.from_keras(two)
    assert [str(spec) for spec in network.inputs] == ["a: float32[batch, 3]", "b: float32[batch, 3]"]
    found = db.frameworks["reference"]().prepare(network)({"a": X, "b": 2 * X})
    expected = two({"a": X, "b": 2 * X})
    assert all(np.allclose(found[name], expected[name], rtol=1e-5, atol=1e-6) for name in ("u", "v"))


def test_a_convolutional_model_is_exported_right() -> None:
    pytest.importorskip("tf2onnx")
    layers = keras.layers
    model = keras.Sequential(
        [
            keras.Input((8, 8, 1), name="image"),
            layers.Conv2D(4, 3, strides=2, padding="same", activation="relu"),
            layers.BatchNormalization(),
            layers.GlobalAveragePooling2D(),
            layers.Dense(3),
        ]
    )
    network = db.Network.from_keras(model, outputs=["logits"], name="small")
    assert network.name == "small"
    assert [spec.name for spec in network.outputs] == ["logits"]


def test_a_constant_of_a_model_is_no_parameter_of_the_network() -> None:
    pytest.importorskip("tf2onnx")
    layers = keras.layers

    class Shift(layers.Layer):  # type: ignore[misc]
        def call(self, x: Any) -> Any:
            return x + np.arange(1, 5, dtype=np.float32)

    x = keras.Input(batch_shape=(2, 3, 4), name="x")
    model = keras.Model(x, layers.Dense(2, use_bias=False)(layers.LSTM(5)(Shift()(x))))
    before = [variable.numpy() for variable in model.variables]
    network = db.Network.from_keras(model)
    assert [a.size for a in network.parameters.values()] == [10, 80, 100, 40]  # the dense layer's, and the LSTM's, packed
    assert not any(np.array_equal(a, np.arange(1, 5)) for a in network.initializers.values())
    assert all(np.array_equal(a, variable.numpy()) for a, variable in zip(before, model.variables, strict=True))


def test_inputs_that_do_not_suit_the_model_are_said() -> None:
    pytest.importorskip("tf2onnx")
    model = keras.Sequential([keras.Input((4,), dtype="int32", name="ids"), keras.layers.Embedding(3, 2)])
    with pytest.raises(InvalidInput, match="drawn inputs: indices"):
        db.Network.from_keras(model)
    ids = np.array([[0, 1, 2, 1]], np.int32)
    network = db.Network.from_keras(model, {"ids": ids}, outputs=["y"])
    found = db.frameworks["onnxruntime"]().prepare(network)({"ids": ids})
    assert np.array_equal(found["y"], model(ids).numpy())


def test_a_model_without_inputs_cannot_be_exported(squares: Any) -> None:
    pytest.importorskip("tf2onnx")
    with pytest.raises(InvalidArgument, match="does not state its inputs"):
        db.Network.from_keras(squares)
