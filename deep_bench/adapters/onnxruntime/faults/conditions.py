"""Which nodes may meet the known faults of ONNX Runtime: what is not known of a node may be so."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from deep_bench.graph import attributes
from deep_bench.graph.node import as_array, subgraphs


def pads_same(node: ir.Node) -> bool:
    """Whether the padding follows from the sizes."""
    return str(attributes(node).get("auto_pad", "NOTSET")).startswith("SAME")


def pads_same_dilated(node: ir.Node) -> bool:
    """Whether the padding follows from the sizes and the kernel is dilated."""
    return pads_same(node) and max(attributes(node).get("dilations", (1,))) > 1


def pads_same_before_end(node: ir.Node) -> bool:
    """Whether the padding follows from the sizes and the windows may end before the input does.

    That is so along an axis of length n if (ceil(n / stride) - 1) * stride + kernel < n.
    """
    kernel = attributes(node)["kernel_shape"]
    strides = attributes(node).get("strides", (1,) * len(kernel))
    shape = shape_of(node, 0)
    lengths = (None,) * len(kernel) if shape is None else shape[2:]
    steps = zip(kernel, strides, lengths, strict=True)
    return pads_same(node) and any(k < s and (n is None or (n - 1) // s * s + k < n) for k, s, n in steps)


def transposes_same_with_gaps(node: ir.Node) -> bool:
    """Whether a transposed convolution's padding follows from the sizes and its windows may leave gaps."""
    settings, weights = attributes(node), shape_of(node, 1)
    kernel: Sequence[int | None] | None = settings.get("kernel_shape") or (weights[2:] if weights is not None else None)
    if not pads_same(node) or "strides" not in settings:
        return False
    if kernel is None:
        return True
    dilations = settings.get("dilations", (1,) * len(kernel))
    steps = zip(kernel, dilations, settings["strides"], strict=True)
    return any(k is None or (k - 1) * d + 1 < s for k, d, s in steps)


def pads_named_axes_of_a_transposed(node: ir.Node) -> bool:
    """Whether only some axes are padded, in a graph that transposes."""
    named = len(node.inputs) > 3 and node.inputs[3] is not None
    return named and (node.graph is None or any(neighbour.op_type == "Transpose" for neighbour in node.graph))


def loops_on_the_bodys_condition(node: ir.Node) -> bool:
    """Whether a loop has no initial condition, and its body's may be false."""
    after = as_array(subgraphs(node)["body"].outputs[0])
    return value_of(node, 1) is None and (after is None or not bool(after))


def crops(node: ir.Node) -> bool:
    """Whether a resize cuts a region out."""
    return attributes(node).get("coordinate_transformation_mode") == "tf_crop_and_resize"


def scales_without_a_change_of_shape(node: ir.Node) -> bool:
    """Whether a resize is given scales other than 1 under which every length may stay as it is."""
    if _scales_value(node) is None:
        return False
    before, after = shape_of(node, 0), shape_of_output(node)
    if before and after and None not in before and None not in after and before != after:
        return False
    scales = _scales(node)
    return scales is None or bool(np.any(scales != 1) and np.all((scales >= 1) & (scales < 2)))


def divides_coordinates_inexactly(node: ir.Node) -> bool:
    """Whether a resize takes nearest neighbours at coordinates that are not computed exactly: unless by powers of two."""
    if attributes(node).get("mode", "nearest") != "nearest":
        return False
    scales = _scales(node) if _scales_value(node) is not None else _ratios(node)
    return scales is None or not np.all(np.frexp(scales)[0] == 0.5)


def clips(node: ir.Node) -> bool:
    """Whether a recurrent layer clips."""
    return "clip" in attributes(node)


def has_a_single_corner(node: ir.Node) -> bool:
    """Whether a grid is aligned by its corners and may have an axis of length 1."""
    size = constant(node, 1)
    return bool(attributes(node).get("align_corners", 0)) and (size is None or 1 in size[2:])


def returns_masked_scores(node: ir.Node) -> bool:
    """Whether attention also returns its scores after they were masked."""
    settings = attributes(node)
    requested = len(node.outputs) > 3 and bool(node.outputs[3].name) and settings.get("qk_matmul_output_mode", 0) in (1, 2)
    return requested and (bool(settings.get("is_causal", 0)) or value_of(node, 3) is not None)


def has_a_short_mask(node: ir.Node) -> bool:
    """Whether attention's mask may be shorter than the keys."""
    if value_of(node, 3) is None or value_of(node, 6) is None:
        return False
    mask, keys = shape_of(node, 3), shape_of(node, 1)
    return mask is None or keys is None or mask[-1] is None or mask[-1] != keys[-2]


def has_zero_points_per_channel(node: ir.Node) -> bool:
    """Whether the weights may have several zero points."""
    return _may_be_several(node, 3)


def has_zero_points_per_row(node: ir.Node) -> bool:
    """Whether the first matrix may have several zero points."""
    return _may_be_several(node, 2)


