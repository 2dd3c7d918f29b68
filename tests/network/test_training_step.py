"""A whole training step as one ONNX graph, on three runtimes, against PyTorch's own loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest

import deep_bench as db
from deep_bench.errors import InvalidArgument, UnknownName
from deep_bench.network import training_step

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

STEPS = 4
RATE = 0.05
SETTINGS = {"sgd": {}, "momentum": {"momentum": 0.8}, "adam": {"beta1": 0.8, "beta2": 0.99, "epsilon": 1e-6}}

OPTIMIZERS: dict[str, Callable[[Any], Any]] = {
    "sgd": lambda held: torch.optim.SGD(held, RATE),
    "momentum": lambda held: torch.optim.SGD(held, RATE, momentum=0.8),
    "adam": lambda held: torch.optim.Adam(held, RATE, (0.8, 0.99), 1e-6),
}


def mlp() -> db.Network:
    rng = np.random.default_rng(0)
    proto = onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["" : 21]> mlp (float[8,5] x) => (float[8,3] logits) '
        "{ a = Gemm(x, w, b)  h = Tanh(a)  logits = MatMul(h, v) }"
    )
    weights = {"w": (5, 6), "b": (6,), "v": (6, 3)}
    proto.graph.initializer.extend(
        onnx.numpy_helper.from_array(rng.standard_normal(shape).astype(np.float32), name) for name, shape in weights.items()
    )
    network = db.Network.from_proto(proto)
    return network.with_loss("SoftmaxCrossEntropyLoss", output="logits", target="label")


def batches() -> list[dict[str, np.ndarray]]:
    rng = np.random.default_rng(1)
    return [{"x": rng.standard_normal((8, 5), np.float32), "label": rng.integers(0, 3, 8)} for _ in range(STEPS)]


def by_torch(network: db.Network, optimizer: str) -> tuple[list[float], dict[str, np.ndarray]]:
    held = {name: torch.tensor(array, requires_grad=True) for name, array in network.parameters.items()}
    made = OPTIMIZERS[optimizer](held.values())
    losses = []
    for batch in batches():
        hidden = torch.tanh(torch.from_numpy(batch["x"]) @ held["w"] + held["b"])
        loss = torch.nn.functional.cross_entropy(hidden @ held["v"], torch.from_numpy(batch["label"]))
        made.zero_grad()
        loss.backward()
        made.step()
        losses.append(loss.item())
    return losses, {name: tensor.detach().numpy() for name, tensor in held.items()}


def by_framework(name: str, step: db.network.TrainingStep) -> tuple[list[float], dict[str, np.ndarray]]:
    run = db.frameworks[name]().prepare(step.network)
    state, losses = dict(step.initial), []
    for batch in batches():
        outputs = run({**batch, **state, "learning_rate": np.float32(RATE)})
        state = step.next(outputs)
        losses.append(float(outputs["loss"]))
    return losses, state


def by_openvino(step: db.network.TrainingStep) -> tuple[list[float], dict[str, np.ndarray]]:
    openvino = pytest.importorskip("openvino", reason="OpenVINO is not installed")
    core = openvino.Core()
    hints = {"INFERENCE_PRECISION_HINT": "f32"}
    compiled = core.compile_model(core.read_model(step.network.to_proto().SerializeToString()), "CPU", hints)
    state, losses = dict(step.initial), []
    for batch in batches():
        found = compiled({**batch, **state, "learning_rate": np.array(RATE, np.float32)})
        outputs = {name: found[name] for name in (*step.following.values(), "loss")}
        state = {name: np.array(array) for name, array in step.next(outputs).items()}
        losses.append(float(outputs["loss"]))
    return losses, state


@pytest.mark.parametrize("optimizer", sorted(SETTINGS))
@pytest.mark.parametrize("framework", ["reference", "onnxruntime", "torch", "openvino"])
def test_a_step_does_what_the_loop_of_torch_does(framework: str, optimizer: str) -> None:
    network = mlp()
    step = training_step(network, optimizer=optimizer, **SETTINGS[optimizer])
    losses, state = by_openvino(step) if framework == "openvino" else by_framework(framework, step)
    expected, parameters = by_torch(network, optimizer)
    np.testing.assert_allclose(losses, expected, rtol=1e-5)
    for name, array in parameters.items():
        np.testing.assert_allclose(state[name], array, rtol=2e-4, atol=2e-6)


def test_it_is_plain_onnx() -> None:
    step = training_step(mlp(), optimizer="adam")
    onnx.checker.check_model(step.network.to_proto(), full_check=True)
    assert {node.domain for node in step.network.all_nodes()} == {""}
    assert not step.network.parameters
    assert [spec.name for spec in step.network.outputs][:2] == ["logits", "loss"]


def test_running_statistics_are_part_of_the_state() -> None:
    proto = onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["" : 21]> g (float[4,2] x) => (float[4,2] y, float[2] mean, float[2] var) '
        "<float[2] s = {1, 2}, float[2] b = {0, 0}, float[2] m = {0, 0}, float[2] v = {1, 1}> "
        "{ y, mean, var = BatchNormalization<training_mode = 1, momentum = 0.5>(x, s, b, m, v) }"
    )
    network = db.Network.from_proto(proto).with_loss("MeanSquaredError", output="y", target="t")
    step = training_step(network, wrt=["s", "b"])
    assert set(step.following) == {"s", "b", "m", "v"}
    run = db.frameworks["reference"]().prepare(step.network)
    x = np.arange(8, dtype=np.float32).reshape(4, 2)
    outputs = run({"x": x, "t": x, **step.initial, "learning_rate": np.float32(0.1)})
    state = step.next(outputs)
    np.testing.assert_allclose(state["m"], x.mean(0) / 2)
    assert not np.array_equal(state["s"], step.initial["s"])


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"optimizer": "lyon"}, "unknown optimizer 'lyon'"),
        ({"optimizer": db.optimizers["sgd"](lr=0.1), "momentum": 0.9}, "settings momentum of an optimizer"),
        ({"optimizer": "adam", "lr": -1.0}, "adam with lr=-1.0"),
        ({"optimizer": "sgd", "momentum": 0.9}, "'momentum'"),
        ({"wrt": ["x"]}, "no initializer 'x'"),
        ({"loss": "logits"}, "a loss of one element"),
        ({"wrt": ["w", "b", "w"]}, "'w' is in wrt 2 times"),
        ({"wrt": "w"}, r"write wrt=\['w'\]"),
        ({"wrt": []}, "mlp .*has nothing to train: no parameters"),
        ({"optimizer": "adam", "beta1": 1.0}, "adam with beta1=1.0"),
        ({"optimizer": "adam", "beta2": float("nan")}, "adam with beta2=nan"),
        ({"optimizer": "adam", "beta1": "x"}, "adam with beta1='x'"),
        ({"optimizer": "adam", "beta1": -0.1}, "at least 0 and below 1"),
        ({"optimizer": "adam", "epsilon": -1}, "adam with epsilon=-1"),
        ({"optimizer": "adam", "epsilon": float("inf")}, "a finite number of at least 0"),
        ({"optimizer": "momentum", "momentum": -0.5}, "momentum with momentum=-0.5"),
        ({"optimizer": "momentum", "momentum": True}, "a number from 0 to 1"),
    ],
)
def test_what_makes_no_step_is_refused(options: dict, named: str) -> None:
    with pytest.raises((InvalidArgument, UnknownName), match=named):
        training_step(mlp(), **options)


def test_a_parameter_without_effect_is_left_out() -> None:
    proto = onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["" : 21]> g (float[2] x) => (float loss) '
        "<float[2] w = {1, 2}, float[2] unused = {3, 4}> { y = Mul(x, w)  loss = ReduceSum<keepdims = 0>(y) }"
    )
    step = training_step(db.Network.from_proto(proto), optimizer="momentum")
    assert set(step.initial) == {"w", "w.momentum"}
    run = db.frameworks["reference"]().prepare(step.network)
    outputs = run({"x": np.ones(2, np.float32), **step.initial, "learning_rate": np.float32(0.5)})
    np.testing.assert_array_equal(step.next(outputs)["w"], [0.5, 1.5])


def scaled() -> db.Network:
    return db.Network.from_proto(
        onnx.parser.parse_model(
            '<ir_version: 10, opset_import: ["" : 21]> scaled (float[2] x) => (float loss) '
            "<float s = {3}, float[2] unused = {3, 4}> { y = Mul(x, s)  loss = ReduceSum<keepdims = 0>(y) }"
        )
    )


def test_a_network_with_nothing_to_train_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="scaled has nothing to train: no output depends on unused") as found:
        training_step(scaled())
    assert "wrt=[…] names other initializers" in str(found.value)
    assert set(training_step(scaled(), wrt=["s"]).initial) == {"s"}


@pytest.mark.long
@pytest.mark.parametrize("optimizer", sorted(SETTINGS))
def test_a_step_of_an_exported_lstm_does_what_the_loop_of_torch_does(optimizer: str) -> None:
    """Its first state, and what else is no parameter of the module, stays as it is."""
    pytest.importorskip("onnxscript")
    torch.manual_seed(0)

    class Last(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lstm, self.head = torch.nn.LSTM(5, 4), torch.nn.Linear(4, 3)
            self.register_buffer("mean", torch.tensor([0.5, -0.5, 0.25, 1.0, 2.0]))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.head(self.lstm((x - self.mean)[None])[0][-1])

    module = Last()
    network = db.Network.from_torch(module, {"x": torch.zeros(8, 5)}, outputs=["logits"])
    assert set(network.parameters) == {name for name, _ in module.named_parameters()}
    network = network.with_loss("SoftmaxCrossEntropyLoss", output="logits", target="label")
    derived = db.network.differentiate(network)
    assert {spec.name for spec in derived.outputs[2:]} == {f"d(loss)/d({name})" for name in network.parameters}
    loop = OPTIMIZERS[optimizer](module.parameters())
    step = training_step(network, optimizer=optimizer, **SETTINGS[optimizer])
    run, state = db.frameworks["onnxruntime"]().prepare(step.network), dict(step.initial)
    for batch in batches()[:3]:
        outputs = run({**batch, **state, "learning_rate": np.float32(RATE)})
        state = step.next(outputs)
        loss = torch.nn.functional.cross_entropy(module(torch.from_numpy(batch["x"])), torch.from_numpy(batch["label"]))
        loop.zero_grad()
        loss.backward()
        loop.step()
        np.testing.assert_allclose(outputs["loss"], loss.item(), rtol=1e-5)
        for name, parameter in module.named_parameters():
            np.testing.assert_allclose(state[name], parameter.detach().numpy(), rtol=2e-4, atol=2e-6)


RATED = [
    "(float[2] x, float learning_rate) => (float loss) <float[2] w = {1, 2}> { y = Mul(x, w)  z = Mul(y, learning_rate)",
    "(float[2] x) => (float loss) <float[2] learning_rate = {1, 2}> { z = Mul(x, learning_rate)",
    "(float[2] x) => (float loss) <float[2] w = {1, 2}> { learning_rate = Mul(x, w)  z = Neg(learning_rate)",
    "(float[2] x, bool c) => (float loss) <float[2] w = {1, 2}> { y = Mul(x, w)  z = If (c) <"
    "then_branch = t () => (float[2] learning_rate) { learning_rate = Neg(y) },"
    "else_branch = e () => (float[2] s) { s = Abs(y) }>",
]


@pytest.mark.parametrize("text", RATED, ids=["input", "initializer", "node", "subgraph"])
def test_a_network_with_a_learning_rate_of_its_own_is_refused(text: str) -> None:
    head = '<ir_version: 10, opset_import: ["" : 21]> rated '
    network = db.Network.from_proto(onnx.parser.parse_model(f"{head}{text}  loss = ReduceSum<keepdims = 0>(z) }}"))
    with pytest.raises(InvalidArgument, match="rated has a value 'learning_rate'"):
        training_step(network)


@pytest.mark.parametrize("framework", ["reference", "onnxruntime", "torch"])
@pytest.mark.parametrize("optimizer", sorted(SETTINGS))
def test_parameters_of_16_bits_are_updated_in_float32(optimizer: str, framework: str) -> None:
    """With the default epsilon of 1e-8, and a gradient whose square no float16 holds, which is 0/0 in float16."""
    import ml_dtypes

    for dtype in ("float16", "bfloat16") if framework != "onnxruntime" else ("float16",):
        kind = np.dtype(getattr(ml_dtypes, dtype, dtype))
        head = '<ir_version: 10, opset_import: ["" : 21]> tiny '
        text = f"{head}({dtype}[4] x) => ({dtype} loss) {{ y = Mul(x, w)  loss = ReduceSum<keepdims = 0>(y) }}"
        proto = onnx.parser.parse_model(text)
        w = np.array([1.0, -2.0, 0.5, 0.25], kind)
        proto.graph.initializer.append(onnx.helper.make_tensor("w", onnx.helper.np_dtype_to_tensor_dtype(kind), [4], w))
        step = training_step(db.Network.from_proto(proto), optimizer=optimizer)
        onnx.checker.check_model(step.network.to_proto(), full_check=True)
        x = np.array([1e-4, -3e-5, 0.0, 1.0], kind)
        state = dict(step.initial)
        assert {n: a.dtype for n, a in state.items() if n.startswith("w.")} == {
            n: np.float32 for n in state if n.startswith("w.")
        }
        run = db.frameworks[framework]().prepare(step.network)
        held, loop = torch.tensor(w.astype(np.float32), requires_grad=True), []
        made = {"sgd": torch.optim.SGD, "momentum": lambda p, lr: torch.optim.SGD(p, lr, momentum=0.9)}
        loop = made.get(optimizer, torch.optim.Adam)([held], lr=0.1)
        for _ in range(3):
            state = step.next(run({"x": x, **state, "learning_rate": np.float32(0.1)}))
            held.grad = torch.tensor(x.astype(np.float32))
            loop.step()
            held.data = torch.tensor(held.data.numpy().astype(kind).astype(np.float32))  # the parameter itself is narrow
            assert state["w"].dtype == kind
            np.testing.assert_allclose(
                state["w"].astype(np.float32), held.detach().numpy(), rtol=2 * float(ml_dtypes.finfo(kind).eps)
            )
        assert state["w"][0] < w[0] if optimizer == "adam" else state["w"][3] < w[3]
        assert state["w"][2] == w[2]


def test_a_path_is_taken_as_by_run(tmp_path) -> None:
    file = tmp_path / "mlp.onnx"
    mlp().save(file)
    assert set(training_step(file).initial) == set(training_step(mlp()).initial) == {"w", "b", "v"}
