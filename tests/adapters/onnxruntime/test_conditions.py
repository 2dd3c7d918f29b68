"""Which nodes are said to meet a fault of ONNX Runtime: all that do, and few that do not."""

from __future__ import annotations

import onnx
import pytest

from deep_bench.fault import exposures
from deep_bench.graph import Network
from deep_bench.testing import standard_cases

pytest.importorskip("onnxruntime")

from deep_bench.adapters.onnxruntime.faults import FAULTS

X7 = "(float[1,1,7] x) => (float[a,b,c] y)"
CROP = 'coordinate_transformation_mode = "tf_crop_and_resize", mode = "linear"'
BODY = "<body = body (int64 i, bool before, int64 a) => (bool after, int64 b) {{ {after} b = Add (a, i) }}>"


def scaled(scale: float, length: int = 4, mode: str = "linear") -> str:
    constant = f"scales = Constant <value = float[3] {{1, 1, {scale}}}> ()"
    return f'(float[1,1,{length}] x) => (float[a,b,c] y) {{ {constant} y = Resize <mode = "{mode}"> (x, , scales) }}'


def sized(length: int, mode: str = "nearest") -> str:
    constant = f"sizes = Constant <value = int64[3] {{1, 1, {length}}}> ()"
    return f'(float[1,1,4] x) => (float[a,b,c] y) {{ {constant} y = Resize <mode = "{mode}"> (x, , , sizes) }}'


def transposed(kernel: str) -> str:
    signature = f"(float[1,1,7] x, float[1,1,{kernel}] w) => (float[a,b,c] y)"
    return f'{signature} {{ y = ConvTranspose <strides = [2], auto_pad = "SAME_UPPER"> (x, w) }}'


def sliced(step: int, end: int) -> str:
    constants = f"e = Constant <value = int64[1] {{{end}}}> () t = Constant <value = int64[1] {{{step}}}> ()"
    return f"(float[9] x, int64[1] s, int64[1] a) => (float[n] y) {{ {constants} y = Slice (x, s, e, a, t) }}"


def rotated(cache: int) -> str:
    signature = f"(float[1,1,9,2] x, float[{cache},1] c, float[{cache},1] s, int64[1,9] p) => (float[a,b,d,e] y)"
    return f"{signature} {{ y = RotaryEmbedding (x, c, s, p) }}"


def scattered(kind: str, reduction: str) -> str:
    signature = f"({kind}[2] x, int64[1] i, {kind}[1] u) => ({kind}[2] y)"
    return f'{signature} {{ y = ScatterElements <reduction = "{reduction}"> (x, i, u) }}'


def resized(x: str, attributes: str, scales: str = "") -> str:
    made = f"s = Constant <value = {scales}> ()" if scales else "s = Identity (t)"
    return f"({x} x, float[r] t) => (float[y] y) {{ {made} y = Resize <{attributes}> (x, , s) }}"


def cropped(x: str, roi: str) -> str:
    return f"({x}[1,1,4] x, {roi}[6] roi, int64[3] sizes) => ({x}[a,b,c] y) {{ y = Resize <{CROP}> (x, roi, , sizes) }}"


def shrunk(axes: str, policy: str) -> str:
    stated = f'mode = "linear", axes = [{axes}], keep_aspect_ratio_policy = "{policy}"'
    return f"(float[1,1,4] x, int64[1] sizes) => (float[a,b,c] y) {{ y = Resize <{stated}> (x, , , sizes) }}"


def looping(after: str, start: str = "") -> str:
    return f"(int64 m, bool c, int64 s) => (int64 y) {{ y = Loop (m, {start}, s) {BODY.format(after=after)} }}"