def has_an_empty_input(node: ir.Node) -> bool:
    """Whether an input may have no elements."""
    shapes = [shape_of(node, index) for index in range(len(node.inputs))]
    return any(shape is None or any(n is None or n == 0 for n in shape) for shape in shapes)


def multiplies_no_unsigned(node: ir.Node) -> bool:
    """Whether unsigned integers may be multiplied, and an input may have no elements."""
    types = (ir.DataType.UINT32, ir.DataType.UINT64)
    return has_an_empty_input(node) and any(v is None or v.dtype in (None, *types) for v in node.inputs)


def dilates_other_than_planes(node: ir.Node) -> bool:
    """Whether blocks are dilated in images that do not have two axes."""
    dilations = attributes(node).get("dilations", (1,))
    return len(dilations) != 2 and max(dilations) > 1


def steps_backward(node: ir.Node) -> bool:
    """Whether a slice may run backwards to an end beyond the axis."""
    ends, steps = constant(node, 2), constant(node, 4)
    if value_of(node, 4) is None or (steps is not None and bool(np.all(steps > 0))):
        return False
    return ends is None or steps is None or bool(np.any((np.ravel(steps) < 0) & (np.ravel(ends) >= 2**31 - 1)))


def splits_at_whitespace(node: ir.Node) -> bool:
    """Whether strings are split without a delimiter."""
    return not attributes(node).get("delimiter", "")


def may_hold_nan(node: ir.Node) -> bool:
    """Whether the input may be of floating point."""
    value = value_of(node, 0)
    return value is None or value.dtype is None or value.dtype.is_floating_point()


def may_outlast_its_cache(node: ir.Node) -> bool:
    """Whether a sequence may be longer than the caches of its rotations, which positions select from."""
    x, cache = shape_of(node, 0), shape_of(node, 1)
    length = None if x is None else x[-2] if len(x) == 4 else x[1]
    return value_of(node, 3) is not None and (length is None or cache is None or cache[0] is None or length > cache[0])


def computes_in_double(node: ir.Node) -> bool:
    """Whether the element type may be float64."""
    value = value_of(node, 0)
    return value is None or value.dtype in (None, ir.DataType.DOUBLE)


def computes_in_half(node: ir.Node) -> bool:
    """Whether the element type may have 16 bits."""
    value = value_of(node, 0)
    return value is None or value.dtype in (None, ir.DataType.FLOAT16, ir.DataType.BFLOAT16)


def has_another_rank_than_4(node: ir.Node) -> bool:
    """Whether the input may have other than four axes."""
    shape = shape_of(node, 0)
    return shape is None or len(shape) != 4


def reduces_half(node: ir.Node) -> bool:
    """Whether 16-bit floats may be combined with what is there."""
    return attributes(node).get("reduction", "none") != "none" and computes_in_half(node)


def has_neither_window_nor_length(node: ir.Node) -> bool:
    """Whether a short-time transform's frames are as long as the signal."""
    return value_of(node, 2) is None and value_of(node, 3) is None


def splits_without_keeping(node: ir.Node) -> bool:
    """Whether a tensor is split in given lengths, with keepdims off."""
    return value_of(node, 1) is not None and not attributes(node).get("keepdims", 1)


def reduces_no_booleans(node: ir.Node) -> bool:
    """Whether an empty tensor of truth values may be reduced."""
    value, shape = value_of(node, 0), shape_of(node, 0)
    is_bool = value is None or value.dtype in (None, ir.DataType.BOOL)
    return is_bool and (shape is None or any(n is None or n == 0 for n in shape))


def transforms_other_lengths(node: ir.Node) -> bool:
    """Whether a Fourier transform's length may be no power of two."""
    index = 3 if node.op_type == "STFT" else 1
    if value_of(node, index) is not None:
        length = constant(node, index)
        lengths = [None if length is None else int(length.item())]
    else:
        lengths = _framed(node) if node.op_type == "STFT" else _transformed(node)
    return any(n is None or n & (n - 1) for n in lengths)


def _framed(node: ir.Node) -> list[int | None]:
    """The length of a short-time transform's window, or of the signal where there is none."""
    is_windowed = value_of(node, 2) is not None
    shape = shape_of(node, 2 if is_windowed else 0)
    return [None if shape is None else shape[0 if is_windowed else 1]]


def _transformed(node: ir.Node) -> list[int | None]:
    """The length of the transformed axis; of all candidates where it is not known which one that is."""
    shape, axis = shape_of(node, 0), constant(node, 2)
    if shape is None or (axis is None and value_of(node, 2) is not None):
        return [None]
    if axis is not None:
        return [shape[int(axis)]]
    declared_axis = attributes(node).get("axis")
    return (
        [shape[1], shape[-2]] if declared_axis is None else [shape[declared_axis]]
    )  # the defaults before opset 20 and since


def is_given_a_shape(node: ir.Node) -> bool:
    """Whether the output's shape is an input."""
    return value_of(node, 2) is not None


def computes_in_single(node: ir.Node) -> bool:
    """Whether the element type may be another than float64."""
    value = value_of(node, 0)
    return value is None or value.dtype is not ir.DataType.DOUBLE


