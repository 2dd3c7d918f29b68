"""Hand-written modules as executors, and as networks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import deep_bench as db
from deep_bench.adapters.export import check_export
from deep_bench.adapters.torch import wrap
from deep_bench.errors import InvalidArgument, InvalidInput, InvalidNetwork, UnknownName, Unsupported
from deep_bench.tensor import TensorSpec

F32 = np.dtype(np.float32)
SPEC = [TensorSpec("x", ("batch", 3), F32)]


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm, self.second = nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2)

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        y = self.second(torch.relu(self.norm(self.first(x))))
        return {"y": y, "loss": y.square().mean()}


@pytest.fixture
def net() -> Net:
    torch.manual_seed(0)
    net = Net()
    net(torch.randn(50, 3) * 3 + 1)  # so that the running statistics are those of data
    return net


@pytest.fixture
def x() -> torch.Tensor:
    return torch.randn(5, 3, generator=torch.Generator().manual_seed(1))


def test_it_gives_what_the_module_gives_in_evaluation_mode(net: Net, x: torch.Tensor) -> None:
    executor = wrap(net, SPEC, ["y", "loss"])
    found = executor({"x": x.numpy()})
    net.eval()
    assert np.array_equal(found["y"], net(x)["y"].detach().numpy())
    assert executor.output_names == ("y", "loss")


def state(module: nn.Module) -> tuple[Any, ...]:
    """All that using a module could change in it and around it."""
    return (
        [(name, part.training) for name, part in module.named_modules()],
        [(name, p.requires_grad, p.grad, id(p), p.detach().numpy().tobytes()) for name, p in module.named_parameters()],
        [(name, id(b), b.numpy().tobytes()) for name, b in module.named_buffers()],
        torch.get_rng_state().numpy().tobytes(),
        (torch.is_grad_enabled(), torch.is_inference_mode_enabled(), torch.get_num_threads()),
    )


class Regular(Net):
    """A module that draws random numbers, with a part that is in another mode, one that is frozen, and one that can fail."""

    def __init__(self) -> None:
        super().__init__()
        self.drop, self.fail = nn.Dropout(), False
        self.second.eval()
        self.first.weight.requires_grad_(False)

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        if self.fail:
            raise RuntimeError("no more")
        return super().forward(self.drop(x))


def use_all(module: Any, x: torch.Tensor) -> None:
    executor = wrap(module, {"x": x})
    executor({"x": x.numpy()})
    executor.forward({"x": x})
    call = executor.bind({"x": x})
    assert torch.equal(call()["y"], call()["y"])  # without dropout
    wrap(module, {"x": x}, mode="train")  # tried once in training mode
    wrap(module, SPEC, ["y", "loss"], mode="train")
    call = executor.bind({"x": x})
    module.fail = True
    for broken in (call, lambda: executor.forward({"x": x}), lambda: wrap(module, {"x": x}), lambda: compared(module, x)):
        with pytest.raises(RuntimeError, match="no more"):
            broken()
    module.fail = False
    compared(module, x)


def compared(module: Any, x: torch.Tensor) -> None:
    found = db.network.compare({"a": module, "b": module}, {"x": x.numpy()}, budget=0.05)
    if found["a"].word == "failed":
        raise RuntimeError(found["a"].reason)


def test_a_module_is_left_as_it_was(x: torch.Tensor) -> None:
    module = Regular()
    module.second.weight.grad = torch.ones_like(module.second.weight)
    before = state(module)
    use_all(module, x)
    assert state(module) == before


def test_a_part_that_does_more_when_its_mode_changes_is_told(x: torch.Tensor) -> None:
    """As the layers of LoRA, which merge their weights for evaluation."""

    class Merging(nn.Linear):
        merged = False

        def train(self, mode: bool = True) -> Merging:
            self.merged = not mode
            return super().train(mode)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            assert self.merged is not self.training
            return super().forward(x) + float(self.merged)

    module = Regular()
    module.first = Merging(3, 4)
    before, merged = state(module), module.first.merged
    use_all(module, x)
    assert state(module) == before
    assert module.first.merged is merged is False
    plain = Merging(3, 4)
    found = wrap(plain, {"input": x}, ["y"])({"input": x.numpy()})["y"]
    assert np.allclose(found, nn.functional.linear(x, plain.weight, plain.bias).detach().numpy() + 1)


def test_a_scripted_module_is_left_as_it_was(x: torch.Tensor) -> None:
    with pytest.warns(DeprecationWarning, match="script"):
        module = torch.jit.script(nn.Sequential(nn.Dropout(), nn.Linear(3, 2).eval()))
    before = [part.training for part in module.modules()]
    call = wrap(module, {"input": x}, ["y"]).bind({"input": x})
    assert torch.equal(call()["y"], call()["y"])
    assert [part.training for part in module.modules()] == before == [True, True, False]
    assert not torch.equal(module(x), module(x))


def test_a_module_whose_mode_changes_later_is_still_evaluated(x: torch.Tensor) -> None:
    module = nn.Dropout(0.9).eval()
    call = wrap(module, {"input": x}, ["y"]).bind({"input": x})
    module.train()
    assert torch.equal(call()["y"], x)
    assert module.training


def test_open_dimensions_take_any_size_and_fixed_ones_only_theirs(net: Net) -> None:
    assert wrap(net, SPEC, ["y", "loss"])({"x": np.zeros((9, 3), np.float32)})["y"].shape == (9, 2)
    with pytest.raises(InvalidInput, match=r"float32\[9, 3\]"):
        wrap(net, {"x": torch.zeros(1, 3)})({"x": np.zeros((9, 3), np.float32)})


def test_bound_calls_see_what_is_written_into_their_inputs(net: Net, x: torch.Tensor) -> None:
    net.eval()
    call = wrap(net, SPEC, ["y", "loss"]).bind({"x": x})
    before = call()["y"].clone()
    x.mul_(2)
    assert torch.equal(call()["y"], net(x)["y"])
    assert not torch.equal(call()["y"], before)


def test_outputs_are_fresh() -> None:
    executor = wrap(nn.Identity(), {"input": torch.ones(2)}, ["y"])
    given = torch.ones(2)
    found = executor.forward({"input": given})["y"]
    given.fill_(5)
    assert found.tolist() == [1, 1]


def test_parameters_are_read_and_assigned_without_copying(net: Net, x: torch.Tensor) -> None:
    executor = wrap(net, SPEC, ["y", "loss"])
    assert sorted(executor.parameters) == sorted(name for name, _ in net.named_parameters())
    assert executor.parameters["second.bias"] is net.second.bias
    new = torch.tensor([7.0, -7.0])
    executor.parameters["second.bias"] = new
    before = executor.forward({"x": x})["y"]
    new += 1
    assert torch.allclose(executor.forward({"x": x})["y"], before + 1)
    with pytest.raises(InvalidArgument, match=r"float32\[3\]"):
        executor.parameters["second.bias"] = torch.zeros(3)
    with pytest.raises(UnknownName, match=r"did you mean 'second.bias'"):
        executor.parameters["second.bia"]
    with pytest.raises(Unsupported, match="cannot be deleted"):
        del executor.parameters["second.bias"]
    assert "nobody" not in executor.parameters


def test_tied_weights_are_assigned_in_all_places() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False)
            self.b.weight = self.a.weight

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.b(self.a(x))

    executor = wrap(Tied(), {"x": torch.ones(1, 2)}, ["y"])
    executor.parameters["a.weight"] = 2 * torch.eye(2)
    assert list(executor.parameters) == ["a.weight"]
    assert executor({"x": np.ones((1, 2), np.float32)})["y"].tolist() == [[4, 4]]


def test_gradients_are_autograds(net: Net, x: torch.Tensor) -> None:
    net.eval()
    executor = wrap(net, SPEC, ["y", "loss"], mode="train")
    told: list[str] = []
    outputs, gradients = executor.gradients(
        {"x": x}, "loss", wrt=["second.weight", "x"], on_ready=lambda n, _: told.append(n)
    )
    fed = x.clone().requires_grad_()
    expected = torch.autograd.grad(net(fed)["loss"], [net.second.weight, fed])
    assert all(torch.equal(a, b) for a, b in zip(gradients.values(), expected, strict=True))
    assert told == ["second.weight", "x"]
    assert not outputs["y"].requires_grad
    assert x.grad is None
    assert net.second.weight.grad is None
    everything = executor.gradients({"x": x}, "loss")[1]
    assert sorted(everything) == sorted(executor.parameters)


def test_gradients_are_zero_where_the_loss_does_not_depend(x: torch.Tensor) -> None:
    class Half(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.used, self.unused = nn.Parameter(torch.ones(3)), nn.Parameter(torch.ones(2))

        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return (x * self.used).sum(), x.sum() * 0 + 1

    executor = wrap(Half(), {"x": x}, ["loss", "other"], mode="train")
    found = executor.gradients({"x": x}, "loss")[1]
    assert torch.allclose(found["used"], x.sum(0))
    assert found["unused"].tolist() == [0, 0]
    assert executor.gradients({"x": x}, "other")[1]["used"].tolist() == [0, 0, 0]


def test_the_gradients_of_the_exported_network_are_the_modules(net: Net, x: torch.Tensor) -> None:
    pytest.importorskip("onnxscript")
    net.eval()
    network = db.Network.from_torch(net, {"x": x})
    native = wrap(net, {"x": x}, mode="train")
    reference = db.frameworks["reference"]().prepare(network, mode="train")
    _, ours = native.gradients({"x": x}, "loss", wrt=["x"])
    _, theirs = reference.gradients({"x": x.numpy()}, "loss", wrt=["x"])
    assert np.allclose(ours["x"].numpy(), theirs["x"], rtol=1e-4, atol=1e-7)


def test_gradients_are_judged_as_outputs_of_the_derived_network(net: Net, x: torch.Tensor) -> None:
    pytest.importorskip("onnxscript")
    net.eval()
    wrt = ["first.weight", "second.bias"]
    derived = db.network.differentiate(db.Network.from_torch(net, {"x": x}), wrt=wrt)
    native = wrap(net, {"x": x}, mode="train")
    outputs, gradients = native.gradients({"x": x}, "loss", wrt=wrt)
    ours = {n: y.numpy() for n, y in outputs.items()}
    ours |= {db.network.gradient_name("loss", n): g.numpy() for n, g in gradients.items()}
    wrong = {n: y * np.float32(2) if "first" in n else y for n, y in ours.items()}
    found = db.network.compare(
        {"autograd": ours, "doubled": wrong, "derived": "onnxruntime:threads=1"}, {"x": x.numpy()}, network=derived, budget=0
    )
    assert [system.word for system in found.values()] == ["right", "wrong", "right"]
    assert "'d(loss)/d(first.weight)'" in found["doubled"].reason


@pytest.mark.parametrize(
    ("loss", "wrt", "error"),
    [
        ("nobody", None, "no output 'nobody'"),
        ("y", None, r"float32\[5, 2\]"),
        ("loss", ["nobody"], "'nobody'"),
        ("loss", ["x", "x"], "each name once"),
    ],
)
def test_gradients_that_do_not_exist_are_refused(net: Net, x: torch.Tensor, loss: str, wrt: Any, error: str) -> None:
    with pytest.raises(InvalidArgument, match=error):
        wrap(net, SPEC, ["y", "loss"], mode="train").gradients({"x": x}, loss, wrt=wrt)


def test_a_module_for_inference_has_no_gradients(net: Net, x: torch.Tensor) -> None:
    with pytest.raises(Unsupported, match="inference"):
        wrap(net, SPEC, ["y", "loss"]).gradients({"x": x}, "loss")


@pytest.mark.parametrize(
    ("result", "names", "expected"),
    [
        (lambda x: x, None, ("output",)),
        (lambda x: (x, x + 1), None, ("output_0", "output_1")),
        (lambda x: {"b": x, "a": x}, None, ("b", "a")),
        (lambda x: {"b": x, "a": x}, ["a", "b"], ("a", "b")),
    ],
)
def test_outputs_get_names(result: Any, names: Any, expected: tuple[str, ...]) -> None:
    class Returns(nn.Module):
        def forward(self, x: torch.Tensor) -> Any:
            return result(x)

    executor = wrap(Returns(), torch.ones(2), names)
    assert executor.output_names == expected
    assert executor.inputs[0].name == "x"
    assert list(executor({"x": np.ones(2, np.float32)})) == list(expected)


def test_inputs_go_to_the_parameters_of_their_names() -> None:
    class Minus(nn.Module):
        def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
            return a - b

    one, two = np.ones(1, np.float32), np.full(1, 2, np.float32)
    assert wrap(Minus(), {"b": one, "a": two})({"a": two, "b": one})["output"].tolist() == [1]
    assert wrap(Minus(), {"left": one, "right": two})({"right": two, "left": one})["output"].tolist() == [-1]


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda: wrap(lambda x: x, torch.ones(1)), "to wrap"),
        (lambda: wrap(Net(), SPEC), "no names of outputs"),
        (lambda: wrap(nn.Sequential(nn.Linear(3, 2)), {"x": [1, 2]}), "type list"),
        (lambda: wrap(Net(), SPEC, ["y", "loss"], mode="training"), "mode='training'"),
        (lambda: wrap(Net(), {"x": torch.ones(2, 3)}, ["y"])({"x": np.ones((2, 3), np.float32)}), "returned 2 values"),
    ],
)
def test_what_cannot_be_wrapped_is_refused(make: Any, error: str) -> None:
    with pytest.raises(InvalidArgument, match=error):
        make()


def test_results_that_are_no_tensors_are_refused() -> None:
    class Odd(nn.Module):
        def forward(self, x: torch.Tensor) -> Any:
            return x, "text"

    with pytest.raises(Unsupported, match="'output_1' of Odd is a str"):
        wrap(Odd(), torch.ones(1))({"x": np.ones(1, np.float32)})


def test_an_exported_module_has_its_names_open_dimensions_and_values(net: Net, x: torch.Tensor) -> None:
    pytest.importorskip("onnxscript")
    network = db.Network.from_torch(net, (x,), dynamic={"x": {0: "batch"}}, name="ours")
    assert net.training and net.norm.training  # noqa: PT018 (as it was)
    assert [str(spec) for spec in network.inputs] == ["x: float32[batch, 3]"]
    assert [spec.name for spec in network.outputs] == ["y", "loss"]
    assert network.name == "ours"
    assert "first.weight" in network.parameters
    found = db.frameworks["onnxruntime"]().prepare(network)({"x": x[:2].numpy()})["y"]
    assert np.allclose(found, net.eval()(x[:2])["y"].detach().numpy(), rtol=1e-5, atol=1e-6)
    assert "/" not in str([node.metadata_props for node in network.nodes])


def test_parameters_of_an_exported_module_are_the_modules(net: Net, x: torch.Tensor) -> None:
    """No weights with a batch normalization's factors in them, under the name of the weights without."""
    pytest.importorskip("onnxscript")
    network = db.Network.from_torch(net, {"x": x})
    own = {name: p.detach().numpy() for name, p in net.named_parameters()}
    assert all(np.array_equal(network.initializers[name], array) for name, array in own.items())
    assert [node.op_type for node in network.nodes].count("BatchNormalization") == 1


