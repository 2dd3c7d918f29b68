"""Faults of what has spatial axes: convolution, pooling, resizing, sampling."""

from __future__ import annotations

from deep_bench.adapters.onnxruntime.faults import conditions
from deep_bench.fault import KnownFault, nowhere

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
        "grid_sample_other_ranks",
        ("GridSample",),
        "fails",
        "Any number of spatial axes can be sampled; ONNX Runtime fails at the call unless there are two, or three and "
        "the interpolation is not cubic.",
        applies=conditions.samples_other_ranks,
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
        "max_pool_nan",
        ("GlobalMaxPool", "MaxPool"),
        "wrong values",
        "The maximum of numbers and a NaN is NaN, as IEEE 754 defines it and ONNX Runtime's ReduceMax and Relu give it; its "
        "pooling gives the largest number instead. A loss may stay finite on images of NaN.",
        applies=nowhere,
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
)
