"""Functions of every framework as operators: forward, gradients, attributes, and the way to another process."""

from __future__ import annotations

import functools
import pickle
from typing import Any

import numpy as np
import pytest

import deep_bench as db
from deep_bench.errors import FrameworkMissing, InvalidArgument, UnknownName, Unsupported, UnsupportedOperator
from deep_bench.network.gradient.pullback import LOSS, pull_back
from deep_bench.operators import Case, Host, Operator, wrap
from deep_bench.operators.operator import KernelAdapter, KernelExecutor
from deep_bench.operators.wrapping import home_of
from deep_bench.workers.pickling import dumped

GELU = {kind: Case.of("Gelu", (4, 5), approximate=kind) for kind in ("none", "tanh")}


def executor(operator: Operator[Any], case: Case) -> KernelExecutor:
    return KernelAdapter(operator).prepare(case.network())


def forward_error(operator: Operator[Any], case: Case, seed: int = 0) -> float:
    """The largest difference from the reference."""
    arrays = case.arrays(seed)
    (expected,) = db.frameworks["reference"]().prepare(case.network())(arrays).values()
    (found,) = executor(operator, case)(arrays).values()
    assert found.dtype == expected.dtype
    return float(abs(found - expected).max())


def backward_error(operator: Operator[Any], case: Case, seed: int = 0) -> float:
    """The largest difference from the gradients that `differentiate` derives."""
    network, arrays, device = case.network(), case.arrays(seed), operator.device
    (spec,) = network.outputs
    weight = np.random.default_rng(seed).normal(size=case.results[0].shape).astype(spec.dtype)
    posed = pull_back(network, arrays, {spec.name: weight})
    reference = db.frameworks["reference"]().prepare(posed.network, mode="train")
    _, expected = reference.gradients(posed.inputs, LOSS, wrt=posed.wrt)
    native = {name: device.from_numpy(array) for name, array in arrays.items()}
    found = executor(operator, case).pull_back(native, [device.from_numpy(weight)])
    named = dict(zip((s.name for s in network.inputs), found, strict=True))
    return max(float(abs(device.to_numpy(named[name]) - g).max()) for name, g in expected.items())


def agrees(operator: Operator[Any], *cases: Case) -> bool:
    """Whether it is right forward and backward, for two inputs one after the other, here and after pickling."""
    copy = pickle.loads(dumped(operator, operator.name))
    assert copy.name == operator.name
    return all(
        forward_error(o, case, seed) < 1e-5 and backward_error(o, case, seed) < 1e-5
        for o in (operator, copy)
        for case in cases
        for seed in (0, 1)
    )


# NumPy


def test_a_function_of_numpy_arrays() -> None:
    relu = wrap(lambda x: np.maximum(x, 0), computes="Relu", backward=lambda grads, inputs, _: (grads[0] * (inputs[0] > 0),))
    assert isinstance(relu.device, Host)
    assert relu.differentiates
    assert agrees(relu, Case.of("Relu", (3, 4)))


def test_a_universal_function_takes_no_attributes() -> None:
    tanh = wrap(np.tanh, computes="Tanh")
    assert (tanh.name, tanh.differentiates) == ("tanh", False)
    assert forward_error(tanh, Case.of("Tanh", (3, 4))) == 0
    with pytest.raises(Unsupported, match=r"tanh has no gradient(.|\n)*backward="):
        executor(tanh, Case.of("Tanh", (2,))).pull_back({"input": np.ones(2, np.float32)}, [np.ones(2, np.float32)])


def test_attributes_go_where_there_is_a_keyword_for_them() -> None:
    leaky = wrap(lambda x, alpha=0.01: np.where(x < 0, x.dtype.type(alpha) * x, x), computes="LeakyRelu", name="leaky")
    assert forward_error(leaky, Case.of("LeakyRelu", (3, 4), alpha=0.2)) < 1e-7
    plain = wrap(lambda x: np.where(x < 0, np.float32(0.01) * x, x), computes="LeakyRelu", name="plain")
    assert forward_error(plain, Case.of("LeakyRelu", (3, 4))) < 1e-7
    with pytest.raises(UnsupportedOperator, match=r"plain\.forward has no keyword argument 'alpha'"):
        executor(plain, Case.of("LeakyRelu", (3, 4), alpha=0.2))


# torch


def torch_gelu(x: Any, *, approximate: str = "none") -> Any:
    import torch

    return torch.nn.functional.gelu(x, approximate=approximate)


def test_functions_of_torch() -> None:
    torch = pytest.importorskip("torch")
    assert agrees(wrap(torch_gelu, computes="Gelu"), *GELU.values())
    assert agrees(wrap(torch.nn.functional.gelu, computes="Gelu"), GELU["none"])
    assert agrees(wrap(torch.matmul, computes="MatMul"), Case.of("MatMul", (3, 4), (4, 2)))


