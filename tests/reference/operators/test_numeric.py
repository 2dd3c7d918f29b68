"""What the standard's cases leave open: other formats, ranks, empty tensors, and properties that must hold."""

from __future__ import annotations

import itertools

import ml_dtypes
import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deep_bench.errors import Unsupported
from deep_bench.reference.operators import activation as act
from deep_bench.reference.operators import (
    attention,
    cast,
    convolution,
    elementwise,
    linear,
    loss,
    normalization,
    pooling,
    quantize,
    recurrent,
    reduction,
)

T = onnx.TensorProto
RNG = np.random.default_rng(7)


def random(*shape: int, dtype: object = np.float64) -> np.ndarray:
    return RNG.standard_normal(shape).astype(dtype)


CALLS = {
    "Conv": lambda c: convolution.Conv(c(2, 4, 5, 5), c(6, 2, 3, 3), c(6), group=2, pads=(1, 1, 1, 1)),
    "ConvTranspose": lambda c: convolution.ConvTranspose(c(2, 4, 5, 5), c(4, 3, 3, 3), c(3), strides=(2, 2)),
    "DeformConv": lambda c: convolution.DeformConv(c(1, 2, 5, 5), c(3, 2, 2, 2), c(1, 8, 4, 4), c(3)),
    "MatMul": lambda c: linear.MatMul(c(3, 4, 5), c(5, 2)),
    "Gemm": lambda c: linear.Gemm(c(4, 3), c(2, 4), c(2), alpha=0.5, beta=2.0, transA=1, transB=1),
    "Einsum": lambda c: linear.Einsum(c(3, 4), c(4, 5), equation="ij, jk -> ik"),
    "MaxPool": lambda c: pooling.MaxPool(c(1, 2, 6, 6), kernel_shape=(3, 3), strides=(2, 2), ceil_mode=1),
    "AveragePool": lambda c: pooling.AveragePool(c(1, 2, 6, 6), kernel_shape=(3, 3), pads=(1, 1, 1, 1)),
    "LpPool": lambda c: pooling.LpPool(c(1, 2, 6, 6), kernel_shape=(3, 3), p=3),
    "GlobalAveragePool": lambda c: pooling.GlobalAveragePool(c(1, 2, 6, 6)),
    "BatchNormalization": lambda c: normalization.BatchNormalization(c(2, 3, 4), c(3), c(3), c(3), c(3) ** 2),
    "LayerNormalization": lambda c: normalization.LayerNormalization(c(2, 3, 4), c(4), c(4)),
    "InstanceNormalization": lambda c: normalization.InstanceNormalization(c(2, 3, 4), c(3), c(3)),
    "GroupNormalization": lambda c: normalization.GroupNormalization(c(2, 4, 3), c(4), c(4), num_groups=2),
    "RMSNormalization": lambda c: normalization.RMSNormalization(c(2, 4), c(4)),
    "LRN": lambda c: normalization.LRN(c(2, 5, 3), size=3),
    "Softmax": lambda c: act.Softmax(c(3, 4)),
    "LogSoftmax": lambda c: act.LogSoftmax(c(3, 4), axis=0),
    "Gelu": lambda c: act.Gelu(c(3, 4)),
    "Selu": lambda c: act.Selu(c(3, 4)),
    "LeakyRelu": lambda c: act.LeakyRelu(c(3, 4)),
    "Sigmoid": lambda c: act.Sigmoid(c(3, 4)),
    "HardSwish": lambda c: act.HardSwish(c(3, 4)),
    "Erf": lambda c: elementwise.Erf(c(3, 4)),
    "Clip": lambda c: elementwise.Clip(c(3, 4), c()),
    "Mean": lambda c: elementwise.Mean(c(3, 4), c(4), c(3, 1)),
    "ReduceL2": lambda c: reduction.ReduceL2(c(3, 4)),
    "ReduceLogSumExp": lambda c: reduction.ReduceLogSumExp(c(3, 4), np.array([-1])),
    "CumSum": lambda c: reduction.CumSum(c(3, 4), np.array(1), exclusive=1),
    "LSTM": lambda c: recurrent.LSTM(c(3, 2, 4), c(2, 20, 4), c(2, 20, 5), c(2, 40), direction="bidirectional")[0],
    "GRU": lambda c: recurrent.GRU(c(3, 2, 4), c(1, 15, 4), c(1, 15, 5), c(1, 30), linear_before_reset=1)[0],
    "Attention": lambda c: attention.Attention(c(1, 4, 3, 2), c(1, 2, 5, 2), c(1, 2, 5, 2), is_causal=1)[0],
    "NegativeLogLikelihoodLoss": lambda c: loss.NegativeLogLikelihoodLoss(c(3, 4), np.array([0, 3, 1]), c(4) ** 2),
}


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("name", CALLS)
def test_results_have_the_format_of_the_input(name: str, dtype: type) -> None:
    arrays: list[np.ndarray] = []

    def fresh(*shape: int) -> np.ndarray:
        arrays.append((random(*shape) * 0.5).astype(dtype))
        return arrays[-1]

    found = np.asarray(CALLS[name](fresh))
    wide = iter(arrays)
    exact = CALLS[name](lambda *shape: next(wide).astype(np.float64))
    assert found.dtype == dtype
    u = float(ml_dtypes.finfo(dtype).eps) / 2
    np.testing.assert_allclose(found.astype(np.float64), exact, rtol=40 * u, atol=100 * u)


