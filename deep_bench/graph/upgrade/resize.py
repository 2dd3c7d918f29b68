"""Upsample, and Resize before it had coordinate transformations."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from deep_bench.graph.upgrade.edit import Edit


def upsample(edit: Edit) -> None:
    """Upsample was Resize with scales of at least 1, measured from the outer edge of the first element."""
    scales = edit.take("scales")
    scales_value = edit.input(1) if scales is None else edit.constant("scales", scales, np.float32)
    _asymmetric(edit, scales_value, "floor")


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


def _is_empty(edit: Edit, index: int) -> bool:
    constant = edit.known(index)
    return constant is not None and constant.size == 0