def test_open_dimensions_of_a_module_of_any_arguments() -> None:
    pytest.importorskip("onnxscript")

    class Total(nn.Module):
        def forward(self, *parts: torch.Tensor) -> torch.Tensor:
            return sum(parts[1:], parts[0])

    example = {"a": torch.ones(3, 2), "b": torch.ones(3, 2)}
    network = db.Network.from_torch(Total(), example, dynamic={"a": {0: "n"}, "b": {0: "n"}})
    assert [str(spec) for spec in network.inputs] == ["a: float32[n, 2]", "b: float32[n, 2]"]


def test_a_wrapped_module_can_be_watched(x: torch.Tensor) -> None:
    seen: list[Any] = []
    executor = wrap(nn.Identity(), {"input": x}, ["y"])
    executor.watch(lambda moment, *_: seen.append(moment.value))({"input": x.numpy()})
    assert seen == ["before call", "after call"]


def test_an_export_that_computes_something_else_is_refused(net: Net, x: torch.Tensor) -> None:
    pytest.importorskip("onnxscript")
    network, arrays = db.Network.from_torch(net, {"x": x}), {"x": x.numpy()}
    right = wrap(net, {"x": x})(arrays)
    check_export(network, arrays, right, "Net")
    with pytest.raises(InvalidNetwork, match="'y' is off by"):
        check_export(network, arrays, {**right, "y": right["y"] * np.float32(1.01)}, "Net")


