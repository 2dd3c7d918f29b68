"""Rules for opset 1 to 6: before broadcasting was NumPy's, and when a node said itself whether it is trained.

Where the text of that time allows two readings, both of which a network may have meant, the node is refused.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx
import onnx_ir as ir

from deep_bench.graph.upgrade.edit import Edit, Rule

_INT64 = onnx.TensorProto.INT64


def _drop_consumed_inputs(edit: Edit) -> None:
    """``consumed_inputs`` allowed a framework to write over an input; it said nothing about results."""
    edit.take("consumed_inputs")


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


def _with_trailing_ones(edit: Edit, value: ir.Value | None, count: ir.Value) -> ir.Value:
    fill = ir.tensor(np.ones(1, np.int64))
    ones = edit.before("ConstantOfShape", count, label="ones", value=fill)
    target = edit.before("Concat", edit.before("Shape", value, label="shape"), ones, label="target", axis=0)
    return edit.before("Reshape", value, target, label="aligned", allowzero=1)


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


def _gemm_7(edit: Edit) -> None:
    """``broadcast`` allowed a smaller C; now it is always allowed."""
    edit.take("broadcast")


def _batch_normalization_7(edit: Edit) -> None:
    """Test mode was stated, or followed from the number of outputs."""
    if edit.take("is_test", 0):
        if any(edit.uses_output(i) for i in range(1, len(edit.node.outputs))):
            raise edit.unsupported("in test mode its statistics are not defined")
        edit.node.resize_outputs(1)
    elif not any(v.name for v in edit.node.outputs[1:]):
        raise edit.unsupported("it has the one output of test mode, and is_test = 0, which is training")


def _dropout_7(edit: Edit) -> None:
    """Test mode was stated."""
    if not edit.take("is_test", 0):
        edit.feed(edit.input(0), None, edit.constant("training", True))


def _cast_6(edit: Edit) -> None:
    """The element type was given by its name."""
    name = edit.take("to")
    code = dict(onnx.TensorProto.DataType.items()).get(name)
    if not code:
        raise edit.unsupported(f"{name!r} is not the name of an element type")
    edit.set(to=code)


def _selu_6(edit: Edit) -> None:
    """The default values had fewer digits."""
    _drop_consumed_inputs(edit)
    edit.set(alpha=edit.take("alpha", 1.6732), gamma=edit.take("gamma", 1.0507))


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


def _reshape_5(edit: Edit) -> None:
    _drop_consumed_inputs(edit)
    shape = edit.take("shape")
    if shape is None:
        raise edit.unsupported("it states no shape")
    edit.feed(edit.input(0), edit.constant("shape", shape, np.int64))


def _concat_4(edit: Edit) -> None:
    edit.set(axis=edit.take("axis", 1))


def _gru_3(edit: Edit) -> None:
    """The name of the default direction was misspelt."""
    if edit.node.attributes.get_string("direction") == "foward":
        edit.take("direction")


def _recurrent_7(edit: Edit) -> None:
    """``output_sequence`` only said that Y has to be there; it is there where it is named.

    The equations left out that the recurrence weights are transposed, which is corrected in opset 7.
    """
    edit.take("output_sequence")


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


def _pad_2(edit: Edit) -> None:
    """The text put all beginnings first, the example the beginning and end of each axis together."""
    paddings = list(edit.take("paddings", ()))
    axes = len(paddings) // 2
    in_pairs = paddings[0::2] + paddings[1::2]
    if in_pairs != paddings or len(paddings) != 2 * axes:
        raise edit.unsupported("the text and the example of Pad-1 disagree on the order of its paddings")
    edit.set(pads=paddings)


def _whole_p_2(edit: Edit) -> None:
    """``p`` was a floating-point number."""
    p = edit.take("p", 2.0)
    if p != int(p):
        raise edit.unsupported(f"since opset 2 p is a whole number, not {p}")
    if edit.node.op_type == "LpPool" and "kernel_shape" not in edit.node.attributes:
        raise edit.unsupported("before opset 2 the standard did not say what it pools over without a kernel_shape")
    edit.set(p=int(p))


def _upsample_7(edit: Edit) -> None:
    """Only images were stretched, with a scale for the height and one for the width."""
    mode = edit.take("mode", "nearest")
    height, width = edit.take("height_scale"), edit.take("width_scale")
    if height is None or width is None:
        raise edit.unsupported("it does not state both height_scale and width_scale")
    edit.set(scales=[1.0, 1.0, height, width], mode="linear" if mode == "bilinear" else mode)


_BROADCASTING = ("Add", "And", "Div", "Equal", "Greater", "Less", "Mul", "Or", "Pow", "Sub", "Xor")

_CONSUMING = (
    *("Abs", "Add", "BatchNormalization", "Ceil", "Clip", "Div", "Dropout", "Elu", "Exp", "Floor", "HardSigmoid"),
    *("InstanceNormalization", "LeakyRelu", "Log", "Max", "Mean", "Min", "Mul", "Neg", "PRelu", "Reciprocal", "Relu"),
    *("Sigmoid", "Sqrt", "Sub", "Sum", "Tanh"),
)

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

LEGACY: Mapping[str, tuple[tuple[int, Rule], ...]] = {
    **_CHANGED,
    **{name: ((6, _drop_consumed_inputs), *_CHANGED.get(name, ())) for name in _CONSUMING},
}
"""As `RULES`, up to opset 7."""
