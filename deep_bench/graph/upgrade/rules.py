"""One rule per operator and version in which its meaning, or the way to write it, changed.

Every operator of the default domain was compared with its earlier schemas back to opset 1. Versions that only admit more
element types, or make explicit what held before, need no rule and are not listed.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from deep_bench.graph.upgrade.edit import Edit, Rule
from deep_bench.graph.upgrade.legacy import LEGACY
from deep_bench.graph.upgrade.resize import resize_10, resize_11, upsample
from deep_bench.graph.upgrade.scan import scan_8


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

RULES: Mapping[str, tuple[tuple[int, Rule], ...]] = {
    name: (*LEGACY.get(name, ()), *_SINCE_7.get(name, ())) for name in sorted({*LEGACY, *_SINCE_7})
}
"""Operator to its rules: the version that a rule leads to, and the rule, in ascending order."""