NODES = {
    f'{X7} {{ y = MaxPool <kernel_shape = [3], dilations = [2], auto_pad = "SAME_UPPER"> (x) }}': ["pool_same_dilations"],
    f'{X7} {{ y = LpPool <kernel_shape = [3], dilations = [2], auto_pad = "SAME_LOWER"> (x) }}': ["pool_same_dilations"],
    f"{X7} {{ y = MaxPool <kernel_shape = [3], dilations = [2], pads = [2, 2]> (x) }}": [],
    f'{X7} {{ y = MaxPool <kernel_shape = [2], strides = [2], auto_pad = "SAME_UPPER"> (x) }}': [],
    f'{X7} {{ y = MaxPool <kernel_shape = [1], strides = [3], auto_pad = "SAME_UPPER"> (x) }}': [],  # the last window fits
    f'{X7} {{ y = MaxPool <kernel_shape = [1], strides = [4], auto_pad = "SAME_UPPER"> (x) }}': ["max_pool_same_crops"],
    f'{X7} {{ y = AveragePool <kernel_shape = [1], strides = [4], auto_pad = "SAME_UPPER"> (x) }}': ["pool_same_crops"],
    '(float[1,1,n] x) => (float[a,b,c] y) { y = LpPool <kernel_shape = [1], strides = [4], auto_pad = "SAME_UPPER"> (x) }': [
        "pool_same_crops"
    ],
    '(float[1,1,7] x, float[1,1,k] w) => (float[a,b,c] y) { y = Conv <dilations = [2], auto_pad = "SAME_UPPER"> (x, w) }': [
        "conv_same_dilations"
    ],
    '(float[1,1,7] x, float[1,1,k] w) => (float[a,b,c] y) { y = Conv <auto_pad = "SAME_UPPER"> (x, w) }': [],
    transposed("k"): ["conv_transpose_same_length"],
    transposed("2"): [],
    "(float[1,1,7] x, float[1,1,1] w) => (float[a,b,c] y) { y = ConvTranspose <strides = [2]> (x, w) }": [],
    looping("after = Identity (before)"): ["loop_condition"],
    looping("after = Constant <value = bool {1}> ()"): [],
    looping("after = Identity (before)", "c"): [],
    f"(float[1,1,4] x, float[6] roi, int64[3] sizes) => (float[a,b,c] y) {{ y = Resize <{CROP}> (x, roi, , sizes) }}": [
        "resize_roi_unchanged_length"
    ],
    scaled(1.1): ["resize_scale_unchanged_shape"],
    scaled(1.5): [],  # six long
    scaled(2.0): [],
    scaled(0.5): [],
    scaled(2.0, mode="nearest"): [],
    scaled(0.7, mode="nearest"): ["resize_nearest_coordinates"],
    sized(8): [],
    sized(7): ["resize_nearest_coordinates"],
    sized(7, "cubic"): ["resize_other_axes"],
    resized("float[1,3,n,m]", 'mode = "linear"'): ["resize_scale_unchanged_shape"],
    resized("float[1,3,8,8]", 'mode = "linear"', "float[4] {1, 1, 2, 2}"): [],
    resized("float[1,8,8,3]", 'mode = "linear"', "float[4] {1, 2, 2, 1}"): [],
    resized("float[1,3,8,8]", 'mode = "linear", axes = [2, 3]', "float[2] {2, 2}"): [],
    resized("float[1,3,8,8]", 'mode = "linear"', "float[4] {2, 1, 1, 1}"): ["resize_other_axes"],
    resized("float[4]", 'mode = "linear"', "float[1] {2}"): ["resize_other_axes"],
    resized("float[1,3,8]", 'mode = "cubic"', "float[3] {1, 1, 2}"): ["resize_other_axes"],
    resized("float[8]", 'mode = "nearest"', "float[1] {2}"): [],
    cropped("float", "double"): ["resize_roi_type", "resize_roi_unchanged_length"],
    cropped("float16", "float16"): ["resize_roi_unchanged_length"],
    shrunk("-1", "not_larger"): ["resize_policy_negative_axes"],
    shrunk("2", "not_larger"): [],
    shrunk("-1", "stretch"): [],
    "(float[2] x) => (float8e5m2[2] y) { y = Cast <to = 19, saturate = 0> (x) }": ["cast_float8_overflow"],
    "(float[2] x) => (float8e5m2[2] y) { y = Cast <to = 19> (x) }": [],
    "(float[2] x) => (float8e4m3fn[2] y) { y = Cast <to = 17, saturate = 0> (x) }": [],
    '(float[2] x, float8e8m0[1] t) => (float8e8m0[2] y) { y = CastLike <round_mode = "down"> (x, t) }': [
        "cast_like_round_mode"
    ],
    "(float[2] x, float8e8m0[1] t) => (float8e8m0[2] y) { y = CastLike (x, t) }": [],
    "(float[1,9,1] x, int64 s, float[7] w) => (float[a,b,c,d] y) { y = STFT (x, s, w) }": [
        "dft_other_lengths",
        "stft_residue",
    ],
    "(float[1,9,1] x, int64 s, float[8] w) => (float[a,b,c,d] y) { y = STFT (x, s, w) }": ["stft_residue"],
    "(string[2,3] x, int64[1] i) => (string[a,b] y) { y = Gather (x, i) }": ["gather_strings"],
    "(string[2,3] x, int64[1] i) => (string[a,b] y) { y = Gather <axis = 1> (x, i) }": [],
    "(string[3] x, int64[1] i) => (string[a] y) { y = Gather (x, i) }": [],
    "(float[2,3] x, int64[1] i) => (float[a,b] y) { y = Gather (x, i) }": [],
    "(float[1,1,3] x, float[1,1,1] g) => (float[a,b,c] y) { y = GridSample (x, g) }": ["grid_sample_other_ranks"],
    "(float[1,1,3,3] x, float[1,1,1,2] g) => (float[a,b,c,d] y) { y = GridSample (x, g) }": [],
    "(float[1] x) => (float[1] y) { y = Sigmoid (x) }": ["sigmoid_tail"],
    "(double[1] x) => (double[1] y) { y = Sigmoid (x) }": [],
    "(float[1] x) => (float[1] y) { y = Selu (x) }": ["elu_near_zero"],
    "(float[1,1000,1] x) => (float[a,b,c] y) { y = DFT (x) }": ["dft_other_lengths"],
    "(float[1,1024,1] x) => (float[a,b,c] y) { y = DFT (x) }": [],
    "(float[1,n,1] x) => (float[a,b,c] y) { y = DFT (x) }": ["dft_other_lengths"],
    "(bool[n] x) => (bool y) { y = ReduceMax <keepdims = 0> (x) }": ["reduce_bool_empty"],
    "(bool[3] x) => (bool y) { y = ReduceMax <keepdims = 0> (x) }": [],
    "(float[n] x) => (float y) { y = ReduceMax <keepdims = 0> (x) }": [],
    "(float[1,2,3] t, int64[4] s) => (float[a,b,c,d] g) { g = AffineGrid <align_corners = 1> (t, s) }": [
        "affine_grid_single"
    ],
    "(float[1,2,3] t, int64[4] s) => (float[a,b,c,d] g) { g = AffineGrid (t, s) }": [],
    "(uint8[1,1,2] x, uint8[2,1,1] w, uint8 p, uint8[2] q) => (int32[a,b,c] y) { y = ConvInteger (x, w, p, q) }": [
        "conv_integer_zero_points"
    ],
    "(double[2] x) => (double[2] y) { y = LogSoftmax (x) }": ["log_softmax_double_nan"],
    "(float[2] x) => (float[2] y) { y = LogSoftmax (x) }": [],
    "(uint32[3,k] x, uint32[k,2] w) => (uint32[a,b] y) { y = MatMul (x, w) }": ["mat_mul_empty_unsigned"],
    "(uint32[3,4] x, uint32[4,2] w) => (uint32[a,b] y) { y = MatMul (x, w) }": [],
    "(float[3,k] x, float[k,2] w) => (float[a,b] y) { y = MatMul (x, w) }": [],
    "(float[1,8,n] x, int64[3] s, int64[3] b) => (float[m,c,h,w,d] y) { y = Col2Im <dilations = [1, 2, 1]> (x, s, b) }": [
        "col2im_dilated_volume"
    ],
    "(float[1,8,n] x, int64[3] s, int64[3] b) => (float[m,c,h,w,d] y) { y = Col2Im <strides = [2, 2, 2]> (x, s, b) }": [],
    "(float[1,4,n] x, int64[2] s, int64[2] b) => (float[m,c,h,w] y) { y = Col2Im <dilations = [2, 2]> (x, s, b) }": [],
    "(uint8[3,k] x, uint8[k,2] w) => (int32[a,b] y) { y = MatMulInteger (x, w) }": ["mat_mul_integer_empty"],
    "(uint8[3,4] x, uint8[4,2] w, uint8[3] p) => (int32[a,b] y) { y = MatMulInteger (x, w, p) }": [
        "mat_mul_integer_zero_points"
    ],
    '(float[3,4] x, float[4,n] w) => (float[a,b] y) { y = Einsum <equation = "ij,jk"> (x, w) }': ["einsum_empty"],
    '(float[3,4] x, float[4,2] w) => (float[a,b] y) { y = Einsum <equation = "ij,jk"> (x, w) }': [],
    "(float[9] x, int64[1] s, int64[1] e) => (float[a] y) { y = Slice (x, s, e) }": [],
    "(float16[2] x) => (float16[2] y) { y = Sign (x) }": ["sign_half_nan"],
    "(float[2] x) => (float[2] y) { y = Sign (x) }": [],
    sliced(-1, 2**63 - 1): ["slice_backward_end"],
    sliced(-1, -(2**31)): [],
    sliced(2, 2**63 - 1): [],
    "(string[2] x) => (string[a,b] y, int64[2] n) { y, n = StringSplit (x) }": ["string_split_whitespace"],
    '(string[2] x) => (string[a,b] y, int64[2] n) { y, n = StringSplit <delimiter = ","> (x) }': [],
    "(float[2,3] x) => (float[a,b] y) { y = Unique <axis = 0> (x) }": ["unique_nan"],
    "(int64[2,3] x) => (int64[a,b] y) { y = Unique <axis = 0> (x) }": [],
    "(float[2,3] x) => (float[a] y) { y = Unique (x) }": ["unique_nan"],
    rotated(3): ["rotary_embedding_short_cache"],
    rotated(9): [],
    "(float[1,2,3,4] x) => (float[a,b,c,d] y) { y = LRN <size = 1> (x) }": [],
    "(float[1,2,3] x) => (float[a,b,c] y) { y = LRN <size = 1> (x) }": ["lrn_rank"],
    scattered("float16", "add"): ["scatter_half_reduction"],
    scattered("float16", "none"): [],
    scattered("float", "add"): [],
    "(float[1,4,1] x, int64 s) => (float[a,b,c,d] y) { y = STFT (x, s) }": ["stft_no_length", "stft_residue"],
    "(int64[4] x, int64 n) => (seq(int64[k]) y) { y = SplitToSequence <keepdims = 0> (x, n) }": [
        "split_to_sequence_keepdims"
    ],
    "(int64[4] x) => (seq(int64) y) { y = SplitToSequence <keepdims = 0> (x) }": [],
    "(uint8[1,1,2] x, uint8[2,1,1] w, uint8 p, uint8 q) => (int32[a,b,c] y) { y = ConvInteger (x, w, p, q) }": [],
}


@pytest.mark.parametrize(("text", "expected"), NODES.items())
def test_conditions(text: str, expected: list[str]) -> None:
    model = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["": 22]> network {text}')
    assert [found.name for found in exposures(Network.from_proto(model), FAULTS)] == expected


def test_no_case_that_is_known_to_fail_is_missed() -> None:
    known = {case: fault.name for fault in FAULTS for case in fault.cases}
    for case in standard_cases("node"):
        if case.name in known:
            found = [exposure.name for exposure in exposures(Network.from_proto(case.proto), FAULTS)]
            assert known[case.name] in found, case.name
