"""Convolutions and matrix products with what stands around them."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from deep_bench.errors import Unsupported
from deep_bench.reference.operators.contrib import convolution, linear

RNG = np.random.default_rng(2)


def random(*shape, dtype=np.float32):
    return RNG.standard_normal(shape).astype(dtype)


AFTER_CONV = {
    "Relu": (),
    "Tanh": (),
    "Sigmoid": (),
    "LeakyRelu": (0.2,),
    "Clip": (-0.5, 0.7),
    "HardSigmoid": (0.3, 0.4),
    "HardSwish": (),
}
AFTER_GEMM = {
    "Celu": {"alpha": 0.3},
    "Elu": {"alpha": 0.3},
    "HardSigmoid": {"alpha": 0.3, "beta": 0.4},
    "LeakyRelu": {"alpha": 0.3},
    "ParametricSoftplus": {"alpha": 0.3, "beta": 0.4},
    "Relu": {},
    "ScaledTanh": {"alpha": 0.3, "beta": 0.4},
    "Selu": {"alpha": 0.3, "gamma": 1.1},
    "Sigmoid": {},
    "Softplus": {},
    "Softsign": {},
    "Tanh": {},
    "ThresholdedRelu": {"alpha": 0.3},
}


@pytest.mark.parametrize("name", AFTER_CONV)
def test_conv_with_each_activation(judge, name) -> None:
    inputs = [random(2, 4, 5, 6), random(3, 4, 3, 3), random(3)]
    values = {"activation_params": AFTER_CONV[name]} if AFTER_CONV[name] else {}
    judge("FusedConv", inputs, activation=name, pads=[1, 1, 1, 1], **values)


@pytest.mark.parametrize(
    "attributes",
    [
        {},
        {"group": 2},
        {"pads": [1, 0, 2, 1], "strides": [2, 1]},
        {"dilations": [2, 1]},
        {"auto_pad": "SAME_UPPER", "strides": [2, 2]},
        {"auto_pad": "SAME_LOWER"},
        {"auto_pad": "VALID", "kernel_shape": [3, 3]},
    ],
)
@pytest.mark.parametrize("bias", [False, True])
def test_conv_with_each_attribute(judge, attributes, bias) -> None:
    inputs = [random(1, 4, 7, 6), random(6, 4 // attributes.get("group", 1), 3, 3), random(6) if bias else None]
    judge("FusedConv", inputs, activation="Relu", **attributes)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("activation", [{}, {"activation": "Relu"}])
def test_conv_with_a_summand(judge, bias, activation) -> None:
    inputs = [random(2, 4, 5, 5), random(3, 4, 3, 3), random(3) if bias else None, random(2, 3, 3, 3)]
    judge("FusedConv", inputs, **activation)


@pytest.mark.parametrize("spatial", [(7,), (4, 5, 6)])
def test_conv_of_other_ranks_and_formats(judge, spatial) -> None:
    judge("FusedConv", [random(2, 2, *spatial), random(3, 2, *(2,) * len(spatial))], activation="Tanh")


def test_conv_of_halves_and_of_nothing(judge) -> None:
    halves = [random(1, 2, 4, 4, dtype=np.float16), random(3, 2, 3, 3, dtype=np.float16)]
    judge("FusedConv", halves, activation="Relu", atol=4e-3)
    judge("FusedConv", [random(0, 2, 4, 4), random(3, 2, 3, 3)], activation="Relu")


def test_conv_of_doubles_is_a_sum_of_products() -> None:
    x, w, z = (
        random(1, 2, 3, 3, dtype=np.float64),
        random(1, 2, 3, 3, dtype=np.float64),
        random(1, 1, 1, 1, dtype=np.float64),
    )
    y = convolution.FusedConv(x, w, None, z, activation="LeakyRelu", activation_params=(0.1,))
    total = np.sum(x * w) + z.item()
    assert y.item() == pytest.approx(total if total > 0 else 0.1 * total)


@pytest.mark.parametrize(
    ("name", "values", "message"), [("Softplus", (), "activation='Softplus'"), ("Clip", (0.0,), "no high"), ("", (), "''")]
)
def test_conv_refuses_activations_without_a_meaning(name, values, message) -> None:
    with pytest.raises(Unsupported, match=message):
        convolution.FusedConv(random(1, 1, 3, 3), random(1, 1, 3, 3), activation=name, activation_params=values)


@pytest.mark.parametrize("pads", [[0, 0, 0, 0], [1, 1, 0, 1]])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("group", [1, 2])
def test_conv_transpose_with_pads_as_an_input(judge, pads, bias, group) -> None:
    inputs = [random(1, 4, 5, 5), random(4, 3, 3, 3), np.array(pads), random(3 * group) if bias else None]
    judge("ConvTransposeWithDynamicPads", inputs, group=group, strides=[2, 2], output_padding=[1, 1])


@pytest.mark.parametrize("name", AFTER_GEMM)
def test_gemm_with_each_activation(judge, name) -> None:
    values = {f"activation_{parameter}": value for parameter, value in AFTER_GEMM[name].items()}
    judge("FusedGemm", [random(3, 4), random(4, 5), random(5)], activation=name, **values)


@pytest.mark.parametrize(("ta", "tb"), list(itertools.product((0, 1), repeat=2)))
@pytest.mark.parametrize("c", [None, (), (5,), (3, 1), (3, 5)])
def test_gemm_with_each_attribute(judge, ta, tb, c) -> None:
    inputs = [random(*((4, 3) if ta else (3, 4))), random(*((5, 4) if tb else (4, 5)))]
    inputs += [] if c is None else [np.asarray(random(*c))]
    judge("FusedGemm", inputs, transA=ta, transB=tb, alpha=0.5, beta=2.0, activation="Relu")


def test_gemm_refuses_an_activation_without_its_parameter() -> None:
    with pytest.raises(Unsupported, match="no alpha"):
        linear.FusedGemm(random(2, 2), random(2, 2), activation="LeakyRelu")


@pytest.mark.parametrize(("ta", "tb"), list(itertools.product((0, 1), repeat=2)))
@pytest.mark.parametrize("lead", [((), ()), ((2,), ()), ((2, 1), (3,)), ((0,), (1,))])
@pytest.mark.parametrize("name", ["FusedMatMul", "TransposeMatMul"])
def test_matmul_transposed(judge, ta, tb, lead, name) -> None:
    a = random(*lead[0], *((4, 3) if ta else (3, 4)))
    b = random(*lead[1], *((5, 4) if tb else (4, 5)))
    judge(name, [a, b], transA=ta, transB=tb, alpha=0.5)


@pytest.mark.parametrize(("ta", "tb"), list(itertools.product((0, 1), repeat=2)))
@pytest.mark.parametrize(("batch_a", "batch_b"), [(0, 1), (1, 0), (1, 1)])
def test_matmul_with_the_batch_inside(judge, ta, tb, batch_a, batch_b) -> None:
    def matrices(rows, columns, swapped, inside):
        rows, columns = (columns, rows) if swapped else (rows, columns)
        return random(rows, 2, 3, columns) if inside else random(2, 3, rows, columns)

    a, b = matrices(5, 4, ta, batch_a), matrices(4, 6, tb, batch_b)
    judge("FusedMatMul", [a, b], transA=ta, transB=tb, transBatchA=batch_a, transBatchB=batch_b)


@pytest.mark.parametrize("dtype", [np.float16, np.float64])
def test_matmul_of_other_formats(judge, dtype) -> None:
    judge("FusedMatMul", [random(3, 4, dtype=dtype), random(4, 5, dtype=dtype)], alpha=2.0)


def test_matmul_leaves_vectors_as_they_are(judge) -> None:
    judge("FusedMatMul", [random(4), random(4, 6)], transA=1)
    judge("FusedMatMul", [random(3, 4), random(4)], transB=1)
    judge("FusedMatMul", [random(2, 0), random(0, 3)])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_inverse(judge, dtype) -> None:
    judge("Inverse", [random(2, 4, 4, dtype=dtype) + 4 * np.eye(4, dtype=dtype)])