@pytest.mark.parametrize("name", CALLS)
def test_inputs_may_have_any_strides(name: str) -> None:
    seed = RNG.integers(1 << 30)
    plain, strided = np.random.default_rng(seed), np.random.default_rng(seed)

    def spread(*shape: int) -> np.ndarray:
        y = np.zeros([2 * n for n in shape][::-1]).T
        view = y[(slice(None, None, 2),) * len(shape)] if shape else y
        view[...] = strided.standard_normal(shape)
        return view

    np.testing.assert_allclose(CALLS[name](spread), CALLS[name](lambda *s: np.array(plain.standard_normal(s))), rtol=1e-9)


def naive_conv(x, w, b, group, strides, dilations, pads):
    rank = x.ndim - 2
    x = np.pad(x, [(0, 0), (0, 0), *zip(pads[:rank], pads[rank:], strict=True)])
    spans = [(k - 1) * d + 1 for k, d in zip(w.shape[2:], dilations, strict=True)]
    outputs = [(i - s) // t + 1 for i, s, t in zip(x.shape[2:], spans, strides, strict=True)]
    y = np.zeros((len(x), len(w), *outputs))
    per_group, out_group = w.shape[1], len(w) // group
    for n, m, at in itertools.product(range(len(x)), range(len(w)), np.ndindex(*outputs)):
        y[(n, m, *at)] = b[m]
        for c, k in itertools.product(range(per_group), np.ndindex(*w.shape[2:])):
            source = [a * s + i * d for a, s, i, d in zip(at, strides, k, dilations, strict=True)]
            y[(n, m, *at)] += w[(m, c, *k)] * x[(n, m // out_group * per_group + c, *source)]
    return y


@settings(max_examples=30, deadline=None)
@given(rank=st.integers(1, 3), group=st.integers(1, 2), batch=st.integers(0, 2), data=st.data())
def test_convolution_is_its_definition(rank: int, group: int, batch: int, data: st.DataObject) -> None:
    per_axis = st.lists(st.integers(1, 2), min_size=rank, max_size=rank)
    kernel, strides, dilations = (data.draw(per_axis) for _ in range(3))
    pads = data.draw(st.lists(st.integers(0, 2), min_size=2 * rank, max_size=2 * rank))
    x, w, b = random(batch, 2 * group, *(5,) * rank), random(2 * group, 2, *kernel), random(2 * group)
    y = convolution.Conv(x, w, b, group=group, strides=strides, dilations=dilations, pads=pads)
    np.testing.assert_allclose(y, naive_conv(x, w, b, group, strides, dilations, pads), rtol=1e-10, atol=1e-12)


@settings(max_examples=30, deadline=None)
@given(rank=st.integers(1, 3), group=st.integers(1, 2), data=st.data())
def test_transposed_convolution_is_the_transpose(rank: int, group: int, data: st.DataObject) -> None:
    """``<conv(x), y> = <x, conv_transpose(y)>`` for all ``x`` and ``y``."""
    per_axis = st.lists(st.integers(1, 3), min_size=rank, max_size=rank)
    options = {
        "strides": data.draw(per_axis),
        "dilations": data.draw(per_axis),
        "pads": data.draw(st.lists(st.integers(0, 1), min_size=2 * rank, max_size=2 * rank)),
        "group": group,
    }
    x, w = random(2, 2 * group, *(7,) * rank), random(3 * group, 2, *data.draw(per_axis))
    image = convolution.Conv(x, w, **options)
    y = random(*image.shape)
    back = convolution.ConvTranspose(y, w, **options)
    cut = x[(..., *map(slice, back.shape[2:]))]
    rest = image - convolution.Conv(np.pad(cut, [(0, a - b) for a, b in zip(x.shape, cut.shape, strict=True)]), w, **options)
    np.testing.assert_allclose(np.sum((image - rest) * y), np.sum(cut * back), rtol=1e-9, atol=1e-9)


def test_transposed_convolution_takes_the_output_shape() -> None:
    x, w = random(1, 1, 3), random(1, 1, 2)
    full = convolution.ConvTranspose(x, w, strides=(3,))
    assert full.shape == (1, 1, 8)
    np.testing.assert_array_equal(convolution.ConvTranspose(x, w, strides=(3,), output_shape=(7,)), full[..., 1:])
    upper = convolution.ConvTranspose(x, w, strides=(3,), output_shape=(7,), auto_pad="SAME_UPPER")
    np.testing.assert_array_equal(upper, full[..., :7])
    np.testing.assert_array_equal(convolution.ConvTranspose(x, w, strides=(3,), auto_pad="SAME_LOWER")[..., :8], full)


def test_undeformed_convolution_is_a_convolution() -> None:
    x, w, b = random(2, 4, 6, 5), random(6, 2, 3, 2), random(6)
    options = {"group": 2, "pads": (1, 0, 2, 1), "strides": (2, 1), "dilations": (1, 2)}
    y = convolution.Conv(x, w, b, **options)
    offset = np.zeros((2, 2 * 2 * 6, *y.shape[2:]))
    np.testing.assert_allclose(convolution.DeformConv(x, w, offset, b, offset_group=2, **options), y, rtol=1e-12)


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_pools_are_their_definition(rank: int) -> None:
    x = random(2, 3, *(7,) * rank)
    starts = [range(0, 7 - 2, 2)] * rank
    boxes = [x[(..., *(slice(s, s + 3) for s in at))].reshape(2, 3, -1) for at in itertools.product(*starts)]
    for function, reduce in ((pooling.MaxPool, np.max), (pooling.AveragePool, np.mean)):
        y = function(x, kernel_shape=(3,) * rank, strides=(2,) * rank)
        np.testing.assert_allclose(y.reshape(2, 3, -1), np.stack([reduce(b, axis=2) for b in boxes], axis=2))


@pytest.mark.parametrize("ceil_mode", [0, 1])
def test_max_pool_tells_where_from(ceil_mode: int) -> None:
    x = random(2, 3, 6, 7)
    options = {"kernel_shape": (3, 2), "strides": (2, 2), "pads": (1, 0, 1, 1), "ceil_mode": ceil_mode}
    y, index = pooling.MaxPool(x, n_outputs=2, **options)
    np.testing.assert_array_equal(y, pooling.MaxPool(x, **options))
    np.testing.assert_array_equal(x.reshape(-1)[index], y)


def test_max_roi_pool() -> None:
    x = np.arange(16.0).reshape(1, 1, 4, 4)
    rois = np.array([[0, 0, 0, 3, 3], [0, 1, 1, 2, 2], [0, 9, 9, 9, 9]], dtype=np.float64)
    y = pooling.MaxRoiPool(x, rois, pooled_shape=(2, 2))
    np.testing.assert_array_equal(y[:, 0], [[[5, 7], [13, 15]], [[5, 6], [9, 10]], [[0, 0], [0, 0]]])


@pytest.mark.parametrize(
    ("y", "shape"),
    [
        (lambda: convolution.Conv(random(0, 2, 5, 5), random(3, 2, 3, 3)), (0, 3, 3, 3)),
        (lambda: convolution.ConvTranspose(random(0, 2, 5), random(2, 3, 3)), (0, 3, 7)),
        (lambda: pooling.MaxPool(random(0, 2, 5, 5), kernel_shape=(2, 2)), (0, 2, 4, 4)),
        (lambda: pooling.AveragePool(random(2, 0, 5), kernel_shape=(2,)), (2, 0, 4)),
        (lambda: act.Softmax(random(3, 0)), (3, 0)),
        (lambda: act.LogSoftmax(random(0, 3)), (0, 3)),
        (lambda: act.Hardmax(random(0, 3)), (0, 3)),
        (lambda: linear.Gemm(random(0, 3), random(3, 2), random(2)), (0, 2)),
        (lambda: reduction.ReduceSum(random(2, 0), np.array([1])), (2, 1)),
        (lambda: reduction.TopK(random(3, 2), np.array([0]))[0], (3, 0)),
        (lambda: reduction.CumSum(random(0, 2), np.array(0)), (0, 2)),
        (lambda: recurrent.LSTM(random(0, 2, 3), random(1, 16, 3), random(1, 16, 4))[0], (0, 1, 2, 4)),
        (lambda: recurrent.GRU(random(5, 0, 3), random(1, 12, 3), random(1, 12, 4))[0], (5, 1, 0, 4)),
        (lambda: quantize.QuantizeLinear(random(0, 2), np.array(0.1)), (0, 2)),
    ],
)
def test_empty_tensors(y, shape: tuple[int, ...]) -> None:
    assert y().shape == shape


def test_products_of_nothing_are_the_bias() -> None:
    np.testing.assert_array_equal(linear.Gemm(random(2, 0), random(0, 3), np.arange(3.0)), [[0, 1, 2], [0, 1, 2]])


def test_reductions_of_nothing_are_neutral() -> None:
    x = np.zeros((0, 2), dtype=np.float32)
    rows = np.array([0])
    assert reduction.ReduceMax(x, rows, keepdims=0).tolist() == [-np.inf, -np.inf]
    assert reduction.ReduceMin(x.astype(np.int8), rows, keepdims=0).tolist() == [127, 127]
    assert reduction.ReduceProd(x, rows, keepdims=0).tolist() == [1, 1]


@pytest.mark.parametrize("function", [recurrent.RNN, recurrent.GRU, recurrent.LSTM])
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
def test_recurrent_layers(function, direction: str) -> None:
    """A short sequence in a batch gives what it gives alone, and the layout only moves axes."""
    gates = {"RNN": 1, "GRU": 3, "LSTM": 4}[function.__name__]
    directions = 2 if direction == "bidirectional" else 1
    x, lengths = random(5, 3, 4), np.array([5, 2, 3], dtype=np.int32)
    w, r, b = random(directions, gates * 6, 4), random(directions, gates * 6, 6), random(directions, gates * 12)
    y, *last = function(x, w, r, b, lengths, direction=direction)
    for n, length in enumerate(lengths):
        alone, *last_alone = function(x[:length, n : n + 1], w, r, b, direction=direction)
        np.testing.assert_allclose(y[:length, :, n], alone[:, :, 0], rtol=1e-10)
        assert not y[length:, :, n].any()
        for state, state_alone in zip(last, last_alone, strict=True):
            np.testing.assert_allclose(state[:, n], state_alone[:, 0], rtol=1e-10)
    swapped, *last_swapped = function(np.swapaxes(x, 0, 1), w, r, b, lengths, direction=direction, layout=1)
    np.testing.assert_allclose(swapped, np.transpose(y, (2, 0, 1, 3)), rtol=1e-10)
    np.testing.assert_allclose(last_swapped[0], np.swapaxes(last[0], 0, 1), rtol=1e-10)


def test_recurrent_activations_take_their_own_parameters() -> None:
    x, w, r = np.array([[[2.0]]]), np.ones((1, 4, 1)), np.zeros((1, 4, 1))
    options = {"activations": ("HardSigmoid", "ScaledTanh", "Affine"), "activation_alpha": (0.1, 3.0, 2.0)}
    _, h, c = recurrent.LSTM(x, w, r, activation_beta=(0.2, 0.5, 1.0), **options)
    gate = 0.1 * 2 + 0.2
    np.testing.assert_allclose(c, gate * 3 * np.tanh(0.5 * 2))
    np.testing.assert_allclose(h, gate * (2 * c + 1))
    clipped = recurrent.LSTM(x, w, r, clip=0.5)[2]
    np.testing.assert_allclose(clipped, np.tanh(0.5) / (1 + np.exp(-0.5)))
    with pytest.raises(Unsupported, match="Sine"):
        recurrent.LSTM(x, w, r, activations=("Sine", "Tanh", "Tanh"))


def test_a_query_that_attends_to_nothing_gives_zero() -> None:
    q, k, v = random(1, 1, 2, 4), random(1, 1, 3, 4), random(1, 1, 3, 4)
    mask = np.array([[True, True, False], [False, False, False]])
    y, *_ = attention.Attention(q, k, v, mask)
    assert np.isfinite(y).all()
    assert not y[0, 0, 1].any()


def test_integer_division_truncates_and_remainders_have_a_sign() -> None:
    a, b = np.array([7, -7, 7, -7, 0], np.int32), np.array([2, 2, -2, -2, 5], np.int32)
    assert elementwise.Div(a, b).tolist() == [3, -3, -3, 3, 0]
    assert elementwise.Mod(a, b).tolist() == [1, 1, -1, -1, 0]
    assert elementwise.Mod(a, b, fmod=1).tolist() == [1, -1, 1, -1, 0]
    assert elementwise.Div(np.array([7], np.uint8), np.array([2], np.uint8)).tolist() == [3]
    assert elementwise.Pow(np.array([2, 3], np.int32), np.array([-1, 2.0], np.float32)).tolist() == [0, 9]


def test_clip_gives_the_upper_bound_where_the_bounds_cross() -> None:
    assert elementwise.Clip(np.array([0.0, 5.0]), np.array(3.0), np.array(1.0)).tolist() == [1, 1]


@pytest.mark.parametrize("alpha", [-0.5, 0.0, 0.5, 1.0, 2.0])
def test_leaky_relu_for_any_slope(alpha: float) -> None:
    x = np.array([-2.0, 0.0, 3.0, np.inf])
    with np.errstate(invalid="ignore"):
        assert act.LeakyRelu(x, alpha=alpha).tolist() == [-2 * alpha, 0, 3, np.inf]


def test_extreme_arguments_neither_overflow_nor_warn() -> None:
    x = np.array([-1000.0, 0.0, 1000.0], dtype=np.float32)
    assert act.Sigmoid(x).tolist() == [0, 0.5, 1]
    assert act.Softplus(x).tolist() == [0, np.float32(np.log(2)), 1000]
    assert act.Softmax(x).tolist() == [0, 0, 1]
    assert reduction.ReduceLogSumExp(x).tolist() == [1000]
    assert reduction.ReduceL2(np.full(4, 200, np.float16)).tolist() == [400]


def test_casts() -> None:
    x = np.array([300.0, -1.9, 0.0, 448.0, 1e6], dtype=np.float32)
    assert cast.Cast(x[1:3], to=T.INT8).tolist() == [-1, 0]
    assert cast.Cast(x, to=T.BOOL).tolist() == [True, True, False, True, True]
    assert cast.Cast(np.array([200, 256], np.int16), to=T.INT8).tolist() == [-56, 0]
    assert cast.Cast(x, to=T.FLOAT8E4M3FN).astype(float).tolist() == [288, -1.875, 0, 448, 448]
    assert np.isnan(cast.Cast(x, to=T.FLOAT8E4M3FN, saturate=0).astype(float)[-1])
    assert cast.Cast(np.array(["INF", "-1e2", "nan"], object), to=T.FLOAT).tolist()[:2] == [np.inf, -100]
    assert cast.Cast(np.array([0.5, np.inf, 3]), to=T.STRING).tolist() == ["0.5", "INF", "3.0"]
    with pytest.raises(Unsupported, match="Hello"):
        cast.Cast(np.array(["Hello"], object), to=T.FLOAT)


@pytest.mark.parametrize(
    ("mode", "saturate", "expected"),
    [
        ("up", 1, [2.0**-127, 2, 4, 2.0**127]),
        ("down", 1, [2.0**-127, 2, 2, 2.0**127]),
        ("nearest", 1, [2.0**-127, 2, 4, 2.0**127]),
        ("nearest", 0, [np.nan, 2, 4, np.nan]),
    ],
)
def test_cast_to_powers_of_two(mode: str, saturate: int, expected: list[float]) -> None:
    x = np.array([0, 2, 3, np.inf], dtype=np.float32)
    y = cast.Cast(x, to=T.FLOAT8E8M0, round_mode=mode, saturate=saturate)
    np.testing.assert_array_equal(y.astype(np.float64), expected)


def test_quantization_rounds_to_even_and_saturates() -> None:
    x = np.array([0.5, 1.5, -0.5, 300, -300], dtype=np.float32)
    y = quantize.QuantizeLinear(x, np.float32(1), np.int8(1))
    assert y.tolist() == [1, 3, 1, 127, -128]
    assert quantize.DequantizeLinear(y, np.float32(0.5), np.int8(1)).tolist() == [0, 1, 0, 63, -64.5]
    zeros, scale, zero_point = quantize.DynamicQuantizeLinear(np.zeros(3, np.float32))
    assert (zeros.tolist(), float(scale), int(zero_point)) == ([0, 0, 0], 0, 0)


def test_dropout_keeps_the_mean() -> None:
    x = np.ones((100, 100), np.float32)
    y, mask = normalization.Dropout(x, np.float32(0.25), np.bool_(True), seed=3, n_outputs=2)
    assert abs(float(np.mean(y)) - 1) < 0.02
    np.testing.assert_array_equal(y != 0, mask)
    np.testing.assert_array_equal(normalization.Dropout(x, np.float32(0.25)), x)


def test_losses_ignore_and_weigh() -> None:
    x, target = random(4, 3), np.array([0, 2, -1, 1])
    weight = np.array([1.0, 2.0, 3.0])
    y = loss.NegativeLogLikelihoodLoss(x, target, weight, ignore_index=-1)
    np.testing.assert_allclose(y, -(x[0, 0] + 3 * x[1, 2] + 2 * x[3, 1]) / 6)
    with pytest.raises(Unsupported, match="median"):
        loss.NegativeLogLikelihoodLoss(x, target, reduction="median")