@pytest.mark.long
def test_a_torch_function_that_is_compiled() -> None:
    torch = pytest.importorskip("torch")
    assert agrees(wrap(torch_gelu, computes="Gelu", device="torch:compile=aot_eager"), *GELU.values())
    compiled = wrap(torch.compile(torch_gelu, backend="aot_eager"), computes="Gelu")
    assert forward_error(compiled, GELU["tanh"]) < 1e-6
    assert backward_error(compiled, GELU["tanh"]) < 1e-6
    with pytest.raises(InvalidArgument, match="device='torch:compile=inductor'"):
        dumped(compiled, compiled.name)


def test_a_module() -> None:
    torch = pytest.importorskip("torch")
    assert agrees(wrap(torch.nn.GELU(), computes="Gelu"), GELU["none"])
    linear = torch.nn.Linear(4, 2, bias=False)
    with torch.no_grad():
        linear.weight[:] = torch.arange(8.0).reshape(2, 4)

    def reference(x: np.ndarray) -> np.ndarray:
        return x @ np.arange(8, dtype=np.float32).reshape(2, 4).T

    operator = wrap(linear, computes=reference)
    assert forward_error(operator, Case.of(reference, (3, 4))) < 1e-5
    assert not operator.forward(torch.ones(3, 4)).requires_grad  # timing it records nothing


def test_an_operator_of_the_torch_library() -> None:
    torch = pytest.importorskip("torch")

    @torch.library.custom_op("deep_bench_tests::relu", mutates_args=(), schema="(Tensor x) -> Tensor")
    def relu(x: Any) -> Any:
        return torch.relu(x).clone()

    case = Case.of("Relu", (3, 4))
    assert not wrap(relu, computes="Relu").differentiates
    relu.register_autograd(
        lambda ctx, g: g * (ctx.saved_tensors[0] > 0),
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(inputs[0]),
    )
    for operator in (wrap(relu, computes="Relu"), wrap(torch.ops.deep_bench_tests.relu, computes="Relu")):
        assert forward_error(operator, case) == 0
        assert backward_error(operator, case) == 0
        with pytest.raises(InvalidArgument, match="registered in this process"):
            dumped(operator, operator.name)


def test_a_gradient_that_torch_does_not_see_is_no_zero() -> None:
    torch = pytest.importorskip("torch")
    hidden = wrap(
        lambda x: torch.from_numpy(np.maximum(x.detach().numpy(), 0)), computes="Relu", device="torch", name="hidden"
    )
    with pytest.raises(Unsupported, match="autograd does not see"):
        backward_error(hidden, Case.of("Relu", (3,)))


def test_gradients_are_found_anew_where_inputs_changed() -> None:
    torch = pytest.importorskip("torch")
    square = wrap(lambda x: torch.square(x), computes=lambda x: x * x)
    x = torch.tensor([1.0, 2.0])
    ones = torch.ones(2)
    assert square.backward([ones], [x], [x * x])[0].tolist() == [2, 4]
    assert square.backward([2 * ones], [x], [x * x])[0].tolist() == [4, 8]
    x += 1
    assert square.backward([ones], [x], [x * x])[0].tolist() == [4, 6]


@pytest.mark.gpu
def test_the_launch_of_a_triton_kernel() -> None:
    torch = pytest.importorskip("torch")
    triton = pytest.importorskip("triton")
    if not torch.cuda.is_available():
        pytest.skip("needs a CUDA device")
    import triton.language as tl

    @triton.jit
    def kernel(x, y, n, block: tl.constexpr):  # type: ignore[no-untyped-def]
        i = tl.program_id(0) * block + tl.arange(0, block)
        value = tl.load(x + i, mask=i < n)
        tl.store(y + i, tl.where(value > 0, value, 0.0), mask=i < n)

    def relu(x: Any) -> Any:
        y = torch.empty_like(x)
        kernel[(triton.cdiv(x.numel(), 256),)](x, y, x.numel(), block=256)
        return y

    operator = wrap(relu, computes="Relu")
    assert operator.device.target.type == "cuda"  # type: ignore[attr-defined]
    assert not operator.differentiates
    assert forward_error(operator, Case.of("Relu", (1000,))) == 0


# TensorFlow


def tensorflow_gelu(x: Any, *, approximate: str = "none") -> Any:
    import tensorflow as tf

    return tf.nn.gelu(x, approximate=approximate == "tanh")


