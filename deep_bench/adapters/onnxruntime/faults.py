"""The faults of ONNX Runtime 1.32 on the CPU that are known here."""

from __future__ import annotations

from deep_bench.adapters.onnxruntime import conditions
from deep_bench.fault import KnownFault

_PADDED = "test_attention_4d_with_past_and_present_qk_matmul_bias"
_DFT = ("dft", "dft_axis", "dft_inverse", "dft_rfft", "dft_irfft")

FAULTS = (
    KnownFault(
        "affine_grid_single",
        ("AffineGrid",),
        "wrong values",
        "An axis of length 1 has its only centre at 0, as in torch's affine_grid, to which the standard refers; with "
        "align_corners ONNX Runtime puts it at 1.",
        applies=conditions.has_a_single_corner,
    ),
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
        "col2im_dilated_volume",
        ("Col2Im",),
        "wrong values",
        "Blocks may be dilated in images of any number of axes; where there are other than two ONNX Runtime puts elements "
        "in wrong places.",
        applies=conditions.dilates_other_than_planes,
    ),
    KnownFault(
        "conv_integer_zero_points",
        ("ConvInteger",),
        "fails",
        "The weights may have a zero point for each output channel; ONNX Runtime fails at the call unless there is one "
        "for all.",
        cases=("test_convinteger_with_padding",),
        applies=conditions.has_zero_points_per_channel,
    ),
    KnownFault(
        "conv_same_dilations",
        ("Conv", "ConvInteger", "QLinearConv"),
        "fails",
        "auto_pad SAME_UPPER and SAME_LOWER pad for the dilated kernel; ONNX Runtime fails at the call if there is one.",
        applies=conditions.pads_same_dilated,
    ),
    KnownFault(
        "conv_transpose_same_length",
        ("ConvTranspose",),
        "wrong values",
        "Under auto_pad SAME_UPPER and SAME_LOWER the output is as long as the input times the stride; where the kernel "
        "is shorter than the stride ONNX Runtime gives less.",
        applies=conditions.transposes_same_with_gaps,
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
        "grid_sample_other_ranks",
        ("GridSample",),
        "fails",
        "Any number of spatial axes can be sampled; ONNX Runtime fails at the call unless there are two, or three and "
        "the interpolation is not cubic.",
        applies=conditions.samples_other_ranks,
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
        "lrn_rank",
        ("LRN",),
        "fails",
        "The input may have any number of axes after batch and channels; ONNX Runtime fails at the call unless there "
        "are two.",
        applies=conditions.has_another_rank_than_4,
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
        "max_pool_same_crops",
        ("MaxPool",),
        "fails",
        "auto_pad SAME_UPPER and SAME_LOWER pad where the windows reach beyond the input; where they end before it ONNX "
        "Runtime computes a negative padding and fails at the call.",
        applies=conditions.pads_same_before_end,
    ),
    KnownFault(
        "max_unpool_no_shape",
        ("MaxUnpool",),
        "fails",
        "An optional input may be left out by an empty name; where the output's shape is, ONNX Runtime fails at the "
        "call. The adapter takes empty names off the end.",
        avoided=True,
    ),
    KnownFault(
        "max_unpool_output_shape",
        ("MaxUnpool",),
        "wrong values",
        "The indices count in the shape that kernel and strides give, to which output_shape adds a border; ONNX Runtime "
        "counts in output_shape.",
        cases=("test_maxunpool_export_with_output_shape",),
        applies=conditions.is_given_a_shape,
    ),
    KnownFault(
        "pool_same_crops",
        ("AveragePool", "LpPool"),
        "wrong values",
        "auto_pad SAME_UPPER and SAME_LOWER pad where the windows reach beyond the input; where they end before it ONNX "
        "Runtime cuts off the difference, which moves the windows.",
        applies=conditions.pads_same_before_end,
    ),
    KnownFault(
        "pool_same_dilations",
        ("AveragePool", "LpPool", "MaxPool"),
        "wrong values",
        "Under auto_pad SAME_UPPER and SAME_LOWER the output is as long as the input over the stride; ONNX Runtime pads "
        "as if the kernel were not dilated, which gives less and moves the windows.",
        applies=conditions.pads_same_dilated,
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
        "resize_nearest_coordinates",
        ("Resize", "Upsample"),
        "less accurate",
        "Coordinates are exact fractions; ONNX Runtime rounds them to float32, so that one that falls on an element or "
        "halfway between two may give the neighbour.",
        applies=conditions.divides_coordinates_inexactly,
    ),
    KnownFault(
        "resize_other_axes",
        ("Resize", "Upsample"),
        "fails",
        "Any axes of a tensor of any rank can be interpolated; ONNX Runtime fails at the call unless they are those of "
        "an image or volume.",
        applies=conditions.interpolates_other_axes,
    ),
    KnownFault(
        "resize_policy_negative_axes",
        ("Resize",),
        "wrong values",
        "Axes may be counted from the back; where the sizes are to keep the aspect ratio ONNX Runtime ignores these.",
        applies=conditions.keeps_the_ratio_of_negative_axes,
    ),
    KnownFault(
        "resize_roi_type",
        ("Resize",),
        "fails",
        "The region of interest may be of another floating-point type than the tensor; ONNX Runtime accepts the network "
        "and fails at the call unless it is float32.",
        applies=conditions.crops_by_another_type,
    ),
    KnownFault(
        "resize_roi_unchanged_length",
        ("Resize",),
        "wrong values",
        "tf_crop_and_resize stretches the region of interest along every axis; ONNX Runtime ignores it along an axis "
        "whose length stays the same.",
        applies=conditions.crops,
    ),
    KnownFault(
        "resize_scale_unchanged_shape",
        ("Resize", "Upsample"),
        "wrong values",
        "The scale decides where elements lie, and the length is rounded down from it; where no length changes ONNX "
        "Runtime copies the input, whatever the scales.",
        applies=conditions.scales_without_a_change_of_shape,
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
"""In alphabetical order."""