def test_what_torch_cannot_export_is_refused_with_its_reason() -> None:
    pytest.importorskip("onnxscript")

    class Branching(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + 1 if x.sum() > 0 else x - 1

    with pytest.raises(Unsupported, match="cannot export Branching"):
        db.Network.from_torch(Branching(), {"x": torch.ones(2)})
    with pytest.raises(InvalidArgument, match="open dimensions of 'z'"):
        db.Network.from_torch(nn.Identity(), {"x": torch.ones(2)}, dynamic={"z": {0: "n"}})


@pytest.mark.parametrize("outputs", [["y", "y"], ["y", "loss", "y"]])
def test_one_name_for_two_outputs_is_refused(net: Net, x: torch.Tensor, outputs: list[str]) -> None:
    with pytest.raises(InvalidArgument, match="2 outputs of Net called 'y'"):
        wrap(net, {"x": x}, outputs)
    with pytest.raises(InvalidArgument, match="2 inputs of Net called 'x'"):
        wrap(net, [*SPEC, *SPEC], ["y"])


def test_what_is_no_parameter_of_a_module_is_none_of_the_network(x: torch.Tensor) -> None:
    pytest.importorskip("onnxscript")

    class Shifted(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(3, 2)
            self.register_buffer("mean", torch.tensor([1.0, 2.0, 3.0]))

        def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
            return {"y": self.layer(x - self.mean), "shift": self.mean + 1, "same": self.mean}

    network = db.Network.from_torch(Shifted(), {"x": x})
    assert set(network.parameters) == {"layer.weight", "layer.bias"}
    assert set(db.frameworks["torch"]().prepare(network, mode="train").parameters) == {"layer.weight", "layer.bias"}


@pytest.mark.long
@pytest.mark.parametrize("x", [torch.full((5, 3), float("nan")), torch.zeros(0, 3)], ids=["nan", "empty"])
def test_an_export_is_not_checked_by_an_example_that_tells_nothing(x: torch.Tensor) -> None:
    pytest.importorskip("onnxscript")
    module = nn.Sequential(nn.Linear(3, 2))
    with pytest.raises(Unsupported, match="cannot be checked: the outputs are"):
        db.Network.from_torch(module, {"input": x})
    assert db.Network.from_torch(module, {"input": x}, check=False).parameters
