"""Operators that few networks have, compared with the reference beyond the standard's cases."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import onnx
import pytest

T = onnx.TensorProto
F32, U8, I8 = np.float32, np.uint8, np.int8


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(F32)


def byte(*shape: int, dtype: type = U8, seed: int = 0) -> np.ndarray:
    limits = np.iinfo(dtype)
    return np.random.default_rng(seed).integers(limits.min, limits.max + 1, shape).astype(dtype)


@pytest.mark.parametrize("dtype", [U8, I8])
@pytest.mark.parametrize("per", ["tensor", "one element", "row"])
def test_quantised_products(dtype: type, per: str, agrees) -> None:
    sizes = {"tensor": ((), (), ()), "one element": ((1,), (1,), (1,)), "row": ((3,), (5,), (3,))}[per]
    scales = [(0.01 * (1 + np.arange(np.prod(s, dtype=int)))).reshape(s).astype(F32) for s in sizes]
    zeros = [(3 + np.arange(np.prod(s, dtype=int))).reshape(s).astype(dtype) for s in sizes]
    a, b = byte(3, 4, dtype=dtype), byte(4, 5, dtype=dtype, seed=1)
    code = T.UINT8 if dtype is U8 else T.INT8
    agrees("QLinearMatMul", a, scales[0], zeros[0], b, scales[1], zeros[1], scales[2], zeros[2], outputs=[code])


def test_a_quantised_product_of_a_batch_and_a_vector(agrees) -> None:
    scale, zero = np.array(0.02, F32), np.array(7, U8)
    agrees("QLinearMatMul", byte(2, 3, 4), scale, zero, byte(4), scale, zero, scale, zero, outputs=[T.UINT8])


@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.float64])
def test_columns_of_any_number_of_axes(dtype: type, agrees) -> None:
    code = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    for image, block, settings in (
        ((7,), (3,), {"strides": [2]}),
        ((5, 6), (2, 3), {"pads": [0, 1, 2, 0], "dilations": [2, 1]}),
        ((5, 6), (2, 3), {"pads": [1, 1, 1, 1]}),
        ((3, 4, 3), (2, 2, 1), {"strides": [1, 2, 1]}),
    ):
        n = len(image)
        pads = settings.get("pads", [0] * 2 * n)
        steps = [
            (size + pads[i] + pads[n + i] - settings.get("dilations", [1] * n)[i] * (block[i] - 1) - 1)
            // settings.get("strides", [1] * n)[i] + 1
            for i, size in enumerate(image)
        ]  # fmt: skip
        x = (normal(2, 2 * int(np.prod(block)), int(np.prod(steps))) * 8).astype(dtype)
        agrees("Col2Im", x, np.array(image), np.array(block), outputs=[code], rtol=1e-5, **settings)


@pytest.mark.parametrize("axes", [1, 2, 3])
@pytest.mark.parametrize("group", [1, 2])
def test_bent_convolutions(axes: int, group: int, agrees) -> None:
    size, kernel = (6, 5, 4)[:axes], (3, 2, 2)[:axes]
    settings = {"pads": [1] * axes + [0] * axes, "strides": [2] + [1] * (axes - 1), "group": group, "offset_group": 2}
    out = [(s + 1 - k) // t + 1 for s, k, t in zip(size, kernel, settings["strides"], strict=True)]
    positions = int(np.prod(kernel))
    offset = normal(2, 2 * axes * positions, *out, seed=3) * 2
    offset.flat[:3] = [np.inf, -1e30, 0]
    mask = normal(2, 2 * positions, *out, seed=4)
    x, w, b = normal(2, 4, *size), normal(4, 4 // group, *kernel, seed=1), normal(4, seed=2)
    agrees("DeformConv", x, w, offset, b, mask, outputs=[T.FLOAT], rtol=2e-5, kernel_shape=list(kernel), **settings)


@pytest.mark.parametrize("mode", ["linear", "circular"])
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int64, np.uint32, np.uint64, np.bool_])
def test_caches(mode: str, dtype: type, agrees) -> None:
    code = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    past, update = (np.abs(normal(*s, seed=s[2])) * 5 for s in ((2, 3, 6, 4), (2, 3, 2, 4)))
    past, update = past.astype(dtype), update.astype(dtype)
    starts = np.array([0, 5 if mode == "circular" else 4])
    agrees("TensorScatter", past, update, starts, outputs=[code], mode=mode)
    agrees("TensorScatter", past, update, None, outputs=[code], mode=mode)
    agrees("TensorScatter", past, past[:, :1], starts[:0].sum(keepdims=True).repeat(2), outputs=[code], axis=1)


@pytest.mark.parametrize("mode", ["TF", "IDF", "TFIDF"])
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_words(mode: str, dtype: type, agrees) -> None:
    rows = np.random.default_rng(0).integers(0, 5, (3, 9)).astype(dtype)
    settings = {
        "mode": mode,
        "pool_int64s": [0, 1, 4, 9, 0, 1, 2, 2, 3, 3, 1, 2, 3],
        "ngram_counts": [0, 4, 10],
        "ngram_indexes": [3, 0, 1, 6, 2, 5, 4, 8],
        "weights": [0.5, 1.0, 2.0, 3.0, -1.0, 0.25, 4.0, 7.0],
    }
    for shortest, longest, skip in ((1, 3, 0), (1, 2, 3), (2, 2, 1), (2, 3, 9), (1, 1, 2)):
        lengths = {"min_gram_length": shortest, "max_gram_length": longest, "max_skip_count": skip}
        agrees("TfIdfVectorizer", rows, outputs=[T.FLOAT], rtol=1e-6, **settings, **lengths)
        agrees("TfIdfVectorizer", rows[0], outputs=[T.FLOAT], rtol=1e-6, **settings, **lengths)
        agrees("TfIdfVectorizer", rows[:, :0], outputs=[T.FLOAT], rtol=1e-6, **settings, **lengths)


EXTREMES = [0.0, -0.0, 1.0, 1.5, 2.0, -3.0, 1e-30, 2.0**-127, 1e-40, 3e38, 2.0**127, np.inf, -np.inf, np.nan, 0.75, 0.7]


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16, np.float64])
@pytest.mark.parametrize("mode", ["up", "down", "nearest"])
@pytest.mark.parametrize("saturate", [0, 1])
@pytest.mark.filterwarnings("ignore:overflow")
def test_powers_of_two(dtype: type, mode: str, saturate: int, agrees) -> None:
    x = np.array(EXTREMES).astype(dtype)
    code = int(T.FLOAT8E8M0)
    agrees("Cast", x, outputs=[code], to=code, round_mode=mode, saturate=saturate)
    every = np.arange(256, dtype=np.uint8).view(ml_dtypes.float8_e8m0fnu)
    back = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    agrees("Cast", every, outputs=[back], to=back)


@pytest.mark.parametrize("axis", [1, -2, 0])
@pytest.mark.parametrize("length", [None, 4, 9])
@pytest.mark.parametrize("settings", [{}, {"onesided": 1}, {"inverse": 1}, {"inverse": 1, "onesided": 1}], ids=str)
def test_transforms(axis: int, length: int | None, settings: dict[str, int], agrees) -> None:
    real = settings.get("onesided") and not settings.get("inverse")
    x = normal(5, 6, 1 if real else 2)
    points = None if length is None else np.array(length)
    agrees("DFT", x, points, np.array(axis), outputs=[T.FLOAT], rtol=2e-5, **settings)


@pytest.mark.parametrize(("parts", "onesided"), [(1, 0), (1, 1), (2, 0)])
@pytest.mark.parametrize("given", ["window", "length", "both"])
def test_transforms_of_frames(parts: int, onesided: int, given: str, agrees) -> None:
    window = None if given == "length" else np.hanning(8).astype(F32)
    length = None if given == "window" else np.array(8)
    agrees("STFT", normal(2, 30, parts), np.array(5), window, length, outputs=[T.FLOAT], rtol=2e-5, onesided=onesided)


@pytest.mark.parametrize("high", [4000.0, 8192.0])
def test_triangles(high: float, agrees) -> None:
    settings = [np.array(8), np.array(64), np.array(8192), np.array(20.0, F32), np.array(high, F32)]
    agrees("MelWeightMatrix", *settings, outputs=[T.FLOAT], rtol=1e-6)


def test_activations_share_their_parameters_in_order(agrees) -> None:
    """Only those that have an alpha take one from the list."""
    x, w, r = normal(3, 2, 3), normal(2, 8, 3, seed=1), normal(2, 8, 2, seed=2)
    settings = {
        "hidden_size": 2,
        "direction": "bidirectional",
        "activations": ["Sigmoid", "Elu", "ScaledTanh", "HardSigmoid", "Tanh", "Affine"],
        "activation_alpha": [0.5, 0.75, 0.3, 0.9],
        "activation_beta": [0.8, 0.4],
    }
    agrees("LSTM", x, w, r, outputs=[T.FLOAT] * 3, rtol=1e-4, **settings)


@pytest.mark.parametrize(
    ("starts", "ends", "steps"),
    [([-9], [-(2**31)], [-7]), ([9], [-(2**31)], [-1]), ([-9], [9], [2]), ([1], [-9], [-1]), ([4], [4], [1])],
)
def test_ends_outside(starts: list[int], ends: list[int], steps: list[int], agrees) -> None:
    axes = np.array([1])
    agrees("Slice", normal(2, 5), np.array(starts), np.array(ends), axes, np.array(steps), outputs=[T.FLOAT])


@pytest.mark.parametrize("operator", ["SpaceToDepth", "DepthToSpace"])
@pytest.mark.parametrize("mode", ["DCR", "CRD"])
def test_blocks_of_nothing(operator: str, mode: str, agrees) -> None:
    agrees(operator, np.zeros((2, 9, 3, 0), F32), outputs=[T.FLOAT], blocksize=3, mode=mode)


def test_no_channels_and_no_elements(agrees) -> None:
    none = np.zeros(0, F32)
    agrees("BatchNormalization", np.zeros((3, 0, 2), F32), none, none, none, none, outputs=[T.FLOAT])
    agrees("Hardmax", np.zeros((0, 2), F32), outputs=[T.FLOAT], axis=0)


@pytest.mark.parametrize("types", [("float16", "float64"), ("float64", "float32"), ("float32", "float16")])
def test_normalizations_of_mixed_types(types: tuple[str, str], agrees) -> None:
    x, scale = normal(3, 4).astype(types[0]), normal(4, seed=1).astype(types[1])
    code = onnx.helper.np_dtype_to_tensor_dtype(scale.dtype)
    agrees("RMSNormalization", x, scale, outputs=[code], rtol=2e-3 if "float16" in types else 1e-6)


def test_a_small_number_in_half_precision(agrees) -> None:
    agrees("MeanVarianceNormalization", np.full((2, 1, 2, 2), 3, np.float16), outputs=[T.FLOAT16], rtol=1e-3)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32])
def test_integers_in_einsum(dtype: type, agrees) -> None:
    code = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    a, b = byte(3, 4).astype(dtype), byte(4, 2, seed=1).astype(dtype)
    agrees("Einsum", a, b, outputs=[code], equation="ij,jk->ik")


@pytest.mark.parametrize("size", [0, 1, 2, 9])
@pytest.mark.parametrize("periodic", [0, 1])
@pytest.mark.parametrize("operator", ["HannWindow", "HammingWindow", "BlackmanWindow"])
def test_windows(operator: str, periodic: int, size: int, agrees) -> None:
    agrees(operator, np.array(size), outputs=[T.FLOAT], rtol=1e-6, periodic=periodic)


@pytest.mark.parametrize("mode", ["avg", "max"])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_regions(mode: str, dtype: type, agrees) -> None:
    rois = np.array([[0.5, 1, 4, 6], [-3, -2, 9, 3], [1, 1, 1, 1]], dtype)
    code = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    settings = {"mode": mode, "output_height": 2, "output_width": 3}
    rtol = 1e-5 if dtype is np.float32 else 5e-3
    agrees("RoiAlign", normal(2, 3, 7, 6).astype(dtype), rois, np.array([1, 0, 1]), outputs=[code], rtol=rtol, **settings)


@pytest.mark.parametrize("scale", [np.float32, np.float16, ml_dtypes.bfloat16, ml_dtypes.float8_e8m0fnu])
@pytest.mark.parametrize("kind", ["uint8", "uint16", "int4", "float8_e4m3fn"])
def test_numbers_from_quantised_ones(scale: type, kind: str, agrees) -> None:
    x = np.array([0, 1, 3, 7]).astype(kind if kind in ("uint8", "uint16") else getattr(ml_dtypes, kind))
    agrees("DequantizeLinear", x, np.array(0.5).astype(scale), outputs=[T.FLOAT], output_dtype=int(T.FLOAT))


@pytest.mark.parametrize("mode", ["standard", "nesterov"])
def test_steps_of_momentum(mode: str, run_training) -> None:
    run_training("Momentum", 3, 4, alpha=0.9, beta=0.7, mode=mode, norm_coefficient=0.01)


def test_steps_of_other_optimizers(run_training) -> None:
    run_training("Adagrad", 3, 4, decay_factor=0.1, norm_coefficient=0.01)
    run_training("Adam", 4, 6, norm_coefficient_post=0.1)


@pytest.fixture(params=[0, 3])
def run_training(request):
    """A function that compares a step of an optimizer on two tensors with the reference."""
    from deep_bench.adapters.torch import TorchAdapter
    from deep_bench.graph import Network
    from deep_bench.reference.network import ReferenceAdapter

    def check(operator: str, kinds: int, outputs: int, **settings) -> None:
        helper, domain = onnx.helper, "ai.onnx.preview.training"
        tensors = {f"x{i}": np.abs(normal(*(2, 3) if i % 2 else (4,), seed=i)) for i in range(2 * kinds)}
        given = {"r": np.array(0.1, F32), "t": np.array(request.param), **tensors}
        types = {n: helper.np_dtype_to_tensor_dtype(a.dtype) for n, a in given.items()}
        node = helper.make_node(operator, list(given), [f"y{i}" for i in range(outputs)], domain=domain, **settings)
        graph = helper.make_graph(
            [node],
            "step",
            [helper.make_tensor_value_info(n, types[n], a.shape) for n, a in given.items()],
            [helper.make_tensor_value_info(f"y{i}", T.FLOAT, None) for i in range(outputs)],
        )
        imports = [helper.make_opsetid("", 28), helper.make_opsetid(domain, 1)]
        network = Network.from_proto(helper.make_model(graph, opset_imports=imports))
        ours, wanted = (a.prepare(network)(given) for a in (TorchAdapter(), ReferenceAdapter()))
        for name, array in wanted.items():
            np.testing.assert_allclose(ours[name], array, rtol=1e-5, err_msg=name)

    return check