def test_functions_of_tensorflow() -> None:
    tf = pytest.importorskip("tensorflow")
    assert agrees(wrap(tensorflow_gelu, computes="Gelu"), *GELU.values())
    assert agrees(wrap(tf.function(tensorflow_gelu), computes="Gelu"), *GELU.values())
    assert agrees(wrap(tensorflow_gelu, computes="Gelu", device="tensorflow:jit=xla"), GELU["tanh"])
    assert agrees(wrap(tf.matmul, computes="MatMul"), Case.of("MatMul", (3, 4), (4, 2)))
    relu = wrap(tf.keras.layers.Activation("relu"), computes="Relu")
    assert forward_error(relu, Case.of("Relu", (3, 4))) == 0
    assert backward_error(relu, Case.of("Relu", (3, 4))) == 0


def test_a_gradient_that_tensorflow_does_not_see_is_no_zero() -> None:
    tf = pytest.importorskip("tensorflow")
    hidden = wrap(lambda x: tf.constant(np.maximum(x.numpy(), 0)), computes="Relu", device="tensorflow", name="hidden")
    with pytest.raises(Unsupported, match="does not see how"):
        backward_error(hidden, Case.of("Relu", (3,)))


# jax


def jax_gelu(x: Any, *, approximate: str = "none") -> Any:
    import jax

    return jax.nn.gelu(x, approximate=approximate == "tanh")


def test_functions_of_jax() -> None:
    jax = pytest.importorskip("jax", reason="jax is not installed")
    assert agrees(wrap(jax_gelu, computes="Gelu"), *GELU.values())
    assert agrees(wrap(jax.jit(jax_gelu, static_argnames="approximate"), computes="Gelu"), *GELU.values())
    assert agrees(wrap(jax.numpy.matmul, computes="MatMul", device="jax:device=cpu"), Case.of("MatMul", (3, 4), (4, 2)))
    with pytest.raises(Unsupported, match="jax_enable_x64"):
        wrap(jax_gelu, computes="Gelu").device.from_numpy(np.ones(2))


def test_jax_where_it_is_missing() -> None:
    try:
        import jax  # noqa: F401
    except ImportError:
        with pytest.raises(FrameworkMissing, match="needs jax"):
            wrap(jax_gelu, computes="Gelu")
    else:
        pytest.skip("jax is installed")


# Whose function it is


def test_whose_a_function_is() -> None:
    torch = pytest.importorskip("torch")
    tf = pytest.importorskip("tensorflow")

    def helper(x: Any) -> Any:
        return torch.relu(x)

    class Callable:
        def __call__(self, x: Any) -> Any:
            return helper(x)

    assert home_of(lambda x: x + 1) == "numpy"
    assert home_of(np.tanh) == "numpy"
    assert home_of(torch.relu) == home_of(torch.nn.ReLU()) == home_of(lambda x: torch.relu(x)) == "torch"
    assert home_of(lambda x: helper(x)) == home_of(functools.partial(helper)) == home_of(Callable()) == "torch"
    assert home_of(lambda x: (lambda y: tf.nn.relu(y))(x)) == home_of(tf.nn.relu) == home_of(tensorflow_gelu) == "tensorflow"
    with pytest.raises(InvalidArgument, match=r"names tensorflow and torch(.|\n)*device="):
        home_of(lambda x: torch.relu(tf.nn.relu(x)))


@pytest.mark.parametrize(
    ("given", "options", "message"),
    [
        (3, {}, "a int as an operator"),
        (Operator, {}, "use it as it is"),
        (dict, {}, "the class dict"),
        (np.tanh, {"backward": 3}, "backward=3"),
        (np.tanh, {"device": 3}, "device=3"),
        (np.tanh, {"computes": 3}, "computes is 3"),
    ],
)
def test_what_cannot_be_wrapped(given: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        wrap(given, **{"computes": "Tanh", **options})


def test_devices_that_do_not_fit() -> None:
    torch = pytest.importorskip("torch")
    with pytest.raises(UnknownName, match="did you mean 'torch'"):
        wrap(torch.relu, computes="Relu", device="toch")
    with pytest.raises(InvalidArgument, match="device='tpu'"):
        wrap(torch.relu, computes="Relu", device="torch:device=tpu")
    if not torch.cuda.is_available():
        with pytest.raises(Unsupported, match="device='cuda'"):
            wrap(torch.relu, computes="Relu", device="torch:device=cuda")
    module = torch.nn.Linear(2, 2, device="meta")
    with pytest.raises(InvalidArgument, match="a module on meta for the device cpu"):
        wrap(module, computes="Gemm", device="torch")


def test_a_frameworks_adapter_is_a_device() -> None:
    torch = pytest.importorskip("torch")
    adapter = db.frameworks["torch"]()
    assert wrap(torch.relu, computes="Relu", device=adapter).device is adapter
