"""Faults of the other operators of the default domain."""

from __future__ import annotations

from deep_bench.adapters.onnxruntime.faults import conditions
from deep_bench.fault import KnownFault

_PADDED = "test_attention_4d_with_past_and_present_qk_matmul_bias"
_DFT = ("dft", "dft_axis", "dft_inverse", "dft_rfft", "dft_irfft")

FAULTS = (
    KnownFault(
        "attention_double_scale",
        ("Attention",),
        "less accurate",
        "The scores are scaled by 1 / sqrt(head size) in the precision of the inputs; ONNX Runtime rounds the factor to "
        "float32, so that float64 keeps 25 of its 53 bits.",
        applies=conditions.computes_in_double,
    ),
    KnownFault(
        "attention_masked_scores",
        ("Attention",),
        "wrong values",
        "The mask adds minus infinity to the scores of what may not be attended to; in the scores that it returns ONNX "
        "Runtime has the most negative finite number there.",
        cases=(f"{_PADDED}_3d_mask_causal", f"{_PADDED}_4d_mask_causal"),
        applies=conditions.returns_masked_scores,
    ),
    KnownFault(
        "attention_short_mask",
        ("Attention",),
        "fails",
        "The mask may be shorter than the keys and is then extended by minus infinity; ONNX Runtime fails at the call.",
        cases=("test_attention_4d_diff_heads_mask4d_padded_kv",),
        applies=conditions.has_a_short_mask,
    ),
    KnownFault(
        "bernoulli_inverted",
        ("Bernoulli",),
        "wrong values",
        "The output is 1 with probability p; ONNX Runtime runs the function body of the onnx package, which gives 1 with "
        "probability 1 - p.",
    ),
    KnownFault(
        "cast_float8_overflow",
        ("Cast", "CastLike"),
        "wrong values",
        "Without saturation a number that rounds beyond the largest float8_e5m2 becomes infinity; ONNX Runtime makes "
        "NaN of those from 61,440 to 65,535.",
        applies=conditions.casts_without_saturation,
    ),
    KnownFault(
        "cast_like_round_mode",
        ("CastLike",),
        "wrong values",
        "round_mode says how numbers become powers of two, in float8_e8m0; ONNX Runtime rounds up, as the function body in "
        "the onnx package does.",
        applies=conditions.rounds_to_powers_of_two,
    ),
    KnownFault(
        "dft_double",
        ("DFT",),
        "less accurate",
        "The inverse transform divides by the length; ONNX Runtime multiplies with its reciprocal in float32, so that "
        "float64 keeps 27 of its 53 bits where the length is no power of two.",
        applies=conditions.computes_in_double,
    ),
    KnownFault(
        "dft_no_axis",
        ("DFT",),
        "crashes",
        "An optional input may be left out by an empty name; where the axis is, ONNX Runtime reads what is not there "
        "and the process ends. The adapter takes empty names off the end.",
        avoided=True,
    ),
    KnownFault(
        "dft_other_lengths",
        ("DFT", "STFT"),
        "less accurate",
        "A Fourier transform in float32 errs by about log2(n) roundings of the largest value; where n is no power of "
        "two ONNX Runtime errs by n roundings: by 10 for n = 10, by 1,200 for n = 1,000.",
        cases=tuple(f"test_{name}{version}" for name in _DFT for version in ("", "_opset19")),
        applies=conditions.transforms_other_lengths,
    ),
    KnownFault(
        "einsum_empty",
        ("Einsum",),
        "crashes",
        "A sum over no elements is 0; ONNX Runtime divides by their number and the process ends.",
        applies=conditions.has_an_empty_input,
    ),
    KnownFault(
        "elu_near_zero",
        ("Elu", "Selu"),
        "less accurate",
        "exp(x) - 1 is close to x for small x; ONNX Runtime subtracts in the working precision, so that for negative x "
        "near 0 no digit is left: at -1e-06 the second is wrong.",
        applies=conditions.computes_in_single,
    ),
    KnownFault(
        "gather_strings",
        ("Gather",),
        "wrong values",
        "An index along an axis that is not the last names several elements; of strings ONNX Runtime copies the first "
        "one and leaves the others empty.",
        applies=conditions.gathers_rows_of_strings,
    ),
    KnownFault(
        "layer_normalization_no_bias",
        ("LayerNormalization",),
        "crashes",
        "An optional input may be left out by an empty name; where the bias is, ONNX Runtime reads what is not there "
        "and the process ends. The adapter takes empty names off the end.",
        avoided=True,
    ),
    KnownFault(
        "log_softmax_double_nan",
        ("LogSoftmax",),
        "wrong values",
        "NaN is part of the sum for every element, so that all are NaN; in float64 ONNX Runtime gives numbers for the "
        "others.",
        applies=conditions.computes_in_double,
    ),
    KnownFault(
        "loop_condition",
        ("Loop",),
        "wrong values",
        "A loop without an initial condition runs the given number of trips and ignores the condition that its body "
        "computes; ONNX Runtime ends when the body's is false.",
        applies=conditions.loops_on_the_bodys_condition,
    ),
    KnownFault(
        "lstm_clip_cell",
        ("LSTM",),
        "wrong values",
        "clip bounds the input of every activation; ONNX Runtime bounds those of the gates and not the cell state that "
        "the activation of the output takes.",
        applies=conditions.clips,
    ),
    KnownFault(
        "mat_mul_empty_unsigned",
        ("MatMul",),
        "fails",
        "A sum over no products is 0; of unsigned integers ONNX Runtime fails at the call.",
        applies=conditions.multiplies_no_unsigned,
    ),
    KnownFault(
        "mat_mul_integer_empty",
        ("MatMulInteger", "QLinearMatMul"),
        "wrong values",
        "A sum over no products is 0; ONNX Runtime leaves what the memory held before.",
        applies=conditions.has_an_empty_input,
    ),
    KnownFault(
        "mat_mul_integer_zero_points",
        ("MatMulInteger", "QLinearMatMul"),
        "fails",
        "The first matrix may have a zero point for each row; ONNX Runtime fails at the call unless there is one for all.",
        applies=conditions.has_zero_points_per_row,
    ),
    KnownFault(
        "pad_axes_transposed",
        ("Pad",),
        "wrong values",
        "The pads are those of the axes that the input axes names; where ONNX Runtime moves a transpose past the node it "
        "takes them for those of all axes, and fails at the call or pads others.",
        applies=conditions.pads_named_axes_of_a_transposed,
    ),
    KnownFault(
        "recurrent_double",
        ("GRU", "LSTM"),
        "fails",
        "float64 is allowed; ONNX Runtime accepts the network and fails at the call.",
        applies=conditions.computes_in_double,
    ),
    KnownFault(
        "reduce_bool_empty",
        ("ReduceMax", "ReduceMin"),
        "fails",
        "The maximum of no truth values is false, their minimum true; ONNX Runtime fails at the call.",
        cases=("test_reduce_max_empty_set_bool",),
        applies=conditions.reduces_no_booleans,
    ),
    KnownFault(
        "rotary_embedding_short_cache",
        ("RotaryEmbedding",),
        "fails",
        "Where positions are given they say which rows of the caches are used, however many there are; ONNX Runtime "
        "fails at the call if the sequence is longer than the caches.",
        applies=conditions.may_outlast_its_cache,
    ),
    KnownFault(
        "scatter_half_reduction",
        ("ScatterElements", "ScatterND"),
        "fails",
        "16-bit floats may be combined with what is there; ONNX Runtime accepts the network and fails at the call.",
        applies=conditions.reduces_half,
    ),
    KnownFault(
        "sigmoid_tail",
        ("Sigmoid",),
        "less accurate",
        "1 / (1 + exp(-x)) keeps its digits for negative x; ONNX Runtime's approximation loses them below -5: the error "
        "is 2e-4 of the result at -8, 1e-2 at -16, and below -18 the result is 0.",
        applies=conditions.computes_in_single,
    ),
    KnownFault(
        "sign_half_nan",
        ("Sign",),
        "wrong values",
        "NaN is neither greater nor less than 0 nor equal to it; ONNX Runtime gives NaN for it in float32 and float64, and "
        "0 in 16 bits.",
        applies=conditions.computes_in_half,
    ),
    KnownFault(
        "slice_backward_end",
        ("Slice",),
        "wrong values",
        "When stepping backward an end beyond the axis stands for its last element, so that nothing lies between; ONNX "
        "Runtime takes the greatest integer for the beginning of the axis.",
        applies=conditions.steps_backward,
    ),
    KnownFault(
        "split_to_sequence_keepdims",
        ("SplitToSequence",),
        "wrong values",
        "keepdims is ignored where the lengths of the parts are given; ONNX Runtime fails at the call, or drops the "
        "axis where every part has length 1.",
        applies=conditions.splits_without_keeping,
    ),
    KnownFault(
        "stft_no_length",
        ("STFT",),
        "fails",
        "Window and length are optional, and a frame without them is as long as the signal; ONNX Runtime fails at the call.",
        applies=conditions.has_neither_window_nor_length,
    ),
    KnownFault(
        "stft_residue",
        ("STFT",),
        "less accurate",
        "The last bin of a real signal of even length is a real number; ONNX Runtime rounds the angles of its sines to "
        "float32, so that up to 3e-9 of the largest bin is left in its imaginary part.",
        cases=("test_stft", "test_stft_with_window"),
    ),
    KnownFault(
        "string_split_whitespace",
        ("StringSplit",),
        "wrong values",
        "Without a delimiter strings are split at whitespace; ONNX Runtime splits at blanks only, not at tabulators and "
        "line ends.",
        applies=conditions.splits_at_whitespace,
    ),
    KnownFault(
        "unique_nan",
        ("Unique",),
        "wrong values",
        "Elements or parts that differ are all kept; ONNX Runtime takes NaN for equal to any number, and drops others "
        "beside it.",
        applies=conditions.may_hold_nan,
    ),
)
