"""One rule per operator and version in which its meaning, or the way to write it, changed.

Rules for opset 1 to 6 are of the time before broadcasting was NumPy's, and when a node said itself whether it is trained.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx
import onnx_ir as ir

from deep_bench.graph.edit import Edit, Rule, subgraph_of


def _axes_as_input(edit: Edit) -> None:
    axes = edit.take("axes")
    if axes is not None:
        edit.feed(edit.input(0), edit.constant("axes", axes, np.int64))


def _clip_11(edit: Edit) -> None:
    data = edit.input(0)
    low, high = edit.take("min"), edit.take("max")
    edit.feed(
        data,
        None if low is None else edit.constant_like("min", low, data),
        None if high is None else edit.constant_like("max", high, data),
    )


def _dropout_10(edit: Edit) -> None:
    if edit.uses_output(1):
        raise edit.unsupported("before opset 10 its mask has no defined element type and contents")


def _dropout_12(edit: Edit) -> None:
    edit.feed(edit.input(0), edit.constant("ratio", edit.take("ratio", 0.5), np.float32), edit.input(2))


def _pad_11(edit: Edit) -> None:
    data = edit.input(0)
    pads, value = edit.take("pads"), edit.take("value", 0.0)
    filled = edit.constant_like("value", value, data) if value != 0 else None
    edit.feed(data, edit.constant("pads", pads, np.int64), filled)


def _slice_10(edit: Edit) -> None:
    starts, ends = edit.take("starts"), edit.take("ends")
    axes = edit.take("axes", range(len(starts)))
    operands = {"starts": starts, "ends": ends, "axes": list(axes)}
    edit.feed(edit.input(0), *(edit.constant(label, v, np.int64) for label, v in operands.items()))


def _split_13(edit: Edit) -> None:
    sizes = edit.take("split")
    if sizes is not None:
        edit.feed(edit.input(0), edit.constant("split", sizes, np.int64))


def _split_18(edit: Edit) -> None:
    if edit.input(1) is None:
        edit.set(num_outputs=len(edit.node.outputs))


def _topk_10(edit: Edit) -> None:
    edit.feed(edit.input(0), edit.constant("k", [edit.take("k")], np.int64))


def _dft_20(edit: Edit) -> None:
    edit.feed(edit.input(0), edit.input(1), edit.constant("axis", edit.take("axis", 1), np.int64))


def _flattened_13(edit: Edit) -> None:
    """Softmax and its kin normalised over all dimensions from ``axis`` on, as one."""
    data, axis = edit.input(0), edit.take("axis", 1)
    rank = edit.types.rank(data)
    if axis == -1 or (rank is not None and axis % max(rank, 1) == rank - 1):
        edit.set(axis=-1)
        return
    flat = edit.before("Flatten", data, label="flat", axis=axis)
    normalised = edit.before(edit.node.op_type, flat, label="normalised", axis=-1)
    edit.become("Reshape", normalised, edit.before("Shape", data, label="shape"), allowzero=1)


def _scatter_11(edit: Edit) -> None:
    edit.node.op_type = "ScatterElements"


def _one_hot_11(edit: Edit) -> None:
    """Before opset 11 a negative index was out of range; since then it counts from the back."""
    indices = edit.known(0)
    if indices is not None and (indices >= 0).all():
        return
    data = edit.input(0)
    negative = edit.before("Less", data, edit.constant_like("zero", 0, data), label="negative")
    depth = edit.before("CastLike", edit.input(1), data, label="depth")
    if (edit.known(1) is None) or edit.known(1).ndim:  # type: ignore[union-attr]
        depth = edit.before("Squeeze", depth, label="scalar")
    edit.node.replace_input_with(0, edit.before("Where", negative, depth, data, label="indices"))


def _batch_normalization_9(edit: Edit) -> None:
    if edit.take("spatial", 1):
        return
    if any(v.name for v in edit.node.outputs[1:]):
        raise edit.unsupported("since opset 9 training has statistics per channel only, not per activation (spatial = 0)")
    x, scale, bias, mean, variance = (edit.input(i) for i in range(5))
    epsilon = edit.constant_like("epsilon", edit.take("epsilon", 1e-5), x)
    deviation = edit.before("Sqrt", edit.before("Add", variance, epsilon, label="variance"), label="deviation")
    centred = edit.before("Sub", x, mean, label="centred")
    unit = edit.before("Div", centred, deviation, label="unit")
    edit.node.resize_outputs(1)
    edit.become("Add", edit.before("Mul", unit, scale, label="scaled"), bias)


def _batch_normalization_14(edit: Edit) -> None:
    if edit.node.op_type == "BatchNormalization" and len(edit.node.outputs) > 1:
        _refuse_training(edit)


def _refuse_training(edit: Edit) -> None:
    if any(edit.uses_output(i) for i in range(1, len(edit.node.outputs))):
        raise edit.unsupported("before opset 14 the statistics that it returns in training are not defined exactly")
    if not any(v.name for v in edit.node.outputs[1:]):
        edit.node.resize_outputs(1)
        return
    edit.set(training_mode=1)
    edit.node.resize_outputs(3)  # training has them all
    for output in edit.node.outputs[1:]:
        output.name = output.name or edit.names.fresh(f"{edit.base}.statistics")


def _group_normalization_21(edit: Edit) -> None:
    """Scale and bias were per group; now they are per channel."""
    x, groups = edit.input(0), edit.node.attributes["num_groups"].as_int()
    channels = edit.before("Shape", x, label="channels", start=1, end=2)
    count = edit.constant("groups", [groups], np.int64)
    target = edit.before("Concat", count, edit.before("Div", channels, count, label="each"), label="target", axis=0)
    last, flat = edit.constant("last", [1], np.int64), edit.constant("all", [-1], np.int64)
    for index, label in ((1, "scale"), (2, "bias")):
        column = edit.before("Unsqueeze", edit.input(index), last, label=f"{label}.column")
        repeated = edit.before("Expand", column, target, label=f"{label}.repeated")
        edit.node.replace_input_with(index, edit.before("Reshape", repeated, flat, label=label))
    if edit.types.dtype(x) == np.float64:
        edit.set(stash_type=11)


def _grid_sample_20(edit: Edit) -> None:
    mode = edit.take("mode", "bilinear")
    edit.set(mode={"bilinear": "linear", "bicubic": "cubic"}.get(mode, mode))


def _roi_align_16(edit: Edit) -> None:
    edit.set(coordinate_transformation_mode="output_half_pixel")


_REDUCTIONS = ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "SumSquare")


def resize_10(edit: Edit) -> None:
    """Resize-10 took the next element up where it shrinks an axis, and the next one down where it stretches it.

    The standard leaves this open; its own test cases and ONNX Runtime fix it.
    """
    scales, scale_values = edit.input(1), edit.known(1)
    if edit.node.attributes.get_string("mode", "nearest") != "nearest" or (
        scale_values is not None and (scale_values >= 1).all()
    ):
        _asymmetric(edit, scales, "floor")
    elif scale_values is not None and (scale_values <= 1).all():
        _asymmetric(edit, scales, "ceil")
    else:
        unit_scale = edit.constant("one", 1, np.float32)
        shrunk = edit.before(
            "Resize",
            edit.input(0),
            None,
            edit.before("Min", scales, unit_scale, label="shrink"),
            label="shrunk",
            mode="nearest",
            nearest_mode="ceil",
            coordinate_transformation_mode="asymmetric",
        )
        stretch = edit.before("Max", scales, unit_scale, label="stretch")
        edit.node.replace_input_with(0, shrunk)
        _asymmetric(edit, stretch, "floor")


def resize_11(edit: Edit) -> None:
    """Resize-11 wrote "not given" as an empty tensor, and had a transformation that was dropped later."""
    if edit.opset < 11:
        return
    sizes = edit.input(3)
    scales = None if sizes is not None or _is_empty(edit, 2) else edit.input(2)
    edit.feed(edit.input(0), None if _is_empty(edit, 1) else edit.input(1), scales, sizes)
    if edit.node.attributes.get_string("coordinate_transformation_mode", "half_pixel") != "tf_half_pixel_for_nn":
        return
    if edit.node.attributes.get_string("mode", "nearest") != "nearest" or edit.node.attributes.get_string(
        "nearest_mode", "round_prefer_floor"
    ) not in ("floor",):
        raise edit.unsupported("tf_half_pixel_for_nn is replaced for mode nearest, nearest_mode floor only")
    edit.set(coordinate_transformation_mode="half_pixel", nearest_mode="round_prefer_ceil")


def scan_8(edit: Edit) -> None:
    """A scan over the batch, whose body is the scan over the sequence of one sample."""
    if edit.input(0) is not None:
        raise edit.unsupported("sequences of different lengths (sequence_lens) cannot be written since opset 9")
    node, body = edit.node, subgraph_of(edit.node, "body")
    count, directions = edit.take("num_scan_inputs"), edit.take("directions")
    node.attributes.pop("body")
    outer = [v for v in node.inputs[1:] if v is not None]
    samples = [_sample(edit, v) for v in outer]
    attributes = {"body": body, "num_scan_inputs": count}
    if directions is not None:
        attributes["scan_input_directions"] = list(directions)
    inner = ir.Node(
        "",
        "Scan",
        samples,
        ir.convenience.convert_attributes(attributes),
        outputs=[ir.Value(name=edit.names.fresh(f"{v.name}.sample")) for v in node.outputs],
        name=edit.names.fresh(f"{node.name}.sample"),
    )
    batch = ir.Graph(samples, inner.outputs, nodes=[inner], name=edit.names.fresh(f"{body.name}.batch"))
    edit.become("Scan", *outer, body=batch, num_scan_inputs=len(samples))


def upsample(edit: Edit) -> None:
    """Upsample was Resize with scales of at least 1, measured from the outer edge of the first element."""
    scales = edit.take("scales")
    scales_value = edit.input(1) if scales is None else edit.constant("scales", scales, np.float32)
    _asymmetric(edit, scales_value, "floor")


_SINCE_7: Mapping[str, tuple[tuple[int, Rule], ...]] = {
    "BatchNormalization": ((9, _batch_normalization_9), (14, _batch_normalization_14)),
    "Clip": ((11, _clip_11),),
    "DFT": ((20, _dft_20),),
    "Dropout": ((10, _dropout_10), (12, _dropout_12)),
    "GridSample": ((20, _grid_sample_20),),
    "GroupNormalization": ((21, _group_normalization_21),),
    "Hardmax": ((13, _flattened_13),),
    "LogSoftmax": ((13, _flattened_13),),
    "OneHot": ((11, _one_hot_11),),
    "Pad": ((11, _pad_11),),
    "ReduceSum": ((13, _axes_as_input),),
    **{f"Reduce{name}": ((18, _axes_as_input),) for name in _REDUCTIONS},
    "Resize": ((11, resize_10), (13, resize_11)),
    "RoiAlign": ((16, _roi_align_16),),
    "Scan": ((9, scan_8),),
    "Scatter": ((11, _scatter_11),),
    "Slice": ((10, _slice_10),),
    "Softmax": ((13, _flattened_13),),
    "Split": ((13, _split_13), (18, _split_18)),
    "Squeeze": ((13, _axes_as_input),),
    "TopK": ((10, _topk_10),),
    "Unsqueeze": ((13, _axes_as_input),),
    "Upsample": ((10, upsample),),
}


_BROADCASTING = ("Add", "And", "Div", "Equal", "Greater", "Less", "Mul", "Or", "Pow", "Sub", "Xor")


def _batch_normalization_7(edit: Edit) -> None:
    """Test mode was stated, or followed from the number of outputs."""
    if edit.take("is_test", 0):
        if any(edit.uses_output(i) for i in range(1, len(edit.node.outputs))):
            raise edit.unsupported("in test mode its statistics are not defined")
        edit.node.resize_outputs(1)
    elif not any(v.name for v in edit.node.outputs[1:]):
        raise edit.unsupported("it has the one output of test mode, and is_test = 0, which is training")


def _cast_6(edit: Edit) -> None:
    """The element type was given by its name."""
    name = edit.take("to")
    code = dict(onnx.TensorProto.DataType.items()).get(name)
    if not code:
        raise edit.unsupported(f"{name!r} is not the name of an element type")
    edit.set(to=code)


def _concat_4(edit: Edit) -> None:
    edit.set(axis=edit.take("axis", 1))


def _dropout_7(edit: Edit) -> None:
    """Test mode was stated."""
    if not edit.take("is_test", 0):
        edit.feed(edit.input(0), None, edit.constant("training", True))


def _gemm_7(edit: Edit) -> None:
    """``broadcast`` allowed a smaller C; now it is always allowed."""
    edit.take("broadcast")


def _gru_3(edit: Edit) -> None:
    """The name of the default direction was misspelt."""
    if edit.node.attributes.get_string("direction") == "foward":
        edit.take("direction")


def _limited_broadcast_7(edit: Edit) -> None:
    """The second operand matched some dimensions of the first, from ``axis`` on, or else the last ones."""
    broadcast, axis = edit.take("broadcast", 0), edit.take("axis")
    if not broadcast or axis is None:
        return
    if axis < 0:
        raise edit.unsupported(f"before opset 7 the standard did not say what a negative axis ({axis}) of broadcasting is")
    left_operand, right = edit.input(0), edit.input(1)
    left_rank, right_rank = edit.types.rank(left_operand), edit.types.rank(right)
    if left_rank is None or right_rank is None:
        ranks = [
            edit.before("Shape", edit.before("Shape", v, label=f"{n}.shape"), label=f"{n}.rank")
            for v, n in ((left_operand, "left"), (right, "right"))
        ]
        room = edit.before("Sub", ranks[0], edit.constant("axis", [axis], np.int64), label="room")
        aligned = _with_trailing_ones(edit, right, edit.before("Sub", room, ranks[1], label="missing"))
    elif left_rank - axis - right_rank < 0:
        raise edit.unsupported(f"an operand of {right_rank} dimensions does not fit from axis {axis} on into {left_rank}")
    elif left_rank - axis - right_rank == 0:
        return
    else:
        behind = edit.constant("behind", range(right_rank, left_rank - axis), np.int64)
        aligned = edit.before("Unsqueeze", right, behind, label="aligned")
    edit.node.replace_input_with(1, aligned)


def _p_relu_7(edit: Edit) -> None:
    """A slope of one dimension belonged to the channels."""
    x, slope = edit.input(0), edit.input(1)
    x_rank, slope_rank, slope_values = edit.types.rank(x), edit.types.rank(slope), edit.known(1)
    if slope_rank == 0 or (slope_rank is not None and slope_rank == x_rank):
        return
    if slope_values is not None and slope_values.size == 1 and slope_values.ndim <= (x_rank or 1):
        return
    if slope_rank != 1:
        dimensions = "an unknown number of" if slope_rank is None else slope_rank
        raise edit.unsupported(f"before opset 7 the standard did not say how a slope of {dimensions} dimensions is used")
    if x_rank is not None:
        if x_rank > 2:
            behind = edit.constant("behind", range(1, x_rank - 1), np.int64)
            edit.node.replace_input_with(1, edit.before("Unsqueeze", slope, behind, label="aligned"))
        return
    rank = edit.before("Shape", edit.before("Shape", x, label="x.shape"), label="x.rank")
    spatial = edit.before("Sub", rank, edit.constant("two", [2], np.int64), label="spatial")
    missing = edit.before("Max", spatial, edit.constant("none", [0], np.int64), label="missing")
    edit.node.replace_input_with(1, _with_trailing_ones(edit, slope, missing))


def _pad_2(edit: Edit) -> None:
    """The text put all beginnings first, the example the beginning and end of each axis together."""
    paddings = list(edit.take("paddings", ()))
    axes = len(paddings) // 2
    in_pairs = paddings[0::2] + paddings[1::2]
    if in_pairs != paddings or len(paddings) != 2 * axes:
        raise edit.unsupported("the text and the example of Pad-1 disagree on the order of its paddings")
    edit.set(pads=paddings)


def _recurrent_7(edit: Edit) -> None:
    """``output_sequence`` only said that Y has to be there; it is there where it is named.

    The equations left out that the recurrence weights are transposed, which is corrected in opset 7.
    """
    edit.take("output_sequence")


def _reshape_5(edit: Edit) -> None:
    _drop_consumed_inputs(edit)
    shape = edit.take("shape")
    if shape is None:
        raise edit.unsupported("it states no shape")
    edit.feed(edit.input(0), edit.constant("shape", shape, np.int64))


def _selu_6(edit: Edit) -> None:
    """The default values had fewer digits."""
    _drop_consumed_inputs(edit)
    edit.set(alpha=edit.take("alpha", 1.6732), gamma=edit.take("gamma", 1.0507))


def _split_2(edit: Edit) -> None:
    """The lengths could be an input, in the element type of the data."""
    if "axis" not in edit.node.attributes:
        raise edit.unsupported("before opset 2 the standard did not say along which axis it splits unless stated")
    lengths = edit.input(1)
    if lengths is None:
        return
    if "split" in edit.node.attributes:
        raise edit.unsupported("the lengths are given twice, as an input and as an attribute")
    edit.feed(edit.input(0), edit.before("Cast", lengths, label="split", to=_INT64))


def _tile_6(edit: Edit) -> None:
    """One axis was repeated; the number and the axis had the element type of the data."""
    data, single = edit.input(0), edit.constant("single", [1], np.int64)
    number, axis = (
        edit.before("Reshape", edit.before("Cast", edit.input(i), label=f"{n}.int", to=_INT64), single, label=n)
        for i, n in ((1, "number"), (2, "axis"))
    )
    values = edit.before("Concat", single, number, label="values", axis=0)
    rank = edit.before("Size", edit.before("Shape", data, label="shape"), label="rank")
    row = edit.before("OneHot", axis, rank, values, label="row")
    flat = edit.constant("flat", [-1], np.int64)
    edit.feed(data, edit.before("Reshape", row, flat, label="repeats"))


def _upsample_7(edit: Edit) -> None:
    """Only images were stretched, with a scale for the height and one for the width."""
    mode = edit.take("mode", "nearest")
    height, width = edit.take("height_scale"), edit.take("width_scale")
    if height is None or width is None:
        raise edit.unsupported("it does not state both height_scale and width_scale")
    edit.set(scales=[1.0, 1.0, height, width], mode="linear" if mode == "bilinear" else mode)


def _whole_p_2(edit: Edit) -> None:
    """``p`` was a floating-point number."""
    p = edit.take("p", 2.0)
    if p != int(p):
        raise edit.unsupported(f"since opset 2 p is a whole number, not {p}")
    if edit.node.op_type == "LpPool" and "kernel_shape" not in edit.node.attributes:
        raise edit.unsupported("before opset 2 the standard did not say what it pools over without a kernel_shape")
    edit.set(p=int(p))


_CHANGED: Mapping[str, tuple[tuple[int, Rule], ...]] = {
    **dict.fromkeys(_BROADCASTING, ((7, _limited_broadcast_7),)),
    "BatchNormalization": ((7, _batch_normalization_7),),
    "Cast": ((6, _cast_6),),
    "Concat": ((4, _concat_4),),
    "Dropout": ((7, _dropout_7),),
    "GRU": ((3, _gru_3), (7, _recurrent_7)),
    "Gemm": ((7, _gemm_7),),
    "GlobalLpPool": ((2, _whole_p_2),),
    "LSTM": ((7, _recurrent_7),),
    "LpPool": ((2, _whole_p_2),),
    "PRelu": ((7, _p_relu_7),),
    "Pad": ((2, _pad_2),),
    "RNN": ((7, _recurrent_7),),
    "Reshape": ((5, _reshape_5),),
    "Selu": ((6, _selu_6),),
    "Split": ((2, _split_2),),
    "Tile": ((6, _tile_6),),
    "Upsample": ((7, _upsample_7),),
}


_CONSUMING = (
    *("Abs", "Add", "BatchNormalization", "Ceil", "Clip", "Div", "Dropout", "Elu", "Exp", "Floor", "HardSigmoid"),
    *("InstanceNormalization", "LeakyRelu", "Log", "Max", "Mean", "Min", "Mul", "Neg", "PRelu", "Reciprocal", "Relu"),
    *("Sigmoid", "Sqrt", "Sub", "Sum", "Tanh"),
)


def _drop_consumed_inputs(edit: Edit) -> None:
    """``consumed_inputs`` allowed a framework to write over an input; it said nothing about results."""
    edit.take("consumed_inputs")


def _with_trailing_ones(edit: Edit, value: ir.Value | None, count: ir.Value) -> ir.Value:
    fill = ir.tensor(np.ones(1, np.int64))
    ones = edit.before("ConstantOfShape", count, label="ones", value=fill)
    target = edit.before("Concat", edit.before("Shape", value, label="shape"), ones, label="target", axis=0)
    return edit.before("Reshape", value, target, label="aligned", allowzero=1)


_INT64 = onnx.TensorProto.INT64


LEGACY: Mapping[str, tuple[tuple[int, Rule], ...]] = {
    **_CHANGED,
    **{name: ((6, _drop_consumed_inputs), *_CHANGED.get(name, ())) for name in _CONSUMING},
}
"""As `RULES`, up to opset 7."""


def _asymmetric(edit: Edit, scales: ir.Value | None, nearest_mode: str) -> None:
    mode = edit.take("mode", "nearest")
    if mode == "nearest":
        edit.become(
            "Resize",
            edit.input(0),
            None,
            scales,
            mode="nearest",
            nearest_mode=nearest_mode,
            coordinate_transformation_mode="asymmetric",
        )
    else:
        edit.become("Resize", edit.input(0), None, scales, mode="linear", coordinate_transformation_mode="asymmetric")


def _is_empty(edit: Edit, index: int) -> bool:
    constant = edit.known(index)
    return constant is not None and constant.size == 0


def _sample(edit: Edit, value: ir.Value) -> ir.Value:
    dtype = edit.types.dtype(value)
    kind = value.type if dtype is None else ir.TensorType(ir.DataType.from_numpy(dtype))
    return ir.Value(name=edit.names.fresh(f"{value.name}.sample"), type=kind)


RULES: Mapping[str, tuple[tuple[int, Rule], ...]] = {
    name: (*LEGACY.get(name, ()), *_SINCE_7.get(name, ())) for name in sorted({*LEGACY, *_SINCE_7})
}
"""Operator to its rules: the version that a rule leads to, and the rule, in ascending order."""