def casts_without_saturation(node: ir.Node) -> bool:
    """Whether numbers become float8_e5m2 that may be infinite."""
    settings, output_dtype = attributes(node), node.outputs[0].dtype
    target = ir.DataType(settings["to"]) if "to" in settings else output_dtype
    return not settings.get("saturate", 1) and target in (None, ir.DataType.FLOAT8E5M2)


def rounds_to_powers_of_two(node: ir.Node) -> bool:
    """Whether numbers may become float8_e8m0 other than by rounding up."""
    value = value_of(node, 1)
    dtype = None if value is None else value.dtype
    return attributes(node).get("round_mode", "up") != "up" and dtype in (None, ir.DataType.FLOAT8E8M0)


def gathers_rows_of_strings(node: ir.Node) -> bool:
    """Whether strings are gathered along another axis than the last."""
    value, shape = value_of(node, 0), shape_of(node, 0)
    is_string = value is None or value.dtype in (None, ir.DataType.STRING)
    return is_string and (shape is None or attributes(node).get("axis", 0) not in (-1, len(shape) - 1))


def samples_other_ranks(node: ir.Node) -> bool:
    """Whether a grid is in other than two dimensions, or three without cubic interpolation."""
    shape, is_cubic = shape_of(node, 0), "cubic" in attributes(node).get("mode", "linear")
    return shape is None or len(shape) not in ((4,) if is_cubic else (4, 5))


def interpolates_other_axes(node: ir.Node) -> bool:
    """Whether a resize interpolates along other axes than those of an image or volume.

    A tensor of rank 4, or 5 if interpolation is linear, is taken for one if its scales are not known, unless the first two
    axes are named.
    """
    mode, shape = attributes(node).get("mode", "nearest"), shape_of(node, 0)
    if mode == "nearest" or (shape is not None and (len(shape) == 2 or (len(shape) == 3 and mode != "cubic"))):
        return False
    if shape is None or len(shape) not in ((4,) if mode == "cubic" else (4, 5)):
        return True
    scales = _full_scales(node, len(shape))
    if scales is None:
        return any(axis % len(shape) < 2 for axis in attributes(node).get("axes", ()))
    return scales[0] != 1 or (scales[1] != 1 and (scales[-1] != 1 or len(shape) == 5))


def keeps_the_ratio_of_negative_axes(node: ir.Node) -> bool:
    """Whether a resize keeps the aspect ratio of axes that are counted from the back."""
    settings = attributes(node)
    return settings.get("keep_aspect_ratio_policy", "stretch") != "stretch" and min(settings.get("axes", (0,))) < 0


def crops_by_another_type(node: ir.Node) -> bool:
    """Whether a resize cuts out a region that may be neither in float32 nor in the tensor's type."""
    kinds = [value.dtype for value in (value_of(node, 0), value_of(node, 1)) if value is not None]
    return crops(node) and len(kinds) == 2 and kinds[1] is not ir.DataType.FLOAT and (None in kinds or kinds[0] != kinds[1])


def value_of(node: ir.Node, index: int) -> ir.Value | None:
    """An input, if the node has it."""
    return node.inputs[index] if index < len(node.inputs) else None


def constant(node: ir.Node, index: int) -> np.ndarray | None:
    """An input's contents, if they are known."""
    value = value_of(node, index)
    return None if value is None else as_array(value)


def shape_of(node: ir.Node, index: int) -> tuple[int | None, ...] | None:
    """An input's shape, as far as it is known."""
    return _shape(value_of(node, index))


def shape_of_output(node: ir.Node) -> tuple[int | None, ...] | None:
    """The first output's shape, as far as it is known."""
    return _shape(node.outputs[0])


def _may_be_several(node: ir.Node, index: int) -> bool:
    shape = shape_of(node, index)
    return value_of(node, index) is not None and (shape is None or any(n != 1 for n in shape))


def _shape(value: ir.Value | None) -> tuple[int | None, ...] | None:
    if value is None or value.shape is None:
        return None
    return tuple(d if isinstance(d, int) else None for d in value.shape)


def _scales_value(node: ir.Node) -> ir.Value | None:
    """The scales of a resize: its second input in opset 10, its third since."""
    value = value_of(node, 1 if len(node.inputs) == 2 else 2)
    return None if value is not None and _shape(value) == (0,) else value


def _scales(node: ir.Node) -> np.ndarray | None:
    value = _scales_value(node)
    return None if value is None else as_array(value)


def _ratios(node: ir.Node) -> np.ndarray | None:
    """Length after over length before, of every axis."""
    before, after = shape_of(node, 0), shape_of_output(node)
    if before is None or after is None or None in before or None in after or 0 in before:
        return None
    return np.array(after, np.float64) / np.array(before, np.float64)


def _full_scales(node: ir.Node, rank: int) -> np.ndarray | None:
    """The scale of every axis, 1 where a resize names others."""
    if _scales_value(node) is None:
        return _ratios(node)
    axes, scales = attributes(node).get("axes"), _scales(node)
    if scales is None:
        return _ratios(node)
    if axes is None:
        return scales
    full = np.ones(rank)
    full[list(axes)] = scales
    return full
